/* In parentheses: the functions of rabbit_fifo. */
#include <assert.h>
#include <stdlib.h>

#include "daemon/base/mem.h"
#include "daemon/memory/quorum.h"

/* A delivery on its way to its channel. */
struct memory_delivery {
	struct memory_message *message; /* owned; a copy */
	unsigned node;
	TAILQ_ENTRY(memory_delivery) entry;
};

/* ---- members ---- */

static struct memory_member *
member_of(const struct memory_quorum *quorum, uint64_t key)
{
	struct memory_member *member;

	TAILQ_FOREACH (member, &quorum->members, entry)
		if (member->key == key)
			break;
	return member;
}

static struct memory_member *
first_in(const struct memory_quorum *quorum, enum memory_member_state state)
{
	struct memory_member *member;

	TAILQ_FOREACH (member, &quorum->members, entry)
		if (member->state == state)
			break;
	return member;
}

/* Of the channel that it is of. NULL: it was cancelled, or its channel ended. */
static struct memory_consumer *
consumer_of(const struct memory_queue *queue, uint64_t key)
{
	struct memory_consumer *consumer;

	TAILQ_FOREACH (consumer, &queue->consumers, of_queue)
		if (consumer->key == key)
			break;
	return consumer;
}

static void
member_remove(struct memory_queue *queue, struct memory_member *member)
{
	assert(member->unread == 0);
	if (member->state != MEMORY_MEMBER_WAITING)
		memory_queue_used(queue);
	TAILQ_REMOVE(&queue->quorum->members, member, entry);
	free(member);
}

/* Those that wait, and those that are suspended, do not count (query_stat, is_expired). */
size_t
memory_fifo_members(const struct memory_queue *queue)
{
	const struct memory_member *member;
	size_t count = 0;

	TAILQ_FOREACH (member, &queue->quorum->members, entry)
		count += member->state != MEMORY_MEMBER_WAITING &&
			 member->state != MEMORY_MEMBER_SUSPENDED;
	return count;
}

uint64_t
memory_fifo_active(const struct memory_queue *queue, unsigned *ret_unread)
{
	const struct memory_member *member = first_in(queue->quorum, MEMORY_MEMBER_ACTIVE);

	if (ret_unread != NULL)
		*ret_unread = member != NULL ? member->unread : 0;
	return member != NULL ? member->opening : 0;
}

bool
memory_fifo_has_key(const struct memory_queue *queue, uint64_t key)
{
	return member_of(queue->quorum, key) != NULL;
}

uint64_t
memory_fifo_cancelled(const struct memory_queue *queue, uint64_t opening)
{
	const struct memory_member *member;

	TAILQ_FOREACH (member, &queue->quorum->members, entry)
		if (member->opening == opening && member->state == MEMORY_MEMBER_CANCELLED)
			return member->key;
	return 0;
}

bool
memory_fifo_has_channel(const struct memory_queue *queue, uint64_t opening)
{
	const struct memory_member *member;

	TAILQ_FOREACH (member, &queue->quorum->members, entry)
		if (member->opening == opening)
			return true;
	return false;
}

/* ---- delivering ---- */

/*
 * The delivery arrives at its channel, which gives it a tag. A channel whose consumer is cancelled
 * drops it.
 */
static void
hand_over(const struct memory_queue *queue, const struct memory_message *message)
{
	const struct memory_consumer *consumer = consumer_of(queue, message->key);
	struct memory_handed *handed;
	amqp_basic_deliver_t deliver;

	if (consumer == NULL)
		return;
	handed = mem_alloc(sizeof(*handed));
	handed->tag = ++consumer->channel->last_tag;
	handed->queue = mem_strdup(queue->name);
	handed->consumer = mem_strdup(consumer->tag);
	handed->key = message->key;
	handed->id = message->id;
	TAILQ_INSERT_TAIL(&consumer->channel->handed, handed, entry);
	deliver = (amqp_basic_deliver_t){
	    .consumer_tag = amqp_cstring_bytes(consumer->tag),
	    .delivery_tag = handed->tag,
	    .redelivered = message->acquired > 0,
	    .exchange = amqp_cstring_bytes(message->exchange),
	    .routing_key = amqp_cstring_bytes(message->routing_key),
	};
	memory_channel_send_message(
	    consumer->channel, false, AMQP_BASIC_DELIVER_METHOD, &deliver, message);
}

