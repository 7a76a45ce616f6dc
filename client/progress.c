#include "client/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "client/signals.h"
#include "client/slot_words.h"

/* Where the terminal does not know how wide it is. */
#define WIDTH_USUAL 80
#define LINE_SIZE 256

/* How many columns the line takes that is there. */
static int shown;
static const char *about;

static int
width(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
		return WIDTH_USUAL;
	return size.ws_col < LINE_SIZE ? size.ws_col : LINE_SIZE;
}

/* One line, or it could not be written over; plain ASCII, so a byte is a column. */
static void
show(const char *line)
{
	int room = width() - 1, len = (int)strlen(line);

	if (len > room)
		len = room;
	dprintf(STDERR_FILENO, "\r%.*s%*s\r%.*s", len, line, shown > len ? shown - len : 0, "", len,
	    line);
	shown = len;
	signals_line_open(len > 0);
}

static void
heed(struct lb *lb, const struct lb_event *event, void *arg)
{
	struct slot_words slots = {.count = 0};
	char line[LINE_SIZE];

	(void)lb;
	(void)arg;
	if (event->type != LB_EVENT_DRAIN)
		return;
	slot_words_read(&slots, event->json, "holders");
	snprintf(line, sizeof(line), "lockbroker: %.100s: waiting for %d holder%s: %s", about,
	    event->holders, event->holders == 1 ? "" : "s", slot_words_end(&slots, event->holders));
	show(line);
}

int
progress_wanted(void)
{
	return isatty(STDERR_FILENO) == 1;
}

void
progress_begin(struct lb *lb, const char *name)
{
	about = name;
	shown = 0;
	if (progress_wanted())
		lb_set_callback(lb, heed, NULL);
}

void
progress_end(struct lb *lb)
{
	lb_set_callback(lb, NULL, NULL);
	if (shown != 0)
		show("");
}
