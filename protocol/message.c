#include "protocol/message.h"

#include <assert.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool
message_id_read(const struct cJSON *value, struct message_id *ret)
{
	const char *string;
	int64_t integer;

	if (json_integer(value, &integer)) {
		ret->kind = MESSAGE_ID_INTEGER;
		ret->integer = integer;
		return true;
	}
	if (!json_string(value, &string) || strlen(string) > MESSAGE_ID_MAX)
		return false;
	ret->kind = MESSAGE_ID_STRING;
	strcpy(ret->string, string);
	return true;
}

void
message_error_set(struct message_error *error, enum reason reason, const char *format, ...)
{
	va_list ap;

	error->reason = reason;
	error->parameter[0] = '\0';
	va_start(ap, format);
	vsnprintf(error->text, sizeof(error->text), format, ap);
	va_end(ap);
}

char *
message_escape(char *buf, size_t size, const char *bytes)
{
	size_t out = 0;

	assert(size > 0);
	for (; *bytes != '\0'; bytes++) {
		unsigned char c = (unsigned char)*bytes;
		bool plain = c >= 0x20 && c < 0x7f;

		if (size - out <= (plain ? 1 : 4))
			break;
		if (plain)
			buf[out++] = (char)c;
		else
			out += (size_t)snprintf(buf + out, size - out, "\\x%02x", c);
	}
	buf[out] = '\0';
	return buf;
}

/* ---- reading ---- */

static bool
refuse(struct message_error *error, const char *what)
{
	message_error_set(error, REASON_INVALID_REQUEST, "%s", what);
	return false;
}

static bool
check_members(const struct cJSON *tree, struct message_error *ret_error)
{
	char name[64];

	for (const struct cJSON *one = json_first(tree); one != NULL; one = json_next(one)) {
		const char *known = json_name(one);

		if (strcmp(known, "jsonrpc") == 0 || strcmp(known, "id") == 0 ||
		    strcmp(known, "method") == 0 || strcmp(known, "params") == 0)
			continue;
		message_error_set(ret_error, REASON_INVALID_REQUEST,
		    "a request has no member '%s' (only jsonrpc, id, method, params)",
		    message_escape(name, sizeof(name), known));
		return false;
	}
	return true;
}

static bool
read_request(const struct cJSON *tree, struct message_request *ret, struct message_error *ret_error)
{
	const struct cJSON *id = json_get(tree, "id"), *version = json_get(tree, "jsonrpc");
	const struct cJSON *params = json_get(tree, "params");
	const char *method, *word;

	if (json_is_array(tree))
		return refuse(ret_error, "batches are not supported: one request a line");
	if (!json_is_object(tree))
		return refuse(ret_error, "a request is a JSON object");
	if (id == NULL)
		return refuse(ret_error, "id is missing; every request is answered");
	if (!message_id_read(id, &ret->id)) {
		message_error_set(ret_error, REASON_INVALID_REQUEST,
		    "id must be a string of at most %d bytes or an integer below 2^53",
		    MESSAGE_ID_MAX);
		return false;
	}
	if (version != NULL && (!json_string(version, &word) || strcmp(word, "2.0") != 0))
		return refuse(ret_error, "jsonrpc must be \"2.0\" or left out");
	if (!check_members(tree, ret_error))
		return false;
	if (!json_string(json_get(tree, "method"), &method))
		return refuse(ret_error, "method must be a string");
	if (params != NULL && !json_is_object(params))
		return refuse(ret_error, "params must be an object: parameters are named");
	ret->method = method;
	ret->params = params;
	return true;
}

bool
message_parse_request(
    const char *line, size_t len, struct message_request *ret, struct message_error *ret_error)
{
	struct json_error where;
	struct cJSON *tree = json_parse(line, len, &where);

	ret->id.kind = MESSAGE_ID_NULL;
	if (tree == NULL && where.no_memory) {
		message_error_set(ret_error, REASON_INTERNAL, "%s", where.what);
		return false;
	}
	if (tree == NULL) {
		message_error_set(ret_error, REASON_PARSE_ERROR, "not JSON: %s at byte %zu",
		    where.what, where.at);
		return false;
	}
	if (!read_request(tree, ret, ret_error)) {
		json_free(tree);
		return false;
	}
	ret->tree = tree;
	return true;
}

void
message_request_done(struct message_request *request)
{
	json_free(request->tree);
	request->tree = NULL;
}

