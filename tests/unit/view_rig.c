#include "tests/unit/view_rig.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/view/wire.h"
#include "protocol/json.h"

/*
 * ---- events of the views ----
 */

/* Results as a client reads them: views have rows as text. Takes value. */
static struct cJSON *
as_read(struct cJSON *value)
{
	char *text = json_print(value);
	struct json_error error;
	struct cJSON *read = json_parse(text, strlen(text), &error);

	ck_assert_ptr_nonnull(read);
	free(text);
	json_free(value);
	return read;
}

static void
on_done(void *ctx, uint64_t peer, uint64_t request, enum reason reason, const char *text,
    struct cJSON *result)
{
	struct rig_daemon *daemon = ctx;
	struct view_rig *rig = daemon->rig;
	struct rig_answer *answer = &rig->answers[rig->answer_count++];

	ck_assert_uint_le(rig->answer_count, RIG_ANSWERS);
	ck_assert_int_eq(result != NULL, reason == REASON_NONE);
	*answer = (struct rig_answer){.daemon = daemon->number,
	    .peer = peer,
	    .request = request,
	    .reason = reason,
	    .result = result == NULL ? NULL : as_read(result),
	    .at = rig->world->now};
	snprintf(answer->text, sizeof(answer->text), "%s", text == NULL ? "" : text);
}

static bool
on_may(void *ctx, uint64_t peer, uint64_t request, const char *name)
{
	const struct rig_daemon *daemon = ctx;

	ck_assert(strcmp(name, "db") == 0 || strcmp(name, "m") == 0);
	if (daemon->forbids)
		on_done(ctx, peer, request, REASON_PERMISSION_DENIED, NULL, NULL);
	return !daemon->forbids;
}

static bool
on_sees(void *ctx, uint64_t peer, uint64_t request, const char *name)
{
	(void)ctx;
	(void)peer;
	(void)request;
	return strcmp(name, "secret") != 0;
}

static const char *
text_of(const struct cJSON *object, const char *name)
{
	const char *text = "-";

	json_string(json_get(object, name), &text);
	return text;
}

static int
number_of(const struct cJSON *object, const char *name)
{
	int64_t number = 0;

	json_integer(json_get(object, name), &number);
	return (int)number;
}

static void
on_tell(void *ctx, uint64_t peer, uint64_t request, const char *method, struct cJSON *params)
{
	struct view_rig *rig = ((struct rig_daemon *)ctx)->rig;
	struct cJSON *read = as_read(params);
	const struct cJSON *row = json_get(read, "row");
	size_t len = strlen(rig->told);
	char what[160];

	(void)peer;
	(void)request;
	rig->told_count++;
	if (row != NULL)
		snprintf(what, sizeof(what), "%s:%s", text_of(row, "who"), text_of(row, "state"));
	else if (number_of(read, "more") > 0)
		snprintf(what, sizeof(what), "%s+%d", method, number_of(read, "more"));
	else
		snprintf(what, sizeof(what), "%s", method);
	ck_assert_uint_lt(len + strlen(what) + 2, sizeof(rig->told));
	snprintf(rig->told + len, sizeof(rig->told) - len, "%s%s", len > 0 ? " " : "", what);
	json_free(read);
}

static struct view_peer
on_peer(void *ctx, uint64_t peer)
{
	const struct rig_daemon *daemon = ctx;

	(void)peer;
	return (struct view_peer){
	    .user = daemon->user, .unread = daemon->unread, .room = daemon->full ? 0 : SIZE_MAX};
}

static void
on_scanned(void *ctx, uint64_t peer, uint64_t request)
{
	(void)peer;
	(void)request;
	((struct rig_daemon *)ctx)->scanned++;
}

static void
on_keep(void *ctx, uint64_t peer, uint64_t request, size_t bytes)
{
	(void)peer;
	(void)request;
	((struct rig_daemon *)ctx)->kept += bytes;
}

/* ---- events for the views ---- */

static void
pass_answer(void *ctx, uint64_t peer, uint64_t request, const struct lock_answer *answer)
{
	const struct rig_daemon *daemon = ctx;

	if (peer == VIEW_PEER)
		view_answer(daemon->view, request, answer);
}

static void
pass_changed(void *ctx, const struct lock_row *row)
{
	view_changed(((const struct rig_daemon *)ctx)->view, row);
}

