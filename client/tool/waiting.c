#include "client/tool/waiting.h"

#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/exit_status.h"
#include "client/tool/json_text.h"
#include "client/tool/output.h"
#include "client/tool/row.h"
#include "client/tool/terminal_line.h"
#include "client/tool/watch.h"
#include "daemon/base/notify.h"

#define CONNECT_TIMEOUT_MS 10000
/*
 * The interval of updates of the line on the terminal, and the shortest one of questions about the
 * holders.
 */
#define LINE_EVERY_MS 1000
#define HOLDERS_EVERY_MS 2000
/* A daemon that says nothing for so long, or does not answer, is worth a word. */
#define SILENCE_MS 3000
/* Trouble that comes and goes is told once in this time. */
#define TROUBLE_ANEW_MS 60000
/* One may have followed another without a change that is told. */
#define HOLDERS_ANEW_MS 10000

/* News that the user is told during the wait. */
enum telling {
	TELL_NOTHING, /* standard error has errors as JSON */
	TELL_TROUBLE, /* trouble that lasts. Busy slots are no trouble: cron would mail each word */
	TELL_LINES,   /* a line each time that it changes */
	TELL_TERMINAL /* one line, which is written over */
};

/* Holders that leave while --replace evicts them: after so many it only waits. */
#define REPLACE_TRIES 3

/* How the wait stands: the data of the line on the terminal, or of the word without it. */
struct stand {
	bool known;        /* the daemon has said something */
	int position;      /* 0 = not known yet */
	char holders[256]; /* their number, or names */
	char broker[192];  /* trouble of the broker; "": none */
	int64_t shown_at, asked_at;
	int64_t asking; /* the request about the holders; 0 = none */
	bool stale;     /* they have changed since it was asked */
	bool unheard;   /* the daemon does not name the holders to this user */
	/* Without the line: when trouble is told if it lasts, and when that of the broker was told last. */
	int64_t tell_at, told_at;
};

struct waiting {
	struct lb *lb; /* borrowed, as all of these */
	const struct tool_options *options;
	struct signals *signals;
	const char *name;
	int process;          /* a pidfd; -1: none */
	struct lb_lock *lock; /* the handle's; when it is granted */
	struct lb_options ask;
	int64_t began, until;
	enum telling telling;
	struct stand stand;
	/* --replace: its request, which first shows the holders and then evicts one. 0: none. */
	int64_t replacing;
	bool evicting;                         /* it is that of the eviction */
	char evictee[2 * ROW_WORDS_SIZE + 16]; /* whom it evicts: "bob on host north" */
	int replace_left;                      /* tries */
	int64_t replace_at;                    /* when the holders are looked at again */
};

/* The client's own deadline, some time after the daemon should have answered. */
static const struct lb_event silence = {
    .type = LB_EVENT_REFUSED,
    .code = LB_DEADLINE,
    .text = "the daemon does not answer",
    .json = "{\"code\":-5,\"message\":\"the daemon does not answer\","
	    "\"data\":{\"reason\":\"deadline\"}}",
};

/* Bytes of a requester's name; the wire takes 256. */
#define WHO_SIZE 256

/* No exit status yet. */
enum { GOING_ON = -1 };

/* ---- how it stands ---- */

/* For how long already, as the rows of show have it. */
static void
age_words(const struct waiting *waiting, char *ret, size_t size)
{
	row_age_words((double)((watch_now() - waiting->began) / 1000), ret, size);
}

/*
 * When the daemon has been silent too long to be well; a grant comes at once, or else a word of
 * waiting does.
 */
static int64_t
silent_from(const struct waiting *waiting)
{
	const struct stand *stand = &waiting->stand;

	if (!stand->known)
		return waiting->began + SILENCE_MS;
	return stand->asking != 0 ? stand->asked_at + SILENCE_MS : WATCH_NEVER;
}

static bool
is_silent(const struct waiting *waiting)
{
	return watch_now() >= silent_from(waiting);
}

/* Why the client waits, if it is not for slots that are busy; else "". */
static const char *
trouble_words(const struct waiting *waiting)
{
	return is_silent(waiting) ? "no answer from lockbrokerd yet" : waiting->stand.broker;
}

