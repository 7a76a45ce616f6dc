#include "client/web/stream.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "client/tool/watch.h"
#include "client/web/note.h"

#define PATCH_MS 100
/* A patch without content, so that proxies and pages see life. */
#define LIFE_MS 15000
/* Microhttpd does not look at a connection that waits for the next patch. So often this file does. */
#define LOOK_MS 1000
/* The rest of the 256 connections is for requests. */
#define STREAMS_MOST 240
/* Texts that a page has not read. Beyond that it gets everything again, when it has read what was begun. */
#define QUEUE_MOST 64
/*
 * Bytes that all pages have not read. Beyond that the slowest page is closed, and so is one that reads
 * nothing.
 */
#define UNREAD_MOST ((size_t)128 << 20)
#define STUCK_MS 60000
/* Bytes that are given to the connection at once. */
#define BLOCK 16384

/* A text for several pages. */
struct text {
	int users;
	size_t len;
	char *bytes; /* owned */
};

struct stream {
	TAILQ_ENTRY(stream) link;
	struct streams *streams;
	struct MHD_Connection *connection; /* borrowed */
	bool fresh;     /* it needs everything, as its first text or after a gap */
	bool suspended; /* it has read all */
	bool ended;
	int64_t read_at;                /* the last time at which it read, or had nothing to read */
	struct text *queue[QUEUE_MOST]; /* a ring */
	size_t first, count, at;        /* at: bytes read of the first one */
};

struct streams {
	struct feed *feed; /* borrowed */
	TAILQ_HEAD(, stream) all;
	size_t count, unread; /* unread: bytes of all texts */
	int64_t patch_at, life_at, look_at;
};

struct streams *
streams_new(struct feed *feed)
{
	struct streams *streams = web_alloc(sizeof(*streams));

	streams->feed = feed;
	TAILQ_INIT(&streams->all);
	return streams;
}

void
streams_free(struct streams *streams)
{
	free(streams);
}

static struct text *
text_new(struct streams *streams, char *bytes, size_t len)
{
	struct text *text = web_alloc(sizeof(*text));

	*text = (struct text){.users = 1, .len = len, .bytes = bytes};
	streams->unread += len;
	return text;
}

static void
text_leave(struct streams *streams, struct text *text)
{
	if (--text->users > 0)
		return;
	streams->unread -= text->len;
	free(text->bytes);
	free(text);
}

static void
pop(struct stream *stream)
{
	text_leave(stream->streams, stream->queue[stream->first]);
	stream->first = (stream->first + 1) % QUEUE_MOST;
	stream->count--;
	stream->at = 0;
}

static void
resume(struct stream *stream)
{
	if (stream->suspended)
		MHD_resume_connection(stream->connection);
	stream->suspended = false;
}

static int
stream_fd(const struct stream *stream)
{
	return MHD_get_connection_info(stream->connection, MHD_CONNECTION_INFO_CONNECTION_FD)
	    ->connect_fd;
}

/* The connection is closed, whether the page reads or not. */
static void
stream_end(struct stream *stream)
{
	if (stream->ended)
		return;
	stream->ended = true;
	while (stream->count > 0)
		pop(stream);
	shutdown(stream_fd(stream), SHUT_RDWR);
	resume(stream);
}

static void
push(struct stream *stream, struct text *text)
{
	if (stream->count == QUEUE_MOST) {
		/* A text that was begun must be finished. */
		while (stream->count > 1)
			text_leave(stream->streams,
			    stream->queue[(stream->first + --stream->count) % QUEUE_MOST]);
		stream->fresh = true;
		return;
	}
	if (stream->count == 0)
		stream->read_at = watch_now();
	text->users++;
	stream->queue[(stream->first + stream->count++) % QUEUE_MOST] = text;
	resume(stream);
}

/* Of microhttpd: the next bytes of the body. */
static ssize_t
read_stream(void *ctx, uint64_t position, char *buffer, size_t size)
{
	struct stream *stream = ctx;
	const struct text *text;

	(void)position;
	if (stream->ended)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (stream->count == 0) {
		MHD_suspend_connection(stream->connection);
		stream->suspended = true;
		return 0;
	}
	stream->read_at = watch_now();
	text = stream->queue[stream->first];
	if (size > text->len - stream->at)
		size = text->len - stream->at;
	memcpy(buffer, text->bytes + stream->at, size);
	stream->at += size;
	if (stream->at == text->len)
		pop(stream);
	return (ssize_t)size;
}

