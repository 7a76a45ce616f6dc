#include "client/web/act.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "client/tool/json_text.h"
#include "client/tool/watch.h"
#include "client/web/note.h"
#include "protocol/json.h"

#define FRESH_MS 500
/* Acts that are kept, with those that nobody uses. */
#define ACTS_MOST 32

typedef struct reply reply_fn(int code, const char *json, const char *text);

struct web_act {
	TAILQ_ENTRY(web_act) link;
	struct acts *acts;
	char *words;                     /* owned: method and parameters */
	char visitor[VISITOR_NAME_SIZE]; /* of a change; "": it is a question */
	reply_fn *make_reply;
	bool shared;   /* an equal question can join it */
	int64_t until; /* the answer is fresh; 0: there is none yet */
	int users;
	struct reply reply;
};

struct acts {
	struct web_feed *feed; /* borrowed */
	void (*answered)(void *ctx);
	void *ctx;                         /* borrowed */
	TAILQ_HEAD(act_list, web_act) all; /* by age */
};

/* The methods of POST. None of them holds anything or waits for a lock. */
static const struct method {
	const char *name;
	bool changes; /* it is for administrators, and logged */
} methods[] = {
    {"explain", false},
    {"size", false},
    {"ping", false},
    {"info", false},
    {"create", true},
    {"destroy", true},
    {"resize", true},
    {"grant", true},
    {"deny", true},
    {"evict", true},
    {"fsck", true},
};

struct acts *
acts_new(struct web_feed *feed, void (*answered)(void *ctx), void *ctx)
{
	struct acts *acts = web_alloc(sizeof(*acts));

	*acts = (struct acts){.feed = feed, .answered = answered, .ctx = ctx};
	TAILQ_INIT(&acts->all);
	return acts;
}

static void
act_free(struct web_act *act)
{
	TAILQ_REMOVE(&act->acts->all, act, link);
	if (act->reply.response != NULL)
		MHD_destroy_response(act->reply.response);
	free(act->words);
	free(act);
}

void
acts_free(struct acts *acts)
{
	while (!TAILQ_EMPTY(&acts->all))
		act_free(TAILQ_FIRST(&acts->all));
	free(acts);
}

const struct reply *
act_reply(const struct web_act *act)
{
	return &act->reply;
}

void
act_leave(struct web_act *act)
{
	act->users--;
}

/* Of the feed. A change makes the answers so far outdated. */
static void
take_answer(void *ctx, int code, const char *json, const char *text)
{
	struct web_act *act = ctx, *other;

	act->reply = act->make_reply(code, json, text);
	act->until = watch_now() + FRESH_MS;
	if (*act->visitor != '\0') {
		note("%s: %.1100s: %s", act->visitor, act->words, code == LB_OK ? "done" : text);
		TAILQ_FOREACH (other, &act->acts->all, link)
			other->shared = false;
	}
	act->acts->answered(act->acts->ctx);
}

/* Frees the acts that nobody uses or can join any more. */
static void
sweep(struct acts *acts, int64_t now)
{
	struct web_act *act = TAILQ_LAST(&acts->all, act_list), *next;
	size_t count = 0;

	for (; act != NULL; act = next) {
		next = TAILQ_PREV(act, act_list, link);
		if (act->users == 0 && act->until != 0 &&
		    (!act->shared || now >= act->until || count >= ACTS_MOST))
			act_free(act);
		else
			count++;
	}
}

/*
 * Joins an equal question, or asks the daemon. visitor: of a change; "": it is a question. refused: why the
 * change is not possible; NULL: it is.
 */
static struct web_act *
begin(struct acts *acts, const char *method, const char *params, const char *visitor,
    const char *refused, reply_fn *make_reply)
{
	int64_t now = watch_now();
	struct web_act *act;
	char *words;

	sweep(acts, now);
	if (asprintf(&words, "%s %s", method, params) < 0)
		web_have(NULL);
	TAILQ_FOREACH (act, &acts->all, link) {
		if (*visitor != '\0' || !act->shared || act->make_reply != make_reply ||
		    (act->until != 0 && now >= act->until) || strcmp(act->words, words) != 0)
			continue;
		free(words);
		act->users++;
		return act;
	}
	act = web_alloc(sizeof(*act));
	*act = (struct web_act){.acts = acts, .words = words, .make_reply = make_reply, .users = 1};
	act->shared = *visitor == '\0';
	strcpy(act->visitor, visitor);
	TAILQ_INSERT_TAIL(&acts->all, act, link);
	if (refused != NULL)
		take_answer(act, LB_PERMISSION_DENIED, NULL, refused);
	else
		feed_ask(acts->feed, method, params, take_answer, act);
	return act;
}

