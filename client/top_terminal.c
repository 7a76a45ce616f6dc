#include "client/top_terminal.h"

#include <locale.h>
#include <ncurses.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <term.h>
#include <unistd.h>

/* After Escape the rest of a key's sequence is there at once, or not meant. */
#define ESCAPE_MS 25

static SCREEN *screen;

/* Asked before newterm(3) is: for a terminal that it does not know it leaks. */
static bool
is_able(void)
{
	bool able;
	int error;

	if (setupterm(NULL, STDOUT_FILENO, &error) != OK)
		return false;
	able = tigetstr("cup") != NULL;
	del_curterm(cur_term);
	return able;
}

bool
top_terminal_begin(void)
{
	setlocale(LC_ALL, "");
	if (!is_able())
		return false;
	/* What the terminal says of its size is believed over $LINES and $COLUMNS. */
	use_tioctl(TRUE);
	screen = newterm(NULL, stdout, stdin);
	if (screen == NULL)
		return false;
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(ESCAPE_MS);
	curs_set(0);
	return true;
}

void
top_terminal_leave(void)
{
	endwin();
}

void
top_terminal_end(void)
{
	endwin();
	delscreen(screen);
}

void
top_terminal_redraw(void)
{
	clearok(curscr, TRUE);
}

void
top_terminal_follow_size(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
		resizeterm(size.ws_row, size.ws_col);
}
