#include "client/lib/session.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/line.h"

struct pending {
	int64_t id;
	int tag;
};

struct session {
	struct line_reader *in; /* owned */
	char *out;              /* owned; out_len bytes unsent */
	size_t out_len, out_size;
	struct pending *pending; /* owned; in no order */
	size_t pending_len, pending_size;
	int64_t last_id;
	bool broken;
	char why[256];
};

struct session *
session_new(void)
{
	struct session *session = calloc(1, sizeof(*session));

	if (session == NULL)
		return NULL;
	session->in = line_reader_new(LINE_MAX_OUT);
	if (session->in == NULL) {
		free(session);
		return NULL;
	}
	return session;
}

void
session_free(struct session *session)
{
	if (session == NULL)
		return;
	line_reader_free(session->in);
	free(session->out);
	free(session->pending);
	free(session);
}

static enum session_status
break_with(struct session *session, const char *what, const char *detail)
{
	session->broken = true;
	snprintf(session->why, sizeof(session->why), "%s%s%s", what, *detail != '\0' ? ": " : "",
	    detail);
	return SESSION_BROKEN;
}

const char *
session_why(const struct session *session)
{
	return session->why;
}

/* ---- requests ---- */

static struct pending *
find(const struct session *session, int64_t id)
{
	for (size_t i = 0; i < session->pending_len; i++)
		if (session->pending[i].id == id)
			return &session->pending[i];
	return NULL;
}

/* Room for `more` elements of `size` bytes behind the `len` that *array has. */
static bool
reserve(void **array, size_t *allocated, size_t len, size_t more, size_t size)
{
	size_t want = *allocated == 0 ? 16 : *allocated;
	void *grown;

	while (want < len + more)
		want *= 2;
	if (want == *allocated)
		return true;
	grown = realloc(*array, want * size);
	if (grown == NULL)
		return false;
	*array = grown;
	*allocated = want;
	return true;
}

enum session_status
session_request(
    struct session *session, const char *method, struct cJSON *params, int tag, int64_t *ret_id)
{
	int64_t id = session->last_id + 1;
	char *line = message_request_line(id, method, params);
	void *pending = session->pending;
	void *out = session->out;
	size_t len;
	bool room;

	if (line == NULL)
		return SESSION_NO_MEMORY;
	len = strlen(line);
	room = reserve(
	    &pending, &session->pending_size, session->pending_len, 1, sizeof(struct pending));
	session->pending = pending;
	if (room) {
		room = reserve(&out, &session->out_size, session->out_len, len, 1);
		session->out = out;
	}
	if (!room) {
		free(line);
		return SESSION_NO_MEMORY;
	}
	memcpy(session->out + session->out_len, line, len);
	session->out_len += len;
	free(line);
	session->pending[session->pending_len++] = (struct pending){.id = id, .tag = tag};
	session->last_id = id;
	*ret_id = id;
	return SESSION_OK;
}

int
session_tag(const struct session *session, int64_t id)
{
	const struct pending *pending = find(session, id);

	return pending != NULL ? pending->tag : -1;
}

void
session_retag(struct session *session, int64_t id, int tag)
{
	struct pending *pending = find(session, id);

	if (pending != NULL)
		pending->tag = tag;
}

const char *
session_output(const struct session *session, size_t *ret_len)
{
	*ret_len = session->out_len;
	return session->out;
}

void
session_sent(struct session *session, size_t len)
{
	assert(len <= session->out_len);
	session->out_len -= len;
	if (session->out_len > 0)
		memmove(session->out, session->out + len, session->out_len);
}

/* ---- answers ---- */

enum session_status
session_input(struct session *session, const void *bytes, size_t len)
{
	if (session->broken)
		return SESSION_BROKEN;
	if (line_reader_feed(session->in, bytes, len) == LINE_NO_MEMORY)
		return SESSION_NO_MEMORY;
	return SESSION_OK;
}

/* Matches an answer with its request, which then is no longer pending. */
static enum session_status
settle(struct session *session, struct session_event *event)
{
	struct pending *pending = NULL;

	if (event->answer.kind == MESSAGE_NOTIFICATION)
		return SESSION_EVENT;
	/*
	 * id null: the daemon could not even tell which request it refuses (-32700, line too long).
	 */
	if (event->answer.kind == MESSAGE_ERROR && event->answer.id.kind == MESSAGE_ID_NULL)
		return break_with(session, "the daemon refused a line", event->answer.text);
	if (event->answer.id.kind == MESSAGE_ID_INTEGER)
		pending = find(session, event->answer.id.integer);
	if (pending == NULL)
		return break_with(session, "an answer to an unknown request", "");
	event->id = pending->id;
	event->tag = pending->tag;
	*pending = session->pending[--session->pending_len];
	return SESSION_EVENT;
}

enum session_status
session_next(struct session *session, struct session_event *ret)
{
	struct session_event event = {.tag = -1};
	enum session_status status;
	const char *line, *what;
	size_t len;

	if (session->broken)
		return SESSION_BROKEN;
	switch (line_reader_next(session->in, &line, &len)) {
	case LINE_NONE:
		return SESSION_OK;
	case LINE_TOO_LONG:
		return break_with(session, "a line is too long", "");
	case LINE_NO_MEMORY:
		return SESSION_NO_MEMORY;
	case LINE_READY:
		break;
	}
	if (!message_parse_answer(line, len, &event.answer, &what))
		return what == NULL ? SESSION_NO_MEMORY
				    : break_with(session, "a line is not an answer", what);
	status = settle(session, &event);
	if (status == SESSION_EVENT)
		*ret = event;
	else
		message_answer_done(&event.answer);
	return status;
}
