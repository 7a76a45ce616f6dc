#include "client/top/top.h"

#include <ncurses.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/exit_status.h"
#include "client/tool/json_text.h"
#include "client/tool/output.h"
#include "client/tool/signals.h"
#include "client/tool/watch.h"
#include "client/top/ask.h"
#include "client/top/draw.h"
#include "client/top/layout.h"
#include "client/top/link.h"
#include "client/top/terminal.h"

#define TO_THE_END 1000000L

enum { GOING_ON = -1 };

struct top {
	struct top_model model;
	struct top_link link;
	struct top_ask ask;
	bool help;
	size_t help_line;
	struct signals signals;
};

static void
draw(struct top *top)
{
	const struct top_view view = {
	    .model = &top->model,
	    .ask = &top->ask,
	    .trouble = top_link_trouble(&top->link),
	    .said = top->link.said,
	    .said_error = top->link.said_error,
	    .help = top->help,
	    .help_line = top->help_line,
	};

	top_draw(&view);
}

/*
 * ---- actions ----
 */

/* A number of slots, or a step. */
static void
resize(struct top *top, const char *name, const char *what, int number)
{
	char params[JSON_PARAMS_SIZE], more[64];

	if (number == LB_UNLIMITED)
		snprintf(more, sizeof(more), ",\"%s\":\"unlimited\"", what);
	else
		snprintf(more, sizeof(more), ",\"%s\":%d", what, number);
	json_params(params, "name", name, more);
	top_link_act(&top->link, "resize", params, name, "");
}

static void
act(struct top *top, const char *method, const char *member, const struct top_ask *ask)
{
	char params[JSON_PARAMS_SIZE];

	json_params(params, member, ask->waiter, "");
	top_link_act(&top->link, method, params, ask->name, ask->waiter);
}

static void
ask(struct top *top, enum top_question question)
{
	const char *why;

	if (!top_ask_begin(&top->ask, question, &top->model, &why))
		top_link_say(&top->link, true, "%s", why);
}

/*
 * Adds or removes one slot. If there is no number of slots, it asks for one, or says why it does
 * not. At a gate, it offers to remove the limit.
 */
static void
step(struct top *top, bool more)
{
	const struct top_semaphore *semaphore = top_model_semaphore(&top->model);

	if (semaphore == NULL || semaphore->mutex || semaphore->slots == LB_UNLIMITED)
		ask(top, ASK_SLOTS);
	else if (!more && semaphore->slots == 0)
		ask(top, ASK_UNLIMITED);
	else
		resize(top, semaphore->name, more ? "add" : "remove", 1);
}

static void
do_asked(struct top *top, const struct top_ask *ask)
{
	char params[JSON_PARAMS_SIZE];
	int slots;

	switch (ask->question) {
	case ASK_NOTHING:
	case ASK_FILTER:
		return;
	case ASK_UNLIMITED:
		resize(top, ask->name, "slots", LB_UNLIMITED);
		return;
	case ASK_GATE:
		resize(top, ask->name, "slots", 0);
		return;
	case ASK_GRANT:
		act(top, "grant", "waiter", ask);
		return;
	case ASK_DENY:
		act(top, "deny", "waiter", ask);
		return;
	case ASK_EVICT:
		act(top, "evict", "holder", ask);
		return;
	case ASK_DENY_ALL:
		json_params(params, "name", ask->name, ",\"all\":true");
		top_link_act(&top->link, "deny", params, ask->name, "");
		return;
	case ASK_SLOTS:
		if (*ask->typed == '\0')
			top_link_say(&top->link, false, "no change was made");
		else if (top_ask_slots(ask, &slots))
			resize(top, ask->name, "slots", slots);
		else
			top_link_say(&top->link, true, "'%s': expected 0 to 10000, or unlimited",
			    ask->typed);
		return;
	}
}

/* ---- keys ---- */