/* The error member of an answer. */
static bool
read_error(const struct cJSON *error, struct message_answer *ret)
{
	int64_t code;

	if (!json_integer(json_get(error, "code"), &code) || code < INT_MIN || code > INT_MAX ||
	    !json_string(json_get(error, "message"), &ret->text) || ret->text[0] == '\0')
		return false;
	ret->kind = MESSAGE_ERROR;
	ret->code = (int)code;
	ret->content = json_get(error, "data");
	return true;
}

/* NULL, or why not. */
static const char *
read_answer(const struct cJSON *tree, struct message_answer *ret)
{
	const struct cJSON *id = json_get(tree, "id"), *error = json_get(tree, "error");

	if (!json_is_object(tree))
		return "not an object";
	if (json_string(json_get(tree, "method"), &ret->method)) {
		ret->kind = MESSAGE_NOTIFICATION;
		ret->content = json_get(tree, "params");
		if (id != NULL)
			return "a request from the daemon";
		return ret->content == NULL || json_is_object(ret->content)
			   ? NULL
			   : "a notification whose params are no object";
	}
	if (id == NULL || (!json_is_null(id) && !message_id_read(id, &ret->id)))
		return "an answer without a usable id";
	if (error != NULL)
		return read_error(error, ret) ? NULL : "an error without code and message";
	ret->kind = MESSAGE_RESULT;
	ret->content = json_get(tree, "result");
	if (ret->content == NULL)
		return "neither a result nor an error";
	if (!json_is_object(ret->content))
		return "a result that is no object";
	return ret->id.kind != MESSAGE_ID_NULL ? NULL : "a result without an id";
}

bool
message_parse_answer(
    const char *line, size_t len, struct message_answer *ret, const char **ret_what)
{
	struct message_answer answer = {.id.kind = MESSAGE_ID_NULL};
	struct json_error where;
	const char *what;

	answer.tree = json_parse(line, len, &where);
	what = answer.tree == NULL ? where.what : read_answer(answer.tree, &answer);
	if (what != NULL) {
		*ret_what = answer.tree == NULL && where.no_memory ? NULL : what;
		json_free(answer.tree);
		return false;
	}
	*ret = answer;
	return true;
}

void
message_answer_done(struct message_answer *answer)
{
	json_free(answer->tree);
	answer->tree = NULL;
}

/* ---- making ---- */

/* One line, malloc'ed; takes message. */
static char *
print_line(struct cJSON *message)
{
	char *text = json_print(message), *line = NULL;

	json_free(message);
	if (text != NULL) {
		size_t len = strlen(text);

		line = realloc(text, len + 2);
		if (line == NULL)
			free(text);
		else
			memcpy(line + len, "\n", 2);
	}
	return line;
}

static struct cJSON *
new_message(void)
{
	struct cJSON *message = json_new_object();

	json_add_string(message, "jsonrpc", "2.0");
	return message;
}

static void
add_id(struct cJSON *message, const struct message_id *id)
{
	switch (id->kind) {
	case MESSAGE_ID_NULL:
		json_add_null(message, "id");
		return;
	case MESSAGE_ID_INTEGER:
		json_add_integer(message, "id", id->integer);
		return;
	case MESSAGE_ID_STRING:
		json_add_string(message, "id", id->string);
		return;
	}
}

char *
message_result_line(const struct message_id *id, struct cJSON *result)
{
	struct cJSON *message = new_message();

	add_id(message, id);
	json_add(message, "result", result);
	return print_line(message);
}

char *
message_error_line(
    const struct message_id *id, const struct message_error *error, struct cJSON *data)
{
	struct cJSON *message = new_message(), *body = json_new_object(), *all = json_new_object();

	json_add_string(all, "reason", reason_word(error->reason));
	json_add_bool(all, "retry", reason_retry(error->reason));
	if (error->reason == REASON_INVALID_PARAMS)
		json_add_string(all, "parameter", error->parameter);
	if (data != NULL)
		json_add_members(all, data);
	json_add_integer(body, "code", (int)error->reason);
	json_add_string(
	    body, "message", error->text[0] != '\0' ? error->text : reason_message(error->reason));
	json_add(body, "data", all);
	add_id(message, id);
	json_add(message, "error", body);
	return print_line(message);
}

char *
message_notification_line(const char *method, struct cJSON *params)
{
	struct cJSON *message = new_message();

	json_add_string(message, "method", method);
	json_add(message, "params", params);
	return print_line(message);
}

char *
message_request_line(int64_t id, const char *method, struct cJSON *params)
{
	struct cJSON *message = new_message();

	json_add_integer(message, "id", id);
	json_add_string(message, "method", method);
	if (params != NULL)
		json_add(message, "params", params);
	return print_line(message);
}