static void
delivery_free(struct memory_quorum *quorum, struct memory_delivery *delivery)
{
	TAILQ_REMOVE(&quorum->held, delivery, entry);
	memory_message_free(delivery->message);
	free(delivery);
}

static void
send_delivery(struct memory_queue *queue, const struct memory_member *member,
    const struct memory_message *message)
{
	struct memory_quorum *quorum = queue->quorum;
	struct memory_delivery *delivery;

	if (!quorum->late && memory_reach_from(queue, member->node) == MEMORY_REACHED) {
		hand_over(queue, message);
		return;
	}
	delivery = mem_alloc(sizeof(*delivery));
	delivery->message = memory_message_copy(message);
	delivery->node = member->node;
	TAILQ_INSERT_TAIL(&quorum->held, delivery, entry);
}

/*
 * The first that waits, before 4.0. Then the one that takes most messages, and of these the oldest
 * one (sort_waiting).
 */
static struct memory_member *
next_member(const struct memory_queue *queue)
{
	struct memory_member *next = first_in(queue->quorum, MEMORY_MEMBER_WAITING), *member = next;

	if (queue->world->version < MEMORY_VERSION(4, 0))
		return next;
	while (member != NULL && (member = TAILQ_NEXT(member, entry)) != NULL) {
		if (member->state == MEMORY_MEMBER_WAITING &&
		    (member->prefetch > next->prefetch ||
			(member->prefetch == next->prefetch && member->order < next->order)))
			next = member;
	}
	return next;
}

/* Without an active consumer the next one becomes it, and gets what is ready. */
void
memory_fifo_go_on(struct memory_queue *queue)
{
	struct memory_quorum *quorum = queue->quorum;
	struct memory_member *active = first_in(quorum, MEMORY_MEMBER_ACTIVE);
	struct memory_message *message;

	if (active == NULL)
		active = next_member(queue);
	if (active == NULL)
		return;
	active->state = MEMORY_MEMBER_ACTIVE;
	while (!quorum->starved && (active->prefetch == 0 || active->unread < active->prefetch) &&
	       (message = TAILQ_FIRST(&queue->ready)) != NULL) {
		TAILQ_REMOVE(&queue->ready, message, of_queue);
		TAILQ_INSERT_TAIL(&queue->delivered, message, of_queue);
		message->key = active->key;
		message->id = active->deliveries++;
		active->unread++;
		send_delivery(queue, active, message);
	}
}

/* ---- returning ---- */

static struct memory_message *
find_delivered(const struct memory_queue *queue, uint64_t key, uint64_t id)
{
	struct memory_message *message;

	TAILQ_FOREACH (message, &queue->delivered, of_queue)
		if (message->key == key && message->id == id)
			break;
	return message;
}

const struct memory_message *
memory_fifo_message(const struct memory_queue *queue, uint64_t key, uint64_t id)
{
	return find_delivered(queue, key, id);
}

static void
take_from(struct memory_queue *queue, struct memory_member *member, struct memory_message *message)
{
	TAILQ_REMOVE(&queue->delivered, message, of_queue);
	member->unread--;
}

/* Behind the last one that was returned. Those are served before all others (take_next_msg). */
static void
insert_returned(struct memory_queue *queue, struct memory_message *message)
{
	struct memory_message *behind;

	message->returned = true;
	TAILQ_FOREACH (behind, &queue->ready, of_queue)
		if (!behind->returned)
			break;
	if (behind == NULL)
		TAILQ_INSERT_TAIL(&queue->ready, message, of_queue);
	else
		TAILQ_INSERT_BEFORE(behind, message, of_queue);
}

enum cause { CAUSE_NACK, CAUSE_REJECT, CAUSE_END, CAUSE_NODE };

/* From 4.3 on, x-delivery-count and the limit count these alone (rabbit_channel, settle). */
static bool
is_failure(enum cause cause)
{
	return cause == CAUSE_REJECT || cause == CAUSE_END;
}

/*
 * Whether the message is appended as a new one (handle_aux, requeue). Others are returned
 * (return_one). From 4.3 on, no message is appended.
 */
static bool
is_appended(const struct memory_queue *queue, enum cause cause)
{
	return !queue->quorum->limited && queue->world->version < MEMORY_VERSION(4, 3) &&
	       (cause == CAUSE_NACK || cause == CAUSE_REJECT);
}

