#include "client/web/act.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/tool/json_text.h"
#include "client/web/note.h"
#include "config.h"
#include "protocol/json.h"

/* The methods of POST. None of them holds anything or waits for a lock. */
static const struct method {
	const char *name;
	bool act; /* it changes something: for administrators, and logged */
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
    {"fsck", true},
};

static const struct method *
find_method(const char *name)
{
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (strcmp(methods[i].name, name) == 0)
			return &methods[i];
	return NULL;
}

static void
note_act(const struct act *act, const char *result)
{
	if (act->params != NULL)
		note("%s: %s %.1024s: %s",
		    *act->visitor.name != '\0' ? act->visitor.name : "visitor", act->method,
		    act->params, result);
}

static void
answer_fail(struct act *act, int code, const char *text)
{
	act->reply = reply_error(reply_status(code), code, "%s", text);
	note_act(act, text);
}

/* Of the feed, with the daemon's words. */
static void
take_answer(void *ctx, int code, const char *json, const char *text)
{
	struct act *act = ctx;

	if (act->params != NULL)
		share_forget(act->share);
	if (json == NULL) {
		answer_fail(act, code, text);
	} else {
		act->reply = reply_json(reply_status(code), json);
		note_act(act, code == LB_OK ? "done" : text);
	}
	act->done(act->ctx);
}

static void
start(struct act *act, const char *params, feed_answer_fn *answer)
{
	struct feed_failure failure;
	bool started = act->params != NULL
			   ? feed_ask_start(act->feed, act->method, params, answer, act, &failure)
			   : share_ask(act->share, act->method, params, answer, act, &failure);

	if (!started)
		answer_fail(act, failure.code, failure.text);
}

void
act_post(struct act *act, const char *name, const char *body, size_t len)
{
	const struct method *method = find_method(name);
	struct json_error error;
	struct cJSON *params;
	const char *why = visitor_why_not(act->settings, &act->visitor);
	char *printed;

	if (method == NULL) {
		act->reply = reply_error(MHD_HTTP_NOT_FOUND, LB_METHOD_NOT_FOUND,
		    "%.64s is not a method here. A hold or a wait ends with the connection of its "
		    "client "
		    "to lockbrokerd: use lockbroker run, or a library",
		    name);
		return;
	}
	params = json_parse(body, len, &error);
	if (!json_is_object(params)) {
		act->reply = reply_error(MHD_HTTP_BAD_REQUEST, LB_INVALID_PARAMS,
		    "the body must be a JSON object: the parameters of %s%s%s", method->name,
		    params == NULL ? "; " : "", params == NULL ? error.what : "");
		json_free(params);
		return;
	}
	act->method = method->name;
	printed = web_have(json_print(params));
	json_free(params);
	if (method->act)
		act->params = printed;
	if (method->act && why != NULL)
		answer_fail(act, LB_PERMISSION_DENIED, why);
	else
		start(act, printed, take_answer);
	if (!method->act)
		free(printed);
}

void
act_get_locks(struct act *act, const char *name)
{
	const char *wrong = name != NULL ? lb_name_error(name) : NULL;
	char params[JSON_PARAMS_SIZE];

	if (wrong != NULL) {
		answer_fail(act, LB_INVALID_PARAMS, wrong);
		return;
	}
	if (name != NULL)
		json_params(params, "name", name, "");
	act->method = name != NULL ? "show" : "list";
	start(act, name != NULL ? params : "{}", take_answer);
}

static int
find_text(const char *path, const char *value, void *arg)
{
	struct reply *reply = arg;

	if (strcmp(path, "text") == 0)
		*reply = reply_text(MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", value);
	return 0;
}

static void
take_metrics(void *ctx, int code, const char *json, const char *text)
{
	struct act *act = ctx;

	if (code == LB_OK)
		(void)lb_json_each(json, find_text, &act->reply);
	if (act->reply.response == NULL) {
		take_answer(act, code, json, text);
		return;
	}
	act->done(act->ctx);
}

void
act_get_metrics(struct act *act)
{
	act->method = "metrics";
	start(act, "{}", take_metrics);
}

/* A broker that is silent is as bad as one that is away: locks are about to be lost. */
static void
take_health(void *ctx, int code, const char *json, const char *text)
{
	struct act *act = ctx;

	(void)text;
	if (code == LB_OK && json_value_is(json, "broker.state", "up") &&
	    !json_value_is(json, "broker.suspect", "true"))
		act->reply = reply_json(MHD_HTTP_OK, json);
	else if (code == LB_OK)
		answer_fail(act, LB_BROKER_UNAVAILABLE, "the broker is away or silent");
	else
		/* Strangers need no details. */
		act->reply =
		    reply_error(MHD_HTTP_SERVICE_UNAVAILABLE, code, "lockbrokerd does not answer");
	act->done(act->ctx);
}

void
act_get_health(struct act *act)
{
	struct feed_failure failure;

	if (!share_ask(act->share, "ping", "{\"broker\":true}", take_health, act, &failure))
		take_health(act, failure.code, NULL, NULL);
}

void
act_get_session(struct act *act)
{
	struct cJSON *session = json_new_object();
	char host[256] = "", *json;

	gethostname(host, sizeof(host) - 1);
	json_add_string(session, "visitor", *act->visitor.name != '\0' ? act->visitor.name : NULL);
	json_add_bool(session, "administrator", act->visitor.admin);
	json_add_string(session, "why", visitor_why_not(act->settings, &act->visitor));
	json_add_string(session, "host", host);
	json_add_string(session, "version", PACKAGE_VERSION);
	json = web_have(json_print(session));
	act->reply = reply_json(MHD_HTTP_OK, json);
	free(json);
	json_free(session);
}
