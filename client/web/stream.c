#include "client/web/stream.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "client/tool/watch.h"
#include "client/web/note.h"

#define PATCH_MS 100
/* A patch without content, so that proxies and pages see life. A page that is gone is noticed by it, too. */
#define LIFE_MS 5000
/* So long a page can read nothing of a text that it has begun. */
#define READ_MS 60000
/* The rest of the 256 connections is for requests. */
#define STREAMS_MOST 240
/* The last patches, for pages that read slowly. */
#define PATCHES_MOST 64
/* Bytes that the pages have not read. Above that, old patches go, and no page gets everything. */
#define UNREAD_MOST ((size_t)32 << 20)
/* Bytes that are given to the connection at once. */
#define BLOCK 16384

/* A patch, or everything. Several pages read it. */
struct text {
	TAILQ_ENTRY(text) link; /* among the patches */
	uint64_t number;        /* of the patch; of everything: of the last patch that is in it */
	int users;
	size_t len;
	char *bytes; /* owned */
};

struct stream {
	TAILQ_ENTRY(stream) link;
	struct streams *streams;
	struct MHD_Connection *connection; /* borrowed */
	int64_t *deadline;                 /* borrowed */
	bool suspended;                    /* it has read all, or needs everything */
	struct text *text;                 /* it reads this one; NULL: none */
	size_t at;                         /* bytes that it has read of it */
	uint64_t number;                   /* of the last text that it began; 0: none */
};

struct streams {
	struct web_feed *feed; /* borrowed */
	TAILQ_HEAD(, stream) all;
	size_t count;
	TAILQ_HEAD(patch_list, text) patches;
	size_t patches_count, unread; /* unread: bytes of all texts */
	uint64_t number;              /* of the last patch */
	int64_t patch_at, life_at;
	bool ended;
};

struct streams *
streams_new(struct web_feed *feed)
{
	struct streams *streams = web_alloc(sizeof(*streams));

	streams->feed = feed;
	streams->number = 1;
	TAILQ_INIT(&streams->all);
	TAILQ_INIT(&streams->patches);
	return streams;
}

static void
text_leave(struct streams *streams, struct text *text)
{
	if (text == NULL || --text->users > 0)
		return;
	streams->unread -= text->len;
	free(text->bytes);
	free(text);
}

/* Takes bytes. The caller is a user. */
static struct text *
text_new(struct streams *streams, char *bytes, size_t len)
{
	struct text *text = web_alloc(sizeof(*text));

	*text = (struct text){.number = streams->number, .users = 1, .len = len, .bytes = bytes};
	streams->unread += len;
	return text;
}

static void
drop_patch(struct streams *streams)
{
	struct text *oldest = TAILQ_FIRST(&streams->patches);

	TAILQ_REMOVE(&streams->patches, oldest, link);
	streams->patches_count--;
	text_leave(streams, oldest);
}

void
streams_free(struct streams *streams)
{
	while (streams->patches_count > 0)
		drop_patch(streams);
	free(streams);
}

static void
patch_add(struct streams *streams, char *bytes, size_t len)
{
	struct text *patch;

	streams->number++;
	patch = text_new(streams, bytes, len);
	TAILQ_INSERT_TAIL(&streams->patches, patch, link);
	streams->patches_count++;
	while (streams->patches_count > PATCHES_MOST ||
	       (streams->unread > UNREAD_MOST && streams->patches_count > 0))
		drop_patch(streams);
}

/* The patch behind the last text of this stream. NULL: there is none, or it was dropped. */
static struct text *
next_patch(const struct stream *stream)
{
	struct text *patch;

	TAILQ_FOREACH_REVERSE(patch, &stream->streams->patches, patch_list, link)
	if (patch->number == stream->number + 1)
		return patch;
	return NULL;
}

static void
begin(struct stream *stream, struct text *text)
{
	text_leave(stream->streams, stream->text);
	stream->text = text;
	stream->at = 0;
	if (text == NULL)
		return;
	text->users++;
	stream->number = text->number;
}

