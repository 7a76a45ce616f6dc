#include "client/all_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tool/row.h"
#include "client/tool/watch.h"

/* ---- reading ---- */

/* The text behind a member's name in the params of a notification, up to their last brace. */
static void
append(FILE *json, const char *params, const char *member, const char *comma)
{
	const char *text = strstr(params, member);

	if (text != NULL)
		fprintf(json, "%s%.*s", comma, (int)strlen(text + strlen(member)) - 1,
		    text + strlen(member));
}

/* Takes the pending events. True: all rows are there, or *ret_code says why not. */
static bool
take_events(struct lb *lb, FILE *json, int *rows, int *ret_code)
{
	const struct lb_event *event;

	while ((event = lb_event_next(lb)) != NULL) {
		if (event->type == LB_EVENT_ANSWERED)
			*ret_code = event->code;
		if (event->type == LB_EVENT_ANSWERED)
			return true;
		if (event->type != LB_EVENT_WATCH)
			continue;
		/* Further members of the params would be in the row; it is the last one. */
		if (strcmp(event->reason, "row") == 0)
			append(json, event->json, "\"row\":", (*rows)++ > 0 ? "," : "");
		if (strcmp(event->reason, "synced") != 0)
			continue;
		append(json, event->json, "\"more\":", "],\"more\":");
		putc('}', json);
		return true;
	}
	return false;
}

int
all_rows_read(const struct asking *asking, char **ret_json)
{
	int64_t until = watch_in(asking_patience(asking, ASKING_ANSWER_MS)), request;
	int rows = 0, code = lb_call_start(asking->lb, "watch", "{}", &request);
	size_t size;
	FILE *json = open_memstream(ret_json, &size);

	if (json == NULL)
		return LB_NO_MEMORY;
	fputs("{\"rows\":[", json);
	while (code == LB_OK && !take_events(asking->lb, json, &rows, &code))
		code = lb_wait(asking->lb, until > watch_now() ? until - watch_now() : 0);
	if (fclose(json) != 0 && code == LB_OK)
		code = LB_NO_MEMORY;
	if (code != LB_OK) {
		free(*ret_json);
		*ret_json = NULL;
	}
	return code;
}

/* ---- mutexes ---- */

struct mutex {
	char name[ROW_NAME_SIZE];
	int busy, waiting;
};

struct mutexes {
	struct mutex *items; /* owned */
	size_t count;
	long index;     /* of the row that is read; -1: none */
	struct row row; /* the row that is read */
	bool is_mutex;
};

/* Counts the last row. */
static int
count(struct mutexes *mutexes)
{
	struct mutex *one = mutexes->items, *grown;

	if (mutexes->index < 0 || !mutexes->is_mutex)
		return 0;
	while (one < mutexes->items + mutexes->count && strcmp(one->name, mutexes->row.name) != 0)
		one++;
	if (one == mutexes->items + mutexes->count) {
		grown = realloc(mutexes->items, (mutexes->count + 1) * sizeof(*grown));
		if (grown == NULL)
			return LB_NO_MEMORY;
		mutexes->items = grown;
		one = grown + mutexes->count++;
		*one = (struct mutex){.busy = 0};
		snprintf(one->name, sizeof(one->name), "%s", mutexes->row.name);
	}
	one->busy += mutexes->row.state == ROW_BUSY;
	one->waiting += mutexes->row.state == ROW_WAITING;
	return 0;
}

static int
read_member(const char *path, const char *value, void *arg)
{
	struct mutexes *mutexes = arg;
	char *member;
	long index;

	if (strncmp(path, "rows.", 5) != 0)
		return 0;
	index = strtol(path + 5, &member, 10);
	if (*member != '.')
		return 0;
	if (index != mutexes->index) {
		if (count(mutexes) != 0)
			return LB_NO_MEMORY;
		row_init(&mutexes->row);
		mutexes->index = index;
		mutexes->is_mutex = false;
	}
	row_take(&mutexes->row, member + 1, value);
	if (strcmp(member + 1, "kind") == 0)
		mutexes->is_mutex = strcmp(value, "mutex") == 0;
	return 0;
}

static int
compare(const void *a, const void *b)
{
	return strcmp(((const struct mutex *)a)->name, ((const struct mutex *)b)->name);
}

char *
all_rows_with_mutexes(const char *list_json, const char *rows_json)
{
	struct mutexes mutexes = {.index = -1};
	bool ok = lb_json_each(rows_json, read_member, &mutexes) == LB_OK && count(&mutexes) == 0;
	char *json = NULL;
	size_t size;
	FILE *to = ok ? open_memstream(&json, &size) : NULL;

	if (mutexes.count > 0)
		qsort(mutexes.items, mutexes.count, sizeof(*mutexes.items), compare);
	if (to != NULL) {
		fprintf(to, "%.*s%s\"mutexes\":[", (int)strlen(list_json) - 1, list_json,
		    strlen(list_json) > 2 ? "," : "");
		for (const struct mutex *one = mutexes.items; one < mutexes.items + mutexes.count;
		     one++)
			fprintf(to,
			    "%s{\"name\":\"%s\",\"kind\":\"mutex\",\"busy\":%d,\"waiting\":%d}",
			    one > mutexes.items ? "," : "", one->name, one->busy, one->waiting);
		fputs("]}", to);
		fclose(to);
	}
	free(mutexes.items);
	return json;
}