/* Moves in a panel; another semaphore has other rows. */
static void
move_by(struct top *top, long by)
{
	const struct top_semaphore *before = top_model_semaphore(&top->model);

	top_model_move(&top->model, top->model.focus, by);
	if (top_model_semaphore(&top->model) != before)
		top_link_selected(&top->link, watch_now());
}

static void
set_filter(struct top *top, enum top_panel panel, const char *text)
{
	const struct top_semaphore *before = top_model_semaphore(&top->model);

	top_model_filter(&top->model, panel, text);
	if (top_model_semaphore(&top->model) != before)
		top_link_selected(&top->link, watch_now());
}

static void
key_asked(struct top *top, int key)
{
	enum top_reply reply = top_ask_key(&top->ask, key);
	struct top_ask asked = top->ask;

	if (asked.question == ASK_FILTER)
		set_filter(top, asked.panel, reply == REPLY_NO ? "" : asked.typed);
	if (reply == REPLY_OPEN)
		return;
	top->ask = (struct top_ask){.question = ASK_NOTHING};
	if (reply == REPLY_YES)
		do_asked(top, &asked);
	else if (asked.question != ASK_FILTER)
		top_link_say(&top->link, false, "no change was made");
}

static void
key_in_help(struct top *top, int key)
{
	bool more = top_help_line(top->help_line + (size_t)LINES - 2) != NULL;

	if (key == TOP_KEY(KEY_RESIZE))
		return;
	if (key == TOP_KEY(KEY_DOWN) || key == 'j')
		top->help_line += more ? 1 : 0;
	else if (key == TOP_KEY(KEY_UP) || key == 'k')
		top->help_line -= top->help_line > 0 ? 1 : 0;
	else
		top->help = false;
}

/* False: it is none that moves. */
static bool
key_moves(struct top *top, int key)
{
	long page = (long)top_draw_page(&top->model, top->model.focus);
	const struct {
		int key;
		long by;
	} moves[] = {
	    {TOP_KEY(KEY_UP), -1},
	    {'k', -1},
	    {TOP_KEY(KEY_DOWN), 1},
	    {'j', 1},
	    {TOP_KEY(KEY_PPAGE), -page},
	    {TOP_KEY(KEY_NPAGE), page},
	    {TOP_KEY(KEY_HOME), -TO_THE_END},
	    {TOP_KEY(KEY_END), TO_THE_END},
	};

	for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++) {
		if (moves[i].key != key)
			continue;
		move_by(top, moves[i].by);
		return true;
	}
	return false;
}

/* False: it is none that asks. */
static bool
key_asks(struct top *top, int key)
{
	static const struct {
		int key;
		enum top_question question;
	} questions[] = {{'=', ASK_SLOTS}, {'g', ASK_GATE}, {'G', ASK_GRANT}, {'d', ASK_DENY},
	    {'D', ASK_DENY_ALL}, {'e', ASK_EVICT}, {'/', ASK_FILTER}};

	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
		if (questions[i].key != key)
			continue;
		ask(top, questions[i].question);
		return true;
	}
	return false;
}

/* Back: first out of a filter, then out of the rows. */
static void
escape(struct top *top)
{
	enum top_panel focus = top->model.focus;

	if (*top->model.sight[focus].filter != '\0')
		set_filter(top, focus, "");
	else
		top->model.focus = TOP_SEMAPHORES;
}

static void
key_pressed(struct top *top, int key)
{
	bool in_rows = top->model.focus == TOP_ROWS;

	if (key_moves(top, key) || key_asks(top, key))
		return;
	switch (key) {
	case '\t':
		top->model.focus = in_rows ? TOP_SEMAPHORES : TOP_ROWS;
		break;
	case '\r':
	case '\n':
	case TOP_KEY(KEY_ENTER):
		if (in_rows)
			ask(top, ASK_GRANT);
		else
			top->model.focus = TOP_ROWS;
		break;
	case TOP_KEY_ESCAPE:
		escape(top);
		break;
	case '+':
	case '-':
		step(top, key == '+');
		break;
	case '?':
		top->help = true;
		top->help_line = 0;
		break;
	case 'L' & 037:
		top_terminal_redraw();
		break;
	default:
		break;
	}
}

