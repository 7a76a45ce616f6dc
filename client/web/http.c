/*
 * Why libmicrohttpd, and not evhttp of libevent 2.1:
 * - Evhttp answers a request that is too long or malformed by itself. Then it reads the rest of the body as
 *   the next request of the connection. A page of another site could hide a request in a body, with the header
 *   of any visitor.
 * - Before the first whole request, evhttp tells nobody of a connection or of its end. Connections could not
 *   be counted.
 * - While an answer is sent, evhttp reads without a limit what the client still sends.
 * Microhttpd has a limit of connections, tells of their beginning and end, and shows the head before the body.
 */
#include "client/web/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "client/tool/watch.h"
#include "client/web/act.h"
#include "client/web/note.h"
#include "client/web/reply.h"
#include "client/web/share.h"

#define CONNECTIONS_MOST 256
/* Bytes of a head and of what microhttpd needs for the connection. */
#define CONNECTION_MEMORY ((size_t)32 << 10)
#define BODY_MOST ((size_t)64 << 10)
/*
 * A request must be complete so long after the connection began, and an answer must be read so long after it.
 */
#define REQUEST_MS 10000
#define ANSWER_MS 30000

/* A connection has one request. So nothing that follows a request is ever read as another one. */
struct door {
	TAILQ_ENTRY(door) link;
	int fd;
	int64_t deadline; /* WATCH_NEVER: the request waits for the daemon, or is a stream */
};

struct request {
	struct act act;
	struct MHD_Connection *connection; /* borrowed */
	struct door *door;                 /* borrowed; it lives as long as the connection */
	bool routed, suspended;
	char *body; /* owned */
	size_t body_len;
	bool body_too_long;
};

struct http {
	const struct http_settings *settings; /* borrowed */
	struct feed *feed;                    /* borrowed */
	struct streams *streams;              /* borrowed */
	struct share *share;                  /* owned */
	struct MHD_Daemon *daemon;            /* owned */
	TAILQ_HEAD(, door) doors;
	size_t doors_count;
	bool routed; /* since the last turn: the feed or a stream may have something to do */
};

/* ---- the rules for each request ---- */

static const char *
header(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

struct names {
	const char *seen[128];
	size_t count;
	bool wrong; /* one is there twice, or is no name; or there are too many */
};

static enum MHD_Result
see_name(void *ctx, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct names *names = ctx;

	(void)kind;
	(void)value;
	if (name[strcspn(name, " \t\"(),/:;<=>?@[\\]{}")] != '\0' ||
	    names->count == sizeof(names->seen) / sizeof(names->seen[0]))
		names->wrong = true;
	for (size_t i = 0; i < names->count; i++)
		if (strcasecmp(names->seen[i], name) == 0)
			names->wrong = true;
	if (names->wrong)
		return MHD_NO;
	names->seen[names->count++] = name;
	return MHD_YES;
}

/* Two readers of one request could take different ones of two headers, or find different ends of a body. */
static bool
is_ambiguous(struct MHD_Connection *connection)
{
	struct names names = {.count = 0};
	const char *coding = header(connection, MHD_HTTP_HEADER_TRANSFER_ENCODING);

	MHD_get_connection_values(connection, MHD_HEADER_KIND, see_name, &names);
	if (coding != NULL && strcasecmp(coding, "chunked") != 0)
		return true;
	return names.wrong ||
	       (coding != NULL && header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH) != NULL);
}

/*
 * A page of another site can have its own name resolved to this address (DNS rebinding). Its Host is that
 * name.
 */
static bool
is_our_host(const struct http_settings *settings, const char *host)
{
	for (unsigned i = 0; host != NULL && i < settings->hosts_count; i++) {
		const char *ours = settings->hosts[i];
		size_t len = strchr(ours, ':') != NULL ? strlen(host) : strcspn(host, ":");

		if (strlen(ours) == len && strncasecmp(ours, host, len) == 0)
			return true;
	}
	return false;
}