/* Erased before anything else is said. */
static void
show_line(struct waiting *waiting)
{
	const struct stand *stand = &waiting->stand;
	const char *trouble = trouble_words(waiting);
	char line[1024], age[24];

	age_words(waiting, age, sizeof(age));
	if (*trouble != '\0')
		snprintf(line, sizeof(line), "waiting %s, %s", age, trouble);
	else if (stand->position > 0)
		snprintf(line, sizeof(line), "waiting %s, position %d%s", age, stand->position,
		    stand->holders);
	else
		snprintf(line, sizeof(line), "waiting %s", age);
	terminal_line_show(waiting->name, line);
	waiting->stand.shown_at = watch_now();
}

/* Asks for the holders beside the wait, if they may have changed. The answer may never come. */
static void
ask_holders(struct waiting *waiting)
{
	struct stand *stand = &waiting->stand;
	char params[JSON_PARAMS_SIZE];

	if (stand->unheard || stand->asking != 0 ||
	    watch_now() < stand->asked_at + (stand->stale ? HOLDERS_EVERY_MS : HOLDERS_ANEW_MS))
		return;
	stand->stale = false;
	stand->asked_at = watch_now();
	json_params(params, "name", waiting->name, "");
	if (lb_call_start(waiting->lb, "show", params, &stand->asking) != LB_OK)
		stand->asking = 0;
}

static int
heed_holders(struct waiting *waiting, const struct lb_event *event)
{
	struct stand *stand = &waiting->stand;
	char words[200];

	if (event->request != stand->asking)
		return GOING_ON;
	stand->asking = 0;
	/* Not allowed, or a daemon that does not know it: the number of them has to do. */
	if (event->code == LB_PERMISSION_DENIED || event->code == LB_METHOD_NOT_FOUND)
		stand->unheard = true;
	if (event->code != LB_OK)
		return GOING_ON;
	holders_words(event->json, words, sizeof(words));
	if (*words != '\0')
		snprintf(stand->holders, sizeof(stand->holders), ", held by %s", words);
	show_line(waiting);
	return GOING_ON;
}

/* Where there is no line: says that there is trouble, if it has lasted. Returns when the next time is. */
static int64_t
tell_trouble(struct waiting *waiting)
{
	struct stand *stand = &waiting->stand;

	if (watch_now() < stand->tell_at)
		return stand->tell_at;
	say_in_passing("%s: waiting, %s", waiting->name, trouble_words(waiting));
	stand->tell_at = WATCH_NEVER;
	if (stand->known)
		stand->told_at = watch_now();
	return WATCH_NEVER;
}

/* From time to time, for the seconds and for what was put off; when the next time is. */
static int64_t
keep_line(struct waiting *waiting)
{
	int64_t next = waiting->stand.shown_at + LINE_EVERY_MS;

	if (waiting->telling != TELL_TERMINAL)
		return tell_trouble(waiting);
	if (!waiting->stand.known && !is_silent(waiting))
		return silent_from(waiting);
	ask_holders(waiting);
	if (watch_now() < next)
		return next;
	show_line(waiting);
	return waiting->stand.shown_at + LINE_EVERY_MS;
}

/* In the background of a terminal there is a line for each change, too. */
static bool
by_lines(const struct waiting *waiting)
{
	return waiting->telling == TELL_LINES ||
	       (waiting->telling == TELL_TERMINAL && !terminal_line_foreground());
}

/* ---- --replace: evicts the holder that has had a slot for longest ---- */

static void
replace_failed(struct waiting *waiting, const char *why)
{
	waiting->replace_left = 0;
	terminal_line_erase();
	say("%s: nobody was evicted: %s", waiting->name, why);
}

static void
start_replacing(struct waiting *waiting, const char *method, const char *params)
{
	waiting->evicting = strcmp(method, "evict") == 0;
	if (lb_call_start(waiting->lb, method, params, &waiting->replacing) == LB_OK)
		return;
	waiting->replacing = 0;
	replace_failed(waiting, lb_message(waiting->lb));
}

/* Asks for the holders, as no slot was free. */
static void
replace(struct waiting *waiting)
{
	char params[JSON_PARAMS_SIZE];

	if (waiting->replacing != 0 || waiting->replace_left == 0)
		return;
	waiting->replace_at = WATCH_NEVER;
	json_params(params, "name", waiting->name, "");
	start_replacing(waiting, "show", params);
}

/* While slots are free, the daemon still claims one. */
static bool
has_free_slot(const char *show_json)
{
	char slots[16], busy[16];
	const struct json_wanted wanted[] = {
	    {"slots", slots, sizeof(slots)}, {"busy", busy, sizeof(busy)}};

	json_values(show_json, wanted, 2);
	return atoi(busy) < atoi(slots);
}

