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

/* In one write, and one column less than there are: in the last some terminals go to the next line. */
static void
put(const char *text)
{
	char line[LINE_SIZE];
	int room = width() - 1, columns, pad;

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
terminal_line_show(const char *text)
{
	char line[LINE_SIZE];

	/* What the daemon says is UTF-8, whatever the user's locale is. */
	setlocale(LC_CTYPE, "C.UTF-8");
	snprintf(line, sizeof(line), "lockbroker: %s", text);
	put(line);
}

void
terminal_line_erase(void)
{
	if (shown != 0)
		put("");
}