/* Browsers send Origin with each POST. Host has been checked. */
static bool
is_our_origin(struct MHD_Connection *connection)
{
	const char *origin = header(connection, MHD_HTTP_HEADER_ORIGIN), *name;

	if (origin == NULL)
		return true;
	name = strstr(origin, "://");
	return name != NULL &&
	       (strncmp(origin, "http:", 5) == 0 || strncmp(origin, "https:", 6) == 0) &&
	       strcasecmp(name + 3, header(connection, MHD_HTTP_HEADER_HOST)) == 0;
}

static bool
is_json(const char *type)
{
	static const char json[] = "application/json";

	return type != NULL && strncasecmp(type, json, sizeof(json) - 1) == 0 &&
	       strchr("; ", type[sizeof(json) - 1]) != NULL;
}

/* The rules of a POST: a form of another site cannot send such a request. */
static void
check_post(struct request *request)
{
	struct reply *reply = &request->act.reply;
	const char *len = header(request->connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
	const char *marked = header(request->connection, "X-Lockbroker");

	if (!is_json(header(request->connection, MHD_HTTP_HEADER_CONTENT_TYPE)))
		*reply = reply_error(MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, LB_INVALID_REQUEST,
		    "the body must have Content-Type: application/json");
	else if (!is_our_origin(request->connection))
		*reply = reply_error(MHD_HTTP_FORBIDDEN, LB_PERMISSION_DENIED,
		    "the request comes from the page of another site");
	else if (marked == NULL || strcmp(marked, "1") != 0)
		*reply = reply_error(MHD_HTTP_FORBIDDEN, LB_PERMISSION_DENIED,
		    "the header X-Lockbroker: 1 is missing");
	else if (len != NULL && strtoull(len, NULL, 10) > BODY_MOST)
		*reply = reply_error(MHD_HTTP_CONTENT_TOO_LARGE, LB_INVALID_REQUEST,
		    "the body has more than %zu bytes", BODY_MOST);
}

static bool
is_health(const char *path)
{
	return strcmp(path, "/healthz") == 0;
}

/* GET /?token=T: the token becomes a cookie, and leaves the address. */
static bool
exchange_token(struct request *request, const struct visitor_settings *settings, const char *path)
{
	struct reply *reply = &request->act.reply;
	char cookie[160];

	if (settings->user_header != NULL || strcmp(path, "/") != 0 ||
	    !visitor_token_is(settings,
		MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, "token")))
		return false;
	*reply = reply_text(MHD_HTTP_SEE_OTHER, "text/plain; charset=utf-8", "");
	snprintf(cookie, sizeof(cookie), "%s=%s; Path=/; HttpOnly; SameSite=Strict",
	    settings->cookie, settings->token);
	reply_header(reply, MHD_HTTP_HEADER_SET_COOKIE, cookie);
	reply_header(reply, MHD_HTTP_HEADER_LOCATION, "/");
	return true;
}

/* Checks the head, before a byte of the body is read. A request that breaks a rule gets its answer here. */
static void
check_head(struct http *http, struct request *request, const char *path, const char *method)
{
	const struct visitor_settings *visitors = &http->settings->visitors;
	struct reply *reply = &request->act.reply;
	bool post = strcmp(method, MHD_HTTP_METHOD_POST) == 0;
	const char *why;

	if (is_ambiguous(request->connection)) {
		*reply = reply_error(MHD_HTTP_BAD_REQUEST, LB_INVALID_REQUEST,
		    "the request has a header twice, too many headers, or two lengths");
	} else if (!is_our_host(
		       http->settings, header(request->connection, MHD_HTTP_HEADER_HOST))) {
		*reply = reply_error(MHD_HTTP_MISDIRECTED_REQUEST, LB_PERMISSION_DENIED,
		    "the header Host names another server; see --host of lockbroker-web");
	} else if (!post && strcmp(method, MHD_HTTP_METHOD_GET) != 0) {
		*reply = reply_error(MHD_HTTP_METHOD_NOT_ALLOWED, LB_INVALID_REQUEST,
		    "only GET and POST are possible here");
		reply_header(reply, MHD_HTTP_HEADER_ALLOW, "GET, POST");
	} else if (!post && (is_health(path) || exchange_token(request, visitors, path))) {
		return;
	} else if (!visitor_of(visitors, request->connection, &request->act.visitor, &why)) {
		*reply = reply_error(MHD_HTTP_UNAUTHORIZED, LB_PERMISSION_DENIED, "%s", why);
	} else if (post) {
		check_post(request);
	}
}

