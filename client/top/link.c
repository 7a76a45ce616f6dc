#include "client/top/link.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tool/json_text.h"
#include "client/tool/text.h"

#define REFRESH_MS 1000
#define RETRY_MS 1000
/* A daemon that says nothing for so long is worth a word. */
#define SILENCE_MS 3000
/* Columns of a name before what is said of it. */
#define NAME_SAID 24

bool
top_link_init(struct top_link *link, struct top_model *model, const char *path)
{
	*link = (struct top_link){.model = model, .path = path, .state = TOP_LINK_AWAY};
	link->lb = lb_new();
	return link->lb != NULL;
}

void
top_link_done(struct top_link *link)
{
	lb_free(link->lb);
}

void
top_link_say(struct top_link *link, bool error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(link->said, sizeof(link->said), format, args);
	va_end(args);
	link->said_error = error;
}

const char *
top_link_trouble(const struct top_link *link)
{
	if (*link->trouble != '\0')
		return link->trouble;
	return *link->list.error != '\0' ? link->list.error : link->show.error;
}

/* ---- the connection ---- */

static void
set_away(struct top_link *link, const char *why, int64_t now)
{
	link->state = TOP_LINK_AWAY;
	link->retry_at = now + RETRY_MS;
	link->list = link->show = (struct top_query){.request = 0};
	link->said[0] = '\0';
	for (size_t i = 0; i < TOP_ACTIONS_MOST; i++)
		if (link->actions[i].request != 0)
			top_link_say(link, true,
			    "%s: the connection to lockbrokerd ended; the change may have been "
			    "made",
			    link->actions[i].name);
	memset(link->actions, 0, sizeof(link->actions));
	snprintf(link->trouble, sizeof(link->trouble),
	    "no connection to lockbrokerd, retrying: %.200s", why);
}

/* Without patience: a daemon that accepts nobody is tried again, as one that is not there. */
static void
connect_now(struct top_link *link, int64_t now)
{
	if (lb_connect(link->lb, link->path, 0) != LB_OK) {
		set_away(link, lb_message(link->lb), now);
		return;
	}
	link->state = TOP_LINK_UP;
	link->heard_at = now;
	link->trouble[0] = '\0';
}

/* ---- asking ---- */

static int64_t
ask(struct top_link *link, const char *method, const char *params)
{
	int64_t request;

	/* When the connection has ended its event says so. */
	if (lb_call_start(link->lb, method, params, &request) != LB_OK)
		return 0;
	return request;
}

static void
ask_show(struct top_link *link)
{
	const struct top_semaphore *semaphore = top_model_semaphore(link->model);
	char params[JSON_PARAMS_SIZE];

	if (semaphore == NULL) {
		top_model_forget_rows(link->model);
		return;
	}
	snprintf(link->show_name, sizeof(link->show_name), "%s", semaphore->name);
	json_params(params, "name", link->show_name, "");
	link->show.request = ask(link, "show", params);
}

/* Each only when its last answer has come. */
static void
ask_both(struct top_link *link, int64_t now)
{
	if (link->list.request == 0 && now >= link->list.due) {
		link->list.request = ask(link, "list", NULL);
		link->list.due = now + REFRESH_MS;
	}
	if (link->show.request == 0 && now >= link->show.due) {
		ask_show(link);
		link->show.due = now + REFRESH_MS;
	}
}

void
top_link_selected(struct top_link *link, int64_t now)
{
	top_model_forget_rows(link->model);
	link->show.due = now;
}

void
top_link_act(struct top_link *link, const char *method, const char *params, const char *name,
    const char *waiter)
{
	struct top_action *action = link->actions;

	if (link->state != TOP_LINK_UP) {
		top_link_say(link, true, "no connection to lockbrokerd: no change was made");
		return;
	}
	while (action < link->actions + TOP_ACTIONS_MOST && action->request != 0)
		action++;
	if (action == link->actions + TOP_ACTIONS_MOST) {
		top_link_say(link, true, "too many requests at once: no change was made");
		return;
	}
	action->request = ask(link, method, params);
	/* The subject is selected on the screen, so the line says only the result. */
	text_fit(action->name, sizeof(action->name), name, NAME_SAID);
	snprintf(action->waiter, sizeof(action->waiter), "%s", waiter);
	top_link_say(link, false, "%s: requested", action->name);
}

/* ---- answers ---- */

