#include "daemon/broker/deletion.h"

#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/base/queue.h"

struct deletion {
	TAILQ_ENTRY(deletion) entry;
	struct amqp_deletions *deletions; /* borrowed */
	uint64_t channel;
	char *queue; /* owned */
	struct broker_done done;
};

struct amqp_deletions {
	struct amqp_channels *channels; /* borrowed */
	TAILQ_HEAD(, deletion) all;     /* owned */
};

static void
deletion_free(struct deletion *deletion)
{
	TAILQ_REMOVE(&deletion->deletions->all, deletion, entry);
	free(deletion->queue);
	free(deletion);
}

static void
finish(struct deletion *deletion, const struct broker_reply *reply, enum broker_answer answer)
{
	struct broker_done done = deletion->done;
	struct broker_reply told = *reply;

	told.answer = answer == BROKER_SKIPPED ? BROKER_UNKNOWN : answer;
	amqp_channels_put(deletion->deletions->channels, deletion->channel);
	deletion_free(deletion);
	done.fn(done.ctx, done.id, &told);
}

static void
on_deleted(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	(void)id;
	finish(ctx, reply, reply->answer);
}

static void
on_checked(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct deletion *deletion = ctx;

	(void)id;
	if (reply->answer == BROKER_OK)
		finish(deletion, reply, BROKER_LOCKED);
	else if (reply->answer == BROKER_ABSENT && reply->channel_open)
		amqp_channels_request(deletion->deletions->channels, deletion->channel,
		    AMQP_REQUEST_DELETE_UNUSED, deletion->queue,
		    (struct broker_done){.fn = on_deleted, .ctx = deletion});
	else
		finish(deletion, reply, reply->answer);
}

void
amqp_deletions_ask(struct amqp_deletions *deletions, const char *queue, struct broker_done done)
{
	struct deletion *deletion = mem_alloc(sizeof(*deletion));

	deletion->deletions = deletions;
	deletion->channel = amqp_channels_take(deletions->channels);
	deletion->queue = mem_strdup(queue);
	deletion->done = done;
	TAILQ_INSERT_TAIL(&deletions->all, deletion, entry);
	FAULT(HOLDER_NOT_ASKED_FOR, amqp_channels_request(deletions->channels, deletion->channel,
					AMQP_REQUEST_DELETE_UNUSED, queue,
					(struct broker_done){.fn = on_deleted, .ctx = deletion});
	      return;);
	amqp_channels_request(deletions->channels, deletion->channel, AMQP_REQUEST_CHECK_CONSUMER,
	    queue, (struct broker_done){.fn = on_checked, .ctx = deletion});
}

struct amqp_deletions *
amqp_deletions_new(struct amqp_channels *channels)
{
	struct amqp_deletions *deletions = mem_alloc(sizeof(*deletions));

	deletions->channels = channels;
	TAILQ_INIT(&deletions->all);
	return deletions;
}

void
amqp_deletions_free(struct amqp_deletions *deletions)
{
	struct deletion *deletion, *next;

	if (deletions == NULL)
		return;
	TAILQ_FOREACH_SAFE (deletion, &deletions->all, entry, next)
		deletion_free(deletion);
	free(deletions);
}
