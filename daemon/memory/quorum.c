#include "daemon/memory/quorum.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"

/* The limit of RabbitMQ 4.0 and later, if the queue has none. */
#define DELIVERY_LIMIT 20

enum command_kind {
	COMMAND_REGISTER,
	COMMAND_CANCEL,
	COMMAND_SETTLE, /* of a message */
	COMMAND_ADD,    /* only if the queue could not be reached; else it is done at once */
	COMMAND_END     /* of a channel */
};

struct memory_command {
	enum command_kind kind;
	int64_t when; /* clock time at which the queue takes it */
	bool lost;    /* it waits until the test sends it again */
	unsigned node;
	uint64_t key, opening, id;
	enum memory_settled how;
	unsigned prefetch;
	/* borrowed; it waits for this command; NULL: it does not, or is gone */
	struct memory_channel *channel;
	struct memory_message *message; /* owned */
	TAILQ_ENTRY(memory_command) entry;
};

/* ---- commands ---- */

static void
apply(struct memory_queue *queue, const struct memory_command *command)
{
	switch (command->kind) {
	case COMMAND_REGISTER:
		memory_fifo_register(queue, &(struct memory_member){.key = command->key,
						.opening = command->opening,
						.node = command->node,
						.prefetch = command->prefetch});
		break;
	case COMMAND_CANCEL:
		memory_fifo_cancel(queue, command->key);
		break;
	case COMMAND_SETTLE:
		memory_fifo_settle(queue, command->key, command->id, command->how);
		break;
	case COMMAND_ADD:
		memory_fifo_add(queue, command->message);
		break;
	case COMMAND_END:
		memory_fifo_end_channel(queue, command->opening);
		break;
	}
}

/* The channel that waited for the command goes on. broken: its connection ends instead. */
static void
command_free(struct memory_command *command, bool broken)
{
	struct memory_channel *channel = command->channel;

	if (channel != NULL) {
		channel->asks = NULL;
		channel->broken = broken;
		timers_set(channel->connection->world->timers, &channel->arrive,
		    memory_now(channel->connection->world));
	}
	if (command->message != NULL)
		memory_message_free(command->message);
	free(command);
}

/* It fails to reach the queue, and is not tried again. */
static bool
fails(const struct memory_queue *queue, const struct memory_command *command)
{
	enum memory_reach reach = memory_reach_from(queue, command->node);

	return command->kind == COMMAND_REGISTER &&
	       (reach == MEMORY_TIMED_OUT || reach == MEMORY_DOWN);
}

/* The first command that the queue takes now. NULL: none; the timer is set for a later one. */
static struct memory_command *
next_command(struct memory_queue *queue)
{
	struct memory_command *command;

	TAILQ_FOREACH (command, &queue->quorum->commands, entry) {
		if (command->lost || (memory_reach_from(queue, command->node) != MEMORY_REACHED &&
					 !fails(queue, command)))
			continue;
		if (command->when <= memory_now(queue->world))
			return command;
		timers_set(queue->world->timers, &queue->quorum->timer, command->when);
		return NULL;
	}
	return NULL;
}

/* Takes the commands that are due. */
static void
run(struct memory_queue *queue)
{
	struct memory_command *command;
	bool broken;

	while ((command = next_command(queue)) != NULL) {
		broken = fails(queue, command);
		TAILQ_REMOVE(&queue->quorum->commands, command, entry);
		if (!broken)
			apply(queue, command);
		command_free(command, broken);
	}
}

static void
on_timer(void *ctx, uint64_t id)
{
	(void)id;
	run(ctx);
}

/* Behind those that are due at the same time, or sooner. */
static void
insert(struct memory_quorum *quorum, struct memory_command *command)
{
	struct memory_command *behind;

	TAILQ_FOREACH (behind, &quorum->commands, entry)
		if (behind->when > command->when)
			break;
	if (behind != NULL)
		TAILQ_INSERT_BEFORE(behind, command, entry);
	else
		TAILQ_INSERT_TAIL(&quorum->commands, command, entry);
}

/*
 * Commands of a channel stay in order. Those of several channels come in any order. sync: the channel
 * waits until the queue has taken it.
 */
static void
submit(struct memory_queue *queue, struct memory_channel *channel, bool sync,
    struct memory_command values)
{
	struct memory_command *command = mem_alloc(sizeof(*command));

	*command = values;
	command->node = channel->connection->node;
	command->opening = channel->opening;
	command->when = channel->last_command = memory_later(
	    channel->last_command, memory_now(queue->world) + memory_delay(queue->world));
	if (sync) {
		command->channel = channel;
		channel->asks = command;
	}
	insert(queue->quorum, command);
	run(queue);
}