/* All that were pressed. False: to quit. */
static bool
heed_keys(struct top *top)
{
	wint_t code;
	int kind;

	while ((kind = get_wch(&code)) != ERR) {
		int key = kind == KEY_CODE_YES ? TOP_KEY((int)code) : (int)code;

		if (key != TOP_KEY(KEY_RESIZE))
			top->link.said[0] = '\0';
		/* Without a visible question there is no answer. */
		if (!top_draw_possible() && key != 'q')
			continue;
		if (!top_draw_possible())
			return false;
		if (top->ask.question != ASK_NOTHING)
			key_asked(top, key);
		else if (top->help)
			key_in_help(top, key);
		else if (key == 'q')
			return false;
		else
			key_pressed(top, key);
	}
	return true;
}

/* ---- signals, and the loop ---- */

/*
 * Stops as a background job that uses the terminal (SIGTTOU), because this signal is blocked here.
 */
static void
stop_in_background(void)
{
	pid_t group;

	while ((group = tcgetpgrp(STDIN_FILENO)) >= 0 && group != getpgrp())
		kill(getpid(), SIGSTOP);
}

/* Exit status, or GOING_ON. */
static int
heed_signals(struct top *top)
{
	bool terminal;
	int signo;

	while ((signo = signals_next(&top->signals, &terminal)) != 0) {
		if (signal_ends(signo))
			return EXIT_STATUS_SIGNAL + signo;
		if (signo == SIGTSTP) {
			top_terminal_leave();
			kill(getpid(), SIGSTOP);
		}
		if (signo == SIGCONT)
			stop_in_background();
		/*
		 * Another process may have used the terminal, and its size may have changed. If it
		 * was smaller for a moment, its content is lost.
		 */
		if (signo == SIGTSTP || signo == SIGCONT || signo == SIGWINCH)
			top_terminal_redraw();
		if (signo == SIGWINCH || signo == SIGCONT)
			top_terminal_follow_size();
	}
	return GOING_ON;
}

/* Nobody is there any more to press a key, though no signal said so. */
static bool
terminal_gone(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&input, 1, 0) == 1 && (input.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

static int
loop(struct top *top)
{
	const struct watch watch = {
	    .lb = top->link.lb, .signals = &top->signals, .input = STDIN_FILENO};
	int status = GOING_ON;

	while (status == GOING_ON) {
		int64_t next = top_link_turn(&top->link, watch_now());

		draw(top);
		if (watch_sleep(&watch, next) && terminal_gone())
			return EXIT_STATUS_SIGNAL + SIGHUP;
		status = heed_signals(top);
		if (status == GOING_ON && !heed_keys(top))
			return EXIT_STATUS_OK;
	}
	return status;
}

static int
perform(struct top *top)
{
	int status;

	if (!signals_hold(&top->signals) || !signals_hold_more(&top->signals, SIGWINCH)) {
		say("signals: %m");
		return EXIT_STATUS_INTERNAL;
	}
	stop_in_background();
	if (!top_terminal_begin()) {
		say("top: the terminal is not suitable (TERM=%s); use lockbroker watch",
		    getenv("TERM") != NULL ? getenv("TERM") : "");
		return EXIT_STATUS_USAGE;
	}
	top_draw_begin();
	status = loop(top);
	top_terminal_end();
	return status;
}

int
top_perform(const char *path)
{
	static struct top top;
	int status;

	top_model_init(&top.model);
	if (!top_link_init(&top.link, &top.model, path)) {
		say("out of memory");
		return EXIT_STATUS_INTERNAL;
	}
	status = perform(&top);
	top_link_done(&top.link);
	top_model_done(&top.model);
	return status;
}
