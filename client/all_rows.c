#include "client/all_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tool/watch.h"

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