/* ---- requests of channels ---- */

static bool
is_taken(const struct memory_queue *queue, uint64_t key)
{
	const struct memory_consumer *consumer;

	TAILQ_FOREACH (consumer, &queue->consumers, of_queue)
		if (consumer->key == key)
			return true;
	return false;
}

/*
 * From 4.0 on, a key is never used twice. Before, a consumer has the key of the one before it with
 * the same tag on its channel, and counts from the start.
 */
static uint64_t
new_key(const struct memory_queue *queue, uint64_t opening)
{
	uint64_t cancelled = memory_fifo_cancelled(queue, opening);

	if (cancelled != 0 && memory_fifo_active(queue, NULL) == 0)
		return cancelled;
	if (queue->world->version < MEMORY_VERSION(4, 0) && !memory_fifo_has_key(queue, opening) &&
	    !is_taken(queue, opening))
		return opening;
	return ++queue->world->last_message;
}

bool
memory_quorum_register(struct memory_consumer *consumer)
{
	struct memory_channel *channel = consumer->channel;
	struct memory_queue *queue = consumer->queue;
	enum memory_reach reach = memory_reach_from(queue, channel->connection->node);

	assert(!consumer->no_ack && consumer->priority == 0);
	if (queue->quorum->refuses || reach == MEMORY_TIMED_OUT || reach == MEMORY_DOWN)
		return false;
	consumer->key = new_key(queue, channel->opening);
	channel->consumes_quorum = true;
	submit(queue, channel, true,
	    (struct memory_command){
		.kind = COMMAND_REGISTER, .key = consumer->key, .prefetch = consumer->prefetch});
	return true;
}

void
memory_quorum_cancel(struct memory_consumer *consumer)
{
	struct memory_channel *channel = consumer->channel;
	struct memory_queue *queue = consumer->queue;
	uint64_t key = consumer->key;

	memory_consumer_free(consumer);
	submit(queue, channel, true, (struct memory_command){.kind = COMMAND_CANCEL, .key = key});
}

/* Whether the channel has a consumer, or will have one. */
static bool
concerns(const struct memory_queue *queue, uint64_t opening)
{
	const struct memory_command *command;

	TAILQ_FOREACH (command, &queue->quorum->commands, entry)
		if (command->opening == opening && command->kind == COMMAND_REGISTER)
			return true;
	return memory_fifo_has_channel(queue, opening);
}

static void
handed_free(struct memory_channel *channel, struct memory_handed *handed)
{
	TAILQ_REMOVE(&channel->handed, handed, entry);
	free(handed->queue);
	free(handed->consumer);
	free(handed);
}

void
memory_quorum_channel_ended(struct memory_channel *channel)
{
	struct memory_queue *queue, *next;
	struct memory_handed *handed;

	if (channel->asks != NULL)
		channel->asks->channel = NULL;
	channel->asks = NULL;
	while ((handed = TAILQ_FIRST(&channel->handed)) != NULL)
		handed_free(channel, handed);
	if (!channel->consumes_quorum)
		return;
	channel->consumes_quorum = false;
	HASH_ITER (hh, channel->connection->world->queues, queue, next) {
		if (queue->quorum != NULL && concerns(queue, channel->opening))
			submit(queue, channel, false,
			    (struct memory_command){
				.kind = COMMAND_END, .lost = queue->quorum->lingers});
	}
}

struct memory_handed *
memory_handed_find(const struct memory_channel *channel, uint64_t tag)
{
	struct memory_handed *handed;

	TAILQ_FOREACH (handed, &channel->handed, entry)
		if (handed->tag == tag)
			break;
	return handed;
}

/* NULL: there is no such queue. */
static struct memory_queue *
queue_of(const struct memory_channel *channel, const struct memory_handed *handed)
{
	struct memory_queue *queue = memory_queue_find(channel->connection->world, handed->queue);

	return queue != NULL && queue->quorum != NULL ? queue : NULL;
}

/*
 * A channel knows the queue and the consumer by their names alone. If both are new ones, it takes an
 * old delivery for one of theirs (rabbit_fifo_client, consumer_key).
 */
static uint64_t
key_of(const struct memory_channel *channel, const struct memory_handed *handed)
{
	const struct memory_consumer *consumer =
	    memory_consumer_find(channel, amqp_cstring_bytes(handed->consumer));

	return consumer != NULL && strcmp(consumer->queue->name, handed->queue) == 0 ? consumer->key
										     : handed->key;
}

