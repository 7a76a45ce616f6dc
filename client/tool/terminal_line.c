#include "client/tool/terminal_line.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "client/tool/output.h"
#include "client/tool/signals.h"
#include "client/tool/text.h"

/* Where the terminal does not know how wide it is. */
#define WIDTH_USUAL 80
#define LINE_SIZE 1024
/*
 * Left free: in the last column some terminals go to the next line, and with the "^C" of a key all
 * do.
 */
#define MARGIN 3
#define PREFIX "lockbroker: "
/* Less room than this is for what changes: first without the prefix, then without the name. */
#define ROOM_FOR_PREFIX 50
#define ROOM_FOR_NAME 24

/* How many columns the line takes that is there. */
static int shown;

static int
room_now(void)
{
	struct winsize size;
	bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;

	return (known ? size.ws_col : WIDTH_USUAL) - MARGIN;
}

bool
terminal_line_possible(void)
{
	return isatty(STDERR_FILENO) == 1;
}

bool
terminal_line_foreground(void)
{
	pid_t group = tcgetpgrp(STDERR_FILENO);

	/* A terminal that is not the session's own has no groups. */
	return group < 0 || group == getpgrp();
}

/* Emacs and others that call themselves dumb show escapes as they are. */
static bool
can_clear(void)
{
	const char *term = getenv("TERM");

	return term != NULL && *term != '\0' && strcmp(term, "dumb") != 0;
}

/* In one write. */
static void
put(const char *text)
{
	char line[LINE_SIZE];
	int room = room_now(), columns, pad;

	if (!output_ready(STDERR_FILENO) || !terminal_line_foreground())
		return;
	columns = text_fit(line, sizeof(line), text, room);
	pad = (shown < room ? shown : room) - columns;
	/* A signal in the middle finds a line to end. */
	signals_line_open(true);
	if (can_clear())
		dprintf(STDERR_FILENO, "\r%s\033[K", line);
	else
		dprintf(STDERR_FILENO, "\r%s%*s\r%s", line, pad > 0 ? pad : 0, "", line);
	shown = columns;
	signals_line_open(shown > 0);
}

void
terminal_line_show(const char *name, const char *text)
{
	char line[LINE_SIZE], cut[LINE_SIZE / 2];
	const char *prefix = room_now() < ROOM_FOR_PREFIX ? "" : PREFIX;
	int third = room_now() / 3, left;

	/* The daemon sends UTF-8, whatever the user's locale is. */
	setlocale(LC_CTYPE, "C.UTF-8");
	left = room_now() - text_columns(prefix) - text_columns(": ") - text_columns(text);
	text_fit(cut, sizeof(cut), name, left > third ? left : third);
	if (room_now() < ROOM_FOR_NAME)
		snprintf(line, sizeof(line), "%s", text);
	else
		snprintf(line, sizeof(line), "%s%s: %s", prefix, cut, text);
	put(line);
}

void
terminal_line_erase(void)
{
	if (shown != 0)
		put("");
}

/* ---- slots in words ---- */

/* Bytes that the runs of slots may take, and that one more may, with its comma. */
#define RUNS_SIZE 152
#define RUN_SIZE 32

struct slots {
	const char *member;
	char text[RUNS_SIZE];
	size_t len;
	int first, last; /* the run that is not written yet; 0 = none */
	int count, left_out;
};

static void
write_run(struct slots *slots)
{
	const char *comma = slots->len > 0 ? ", " : "";
	char run[RUN_SIZE];

	if (slots->first == 0)
		return;
	if (slots->first == slots->last)
		snprintf(run, sizeof(run), "%s%d", comma, slots->first);
	else
		snprintf(run, sizeof(run), "%s%d-%d", comma, slots->first, slots->last);
	if (slots->len + RUN_SIZE > RUNS_SIZE)
		slots->left_out += slots->last - slots->first + 1;
	else
		slots->len += (size_t)snprintf(slots->text + slots->len, RUN_SIZE, "%s", run);
	slots->first = 0;
}

/* "holders.0.slot"; slots come in any order, and runs are made of those that follow each other. */
static int
read_slot(const char *path, const char *value, void *arg)
{
	struct slots *slots = arg;
	size_t len = strlen(slots->member);
	long slot = strtol(value, NULL, 10);

	if (strncmp(path, slots->member, len) != 0 || path[len] != '.')
		return 0;
	path += len + 1;
	path += strspn(path, "0123456789");
	if ((*path != '\0' && strcmp(path, ".slot") != 0) || slot <= 0 || slot >= LB_UNLIMITED)
		return 0;
	slots->count++;
	if (slots->first != 0 && slot == slots->last + 1) {
		slots->last = (int)slot;
	} else if (slots->first != 0 && slot == slots->first - 1) {
		slots->first = (int)slot;
	} else {
		write_run(slots);
		slots->first = slots->last = (int)slot;
	}
	return 0;
}

bool
slot_words(char ret[SLOT_WORDS_SIZE], const char *json, const char *member, int total)
{
	struct slots slots = {.member = member};
	const char *head;
	int left_out;

	(void)lb_json_each(json, read_slot, &slots);
	write_run(&slots);
	head = slots.count == 0 ? "" : slots.count == 1 && total <= 1 ? "slot " : "slots ";
	left_out = slots.left_out + (total > slots.count ? total - slots.count : 0);
	if (slots.count > 0 && left_out > 0)
		snprintf(ret, SLOT_WORDS_SIZE, "%s%s and %d more", head, slots.text, left_out);
	else
		snprintf(ret, SLOT_WORDS_SIZE, "%s%s", head, slots.text);
	return slots.count > 0;
}

/* ---- waiting for holders ---- */

static const char *about;

static void
heed_holders(struct lb *lb, const struct lb_event *event, void *arg)
{
	char slots[SLOT_WORDS_SIZE], line[LINE_SIZE];

	(void)lb;
	(void)arg;
	if (event->type != LB_EVENT_HOLDERS)
		return;
	slot_words(slots, event->json, "holders", event->busy);
	snprintf(line, sizeof(line), "waiting for %d holder%s: %s", event->busy,
	    event->busy == 1 ? "" : "s", slots);
	terminal_line_show(about, line);
}

void
progress_begin(struct lb *lb, const char *name)
{
	about = name;
	if (terminal_line_possible())
		lb_set_callback(lb, heed_holders, NULL);
}

void
progress_end(struct lb *lb)
{
	lb_set_callback(lb, NULL, NULL);
	terminal_line_erase();
}