static void
pass_asked(void *ctx, const struct broker_message *message)
{
	struct rig_daemon *daemon = ctx;

	daemon->messages++;
	if (!daemon->deaf)
		view_asked(daemon->view, message);
}

static void
pass_replied(void *ctx, const struct broker_message *message)
{
	const struct rig_daemon *daemon = ctx;

	if (!daemon->deaf)
		view_replied(daemon->view, message);
}

static void
pass_unheard(void *ctx)
{
	view_unheard(((const struct rig_daemon *)ctx)->view);
}

static void
on_log(void *ctx, enum log_level level, const char *line)
{
	struct view_rig *rig = ctx;

	if (level <= LOG_LEVEL_WARNING)
		rig->warnings++;
	else if (level == LOG_LEVEL_INFO)
		snprintf(rig->last_info, sizeof(rig->last_info), "%s", line);
}

/* ---- the stranger receives nothing ---- */

static void
ignore_link(void *ctx, enum broker_link link, enum broker_state state, const char *why)
{
	(void)ctx;
	(void)link;
	(void)state;
	(void)why;
}

/* ---- the rig ---- */

struct view_rig *
rig_new(void)
{
	struct view_rig *rig = calloc(1, sizeof(*rig));

	rig->world = world_new();
	log_set_sink(on_log, rig);
	for (int i = 0; i < DAEMONS; i++) {
		struct rig_daemon *daemon = &rig->daemon[i];
		struct world_daemon *below = &rig->world->daemon[i];
		const struct view_settings settings = {.run = 0xa0 + (uint32_t)i,
		    .host = i == 0 ? "host0" : "host1",
		    .naming = "amqp-locks",
		    .timeout = RIG_TIMEOUT};
		const struct view_events events = {.done = on_done,
		    .may = on_may,
		    .sees = on_sees,
		    .tell = on_tell,
		    .peer = on_peer,
		    .scanned = on_scanned,
		    .keep = on_keep,
		    .ctx = daemon};

		daemon->rig = rig;
		daemon->number = i;
		daemon->view =
		    view_new(below->engine, below->broker, rig->world->timers, &settings, &events);
		below->also = (struct lock_events){.answer = pass_answer,
		    .changed = pass_changed,
		    .asked = pass_asked,
		    .replied = pass_replied,
		    .unheard = pass_unheard,
		    .ctx = daemon};
	}
	return rig;
}

void
rig_free(struct view_rig *rig)
{
	for (int i = 0; i < DAEMONS; i++) {
		view_free(rig->daemon[i].view);
		rig->world->daemon[i].also = (struct lock_events){.ctx = NULL};
	}
	if (rig->stranger != NULL) {
		broker_stop(rig->stranger);
		broker_free(rig->stranger);
	}
	world_free(rig->world);
	for (size_t i = 0; i < rig->answer_count; i++)
		json_free(rig->answers[i].result);
	log_set_sink(NULL, NULL);
	free(rig);
}

void
rig_acquire(struct view_rig *rig, int daemon, uint64_t peer)
{
	char who[2] = {(char)('A' + peer - 1), '\0'};
	struct lock_acquire wanted = {
	    .name = "db", .timeout = DURATION_FOREVER, .uid = 7, .pid = 8, .who = who};

	lock_acquire(rig->world->daemon[daemon].engine, peer, 1, &wanted);
	world_pass(rig->world, 50 * NSEC_PER_MSEC);
}

const struct said *
rig_acquired(const struct view_rig *rig, int daemon, uint64_t peer)
{
	return world_answer(rig->world, daemon, peer, 1);
}

struct finder {
	const char *who;
	uint64_t waiter;
};

static void
find(void *ctx, const struct lock_row *row)
{
	struct finder *finder = ctx;

	if (strcmp(row->who, finder->who) == 0)
		finder->waiter = row->waiter;
}

const char *
rig_waiter(struct view_rig *rig, const char *who)
{
	static char id[WIRE_ID_SIZE];

	for (int i = 0; i < DAEMONS; i++) {
		struct finder finder = {.who = who};

		lock_each(rig->world->daemon[i].engine, NULL, find, &finder);
		if (finder.waiter != 0)
			return wire_id_write(id, 0xa0 + (uint32_t)i, finder.waiter);
	}
	ck_abort_msg("nobody is %s", who);
	return NULL;
}