const char *
memory_handed_body(const struct memory_channel *channel, const struct memory_handed *handed)
{
	const struct memory_queue *queue = queue_of(channel, handed);
	const struct memory_message *message =
	    queue != NULL ? memory_fifo_message(queue, key_of(channel, handed), handed->id) : NULL;

	return message != NULL ? message->body : NULL;
}

void
memory_handed_settle(
    struct memory_channel *channel, struct memory_handed *handed, enum memory_settled how)
{
	struct memory_queue *queue = queue_of(channel, handed);
	struct memory_command command = {
	    .kind = COMMAND_SETTLE,
	    .how = how,
	    .key = key_of(channel, handed),
	    .id = handed->id,
	};

	handed_free(channel, handed);
	if (queue == NULL || (how != MEMORY_GONE && queue->quorum->loses))
		return;
	command.lost = how != MEMORY_GONE && queue->quorum->delays;
	submit(queue, channel, false, command);
}

void
memory_quorum_add_later(struct memory_queue *queue, struct memory_channel *channel,
    const struct memory_message *published)
{
	submit(queue, channel, false,
	    (struct memory_command){
		.kind = COMMAND_ADD, .message = memory_message_copy(published)});
}

/* ---- failures ---- */

/*
 * The queue's leader is at its home. While the home is silent, deliveries and commands are on their
 * way. The consumers of a node that is down are active again before their ends are noticed.
 */
void
memory_quorum_part(struct memory_queue *queue, unsigned from, enum memory_reach reach)
{
	if (reach == MEMORY_SILENT)
		return;
	memory_fifo_release(queue, from, reach == MEMORY_REACHED);
	if (reach == MEMORY_REACHED)
		memory_fifo_resume(queue, from);
	else
		memory_fifo_suspend(queue, from);
	timers_set(queue->world->timers, &queue->quorum->timer, memory_now(queue->world));
}

static struct memory_command *
last_lost(const struct memory_quorum *quorum)
{
	struct memory_command *command, *last = NULL;

	TAILQ_FOREACH (command, &quorum->commands, entry)
		if (command->lost)
			last = command;
	return last;
}

void
memory_quorum_resend(struct memory_queue *queue)
{
	struct memory_quorum *quorum = queue->quorum;
	struct memory_command *command;

	while ((command = last_lost(quorum)) != NULL) {
		TAILQ_REMOVE(&quorum->commands, command, entry);
		command->lost = false;
		command->when = memory_now(queue->world);
		insert(quorum, command);
	}
	run(queue);
}

/* ---- life ---- */

/* -1 means no limit, but before RabbitMQ 4.0 it means that no message returns. */
static void
set_limit(struct memory_quorum *quorum, unsigned version)
{
	const struct memory_argument *given = &quorum->arguments[0];

	quorum->limit = given->given ? given->value : DELIVERY_LIMIT;
	quorum->limited =
	    version < MEMORY_VERSION(4, 0) ? given->given : !given->given || given->value >= 0;
}

void
memory_quorum_new(struct memory_queue *queue, const amqp_queue_declare_t *declare)
{
	struct memory_quorum *quorum = mem_alloc(sizeof(*quorum));

	assert(memory_argument(&declare->arguments, "x-single-active-consumer") != NULL);
	queue->single = true;
	for (int i = 0; i < MEMORY_QUORUM_ARGUMENTS; i++)
		quorum->arguments[i] = memory_argument_of(declare, memory_quorum_argument_names[i]);
	set_limit(quorum, queue->world->version);
	TAILQ_INIT(&quorum->commands);
	timer_init(&quorum->timer, on_timer, queue, 0);
	queue->quorum = quorum;
	memory_fifo_init(queue);
}

/* ends: those of the ends of channels stay. */
static void
drop_commands(struct memory_quorum *quorum, bool ends)
{
	struct memory_command *command, *next;

	TAILQ_FOREACH_SAFE (command, &quorum->commands, entry, next) {
		if (!ends && command->kind == COMMAND_END)
			continue;
		TAILQ_REMOVE(&quorum->commands, command, entry);
		command_free(command, false);
	}
}

void
memory_quorum_restart(struct memory_queue *queue)
{
	struct memory_command *command;

	drop_commands(queue->quorum, false);
	memory_fifo_release(queue, MEMORY_NODES, false);
	while ((command = TAILQ_FIRST(&queue->quorum->commands)) != NULL) {
		TAILQ_REMOVE(&queue->quorum->commands, command, entry);
		apply(queue, command);
		command_free(command, false);
	}
}

void
memory_quorum_free(struct memory_queue *queue)
{
	memory_fifo_done(queue);
	drop_commands(queue->quorum, true);
	timers_cancel(queue->world->timers, &queue->quorum->timer);
	free(queue->quorum);
	queue->quorum = NULL;
}