/* ---- from the path to the answer ---- */

/* The part of path behind prefix, or NULL. */
static const char *
behind(const char *path, const char *prefix)
{
	size_t len = strlen(prefix);

	return strncmp(path, prefix, len) == 0 ? path + len : NULL;
}

static void
route_get(struct http *http, struct request *request, const char *path)
{
	struct act *act = &request->act;
	const struct page_file *file = page_files;

	if (is_health(path)) {
		act_get_health(act);
	} else if (strcmp(path, "/metrics") == 0) {
		act_get_metrics(act);
	} else if (strcmp(path, "/v1/session") == 0) {
		act_get_session(act);
	} else if (strcmp(path, "/v1/locks") == 0) {
		act_get_locks(act, NULL);
	} else if (behind(path, "/v1/locks/") != NULL) {
		act_get_locks(act, behind(path, "/v1/locks/"));
	} else if (strcmp(path, "/v1/events") == 0) {
		struct MHD_Response *stream = stream_open(http->streams, request->connection);

		if (stream == NULL) {
			act->reply = reply_error(MHD_HTTP_SERVICE_UNAVAILABLE, LB_TOO_MANY_REQUESTS,
			    "too many pages are open; try again later");
			return;
		}
		act->reply = reply_response(MHD_HTTP_OK, "text/event-stream", stream);
		/* Nginx would collect the patches otherwise. */
		reply_header(&act->reply, "X-Accel-Buffering", "no");
		request->door->deadline = WATCH_NEVER;
	} else {
		while (file->name != NULL &&
		       strcmp(file->name, strcmp(path, "/") == 0 ? "/index.html" : path) != 0)
			file++;
		act->reply = file->name != NULL ? reply_text(MHD_HTTP_OK, file->type, file->text)
						: reply_error(MHD_HTTP_NOT_FOUND,
						      LB_METHOD_NOT_FOUND, "there is no such path");
	}
}

static void
route_post(struct request *request, const char *path)
{
	const char *method = behind(path, "/v1/");

	if (request->body_too_long)
		request->act.reply = reply_error(MHD_HTTP_CONTENT_TOO_LARGE, LB_INVALID_REQUEST,
		    "the body has more than %zu bytes", BODY_MOST);
	else if (method == NULL)
		request->act.reply = reply_error(
		    MHD_HTTP_NOT_FOUND, LB_METHOD_NOT_FOUND, "a POST goes to /v1/METHOD");
	else
		act_post(&request->act, method, request->body != NULL ? request->body : "",
		    request->body_len);
}

static void
request_free(struct request *request)
{
	if (request->act.reply.response != NULL)
		MHD_destroy_response(request->act.reply.response);
	free(request->act.params);
	free(request->body);
	free(request);
}

/* Of act.c: the daemon has answered. */
static void
resume_request(void *ctx)
{
	struct request *request = ctx;

	if (!request->suspended)
		return;
	request->door->deadline = watch_now() + ANSWER_MS;
	request->suspended = false;
	MHD_resume_connection(request->connection);
}

static void
take_body(struct request *request, const char *bytes, size_t len)
{
	if (request->body_too_long || len > BODY_MOST - request->body_len) {
		/* The rest is read and forgotten, until the time of the request is over. */
		request->body_too_long = true;
		return;
	}
	request->body = web_have(realloc(request->body, request->body_len + len));
	memcpy(request->body + request->body_len, bytes, len);
	request->body_len += len;
}

static void
route(struct http *http, struct request *request, const char *path, const char *method)
{
	request->routed = http->routed = true;
	request->door->deadline = watch_now() + ANSWER_MS;
	if (strcmp(method, MHD_HTTP_METHOD_POST) == 0)
		route_post(request, path);
	else
		route_get(http, request, path);
	if (request->act.reply.response != NULL)
		return;
	request->door->deadline = WATCH_NEVER;
	request->suspended = true;
	MHD_suspend_connection(request->connection);
}

/*
 * Of microhttpd: called with the head, with each part of the body, and when all is there; also after a resume.
 */
