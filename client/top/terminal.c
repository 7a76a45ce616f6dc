#include "client/top/terminal.h"

#include <locale.h>
#include <ncurses.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>

/* After Escape the rest of a key's sequence is there at once, or not meant. */
#define ESCAPE_MS 25

static SCREEN *screen;

/* Restores the terminal in a signal handler: its settings, and its own control sequence. */
static struct termios before;
static char words_back[128];

/* ---- crashes ---- */

/* Nothing here but what a signal handler may do. The default comes next (SA_RESETHAND). */
static void
crash(int signo)
{
	ssize_t ignored = write(STDOUT_FILENO, words_back, strlen(words_back));

	(void)ignored;
	tcsetattr(STDIN_FILENO, TCSANOW, &before);
	raise(signo);
}

/* Those that have a handler already are a sanitizer's, which has more to say. */
static void
be_ready_for_crashes(void)
{
	static const int signals[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV};
	struct sigaction action = {.sa_handler = crash, .sa_flags = SA_RESETHAND}, old;
	const char *screen_back = tigetstr("rmcup"), *cursor_back = tigetstr("cnorm");

	snprintf(words_back, sizeof(words_back), "%s%s", screen_back != NULL ? screen_back : "",
	    cursor_back != NULL ? cursor_back : "");
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
			sigaction(signals[i], &action, NULL);
}

/* ---- begin and end ---- */

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
	/* The size that the terminal reports counts more than $LINES and $COLUMNS. */
	use_tioctl(TRUE);
	tcgetattr(STDIN_FILENO, &before);
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
	be_ready_for_crashes();
	return true;
}

/*
 * Where the terminal has no second screen the cursor stays in the last line, and the shell writes
 * there.
 */
void
top_terminal_leave(void)
{
	move(LINES - 1, 0);
	clrtoeol();
	refresh();
	endwin();
}

void
top_terminal_end(void)
{
	top_terminal_leave();
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