static void
heed_outcome(struct top_link *link, const struct top_action *action, const struct lb_event *event,
    int64_t now)
{
	char slots[16], warning[160], denied[16], waiter[2], evicted[16];
	const struct json_wanted wanted[] = {{"slots", slots, sizeof(slots)},
	    {"warning", warning, sizeof(warning)}, {"denied", denied, sizeof(denied)},
	    {"waiter", waiter, sizeof(waiter)}, {"evicted", evicted, sizeof(evicted)}};

	if (event->code != LB_OK) {
		top_link_say(link, true, "%s: %s", action->name, event->text);
		return;
	}
	json_values(event->json, wanted, 5);
	if (*waiter != '\0')
		top_link_say(link, false, "%s: granted, without a slot", action->name);
	else if (*denied != '\0')
		top_link_say(link, false, "%s: denied to %s", action->name, denied);
	else if (*evicted != '\0')
		top_link_say(link, false, "%s: evicted %s", action->name, evicted);
	else if (strcmp(slots, "0") == 0)
		top_link_say(link, false, "%s is closed: every client waits", action->name);
	else if (*slots != '\0')
		top_link_say(link, false, "%s: slots %s%s%s", action->name, slots,
		    *warning != '\0' ? "; " : "", warning);
	if (*denied != '\0' && *action->waiter != '\0')
		top_model_denied(link->model, action->waiter, now);
}

/* New trouble is worth more than what was said before it. */
static void
settle(
    struct top_link *link, struct top_query *query, const struct lb_event *event, bool understood)
{
	bool troubled = *query->error != '\0';

	query->request = 0;
	query->error[0] = '\0';
	if (event->code == LB_BROKER_UNAVAILABLE)
		snprintf(query->error, sizeof(query->error),
		    "outdated, the broker does not answer: %.200s", event->text);
	else if (event->code != LB_OK)
		snprintf(query->error, sizeof(query->error), "%.250s", event->text);
	else if (!understood)
		snprintf(query->error, sizeof(query->error), "the daemon's answer is invalid");
	if (*query->error != '\0' && !troubled)
		link->said[0] = '\0';
}

static void
heed_list(struct top_link *link, const struct lb_event *event, int64_t now)
{
	const struct top_semaphore *before = top_model_semaphore(link->model), *after;
	char name[ROW_NAME_SIZE] = "";

	if (before != NULL)
		snprintf(name, sizeof(name), "%s", before->name);
	settle(link, &link->list, event,
	    event->code == LB_OK && top_model_list(link->model, event->json));
	after = top_model_semaphore(link->model);
	if (after == NULL || strcmp(after->name, name) != 0)
		top_link_selected(link, now);
}

static void
heed_show(struct top_link *link, const struct lb_event *event, int64_t now)
{
	const struct top_semaphore *selected = top_model_semaphore(link->model);

	settle(link, &link->show, event,
	    event->code == LB_OK && top_model_show(link->model, link->show_name, event->json, now));
	/* Soon it will not be listed any more either. */
	if (event->code == LB_NO_SUCH_LOCK) {
		link->show.error[0] = '\0';
		top_model_forget_rows(link->model);
	}
	if (selected != NULL && strcmp(selected->name, link->show_name) != 0)
		link->show.due = now;
}

static void
heed_answer(struct top_link *link, const struct lb_event *event, int64_t now)
{
	link->heard_at = now;
	link->trouble[0] = '\0';
	if (event->request == link->list.request)
		heed_list(link, event, now);
	else if (event->request == link->show.request)
		heed_show(link, event, now);
	for (size_t i = 0; i < TOP_ACTIONS_MOST; i++) {
		if (link->actions[i].request != event->request)
			continue;
		heed_outcome(link, &link->actions[i], event, now);
		link->actions[i].request = 0;
		link->list.due = link->show.due = now;
	}
}

static void
heed_events(struct top_link *link, int64_t now)
{
	const struct lb_event *event;

	while ((event = lb_event_next(link->lb)) != NULL) {
		if (event->type == LB_EVENT_ANSWERED)
			heed_answer(link, event, now);
		else if (event->type == LB_EVENT_CLOSED)
			set_away(link, event->text, now);
	}
}

/* Only what is asked can be waited for in vain. */
static void
note_silence(struct top_link *link, int64_t now)
{
	long long seconds = (now - link->heard_at) / 1000;

	if (link->list.request != 0 && now - link->heard_at >= SILENCE_MS)
		snprintf(link->trouble, sizeof(link->trouble),
		    "lockbrokerd has not answered for %lld s", seconds);
}

int64_t
top_link_turn(struct top_link *link, int64_t now)
{
	int64_t next;

	heed_events(link, now);
	if (link->state == TOP_LINK_AWAY && now >= link->retry_at)
		connect_now(link, now);
	if (link->state == TOP_LINK_AWAY)
		return link->retry_at;
	ask_both(link, now);
	note_silence(link, now);
	next = link->list.due < link->show.due ? link->list.due : link->show.due;
	/*
	 * A question that is due waits for its answer, and the line counts the seconds of silence.
	 */
	return next > now ? next : now + REFRESH_MS;
}
