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
struct visit {
	TAILQ_ENTRY(visit) link;
	struct http *http;
	struct MHD_Connection *connection; /* borrowed */
	int fd;
	int64_t
	    deadline; /* WATCH_NEVER: the request waits for the daemon, or the page has read all */
	bool headed, routed, suspended;
	char *body; /* owned */
	size_t body_len;
	bool body_too_long;
	struct visitor visitor;
	struct web_act *act; /* the answer is that of the daemon; NULL: it is `reply` */
	struct reply reply;  /* owned */
};

struct http {
	const struct http_settings *settings; /* borrowed */
	struct streams *streams;              /* borrowed */
	struct acts *acts;                    /* owned */
	struct MHD_Daemon *daemon;            /* owned */
	TAILQ_HEAD(, visit) visits;
	size_t visits_count;
	bool routed; /* since the last turn: the feed or a stream may have something to do */
};

/* ---- the rules for each request ---- */

static const char *
header(const struct visit *visit, const char *name)
{
	return MHD_lookup_connection_value(visit->connection, MHD_HEADER_KIND, name);
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
	names->wrong = name[strcspn(name, " \t\"(),/:;<=>?@[\\]{}")] != '\0' ||
		       names->count == sizeof(names->seen) / sizeof(names->seen[0]);
	for (size_t i = 0; i < names->count; i++)
		names->wrong = names->wrong || strcasecmp(names->seen[i], name) == 0;
	if (names->wrong)
		return MHD_NO;
	names->seen[names->count++] = name;
	return MHD_YES;
}