/* Of microhttpd: the connection has ended. */
static void
close_stream(void *ctx)
{
	struct stream *stream = ctx;

	while (stream->count > 0)
		pop(stream);
	TAILQ_REMOVE(&stream->streams->all, stream, link);
	stream->streams->count--;
	feed_look(stream->streams->feed, -1);
	free(stream);
}

struct MHD_Response *
stream_open(struct streams *streams, struct MHD_Connection *connection)
{
	struct MHD_Response *response;
	struct stream *stream;

	if (streams->count >= STREAMS_MOST)
		return NULL;
	stream = web_alloc(sizeof(*stream));
	*stream = (struct stream){.streams = streams, .connection = connection, .fresh = true};
	response = MHD_create_response_from_callback(
	    MHD_SIZE_UNKNOWN, BLOCK, read_stream, stream, close_stream);
	if (response == NULL) {
		free(stream);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&streams->all, stream, link);
	streams->count++;
	feed_look(streams->feed, 1);
	return response;
}

/* A page that needs everything gets it when it has read what was before. */
static bool
is_due(const struct stream *stream, bool whole)
{
	return !stream->ended && stream->fresh == whole && (!whole || stream->count == 0);
}

/* Gives a text to the pages that need everything, or to the others. Takes bytes. */
static void
give(struct streams *streams, bool whole, char *bytes, size_t len)
{
	struct text *text = text_new(streams, bytes, len);
	struct stream *stream;

	TAILQ_FOREACH (stream, &streams->all, link) {
		if (!is_due(stream, whole))
			continue;
		push(stream, text);
		if (whole)
			stream->fresh = false;
	}
	text_leave(streams, text);
}

/* Ends the page with the most unread texts, until all of them are within the limit. */
static void
limit_unread(struct streams *streams)
{
	struct stream *stream, *slowest;

	while (streams->unread > UNREAD_MOST) {
		slowest = NULL;
		TAILQ_FOREACH (stream, &streams->all, link)
			if (slowest == NULL || stream->count > slowest->count)
				slowest = stream;
		if (slowest == NULL || slowest->count == 0)
			return;
		stream_end(slowest);
	}
}

static void
send_changes(struct streams *streams, bool whole, int64_t now)
{
	size_t len;
	char *text;

	if (feed_changed(streams->feed)) {
		text = feed_patch(streams->feed, false, now, &len);
		give(streams, false, text, len);
	}
	if (!whole)
		return;
	text = feed_patch(streams->feed, true, now, &len);
	give(streams, true, text, len);
}

static bool
has_hung_up(const struct stream *stream)
{
	char byte;
	ssize_t len = recv(stream_fd(stream), &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return len == 0 || (len < 0 && errno != EAGAIN);
}

/* Ends the pages that are gone or stuck, and sends a patch without content now and then. */
static void
look_after(struct streams *streams, int64_t now)
{
	static const char life[] = "event: patch\ndata: {}\n\n";
	struct stream *stream;

	streams->look_at = now + LOOK_MS;
	TAILQ_FOREACH (stream, &streams->all, link)
		if (stream->count > 0 ? now - stream->read_at >= STUCK_MS : has_hung_up(stream))
			stream_end(stream);
	if (now < streams->life_at)
		return;
	give(streams, false, web_have(strdup(life)), sizeof(life) - 1);
	streams->life_at = now + LIFE_MS;
}

int64_t
streams_turn(struct streams *streams, int64_t now)
{
	struct stream *stream;
	bool whole = false;

	if (streams->count == 0)
		return WATCH_NEVER;
	if (now >= streams->look_at)
		look_after(streams, now);
	TAILQ_FOREACH (stream, &streams->all, link)
		whole = whole || is_due(stream, true);
	if (!whole && !feed_changed(streams->feed))
		return streams->look_at;
	if (now < streams->patch_at)
		return streams->patch_at;
	send_changes(streams, whole, now);
	streams->patch_at = now + PATCH_MS;
	limit_unread(streams);
	return streams->look_at;
}

void
streams_end(struct streams *streams)
{
	struct stream *stream;

	TAILQ_FOREACH (stream, &streams->all, link)
		stream_end(stream);
}