/* With the daemon's words. */
static struct reply
reply_daemon(int code, const char *json, const char *text)
{
	return json != NULL ? reply_json(reply_status(code), json)
			    : reply_error(reply_status(code), code, "%s", text);
}

struct web_act *
act_post(struct acts *acts, const struct visitor_settings *settings, const struct visitor *visitor,
    const char *name, const char *body, size_t len, struct reply *ret)
{
	const struct method *method = methods, *end = method + sizeof(methods) / sizeof(methods[0]);
	const char *who = *visitor->name != '\0' ? visitor->name : "visitor";
	struct json_error error = {.what = "it is none"};
	struct cJSON *params;
	struct web_act *act;
	char *printed;

	while (method < end && strcmp(method->name, name) != 0)
		method++;
	if (method == end) {
		*ret = reply_error(MHD_HTTP_NOT_FOUND, LB_METHOD_NOT_FOUND,
		    "%.64s is not a method here. A hold or a wait ends with the connection of its "
		    "client to lockbrokerd: use lockbroker run, or a library",
		    name);
		return NULL;
	}
	params = json_parse(body, len, &error);
	if (!json_is_object(params)) {
		*ret = reply_error(MHD_HTTP_BAD_REQUEST, LB_INVALID_PARAMS,
		    "the body must be a JSON object, the parameters of %s: %s", method->name,
		    error.what);
		json_free(params);
		return NULL;
	}
	printed = web_have(json_print(params));
	json_free(params);
	act = begin(acts, method->name, printed, method->changes ? who : "",
	    method->changes ? visitor_why_not(settings, visitor) : NULL, reply_daemon);
	free(printed);
	return act;
}

struct web_act *
act_get_locks(struct acts *acts, const char *name, struct reply *ret)
{
	const char *wrong = name != NULL ? lb_name_error(name) : NULL;
	char params[JSON_PARAMS_SIZE];

	if (name == NULL)
		return begin(acts, "list", "{}", "", NULL, reply_daemon);
	if (wrong != NULL) {
		*ret = reply_error(MHD_HTTP_BAD_REQUEST, LB_INVALID_PARAMS, "%s", wrong);
		return NULL;
	}
	json_params(params, "name", name, "");
	return begin(acts, "show", params, "", NULL, reply_daemon);
}

static int
find_text(const char *path, const char *value, void *arg)
{
	struct reply *reply = arg;

	if (strcmp(path, "text") == 0)
		*reply = reply_text(MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", value);
	return 0;
}

static struct reply
reply_metrics(int code, const char *json, const char *text)
{
	struct reply reply = {.response = NULL};

	if (code == LB_OK)
		(void)lb_json_each(json, find_text, &reply);
	return reply.response != NULL ? reply : reply_daemon(code, json, text);
}

struct web_act *
act_get_metrics(struct acts *acts)
{
	return begin(acts, "metrics", "{}", "", NULL, reply_metrics);
}

/*
 * A broker that is silent is as bad as one that is away: locks are about to be lost. Strangers need no
 * details.
 */
static struct reply
reply_health(int code, const char *json, const char *text)
{
	(void)text;
	if (code != LB_OK)
		return reply_error(
		    MHD_HTTP_SERVICE_UNAVAILABLE, code, "lockbrokerd does not answer");
	if (json_value_is(json, "broker.state", "up") &&
	    !json_value_is(json, "broker.suspect", "true"))
		return reply_json(MHD_HTTP_OK, json);
	return reply_error(
	    MHD_HTTP_SERVICE_UNAVAILABLE, LB_BROKER_UNAVAILABLE, "the broker is away or silent");
}

struct web_act *
act_get_health(struct acts *acts)
{
	return begin(acts, "ping", "{\"broker\":true}", "", NULL, reply_health);
}
