#include "client/progress.h"

#include <stdio.h>

#include "client/slot_words.h"
#include "client/terminal_line.h"

#define LINE_SIZE 512

static const char *about;

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
	snprintf(line, sizeof(line), "waiting for %d holder%s: %s", event->holders,
	    event->holders == 1 ? "" : "s", slot_words_end(&slots, event->holders));
	terminal_line_show(about, line);
}

int
progress_wanted(void)
{
	return terminal_line_possible();
}

void
progress_begin(struct lb *lb, const char *name)
{
	about = name;
	if (progress_wanted())
		lb_set_callback(lb, heed, NULL);
}

void
progress_end(struct lb *lb)
{
	lb_set_callback(lb, NULL, NULL);
	terminal_line_erase();
}
