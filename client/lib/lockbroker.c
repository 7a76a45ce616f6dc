#include "client/lockbroker.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/clock.h"
#include "client/lib/handle.h"
#include "client/lib/transport.h"
#include "config.h"

const char *
lb_version(void)
{
	return PACKAGE_VERSION;
}

/* ---- the handle ---- */

struct lb *
lb_new(void)
{
	struct lb *lb = calloc(1, sizeof(*lb));

	if (lb == NULL)
		return NULL;
	lb->pid = getpid();
	lb->fd = -1;
	lb->silence_ms = LB_FOREVER;
	holds_init(&lb->holds);
	return lb;
}

void
lb_forget(struct lb *lb)
{
	if (lb == NULL)
		return;
	if (lb->fd >= 0)
		close(lb->fd);
	session_free(lb->session);
	holds_done(&lb->holds);
	message_answer_done(&lb->last);
	free(lb->shown);
	free(lb->path);
	free(lb);
}

void
lb_adopt(struct lb *lb)
{
	lb->pid = getpid();
}

void
lb_free(struct lb *lb)
{
	if (lb != NULL && lb->fd >= 0 && lb->pid == getpid())
		transport_shutdown(lb->fd);
	lb_forget(lb);
}

static int
connect_failed(struct lb *lb, int error)
{
	const char *words = strerror(error);

	switch (error) {
	case ENOENT:
	case ENOTDIR:
	case ECONNREFUSED:
		return handle_fail(lb, LB_NO_DAEMON, "%s: %s", lb->path, words);
	case EACCES:
	case EPERM:
		return handle_fail(lb, LB_NO_ACCESS, "%s: %s", lb->path, words);
	case ENAMETOOLONG:
		return handle_fail(
		    lb, LB_BAD_ARGUMENT, "%s: the path of the socket is too long", lb->path);
	case ETIMEDOUT:
		return handle_fail(
		    lb, LB_DEADLINE, "%s: the daemon does not accept connections", lb->path);
	case ENOMEM:
		return handle_fail(lb, LB_NO_MEMORY, NULL);
	default:
		return handle_fail(lb, LB_SYSTEM, "%s: %s", lb->path, words);
	}
}

int
lb_connect(struct lb *lb, const char *path, int64_t timeout_ms)
{
	int code = handle_enter(lb);
	int error, fd;
	char *copy;

	if (code != LB_OK)
		return code;
	if (lb->fd >= 0)
		return handle_fail(lb, LB_BAD_ARGUMENT, "the handle is connected already");
	if (path == NULL || path[0] == '\0')
		path = secure_getenv("LOCKBROKER_SOCKET");
	if (path == NULL || path[0] == '\0')
		path = LB_DEFAULT_SOCKET;
	copy = strdup(path);
	if (copy == NULL)
		return handle_fail(lb, LB_NO_MEMORY, NULL);
	free(lb->path);
	lb->path = copy;
	error = transport_connect(lb->path, transport_deadline(timeout_ms), &fd);
	if (error != 0)
		return connect_failed(lb, error);
	lb->session = session_new();
	if (lb->session == NULL) {
		close(fd);
		return handle_fail(lb, LB_NO_MEMORY, NULL);
	}
	lb->fd = fd;
	return LB_OK;
}

const char *
lb_socket_path(const struct lb *lb)
{
	return lb->path;
}

/* ---- acquire ---- */

const char *
lb_kind_word(int kind)
{
	if (kind < LB_SEMAPHORE || kind > LB_PERSISTENT_MUTEX)
		return NULL;
	return lock_kind_word((enum lock_kind)kind);
}

const char *
lb_claim_word(int claim)
{
	switch (claim) {
	case LB_CLAIM_EXCLUSIVE_QUEUE:
		return method_claim_words[METHOD_CLAIM_BY_QUEUE];
	case LB_CLAIM_CONSUMER:
		return method_claim_words[METHOD_CLAIM_BY_CONSUMER];
	case LB_CLAIM_QUORUM:
		return method_claim_words[METHOD_CLAIM_BY_QUORUM];
	default:
		return NULL;
	}
}

const char *
lb_name_error(const char *name)
{
	return name != NULL ? lockname_error(name, strlen(name)) : "no name";
}

static const struct lb_options options_default = LB_OPTIONS_INIT;

/*
 * Programs compiled with an earlier header have fewer members. The others get their defaults.
 * Returns NULL, or the problem.
 */
static const char *
options_take(const struct lb_options *given, const char *name, struct lb_options *ret)
{
	*ret = options_default;
	if (given != NULL && given->size < offsetof(struct lb_options, create))
		return "the options were not set to LB_OPTIONS_INIT";
	if (given != NULL)
		memcpy(ret, given, given->size < sizeof(*ret) ? given->size : sizeof(*ret));
	if (lb_name_error(name) != NULL)
		return lb_name_error(name);
	if (lb_kind_word(ret->kind) == NULL)
		return "unknown kind of lock";
	if (ret->timeout_ms > INT64_C(1000) * DURATION_MAX_SECONDS)
		return "the timeout is too long";
	if (ret->create < 0 || ret->create > METHODS_SLOTS_MAX)
		return "create: 1 to 10000 slots";
	return NULL;
}

