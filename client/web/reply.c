#include "client/web/reply.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/web/note.h"
#include "protocol/json.h"

void
reply_header(struct reply *reply, const char *name, const char *value)
{
	if (MHD_add_response_header(reply->response, name, value) != MHD_YES)
		web_have(NULL);
}

struct reply
reply_response(unsigned status, const char *type, struct MHD_Response *response)
{
	struct reply reply = {.status = status, .response = web_have(response)};

	reply_header(&reply, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	/* Nothing but the files of this server: no script inside the page, no other site around it. */
	reply_header(&reply, "Content-Security-Policy",
	    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
	reply_header(&reply, "X-Content-Type-Options", "nosniff");
	reply_header(&reply, "Referrer-Policy", "no-referrer");
	reply_header(&reply, "Cross-Origin-Resource-Policy", "same-origin");
	reply_header(&reply, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	/* A connection has one request (http.c). */
	reply_header(&reply, MHD_HTTP_HEADER_CONNECTION, "close");
	return reply;
}

struct reply
reply_text(unsigned status, const char *type, const char *text)
{
	return reply_response(status, type,
	    MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY));
}

struct reply
reply_json(unsigned status, const char *json)
{
	return reply_text(status, "application/json", json);
}

struct reply
reply_tree(unsigned status, struct cJSON *tree)
{
	char *json = web_have(json_print(tree));
	struct reply reply = reply_json(status, json);

	free(json);
	json_free(tree);
	return reply;
}

struct reply
reply_error(unsigned status, int code, const char *format, ...)
{
	struct cJSON *error = json_new_object(), *data = json_new_object();
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	json_add_integer(error, "code", code);
	json_add_string(error, "message", text);
	json_add_string(data, "reason", lb_code_word(code));
	json_add_bool(data, "retry", status >= 500 || status == MHD_HTTP_TOO_MANY_REQUESTS);
	json_add(error, "data", data);
	return reply_tree(status, error);
}

unsigned
reply_status(int code)
{
	static const struct {
		int code;
		unsigned status;
	} table[] = {
	    {LB_OK, MHD_HTTP_OK},
	    {LB_WOULD_BLOCK, MHD_HTTP_CONFLICT},
	    {LB_TIMEOUT, MHD_HTTP_CONFLICT},
	    {LB_CONTENDED, MHD_HTTP_CONFLICT},
	    {LB_CANCELLED, MHD_HTTP_CONFLICT},
	    {LB_NO_SUCH_LOCK, MHD_HTTP_NOT_FOUND},
	    {LB_ALREADY_EXISTS, MHD_HTTP_CONFLICT},
	    {LB_NOT_HELD, MHD_HTTP_NOT_FOUND},
	    {LB_PERMISSION_DENIED, MHD_HTTP_FORBIDDEN},
	    {LB_TOO_MANY_REQUESTS, MHD_HTTP_TOO_MANY_REQUESTS},
	    {LB_TOO_MANY_LOCKS, MHD_HTTP_TOO_MANY_REQUESTS},
	    {LB_TOO_MANY_WAITERS, MHD_HTTP_TOO_MANY_REQUESTS},
	    {LB_DRAINING, MHD_HTTP_SERVICE_UNAVAILABLE},
	    {LB_BROKER_UNAVAILABLE, MHD_HTTP_SERVICE_UNAVAILABLE},
	    {LB_BROKER_BLOCKED, MHD_HTTP_SERVICE_UNAVAILABLE},
	    {LB_BROKER_REFUSED, MHD_HTTP_BAD_GATEWAY},
	    {LB_NO_DAEMON, MHD_HTTP_SERVICE_UNAVAILABLE},
	    {LB_DEADLINE, MHD_HTTP_GATEWAY_TIMEOUT},
	    {LB_CLOSED, MHD_HTTP_BAD_GATEWAY},
	    {LB_BAD_ANSWER, MHD_HTTP_BAD_GATEWAY},
	    {LB_BAD_ARGUMENT, MHD_HTTP_BAD_REQUEST},
	    {LB_PARSE_ERROR, MHD_HTTP_BAD_REQUEST},
	    {LB_INVALID_REQUEST, MHD_HTTP_BAD_REQUEST},
	    {LB_INVALID_PARAMS, MHD_HTTP_BAD_REQUEST},
	    {LB_METHOD_NOT_FOUND, MHD_HTTP_NOT_FOUND},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].code == code)
			return table[i].status;
	return MHD_HTTP_INTERNAL_SERVER_ERROR;
}