static enum MHD_Result
handle(void *ctx, struct MHD_Connection *connection, const char *path, const char *method,
    const char *version, const char *bytes, size_t *len, void **slot)
{
	struct http *http = ctx;
	struct request *request = *slot;

	(void)version;
	if (request == NULL) {
		*slot = request = web_alloc(sizeof(*request));
		request->act = (struct act){.feed = http->feed,
		    .share = http->share,
		    .settings = &http->settings->visitors,
		    .done = resume_request,
		    .ctx = request};
		request->connection = connection;
		request->door =
		    MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
			->socket_context;
		check_head(http, request, path, method);
		if (request->act.reply.response == NULL)
			return MHD_YES;
		request->routed = true;
		request->door->deadline = watch_now() + ANSWER_MS;
	} else if (*len > 0) {
		take_body(request, bytes, *len);
		*len = 0;
		return MHD_YES;
	}
	if (!request->routed)
		route(http, request, path, method);
	if (request->suspended)
		return MHD_YES;
	return MHD_queue_response(
	    connection, request->act.reply.status, request->act.reply.response);
}

/* Of microhttpd: the request has its answer, or its connection has ended. */
static void
complete(
    void *ctx, struct MHD_Connection *connection, void **slot, enum MHD_RequestTerminationCode how)
{
	struct request *request = *slot;

	(void)ctx;
	(void)connection;
	(void)how;
	if (request != NULL)
		request_free(request);
	*slot = NULL;
}

/* ---- connections ---- */

static void
notify_connection(void *ctx, struct MHD_Connection *connection, void **slot,
    enum MHD_ConnectionNotificationCode what)
{
	struct http *http = ctx;
	struct door *door = *slot;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		door = web_alloc(sizeof(*door));
		door->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)
			       ->connect_fd;
		door->deadline = watch_now() + REQUEST_MS;
		TAILQ_INSERT_TAIL(&http->doors, door, link);
		http->doors_count++;
		*slot = door;
	} else if (door != NULL) {
		TAILQ_REMOVE(&http->doors, door, link);
		http->doors_count--;
		free(door);
	}
}

/* Returns the next deadline. Microhttpd hears of the shutdown as of a client that hangs up. */
static int64_t
close_late(struct http *http, int64_t now)
{
	int64_t next = WATCH_NEVER;
	struct door *door;

	TAILQ_FOREACH (door, &http->doors, link) {
		if (now >= door->deadline) {
			shutdown(door->fd, SHUT_RDWR);
			door->deadline = WATCH_NEVER;
		}
		if (door->deadline < next)
			next = door->deadline;
	}
	return next;
}

struct http *
http_new(
    int listener, const struct http_settings *settings, struct feed *feed, struct streams *streams)
{
	struct http *http = web_alloc(sizeof(*http));

	*http = (struct http){.settings = settings, .feed = feed, .streams = streams};
	http->share = share_new(feed);
	TAILQ_INIT(&http->doors);
	http->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
	    handle, http, MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT,
	    (unsigned)CONNECTIONS_MOST, MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY,
	    MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_COMPLETED, complete, http,
	    MHD_OPTION_NOTIFY_CONNECTION, notify_connection, http, MHD_OPTION_END);
	if (http->daemon != NULL)
		return http;
	share_free(http->share);
	free(http);
	return NULL;
}

int
http_fd(const struct http *http)
{
	return MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

int64_t
http_turn(struct http *http, int64_t now)
{
	int64_t next = close_late(http, now);
	bool full = http->doors_count == CONNECTIONS_MOST;
	MHD_UNSIGNED_LONG_LONG left;

	http->routed = false;
	MHD_run(http->daemon);
	/* Microhttpd accepts again at its next turn. */
	if (http->routed || (full && http->doors_count < CONNECTIONS_MOST))
		return now;
	if (MHD_get_timeout(http->daemon, &left) == MHD_YES && now + (int64_t)left < next)
		next = now + (int64_t)left;
	return next;
}

void
http_free(struct http *http)
{
	MHD_run(http->daemon);
	MHD_stop_daemon(http->daemon);
	share_free(http->share);
	free(http);
}