static void
put_back(struct memory_queue *queue, struct memory_member *member, struct memory_message *message,
    enum cause cause)
{
	const struct memory_quorum *quorum = queue->quorum;
	unsigned counted;

	take_from(queue, member, message);
	message->acquired++;
	message->failed += is_failure(cause);
	counted =
	    queue->world->version >= MEMORY_VERSION(4, 3) ? message->failed : message->acquired;
	if (quorum->limited && (long)counted > quorum->limit) {
		memory_message_free(message);
	} else if (is_appended(queue, cause)) {
		message->returned = false;
		TAILQ_INSERT_TAIL(&queue->ready, message, of_queue);
	} else {
		insert_returned(queue, message);
	}
}

/* In the order in which they were delivered (return_all). */
static void
put_all_back(struct memory_queue *queue, struct memory_member *member, enum cause cause)
{
	struct memory_message *message, *next;

	TAILQ_FOREACH_SAFE (message, &queue->delivered, of_queue, next) {
		if (message->key == member->key)
			put_back(queue, member, message, cause);
	}
}

/* ---- requests ---- */

void
memory_fifo_register(struct memory_queue *queue, const struct memory_member *values)
{
	struct memory_member *member = member_of(queue->quorum, values->key);

	if (member == NULL) {
		member = mem_alloc(sizeof(*member));
		*member = *values;
		member->order = ++queue->world->last_message;
		TAILQ_INSERT_TAIL(&queue->quorum->members, member, entry);
	}
	member->prefetch = values->prefetch;
	member->state = MEMORY_MEMBER_WAITING;
	memory_fifo_go_on(queue);
}

static void
remove_if_done(struct memory_queue *queue, struct memory_member *member)
{
	if (member->state == MEMORY_MEMBER_CANCELLED && member->unread == 0)
		member_remove(queue, member);
}

void
memory_fifo_cancel(struct memory_queue *queue, uint64_t key)
{
	struct memory_member *member = member_of(queue->quorum, key);

	if (member == NULL)
		return;
	if (member->unread == 0)
		member_remove(queue, member);
	else
		member->state = MEMORY_MEMBER_CANCELLED;
	memory_fifo_go_on(queue);
}

void
memory_fifo_settle(struct memory_queue *queue, uint64_t key, uint64_t id, enum memory_settled how)
{
	struct memory_message *message = find_delivered(queue, key, id);
	struct memory_member *member = member_of(queue->quorum, key);

	if (message == NULL)
		return;
	switch (how) {
	case MEMORY_GONE:
		take_from(queue, member, message);
		memory_message_free(message);
		break;
	case MEMORY_NACKED:
		put_back(queue, member, message, CAUSE_NACK);
		break;
	case MEMORY_REJECTED:
		put_back(queue, member, message, CAUSE_REJECT);
		break;
	}
	remove_if_done(queue, member);
	memory_fifo_go_on(queue);
}

void
memory_fifo_end_channel(struct memory_queue *queue, uint64_t opening)
{
	struct memory_member *member, *next;

	TAILQ_FOREACH_SAFE (member, &queue->quorum->members, entry, next) {
		if (member->opening != opening)
			continue;
		put_all_back(queue, member, CAUSE_END);
		member_remove(queue, member);
	}
	memory_fifo_go_on(queue);
}

void
memory_fifo_add(struct memory_queue *queue, const struct memory_message *published)
{
	struct memory_message *message = memory_message_copy(published);

	TAILQ_INSERT_TAIL(&queue->ready, message, of_queue);
	memory_fifo_go_on(queue);
}

/* ---- nodes ---- */

static void
suspend(struct memory_queue *queue, struct memory_member *member)
{
	struct memory_quorum *quorum = queue->quorum;

	put_all_back(queue, member, CAUSE_NODE);
	if (member->state == MEMORY_MEMBER_CANCELLED) {
		member_remove(queue, member);
		return;
	}
	member->state = MEMORY_MEMBER_SUSPENDED;
	TAILQ_REMOVE(&quorum->members, member, entry);
	TAILQ_INSERT_TAIL(&quorum->members, member, entry);
	memory_queue_used(queue);
}

