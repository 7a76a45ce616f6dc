#include "client/waiting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "client/exit_status.h"
#include "client/output.h"
#include "client/watch.h"

#define CONNECT_TIMEOUT_MS 10000

struct waiting {
	struct lb *lb; /* borrowed, as all of these */
	const struct options *options;
	const struct signals *signals;
	const char *name;
	struct lb_options ask;
	int64_t began, until;
	bool verbose; /* say how it stands */
};

/* What our own deadline says, some time after the daemon should have said something. */
static const struct lb_event silence = {
    .type = LB_EVENT_REFUSED,
    .code = LB_DEADLINE,
    .text = "the daemon does not answer",
    .json = "{\"code\":-5,\"message\":\"the daemon does not answer\","
	    "\"data\":{\"reason\":\"deadline\"}}",
};

/* No exit status yet. */
enum { GOING_ON = -1 };

static void
tell_position(const struct waiting *waiting, const struct lb_event *event)
{
	long long seconds = (watch_now() - waiting->began) / 1000;
	char holders[32] = "";

	if (event->holders >= 0)
		snprintf(holders, sizeof(holders), ", %d hold%s it", event->holders,
		    event->holders == 1 ? "s" : "");
	status_line(waiting->options, "waiting", event->json);
	(void)sd_notifyf(
	    0, "STATUS=waiting for %s: position %d%s", waiting->name, event->position, holders);
	if (waiting->verbose)
		say_in_passing("%s: waiting, position %d%s (%lld s)", waiting->name,
		    event->position, holders, seconds);
}

static void
tell_broker(const struct waiting *waiting, const struct lb_event *event)
{
	(void)sd_notifyf(
	    0, "STATUS=waiting for %s: the broker is %s", waiting->name, event->reason);
	if (waiting->verbose)
		say_in_passing("%s: waiting, the broker is %s%s%s", waiting->name, event->reason,
		    *event->text != '\0' ? ": " : "", event->text);
}

static int
ask(struct waiting *waiting)
{
	int64_t request;
	int code = lb_acquire_start(waiting->lb, waiting->name, &waiting->ask, &request);

	if (code != LB_OK)
		return say_failure(waiting->lb, code, waiting->options, waiting->name);
	return GOING_ON;
}

static int
refused(struct waiting *waiting, const struct lb_event *event)
{
	int status = say_refusal(event, waiting->options, waiting->name);

	if (event->code == LB_NO_SUCH_LOCK && !waiting->options->json)
		say("create it: lockbroker create %s SLOTS, or use --create", waiting->name);
	return status;
}

/* What the daemon said: an exit status, or GOING_ON; or the lock. */
static int
heed(struct waiting *waiting, struct lb_lock **ret)
{
	const struct lb_event *event;
	int status = GOING_ON;

	while (status == GOING_ON && (event = lb_event_next(waiting->lb)) != NULL) {
		switch (event->type) {
		case LB_EVENT_GRANTED:
			if (lb_lock_state(event->lock) == LB_LOCK_LOST)
				break;
			*ret = event->lock;
			return EXIT_STATUS_OK;
		case LB_EVENT_REFUSED:
			status = refused(waiting, event);
			break;
		case LB_EVENT_CLOSED:
			status = say_refusal(event, waiting->options, waiting->name);
			break;
		case LB_EVENT_WAITING:
			tell_position(waiting, event);
			break;
		case LB_EVENT_BROKER:
			tell_broker(waiting, event);
			break;
		case LB_EVENT_LOST: /* in the same breath as it was granted */
			if (event->lock == NULL)
				break;
			say_lost(waiting->name, event);
			status = EXIT_STATUS_LOST;
			break;
		case LB_EVENT_DRAINING: /* a refusal follows */
		case LB_EVENT_REVOKED:
		case LB_EVENT_SUSPECT: /* of what is granted already: its own events tell how it ends */
		case LB_EVENT_RESTORED:
		case LB_EVENT_DRAIN:
		case LB_EVENT_ANSWERED:
			break;
		}
	}
	return status;
}

/* The exit status for a signal that ends the waiting, or GOING_ON. */
static int
heed_signals(const struct waiting *waiting)
{
	bool terminal;
	int signo;

	while ((signo = signals_next(waiting->signals, &terminal)) != 0) {
		if (signal_ends(signo))
			return EXIT_STATUS_SIGNAL + signo;
		if (signo == SIGTSTP)
			kill(getpid(), SIGSTOP);
	}
	return GOING_ON;
}

static int
wait_for_it(struct waiting *waiting, struct lb_lock **ret)
{
	const struct watch watch = {.lb = waiting->lb, .signals = waiting->signals, .input = -1};
	int status = ask(waiting);

	while (status == GOING_ON) {
		/* Signals first: one that comes with the grant still finds nothing started. */
		status = heed_signals(waiting);
		if (status == GOING_ON)
			status = heed(waiting, ret);
		if (status == GOING_ON && watch_now() >= waiting->until) {
			status = say_refusal(&silence, waiting->options, waiting->name);
		}
		if (status == GOING_ON)
			watch_sleep(&watch, waiting->until);
	}
	return status;
}

int
waiting_acquire(struct lb *lb, const struct options *options, const char *name, const char *command,
    struct signals *signals, struct lb_lock **ret)
{
	struct waiting waiting = {
	    .lb = lb,
	    .options = options,
	    .signals = signals,
	    .name = name,
	    .ask = LB_OPTIONS_INIT,
	    .verbose = options->verbose || isatty(STDERR_FILENO) == 1,
	};
	int code = lb_connect(lb, options->socket, CONNECT_TIMEOUT_MS);

	*ret = NULL;
	if (code != LB_OK)
		return say_failure(lb, code, options, NULL);
	if (!signals_hold(signals)) {
		say("signals: %m");
		return EXIT_STATUS_INTERNAL;
	}
	waiting.ask.timeout_ms = options->wait_ms;
	waiting.ask.kind = options->kind;
	waiting.ask.create = options->create;
	waiting.ask.priority = options->priority;
	waiting.ask.progress = options->wait_ms != 0;
	waiting.ask.who = options->who;
	waiting.ask.why = options->why;
	waiting.ask.command = command;
	waiting.began = watch_now();
	waiting.until = watch_in(options->wait_ms > 0    ? options->wait_ms + LB_ANSWER_GRACE
				 : options->wait_ms == 0 ? LB_TRY_PATIENCE
							 : LB_FOREVER);
	return wait_for_it(&waiting, ret);
}