const struct rig_answer *
rig_answered(const struct view_rig *rig, int daemon, uint64_t request)
{
	const struct rig_answer *found = NULL;

	for (size_t i = 0; i < rig->answer_count; i++) {
		const struct rig_answer *answer = &rig->answers[i];

		if (answer->daemon != daemon || answer->peer != 100 || answer->request != request)
			continue;
		ck_assert_ptr_null(found);
		found = answer;
	}
	return found;
}

const struct rig_answer *
rig_await(struct view_rig *rig, int daemon, uint64_t request)
{
	int64_t end = rig->world->now + 20 * NSEC_PER_SEC;
	const struct rig_answer *answer;

	while ((answer = rig_answered(rig, daemon, request)) == NULL) {
		ck_assert_msg(
		    rig->world->now < end && world_step(rig->world, end - rig->world->now),
		    "request %d of daemon %d is not answered", (int)request, daemon);
	}
	return answer;
}

static void
add(char *text, const char *more)
{
	size_t len = strlen(text);

	ck_assert_uint_lt(len + strlen(more) + 2, 2048);
	snprintf(text + len, 2048 - len, "%s%s", len > 0 ? " " : "", more);
}

/* "slots 1", "slots unlimited", "slots -": null. */
static void
add_member(char *text, const struct cJSON *result, const char *name)
{
	const struct cJSON *value = json_get(result, name);
	char part[64];

	ck_assert_msg(value != NULL, "no %s", name);
	if (json_is_null(value) || json_integer(value, &(int64_t){0}) == false)
		snprintf(part, sizeof(part), "%s %s", name, text_of(result, name));
	else
		snprintf(part, sizeof(part), "%s %d", name, number_of(result, name));
	add(text, part);
}

/* "[A@host0/1]": in slot 1; "[B@host1#2]": second in the wait queue. */
static void
add_rows(char *text, const struct cJSON *rows)
{
	char part[128];

	ck_assert(json_is_array(rows));
	for (const struct cJSON *row = json_first(rows); row != NULL; row = json_next(row)) {
		int slot = number_of(row, "slot"), position = number_of(row, "position");
		bool unknown = false;

		ck_assert(json_bool(json_get(row, "unknown"), &unknown));
		snprintf(part, sizeof(part), "[%s@%s%s%c%d]", text_of(row, "who"),
		    text_of(row, "host"),
		    unknown                                         ? "?"
		    : strcmp(text_of(row, "state"), "granted") == 0 ? "!"
								    : "",
		    position != 0 ? '#' : '/', position != 0 ? position : slot);
		add(text, part);
	}
}

const char *
rig_show(struct view_rig *rig, int daemon, uint64_t request)
{
	static char text[2048];
	const struct rig_answer *answer;
	const struct cJSON *host;
	const char *name = NULL;
	int64_t extra;

	view_show(rig->daemon[daemon].view, 100, request, "db");
	answer = rig_await(rig, daemon, request);
	if (answer->result == NULL)
		return reason_word(answer->reason);
	text[0] = '\0';
	add_member(text, answer->result, "slots");
	add_member(text, answer->result, "busy");
	if (json_integer(json_get(answer->result, "extra"), &extra) && extra > 0)
		add_member(text, answer->result, "extra");
	add_member(text, answer->result, "waiting");
	add_rows(text, json_get(answer->result, "holders"));
	add_rows(text, json_get(answer->result, "waiters"));
	add_member(text, answer->result, "more");
	for (host = json_first(json_get(answer->result, "silent_hosts")); host != NULL;
	     host = json_next(host)) {
		add(text, "unknown");
		add(text, json_string(host, &name) ? name : "?");
	}
	return text;
}

void
rig_write(struct view_rig *rig, const char *text)
{
	if (rig->stranger == NULL) {
		rig->stranger = memory_broker_new(rig->world->memory, 10, 10);
		broker_set_events(rig->stranger, &(struct broker_events){.link = ignore_link});
		broker_start(rig->stranger);
		world_pass(rig->world, 10 * NSEC_PER_MSEC);
	}
	ck_assert_uint_ne(broker_ask(rig->stranger, text, strlen(text)), 0);
	world_pass(rig->world, 20 * NSEC_PER_MSEC);
}