/* The first one of the node that is not suspended. */
static struct memory_member *
first_up(const struct memory_quorum *quorum, unsigned node)
{
	struct memory_member *member;

	TAILQ_FOREACH (member, &quorum->members, entry)
		if (member->node == node && member->state != MEMORY_MEMBER_SUSPENDED)
			break;
	return member;
}

bool
memory_fifo_suspend_active(struct memory_queue *queue)
{
	struct memory_member *active = first_in(queue->quorum, MEMORY_MEMBER_ACTIVE);

	if (active == NULL)
		return false;
	suspend(queue, active);
	memory_fifo_go_on(queue);
	return true;
}

void
memory_fifo_resume(struct memory_queue *queue, unsigned node)
{
	struct memory_member *member;

	TAILQ_FOREACH (member, &queue->quorum->members, entry)
		if (member->state == MEMORY_MEMBER_SUSPENDED &&
		    (node == MEMORY_NODES || member->node == node))
			member->state = MEMORY_MEMBER_WAITING;
	memory_fifo_go_on(queue);
}

void
memory_fifo_release(struct memory_queue *queue, unsigned node, bool arrive)
{
	struct memory_quorum *quorum = queue->quorum;
	struct memory_delivery *delivery, *next;

	TAILQ_FOREACH_SAFE (delivery, &quorum->held, entry, next) {
		if (node != MEMORY_NODES && delivery->node != node)
			continue;
		if (arrive)
			hand_over(queue, delivery->message);
		delivery_free(quorum, delivery);
	}
}

void
memory_fifo_fetch(struct memory_queue *queue)
{
	struct memory_quorum *quorum = queue->quorum;
	unsigned version = queue->world->version;
	bool reversed = version >= MEMORY_VERSION(3, 11) && version < MEMORY_VERSION(4, 3);
	struct memory_delivery *delivery;

	while ((delivery = reversed ? TAILQ_LAST(&quorum->held, memory_deliveries)
				    : TAILQ_FIRST(&quorum->held)) != NULL) {
		hand_over(queue, delivery->message);
		delivery_free(quorum, delivery);
	}
}

void
memory_fifo_suspend(struct memory_queue *queue, unsigned node)
{
	struct memory_member *member;

	while ((member = first_up(queue->quorum, node)) != NULL)
		suspend(queue, member);
	memory_fifo_go_on(queue);
}

/* ---- more that happens to it ---- */

/* Of a consumer, only the message that it was delivered first is too old (evaluate_consumer_timeout). */
bool
memory_fifo_time_out(struct memory_queue *queue)
{
	struct memory_member *active = first_in(queue->quorum, MEMORY_MEMBER_ACTIVE);
	const struct memory_consumer *consumer;
	struct memory_message *message;

	if (active == NULL || active->unread == 0)
		return false;
	TAILQ_FOREACH (message, &queue->delivered, of_queue)
		if (message->key == active->key)
			break;
	active->state = MEMORY_MEMBER_TIMED_OUT;
	put_back(queue, active, message, CAUSE_NODE);
	consumer = consumer_of(queue, active->key);
	if (consumer != NULL)
		memory_consumer_send_cancel(consumer);
	memory_fifo_go_on(queue);
	return true;
}

size_t
memory_fifo_purge(struct memory_queue *queue, bool all)
{
	struct memory_message *message;
	struct memory_member *member;
	size_t count = 0;

	for (; (message = TAILQ_FIRST(&queue->ready)) != NULL; count++) {
		TAILQ_REMOVE(&queue->ready, message, of_queue);
		memory_message_free(message);
	}
	for (; all && (message = TAILQ_FIRST(&queue->delivered)) != NULL; count++) {
		member = member_of(queue->quorum, message->key);
		take_from(queue, member, message);
		memory_message_free(message);
		remove_if_done(queue, member);
	}
	return count;
}

/* ---- life ---- */

void
memory_fifo_init(struct memory_queue *queue)
{
	TAILQ_INIT(&queue->quorum->members);
	TAILQ_INIT(&queue->quorum->held);
}

void
memory_fifo_done(struct memory_queue *queue)
{
	struct memory_quorum *quorum = queue->quorum;
	struct memory_member *member;

	(void)memory_fifo_purge(queue, true);
	memory_fifo_release(queue, MEMORY_NODES, false);
	while ((member = TAILQ_FIRST(&quorum->members)) != NULL) {
		TAILQ_REMOVE(&quorum->members, member, entry);
		free(member);
	}
}