/* By the answer to `show`. */
static void
evict_longest(struct waiting *waiting, const char *show_json)
{
	char params[JSON_PARAMS_SIZE], silent[ROW_WORDS_SIZE], whom[ROW_WORDS_SIZE];
	char why[ROW_WORDS_SIZE + 32];
	const struct tool_options *options = waiting->options;
	bool mutex = options->kind == LB_MUTEX, found;
	struct row row;
	int busy;

	found = holders_longest(show_json, mutex, &row, &busy);
	json_value(show_json, "silent_hosts.0", silent, sizeof(silent));
	/* For a mutex, the slots are those of a semaphore of the same name. */
	if (mutex ? busy == 0 && *silent == '\0' : has_free_slot(show_json)) {
		waiting->replace_at = watch_in(HOLDERS_EVERY_MS);
		return;
	}
	if (!found) {
		snprintf(why, sizeof(why), "host %s does not answer", silent);
		replace_failed(
		    waiting, *silent != '\0' ? why : "no daemon names a holder of a slot");
		return;
	}
	waiting->replace_left--;
	json_evict_params(params, row.waiter, NULL, options->grace_ms, options->why);
	row_whom(&row, whom, sizeof(whom));
	snprintf(waiting->evictee, sizeof(waiting->evictee), "%s on host %s", whom, row.host);
	start_replacing(waiting, "evict", params);
}

/*
 * The answer to one of the two. Then the wait goes on, unless this user may not evict, or RabbitMQ does not vouch
 * for the daemon's user.
 */
static int
heed_replacing(struct waiting *waiting, const struct lb_event *event)
{
	waiting->replacing = 0;
	if (event->code == LB_PERMISSION_DENIED) {
		terminal_line_erase();
		return say_refusal(event, waiting->options, waiting->name);
	}
	if (event->code == LB_OK && !waiting->evicting) {
		evict_longest(waiting, event->json);
	} else if (event->code == LB_OK) {
		waiting->replace_left = 0;
		terminal_line_erase();
		if (!waiting->options->json)
			say("%s: evicting %s", waiting->name, waiting->evictee);
	} else if (event->code == LB_NOT_HELD) {
		/* The holder left, and another client may have the slot. */
		if (waiting->replace_left == 0)
			replace_failed(waiting, "its holders change too fast");
		else
			replace(waiting);
	} else {
		replace_failed(waiting, event->text);
	}
	return GOING_ON;
}

static int
heed_answer(struct waiting *waiting, const struct lb_event *event)
{
	return event->request == waiting->replacing ? heed_replacing(waiting, event)
						    : heed_holders(waiting, event);
}

static int
tell_position(struct waiting *waiting, const struct lb_event *event)
{
	struct stand *stand = &waiting->stand;
	char holders[32] = "", age[24], extra[16];
	int count = event->busy;

	age_words(waiting, age, sizeof(age));
	/* Those of removed slots, which a daemon of version 0.1.0 does not count. */
	json_value(event->json, "extra", extra, sizeof(extra));
	if (count >= 0 && atoi(extra) > 0)
		count += atoi(extra);
	if (count >= 0)
		snprintf(holders, sizeof(holders), ", %d holder%s", count, count == 1 ? "" : "s");
	status_line(waiting->options, "waiting", event->json);
	notify_status("waiting for %s: position %d%s", waiting->name, event->position, holders);
	if (by_lines(waiting))
		say_in_passing("%s: waiting, position %d%s (%s)", waiting->name, event->position,
		    holders, age);
	stand->known = true;
	replace(waiting);
	if (*stand->broker == '\0')
		stand->tell_at = WATCH_NEVER;
	if (waiting->telling != TELL_TERMINAL)
		return GOING_ON;
	stand->position = event->position;
	/* Names stay until there are others: the number is less. */
	if (strncmp(stand->holders, ", held by", 9) != 0 || count <= 0)
		snprintf(stand->holders, sizeof(stand->holders), "%s", holders);
	stand->stale = true;
	show_line(waiting);
	return GOING_ON;
}

static int64_t
later(int64_t one, int64_t other)
{
	return one > other ? one : other;
}

static int64_t
earlier(int64_t one, int64_t other)
{
	return one < other ? one : other;
}