static struct cJSON *
acquire_params(const char *name, const struct lb_options *options)
{
	struct cJSON *params = json_new_object();

	json_add_string(params, "name", name);
	json_add_bool(params, "lease", true);
	if (options->kind != LB_SEMAPHORE)
		json_add_string(params, "kind", lb_kind_word(options->kind));
	if (options->timeout_ms >= 0)
		json_add_seconds(params, "timeout", options->timeout_ms * DURATION_MILLISECOND);
	if (options->priority != 0)
		json_add_integer(params, "priority", options->priority);
	if (options->create != 0)
		json_add_integer(params, "create", options->create);
	if (options->progress != 0)
		json_add_bool(params, "progress", true);
	if (options->who != NULL)
		json_add_string(params, "who", options->who);
	if (options->why != NULL)
		json_add_string(params, "why", options->why);
	if (options->command != NULL)
		json_add_string(params, "command", options->command);
	return params;
}

/*
 * Nobody waits for this acquire any more, and nobody need call again: the daemon must have been
 * told when this returns. One that does not read is told by the end of the connection. LB_DEADLINE,
 * or why the connection has ended.
 */
static int
withdraw(struct lb *lb, int64_t request)
{
	size_t unsent;
	int code;

	session_retag(lb->session, request, CALL_ACQUIRE_IGNORED);
	code = handle_cancel(lb, request);
	if (code != LB_OK)
		return handle_break(lb, code, "out of memory");
	/* A grant that has come meanwhile is read, and given back. */
	code = handle_move(lb);
	if (code != LB_OK)
		return code;
	session_output(lb->session, &unsent);
	if (unsent > 0)
		return handle_break(lb, LB_CLOSED,
		    "the daemon does not read; the connection was closed to cancel the acquire");
	return handle_fail(lb, LB_DEADLINE, NULL);
}

int
lb_acquire(struct lb *lb, const char *name, const struct lb_options *options, struct lb_lock **ret)
{
	int code = handle_enter(lb);
	struct lb_options taken;
	const char *wrong;
	int64_t asked;

	if (code != LB_OK)
		return code;
	wrong = options_take(options, name, &taken);
	if (wrong != NULL)
		return handle_fail(lb, LB_BAD_ARGUMENT, "%s", wrong);
	lb->granted = NULL;
	code = handle_ask(
	    lb, "acquire", acquire_params(name, &taken), CALL_ACQUIRE_WAITED, &lb->awaited);
	if (code != LB_OK)
		return code;
	asked = lb->awaited;
	code = handle_await(lb, handle_patience(taken.timeout_ms));
	if (code == LB_DEADLINE)
		return withdraw(lb, asked);
	if (code != LB_OK)
		return code;
	/* The end, of the connection or of the hold, came in the same breath as the grant. */
	if (lb->fd < 0)
		code = lb->ended;
	else if (lb->granted->state == LB_LOCK_LOST)
		code = LB_LOST;
	if (code != LB_OK) {
		lb_lock_free(lb->granted);
		return handle_fail(lb, code, NULL);
	}
	*ret = lb->granted;
	return LB_OK;
}

int
lb_acquire_start(
    struct lb *lb, const char *name, const struct lb_options *options, int64_t *ret_request)
{
	int code = handle_enter(lb);
	struct lb_options taken;
	const char *wrong;

	if (code != LB_OK)
		return code;
	wrong = options_take(options, name, &taken);
	if (wrong != NULL)
		return handle_fail(lb, LB_BAD_ARGUMENT, "%s", wrong);
	return handle_ask(lb, "acquire", acquire_params(name, &taken), CALL_STARTED, ret_request);
}

int
lb_cancel(struct lb *lb, int64_t request)
{
	int code = handle_enter(lb), tag;

	if (code != LB_OK)
		return code;
	tag = lb->session != NULL ? session_tag(lb->session, request) : -1;
	if (tag != CALL_STARTED && tag != CALL_ASKED)
		return handle_fail(lb, LB_BAD_ARGUMENT, "the request has ended");
	return handle_cancel(lb, request);
}

void
lb_set_silence_limit(struct lb *lb, int64_t ms)
{
	lb->silence_ms = ms;
}

/* ---- events ---- */

int
lb_fd(const struct lb *lb)
{
	return lb->fd;
}

short
lb_poll_events(const struct lb *lb)
{
	size_t unsent = 0;

	if (lb->session != NULL)
		session_output(lb->session, &unsent);
	return unsent > 0 ? POLLIN | POLLOUT : POLLIN;
}

int
lb_timeout(const struct lb *lb)
{
	int64_t due = holds_safe_until(&lb->holds), left;

	/* Events that a getter caused are still to be delivered. */
	if (lb->fn != NULL && !TAILQ_EMPTY(&lb->holds.events))
		return 0;
	if (due == HOLDS_NO_LEASE)
		return -1;
	left = due - client_clock_now();
	if (left <= 0)
		return 0;
	return left < TRANSPORT_POLL_LONGEST_MS ? (int)left : TRANSPORT_POLL_LONGEST_MS;
}

int
lb_dispatch(struct lb *lb)
{
	int code = handle_enter(lb);

	return code != LB_OK ? code : handle_move(lb);
}

int
lb_wait(struct lb *lb, int64_t timeout_ms)
{
	int64_t deadline = transport_deadline(timeout_ms);
	int code = handle_enter(lb);
	uint64_t told = lb->told;

	if (code == LB_OK && TAILQ_EMPTY(&lb->holds.events))
		code = handle_move(lb);
	while (code == LB_OK && TAILQ_EMPTY(&lb->holds.events) && lb->told == told)
		code = handle_wait(lb, deadline);
	return code;
}

const struct lb_event *
lb_event_next(struct lb *lb)
{
	if (lb->pid != getpid() || lb->in_callback)
		return NULL;
	handle_lapse(lb);
	return holds_next(&lb->holds);
}

void
lb_set_callback(
    struct lb *lb, void (*fn)(struct lb *lb, const struct lb_event *event, void *arg), void *arg)
{
	lb->fn = fn;
	lb->arg = arg;
}