/* Two readers of one request could take different ones of two headers, or find different ends of a body. */
static bool
is_ambiguous(const struct visit *visit)
{
	struct names names = {.count = 0};
	const char *coding = header(visit, MHD_HTTP_HEADER_TRANSFER_ENCODING);

	MHD_get_connection_values(visit->connection, MHD_HEADER_KIND, see_name, &names);
	return names.wrong ||
	       (coding != NULL && (strcasecmp(coding, "chunked") != 0 ||
				      header(visit, MHD_HTTP_HEADER_CONTENT_LENGTH) != NULL));
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
is_our_origin(const struct visit *visit)
{
	const char *origin = header(visit, MHD_HTTP_HEADER_ORIGIN), *name;

	if (origin == NULL)
		return true;
	name = strstr(origin, "://");
	return name != NULL &&
	       (strncmp(origin, "http:", 5) == 0 || strncmp(origin, "https:", 6) == 0) &&
	       strcasecmp(name + 3, header(visit, MHD_HTTP_HEADER_HOST)) == 0;
}

static bool
is_json(const char *type)
{
	static const char json[] = "application/json";

	return type != NULL && strncasecmp(type, json, sizeof(json) - 1) == 0 &&
	       strchr("; ", type[sizeof(json) - 1]) != NULL;
}

static struct reply
reply_too_long(void)
{
	return reply_error(MHD_HTTP_CONTENT_TOO_LARGE, LB_INVALID_REQUEST,
	    "the body has more than %zu bytes", BODY_MOST);
}

/* The rules of a POST: a form of another site cannot send such a request. */
static void
check_post(struct visit *visit)
{
	const char *len = header(visit, MHD_HTTP_HEADER_CONTENT_LENGTH);
	const char *marked = header(visit, "X-Lockbroker");

	if (!is_json(header(visit, MHD_HTTP_HEADER_CONTENT_TYPE)))
		visit->reply = reply_error(MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, LB_INVALID_REQUEST,
		    "the body must have Content-Type: application/json");
	else if (!is_our_origin(visit))
		visit->reply = reply_error(MHD_HTTP_FORBIDDEN, LB_PERMISSION_DENIED,
		    "the request comes from the page of another site");
	else if (marked == NULL || strcmp(marked, "1") != 0)
		visit->reply = reply_error(MHD_HTTP_FORBIDDEN, LB_PERMISSION_DENIED,
		    "the header X-Lockbroker: 1 is missing");
	else if (len != NULL && strtoull(len, NULL, 10) > BODY_MOST)
		visit->reply = reply_too_long();
}

/* GET /?token=T: the token becomes a cookie, and leaves the address. */
static bool
exchange_token(struct visit *visit, const char *path)
{
	const struct visitor_settings *settings = &visit->http->settings->visitors;
	char cookie[160];

	if (settings->user_header != NULL || strcmp(path, "/") != 0 ||
	    !visitor_token_is(settings,
		MHD_lookup_connection_value(visit->connection, MHD_GET_ARGUMENT_KIND, "token")))
		return false;
	visit->reply = reply_text(MHD_HTTP_SEE_OTHER, "text/plain; charset=utf-8", "");
	snprintf(cookie, sizeof(cookie), "%s=%s; Path=/; HttpOnly; SameSite=Strict",
	    settings->cookie, settings->token);
	reply_header(&visit->reply, MHD_HTTP_HEADER_SET_COOKIE, cookie);
	reply_header(&visit->reply, MHD_HTTP_HEADER_LOCATION, "/");
	return true;
}

/* Checks the head, before a byte of the body is read. A request that breaks a rule gets its answer here. */
static void
check_head(struct visit *visit, const char *path, const char *method)
{
	const struct http_settings *settings = visit->http->settings;
	bool post = strcmp(method, MHD_HTTP_METHOD_POST) == 0;
	const char *why;

	if (is_ambiguous(visit)) {
		visit->reply = reply_error(MHD_HTTP_BAD_REQUEST, LB_INVALID_REQUEST,
		    "the request has a header twice, too many headers, or two lengths");
	} else if (!is_our_host(settings, header(visit, MHD_HTTP_HEADER_HOST))) {
		visit->reply = reply_error(MHD_HTTP_MISDIRECTED_REQUEST, LB_PERMISSION_DENIED,
		    "the header Host names another server; see --host of lockbroker-web");
	} else if (!post && strcmp(method, MHD_HTTP_METHOD_GET) != 0) {
		visit->reply = reply_error(MHD_HTTP_METHOD_NOT_ALLOWED, LB_INVALID_REQUEST,
		    "only GET and POST are possible here");
		reply_header(&visit->reply, MHD_HTTP_HEADER_ALLOW, "GET, POST");
	} else if (!post && (strcmp(path, "/healthz") == 0 || exchange_token(visit, path))) {
		return;
	} else if (!visitor_of(&settings->visitors, visit->connection, &visit->visitor, &why)) {
		visit->reply = reply_error(MHD_HTTP_UNAUTHORIZED, LB_PERMISSION_DENIED, "%s", why);
	} else if (post) {
		check_post(visit);
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
open_stream(struct visit *visit)
{
	struct MHD_Response *stream =
	    stream_open(visit->http->streams, visit->connection, &visit->deadline);

	if (stream == NULL) {
		visit->reply = reply_error(MHD_HTTP_SERVICE_UNAVAILABLE, LB_TOO_MANY_REQUESTS,
		    "too many pages are open; try again later");
		return;
	}
	visit->reply = reply_response(MHD_HTTP_OK, "text/event-stream", stream);
	/* Nginx would collect the patches otherwise. */
	reply_header(&visit->reply, "X-Accel-Buffering", "no");
}

static void
route_get(struct visit *visit, const char *path)
{
	struct acts *acts = visit->http->acts;
	const struct page_file *file = page_files;

	if (strcmp(path, "/healthz") == 0) {
		visit->act = act_get_health(acts);
	} else if (strcmp(path, "/metrics") == 0) {
		visit->act = act_get_metrics(acts);
	} else if (strcmp(path, "/v1/session") == 0) {
		visit->reply = visitor_session(&visit->http->settings->visitors, &visit->visitor);
	} else if (strcmp(path, "/v1/locks") == 0) {
		visit->act = act_get_locks(acts, NULL, &visit->reply);
	} else if (behind(path, "/v1/locks/") != NULL) {
		visit->act = act_get_locks(acts, behind(path, "/v1/locks/"), &visit->reply);
	} else if (strcmp(path, "/v1/events") == 0) {
		open_stream(visit);
	} else {
		while (file->name != NULL &&
		       strcmp(file->name, strcmp(path, "/") == 0 ? "/index.html" : path) != 0)
			file++;
		visit->reply = file->name != NULL
				   ? reply_text(MHD_HTTP_OK, file->type, file->text)
				   : reply_error(MHD_HTTP_NOT_FOUND, LB_METHOD_NOT_FOUND,
					 "there is no such path");
	}
}

static void
route_post(struct visit *visit, const char *path)
{
	const char *method = behind(path, "/v1/");

	if (visit->body_too_long)
		visit->reply = reply_too_long();
	else if (method == NULL)
		visit->reply = reply_error(
		    MHD_HTTP_NOT_FOUND, LB_METHOD_NOT_FOUND, "a POST goes to /v1/METHOD");
	else
		visit->act = act_post(visit->http->acts, &visit->http->settings->visitors,
		    &visit->visitor, method, visit->body != NULL ? visit->body : "",
		    visit->body_len, &visit->reply);
}

/* Without a response while the daemon has not answered. */
static const struct reply *
reply_of(const struct visit *visit)
{
	return visit->act != NULL ? act_reply(visit->act) : &visit->reply;
}

/* Of act.c: the daemon has answered. */
static void
resume_visits(void *ctx)
{
	struct http *http = ctx;
	struct visit *visit;

	TAILQ_FOREACH (visit, &http->visits, link) {
		if (!visit->suspended || reply_of(visit)->response == NULL)
			continue;
		visit->deadline = watch_now() + ANSWER_MS;
		visit->suspended = false;
		MHD_resume_connection(visit->connection);
	}
}

static void
take_body(struct visit *visit, const char *bytes, size_t len)
{
	if (visit->body_too_long || len > BODY_MOST - visit->body_len) {
		/* The rest is read and forgotten, until the time of the request is over. */
		visit->body_too_long = true;
		return;
	}
	visit->body = web_have(realloc(visit->body, visit->body_len + len));
	memcpy(visit->body + visit->body_len, bytes, len);
	visit->body_len += len;
}

/*
 * Of microhttpd: called with the head, with each part of the body, and when all is there; also after a resume.
 */
static enum MHD_Result
handle(void *ctx, struct MHD_Connection *connection, const char *path, const char *method,
    const char *version, const char *bytes, size_t *len, void **slot)
{
	struct visit *visit =
	    MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;

	(void)ctx;
	(void)version;
	*slot = visit;
	if (!visit->headed) {
		visit->headed = true;
		check_head(visit, path, method);
		if (visit->reply.response == NULL)
			return MHD_YES;
	} else if (*len > 0) {
		take_body(visit, bytes, *len);
		*len = 0;
		return MHD_YES;
	}
	if (!visit->routed) {
		visit->routed = visit->http->routed = true;
		visit->deadline = watch_now() + ANSWER_MS;
		if (visit->reply.response != NULL)
			; /* a rule is broken */
		else if (strcmp(method, MHD_HTTP_METHOD_POST) == 0)
			route_post(visit, path);
		else
			route_get(visit, path);
	}
	if (reply_of(visit)->response != NULL)
		return MHD_queue_response(
		    connection, reply_of(visit)->status, reply_of(visit)->response);
	visit->deadline = WATCH_NEVER;
	visit->suspended = true;
	MHD_suspend_connection(connection);
	return MHD_YES;
}

/* ---- connections ---- */

static void
notify_connection(void *ctx, struct MHD_Connection *connection, void **slot,
    enum MHD_ConnectionNotificationCode what)
{
	struct http *http = ctx;
	struct visit *visit = *slot;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		*slot = visit = web_alloc(sizeof(*visit));
		visit->http = http;
		visit->connection = connection;
		visit->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)
				->connect_fd;
		visit->deadline = watch_now() + REQUEST_MS;
		TAILQ_INSERT_TAIL(&http->visits, visit, link);
		http->visits_count++;
		return;
	}
	TAILQ_REMOVE(&http->visits, visit, link);
	http->visits_count--;
	if (visit->act != NULL)
		act_leave(visit->act);
	if (visit->reply.response != NULL)
		MHD_destroy_response(visit->reply.response);
	free(visit->body);
	free(visit);
}

/* Returns the next deadline. Microhttpd hears of the shutdown as of a client that hangs up. */
static int64_t
close_late(struct http *http, int64_t now)
{
	int64_t next = WATCH_NEVER;
	struct visit *visit;

	TAILQ_FOREACH (visit, &http->visits, link) {
		if (now >= visit->deadline) {
			shutdown(visit->fd, SHUT_RDWR);
			visit->deadline = WATCH_NEVER;
		}
		if (visit->deadline < next)
			next = visit->deadline;
	}
	return next;
}

struct http *
http_new(int listener, const struct http_settings *settings, struct web_feed *feed,
    struct streams *streams)
{
	struct http *http = web_alloc(sizeof(*http));

	*http = (struct http){.settings = settings, .streams = streams};
	http->acts = acts_new(feed, resume_visits, http);
	TAILQ_INIT(&http->visits);
	http->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
	    handle, http, MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT,
	    (unsigned)CONNECTIONS_MOST, MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY,
	    MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_CONNECTION, notify_connection, http,
	    MHD_OPTION_END);
	if (http->daemon != NULL)
		return http;
	acts_free(http->acts);
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
	bool full = http->visits_count == CONNECTIONS_MOST;
	MHD_UNSIGNED_LONG_LONG left;

	http->routed = false;
	MHD_run(http->daemon);
	/* Microhttpd accepts again at its next turn. */
	if (http->routed || (full && http->visits_count < CONNECTIONS_MOST))
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
	acts_free(http->acts);
	free(http);
}