static int
tell_broker(struct waiting *waiting, const struct lb_event *event)
{
	bool up = strcmp(event->reason, "up") == 0;
	struct stand *stand = &waiting->stand;

	notify_status("waiting for %s: %s", waiting->name, broker_words(event->reason));
	if (by_lines(waiting))
		say_in_passing("%s: waiting, %s%s%s", waiting->name, broker_words(event->reason),
		    *event->text != '\0' ? ": " : "", event->text);
	if (up || waiting->telling != TELL_TROUBLE)
		stand->tell_at = WATCH_NEVER;
	else if (*stand->broker == '\0')
		stand->tell_at = later(watch_in(SILENCE_MS), stand->told_at + TROUBLE_ANEW_MS);
	stand->known = true;
	stand->broker[0] = '\0';
	if (!up)
		snprintf(stand->broker, sizeof(stand->broker), "%.31s%s%.150s",
		    broker_words(event->reason), *event->text != '\0' ? ": " : "", event->text);
	if (waiting->telling == TELL_TERMINAL)
		show_line(waiting);
	return GOING_ON;
}

/* ---- the acquire and its events ---- */

/* Refused, or the connection has ended. */
static int
refused(struct waiting *waiting, const struct lb_event *event)
{
	/* By an administrator, which is told apart from all that ends a waiting by itself. */
	bool denied = json_value_is(event->json, "data.denied", "true");
	const struct tool_options *options = waiting->options;
	int code = event->code, status;
	bool busy = code == LB_WOULD_BLOCK || code == LB_TIMEOUT;

	terminal_line_erase();
	/* With -E 0 a busy lock is no failure, and cron would mail each word. */
	if ((busy || code == LB_CONTENDED) && options->conflict_status == EXIT_STATUS_OK &&
	    !options->verbose && !options->json)
		return EXIT_STATUS_OK;
	status = say_refusal(event, options, waiting->name);
	if (denied)
		return EXIT_STATUS_TURNED_AWAY;
	if (busy && !options->json)
		say_held_by(waiting->lb, waiting->name);
	if (code == LB_NO_SUCH_LOCK && !options->json &&
	    !say_mutex_is_held(waiting->lb, waiting->name))
		say("to create it: lockbroker create %s SLOTS, or use --create", waiting->name);
	return status;
}

static int
granted(struct waiting *waiting, const struct lb_event *event)
{
	if (lb_lock_state(event->lock) == LB_LOCK_LOST)
		return GOING_ON;
	waiting->lock = event->lock;
	return EXIT_STATUS_OK;
}

/* In the same breath as it was granted. */
static int
lost(struct waiting *waiting, const struct lb_event *event)
{
	if (event->lock == NULL)
		return GOING_ON;
	terminal_line_erase();
	say_lost(waiting->name, event);
	return EXIT_STATUS_LOST;
}

/*
 * By the type of the event. After DRAINING the daemon sends a refusal. A granted lock has its own
 * events, which say how it ends.
 */
static int (*const handlers[])(struct waiting *waiting, const struct lb_event *event) = {
    [LB_EVENT_GRANTED] = granted,
    [LB_EVENT_REFUSED] = refused,
    [LB_EVENT_CLOSED] = refused,
    [LB_EVENT_WAITING] = tell_position,
    [LB_EVENT_BROKER] = tell_broker,
    [LB_EVENT_ANSWERED] = heed_answer,
    [LB_EVENT_LOST] = lost,
};

/* Handles the daemon's events. Returns an exit status, or GOING_ON. */
static int
heed(struct waiting *waiting)
{
	const struct lb_event *event;
	int status = GOING_ON;

	while (status == GOING_ON && (event = lb_event_next(waiting->lb)) != NULL)
		if (event->type < sizeof(handlers) / sizeof(handlers[0]) &&
		    handlers[event->type] != NULL)
			status = handlers[event->type](waiting, event);
	return status;
}

/* A semaphore that exists with another size than --create asked for is used as it is. */
static void
say_other_size(struct waiting *waiting)
{
	int wanted = waiting->options->create, slots;

	/* 1 is also the default. */
	if (wanted <= 1 || waiting->options->json ||
	    lb_size(waiting->lb, waiting->name, HINT_ANSWER_MS, &slots) != LB_OK || slots == wanted)
		return;
	if (slots == LB_UNLIMITED)
		say("%s: it exists already, and is unlimited: --create=%d has no effect",
		    waiting->name, wanted);
	else
		say("%s: it exists already, with %d slot%s: --create=%d has no effect",
		    waiting->name, slots, slots == 1 ? "" : "s", wanted);
}

