#include "client/terminal_line.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "client/output.h"
#include "client/signals.h"
#include "client/text.h"

/* Where the terminal does not know how wide it is. */
#define WIDTH_USUAL 80
#define LINE_SIZE 1024
/* Left free: in the last column some terminals go to the next line, and with the "^C" of a key all do. */
#define MARGIN 3
#define PREFIX "lockbroker: "
/* Less room than this is for what changes: first without the prefix, then without the name. */
#define ROOM_FOR_PREFIX 50
#define ROOM_FOR_NAME 24

/* How many columns the line takes that is there. */
static int shown;

static int
width(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
		return WIDTH_USUAL;
	return size.ws_col;
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

static int
room_now(void)
{
	return width() - MARGIN;
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

	/* What the daemon says is UTF-8, whatever the user's locale is. */
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
