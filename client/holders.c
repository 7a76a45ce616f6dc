#include "client/holders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lockbroker.h"
#include "client/row.h"

/* More names than this make no line. */
#define NAMED_MOST 3

struct holders {
	struct row row; /* the one that is read */
	long index;     /* what the daemon calls it; -1 = none yet */
	int count;
	char *words;
	size_t size, len;
};

/* What the last row was. */
static void
add(struct holders *holders)
{
	const struct row *row = &holders->row;
	const char *comma = holders->len > 0 ? ", " : "";
	char whom[ROW_WORDS_SIZE];
	int added;

	if (holders->index < 0 || ++holders->count > NAMED_MOST)
		return;
	row_whom(row, whom, sizeof(whom));
	added = snprintf(holders->words + holders->len, holders->size - holders->len,
	    *row->why != '\0' ? "%s%s (%s)" : "%s%s", comma, whom, row->why);
	holders->len += (size_t)added < holders->size - holders->len
			    ? (size_t)added
			    : holders->size - holders->len - 1;
}

static int
read_holder(const char *path, const char *value, void *arg)
{
	struct holders *holders = arg;
	char *member;
	long index;

	if (strncmp(path, "holders.", 8) != 0)
		return 0;
	index = strtol(path + 8, &member, 10);
	if (*member != '.')
		return 0;
	if (index != holders->index) {
		add(holders);
		row_init(&holders->row);
		holders->index = index;
	}
	row_take(&holders->row, member + 1, value);
	return 0;
}

void
holders_words(const char *show_json, char *ret, size_t size)
{
	struct holders holders = {.index = -1, .words = ret, .size = size};

	*ret = '\0';
	if (lb_json_each(show_json, read_holder, &holders) != LB_OK)
		return;
	add(&holders);
	if (holders.count > NAMED_MOST)
		snprintf(ret + holders.len, size - holders.len, ", and %d more",
		    holders.count - NAMED_MOST);
}