/* The exit status for a signal that ends the waiting, or GOING_ON. */
static int
heed_signals(struct waiting *waiting)
{
	bool terminal;
	int signo;

	while ((signo = signals_next(waiting->signals, &terminal)) != 0) {
		if (signal_ends(signo)) {
			if (signo == SIGINT || signo == SIGQUIT)
				waiting->signals->deadly = signo;
			return EXIT_STATUS_SIGNAL + signo;
		}
		if (signo == SIGTSTP) {
			terminal_line_erase();
			signals_stop();
		}
	}
	return GOING_ON;
}

static int
wait_for_it(struct waiting *waiting)
{
	const struct watch watch = {
	    .lb = waiting->lb, .signals = waiting->signals, .input = waiting->process};
	int status = GOING_ON;
	int64_t request;
	int code = lb_acquire_start(waiting->lb, waiting->name, &waiting->ask, &request);

	if (code != LB_OK)
		return say_failure(waiting->lb, code, waiting->options, waiting->name);
	while (status == GOING_ON) {
		/* Signals first: one that comes with the grant still finds nothing started. */
		status = heed_signals(waiting);
		if (status == GOING_ON)
			status = heed(waiting);
		if (status == GOING_ON && watch_now() >= waiting->replace_at)
			replace(waiting);
		if (status == GOING_ON && watch_now() >= waiting->until) {
			terminal_line_erase();
			status = say_refusal(&silence, waiting->options, waiting->name);
		}
		if (status == GOING_ON) {
			int64_t next = earlier(keep_line(waiting), waiting->replace_at);

			if (watch_sleep(&watch, earlier(next, waiting->until))) {
				terminal_line_erase();
				say("%s: the process has ended before the lock was granted",
				    waiting->name);
				status = EXIT_STATUS_NOT_ACQUIRED;
			}
		}
	}
	terminal_line_erase();
	return status;
}

/* USER@HOST, with the number of a user without a name. */
static void
requester(char *ret, size_t size)
{
	const struct passwd *user = getpwuid(getuid());
	char number[16], host[HOST_NAME_MAX + 1] = "";

	snprintf(number, sizeof(number), "%u", (unsigned)getuid());
	(void)gethostname(host, sizeof(host) - 1);
	snprintf(ret, size, "%s@%s", user != NULL ? user->pw_name : number, host);
}

int
waiting_acquire(struct lb *lb, const struct tool_options *options, const char *name,
    const char *command, int process, struct signals *signals, struct lb_lock **ret)
{
	struct waiting waiting = {
	    .lb = lb,
	    .options = options,
	    .signals = signals,
	    .name = name,
	    .process = process,
	    .ask = LB_OPTIONS_INIT,
	    .telling = terminal_line_possible() ? TELL_TERMINAL
		       : options->verbose       ? TELL_LINES
		       : options->json          ? TELL_NOTHING
						: TELL_TROUBLE,
	    .replace_left = options->replace ? REPLACE_TRIES : 0,
	    .replace_at = WATCH_NEVER,
	    .stand.asked_at = -HOLDERS_ANEW_MS,
	    .stand.told_at = -TROUBLE_ANEW_MS,
	    .stand.tell_at = WATCH_NEVER,
	};
	int code = lb_connect(lb, options->socket, CONNECT_TIMEOUT_MS), status;
	char who[WHO_SIZE];

	*ret = NULL;
	if (code != LB_OK)
		return say_failure(lb, code, options, NULL);
	if (signals->fd < 0 && !signals_hold(signals)) {
		say("signals: %m");
		return EXIT_STATUS_INTERNAL;
	}
	waiting.ask.timeout_ms = options->wait_ms;
	waiting.ask.kind = options->kind;
	waiting.ask.create = options->create;
	waiting.ask.priority = options->priority;
	waiting.ask.progress = options->wait_ms != 0;
	requester(who, sizeof(who));
	waiting.ask.who = options->who != NULL ? options->who : who;
	waiting.ask.why = options->why;
	waiting.ask.command = options->command_text != NULL ? options->command_text : command;
	waiting.began = watch_now();
	if (waiting.ask.progress && waiting.telling != TELL_NOTHING)
		waiting.stand.tell_at = silent_from(&waiting);
	waiting.until = watch_in(options->wait_ms > 0    ? options->wait_ms + LB_ANSWER_GRACE
				 : options->wait_ms == 0 ? LB_TRY_PATIENCE
							 : LB_FOREVER);
	status = wait_for_it(&waiting);
	if (waiting.lock != NULL)
		say_other_size(&waiting);
	*ret = waiting.lock;
	return status;
}
