#include "client/row_lines.h"

#include <locale.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lockbroker.h"
#include "client/output.h"
#include "client/row.h"
#include "client/text.h"

#define LINE_SIZE 2048

struct known {
	char waiter[ROW_ID_SIZE]; /* first: a known is looked up by it */
	char name[ROW_NAME_SIZE];
	char whom[ROW_WORDS_SIZE];
};

struct row_lines {
	void *known; /* owned; a tree of struct known, by waiter (tsearch(3)) */
	int count;
};

static int
compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

struct row_lines *
row_lines_new(void)
{
	/* What the daemon says is UTF-8, whatever the user's locale is. */
	setlocale(LC_CTYPE, "C.UTF-8");
	return calloc(1, sizeof(struct row_lines));
}

static void
forget_all(struct row_lines *lines)
{
	tdestroy(lines->known, free);
	lines->known = NULL;
	lines->count = 0;
}

void
row_lines_free(struct row_lines *lines)
{
	if (lines == NULL)
		return;
	forget_all(lines);
	free(lines);
}

/* Without memory it is not remembered, and its end is told by its id alone. */
static void
remember(struct row_lines *lines, const struct row *row)
{
	struct known *known = calloc(1, sizeof(*known)), **found;

	if (known == NULL)
		return;
	snprintf(known->waiter, sizeof(known->waiter), "%s", row->waiter);
	found = tsearch(known, &lines->known, compare);
	if (found == NULL || *found != known)
		free(known);
	else
		lines->count++;
	if (found == NULL)
		return;
	snprintf((*found)->name, sizeof((*found)->name), "%s", row->name);
	row_whom(row, (*found)->whom, sizeof((*found)->whom));
}

/* ---- reading ---- */

struct told {
	struct row row;
	int more;
};

static int
read_told(const char *path, const char *value, void *arg)
{
	struct told *told = arg;

	if (strncmp(path, "row.", 4) == 0)
		row_take(&told->row, path + 4, value);
	else if (strcmp(path, "waiter") == 0)
		row_take(&told->row, path, value);
	else if (strcmp(path, "more") == 0)
		told->more = atoi(value);
	else if (strncmp(path, "unknown_hosts.", 14) == 0)
		say("%s does not answer: what is there is missing", value);
	return 0;
}

/* ---- lines ---- */

static void
print_line(const char *line)
{
	char clean[LINE_SIZE];

	text_fit(clean, sizeof(clean), line, TEXT_WHOLE);
	printf("%s\n", clean);
}

/* Where it stands: " slot 2", " position 1", or nothing. */
static void
place_words(const struct row *row, char *ret, size_t size)
{
	if (row->slot > 0)
		snprintf(ret, size, " slot %d,", row->slot);
	else if (row->position > 0)
		snprintf(ret, size, " position %d,", row->position);
	else
		snprintf(ret, size, "%s", "");
}

static void
print_row(const struct row *row)
{
	char line[LINE_SIZE], whom[ROW_WORDS_SIZE], place[32], process[400] = "", age[24];

	/* Whose process it is follows in any case. */
	if (*row->who == '\0' && *row->command == '\0')
		snprintf(whom, sizeof(whom), "somebody");
	else
		row_whom(row, whom, sizeof(whom));
	place_words(row, place, sizeof(place));
	if (row->pid >= 0)
		snprintf(process, sizeof(process), ", uid %lld, pid %lld on %s",
		    (long long)row->uid, (long long)row->pid, row->host);
	row_age_words(row->age, age, sizeof(age));
	snprintf(line, sizeof(line), "%s: %s,%s %s%s%s%s%s, for %s [%s]", row->name,
	    row_state_word(row->state), place, whom, *row->why != '\0' ? " (" : "", row->why,
	    *row->why != '\0' ? ")" : "", process, age, row->waiter);
	print_line(line);
}

static void
print_gone(struct row_lines *lines, const char *waiter)
{
	struct known **found = tfind(waiter, &lines->known, compare), *known;
	char line[LINE_SIZE];

	if (found == NULL) {
		snprintf(line, sizeof(line), "gone: [%s]", waiter);
		print_line(line);
		return;
	}
	known = *found;
	snprintf(line, sizeof(line), "%s: gone, %s [%s]", known->name, known->whom, waiter);
	print_line(line);
	tdelete(waiter, &lines->known, compare);
	free(known);
	lines->count--;
}

void
row_lines_print(struct row_lines *lines, const char *method, const char *params, bool as_json)
{
	struct told told = {.more = 0};

	if (as_json) {
		printf("{\"jsonrpc\":\"2.0\",\"method\":\"%s\",\"params\":%s}\n", method, params);
		return;
	}
	row_init(&told.row);
	(void)lb_json_each(params, read_told, &told);
	if (strcmp(method, "row") == 0) {
		remember(lines, &told.row);
		print_row(&told.row);
	} else if (strcmp(method, "gone") == 0) {
		print_gone(lines, told.row.waiter);
	} else if (strcmp(method, "synced") == 0) {
		printf("synced: %d row%s; what follows are changes\n", lines->count,
		    lines->count == 1 ? "" : "s");
		if (told.more > 0)
			say("and %d more, which were left out", told.more);
	} else if (strcmp(method, "resync") == 0) {
		forget_all(lines);
		printf("resync: too much at once; what there is follows anew\n");
	}
}