/* Of microhttpd: the next bytes of the body. */
static ssize_t
read_stream(void *ctx, uint64_t position, char *buffer, size_t size)
{
	struct stream *stream = ctx;

	(void)position;
	if (stream->streams->ended)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (stream->text == NULL || stream->at == stream->text->len)
		begin(stream, next_patch(stream));
	if (stream->text == NULL) {
		stream->suspended = true;
		MHD_suspend_connection(stream->connection);
		return 0;
	}
	*stream->deadline = watch_now() + READ_MS;
	if (size > stream->text->len - stream->at)
		size = stream->text->len - stream->at;
	memcpy(buffer, stream->text->bytes + stream->at, size);
	stream->at += size;
	return (ssize_t)size;
}

static void
resume(struct stream *stream)
{
	if (stream->suspended)
		MHD_resume_connection(stream->connection);
	stream->suspended = false;
}

/* Of microhttpd: the connection has ended. */
static void
close_stream(void *ctx)
{
	struct stream *stream = ctx;

	text_leave(stream->streams, stream->text);
	TAILQ_REMOVE(&stream->streams->all, stream, link);
	stream->streams->count--;
	feed_look(stream->streams->feed, -1);
	free(stream);
}

struct MHD_Response *
stream_open(struct streams *streams, struct MHD_Connection *connection, int64_t *deadline)
{
	struct stream *stream;

	if (streams->count >= STREAMS_MOST)
		return NULL;
	stream = web_alloc(sizeof(*stream));
	*stream =
	    (struct stream){.streams = streams, .connection = connection, .deadline = deadline};
	TAILQ_INSERT_TAIL(&streams->all, stream, link);
	streams->count++;
	feed_look(streams->feed, 1);
	return web_have(MHD_create_response_from_callback(
	    MHD_SIZE_UNKNOWN, BLOCK, read_stream, stream, close_stream));
}

/* The first text of a page is everything, and so is the next one after a gap. */
static bool
needs_all(const struct stream *stream)
{
	return stream->suspended && stream->number != stream->streams->number &&
	       next_patch(stream) == NULL;
}

static void
give_all(struct streams *streams, int64_t now)
{
	struct stream *stream;
	struct text *text;
	size_t len;
	char *bytes = feed_patch(streams->feed, true, now, &len);

	text = text_new(streams, bytes, len);
	TAILQ_FOREACH (stream, &streams->all, link)
		if (needs_all(stream))
			begin(stream, text);
	text_leave(streams, text);
}

int64_t
streams_turn(struct streams *streams, int64_t now)
{
	static const char life[] = "event: patch\ndata: {}\n\n";
	struct stream *stream;
	bool all = false;
	size_t len;
	char *bytes;

	if (streams->count == 0)
		return WATCH_NEVER;
	TAILQ_FOREACH (stream, &streams->all, link)
		all = all || needs_all(stream);
	all = all && streams->unread <= UNREAD_MOST;
	if (!all && !feed_changed(streams->feed) && now < streams->life_at)
		return streams->life_at;
	if (now < streams->patch_at)
		return streams->patch_at;
	streams->patch_at = now + PATCH_MS;
	if (feed_changed(streams->feed) || now >= streams->life_at) {
		bytes = feed_changed(streams->feed)
			    ? feed_patch(streams->feed, false, now, &len)
			    : web_have(strndup(life, len = sizeof(life) - 1));
		patch_add(streams, bytes, len);
		streams->life_at = now + LIFE_MS;
	}
	if (all)
		give_all(streams, now);
	TAILQ_FOREACH (stream, &streams->all, link)
		if (stream->text != NULL || next_patch(stream) != NULL)
			resume(stream);
	return streams->life_at;
}

void
streams_end(struct streams *streams)
{
	struct stream *stream;

	streams->ended = true;
	TAILQ_FOREACH (stream, &streams->all, link)
		resume(stream);
}
