#include "daemon/broker/memory_letters.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/letter_senders.h"
#include "daemon/broker/memory_post.h"

enum inbox_state {
	INBOX_CLOSED,
	INBOX_WAITING, /* for the link, or for its time to be opened again */
	INBOX_OPENING,
	INBOX_OPEN
};

/* Asked before the inbox was open. */
struct question {
	TAILQ_ENTRY(question) entry;
	uint64_t number;
	char *text; /* owned */
	int64_t until;
};

struct memory_letters {
	struct memory_broker *broker;         /* borrowed */
	struct memory_connection *connection; /* borrowed; NULL: the link is not up */
	enum inbox_state state;
	char *inbox;         /* owned; OPENING, OPEN; its name */
	uint64_t lane;       /* OPENING, OPEN; else 0 */
	bool wanted;         /* by memory_letters_open() */
	struct timer asking; /* wanted by one who asks, until then */
	struct timer again;
	uint64_t last; /* number of the last question */
	TAILQ_HEAD(, question) waiting;
	struct letter_senders *senders; /* owned */
	struct memory_hearer hearer;
};

static int64_t
now_of(const struct memory_letters *letters)
{
	return clock_now(timers_clock(letters->broker->timers));
}

static void
inbox_set_state(struct memory_letters *letters, enum inbox_state state)
{
	assert(state != INBOX_OPENING || letters->state == INBOX_WAITING);
	assert(state != INBOX_OPEN || letters->state == INBOX_OPENING);
	letters->state = state;
}

static bool
is_wanted(const struct memory_letters *letters)
{
	return letters->wanted || timer_is_set(&letters->asking);
}

/* ---- sending ---- */

static void
on_sent(void *ctx, uint64_t lane, const struct broker_reply *reply)
{
	const struct memory_letters *letters = ctx;

	(void)reply;
	broker_lane_put((struct broker *)letters->broker, lane);
}

static void
send_letter(struct memory_letters *letters, struct memory_call call)
{
	call.lane = broker_lane_take((struct broker *)letters->broker, BROKER_SIDE);
	memory_broker_request(letters->broker, &call,
	    (struct broker_done){.fn = on_sent, .ctx = letters, .id = call.lane});
}

static void
question_free(struct memory_letters *letters, struct question *question)
{
	TAILQ_REMOVE(&letters->waiting, question, entry);
	free(question->text);
	free(question);
}

static void
send_waiting(struct memory_letters *letters)
{
	struct question *question;

	if (letters->state != INBOX_OPEN)
		return;
	while ((question = TAILQ_FIRST(&letters->waiting)) != NULL) {
		if (question->until > now_of(letters))
			send_letter(letters, (struct memory_call){.method = MEMORY_LETTER_ASK,
						 .queue = letters->inbox,
						 .name = question->text,
						 .number = question->number});
		question_free(letters, question);
	}
}

/* ---- the inbox ---- */

static void
forget_lane(struct memory_letters *letters)
{
	letters->lane = 0;
	free(letters->inbox);
	letters->inbox = NULL;
}

static void
lost(struct memory_letters *letters)
{
	forget_lane(letters);
	inbox_set_state(letters, INBOX_WAITING);
	timers_set(letters->broker->timers, &letters->again,
	    now_of(letters) + MEMORY_LETTERS_AGAIN + memory_world_delay(letters->broker->world));
}

static void
on_opened(void *ctx, uint64_t lane, const struct broker_reply *reply)
{
	struct memory_letters *letters = ctx;

	/* Of a link that is gone, or of an inbox that was closed meanwhile. */
	if (lane != letters->lane)
		return;
	if (!reply->lane_open) {
		broker_lane_put((struct broker *)letters->broker, lane);
		lost(letters);
		return;
	}
	inbox_set_state(letters, INBOX_OPEN);
	send_waiting(letters);
}

static void
open_now(struct memory_letters *letters)
{
	struct memory_call call = {.method = MEMORY_INBOX_OPEN};

	timers_cancel(letters->broker->timers, &letters->again);
	inbox_set_state(letters, INBOX_OPENING);
	call.lane = letters->lane = broker_lane_take((struct broker *)letters->broker, BROKER_SIDE);
	call.queue = letters->inbox = mem_printf(LETTER_INBOX "%" PRIu64 "-%" PRIu64,
	    memory_connection_number(letters->connection), letters->lane);
	memory_connection_lane_hear(letters->connection, letters->lane, &letters->hearer);
	memory_broker_request(letters->broker, &call,
	    (struct broker_done){.fn = on_opened, .ctx = letters, .id = call.lane});
}

static void
on_again(void *ctx, uint64_t id)
{
	(void)id;
	open_now(ctx);
}

static void
leave_lane(struct memory_letters *letters)
{
	const struct memory_call call = {
	    .method = MEMORY_INBOX_CLOSE, .lane = letters->lane, .queue = letters->inbox};

	memory_connection_lane_hear(letters->connection, call.lane, NULL);
	memory_broker_request(letters->broker, &call,
	    (struct broker_done){.fn = on_sent, .ctx = letters, .id = call.lane});
	forget_lane(letters);
}

/* Opens or closes it, as it is wanted. */
static void
settle(struct memory_letters *letters)
{
	if (is_wanted(letters) && letters->state == INBOX_CLOSED) {
		inbox_set_state(letters, INBOX_WAITING);
		if (letters->connection != NULL)
			open_now(letters);
	} else if (!is_wanted(letters) && letters->state != INBOX_CLOSED) {
		timers_cancel(letters->broker->timers, &letters->again);
		if (letters->lane != 0)
			leave_lane(letters);
		inbox_set_state(letters, INBOX_CLOSED);
	}
}

static void
on_asked_enough(void *ctx, uint64_t id)
{
	(void)id;
	settle(ctx);
}

/* ---- letters that come ---- */

static void
on_arrived(void *ctx, uint64_t lane, const struct memory_message *message)
{
	struct memory_letters *letters = ctx;
	const struct broker_events *events = &letters->broker->base.events;
	struct broker_letter letter = {
	    .text = message->body, .len = message->len, .user = "memory"};
	char *number;

	/* Our own question comes to us, too. */
	if (lane != letters->lane || message->len > BROKER_LETTER_MAX ||
	    (message->reply_to != NULL && strcmp(message->reply_to, letters->inbox) == 0))
		return;
	if (message->reply_to == NULL) {
		letter.asked = message->number;
		if (events->replied != NULL && letter.asked > 0 && letter.asked <= letters->last)
			events->replied(events->ctx, &letter);
		return;
	}
	number = mem_printf("%" PRIu64, message->number);
	letter.from =
	    letter_senders_add(letters->senders, message->reply_to, number, now_of(letters));
	free(number);
	if (events->asked != NULL && letter.from != 0)
		events->asked(events->ctx, &letter);
}

static void
on_cancelled(void *ctx, uint64_t lane)
{
	struct memory_letters *letters = ctx;

	if (lane != letters->lane)
		return;
	leave_lane(letters);
	lost(letters);
}

static void
on_closed(void *ctx, uint64_t lane)
{
	struct memory_letters *letters = ctx;

	if (lane != letters->lane)
		return;
	broker_lane_put((struct broker *)letters->broker, lane);
	lost(letters);
}

/* ---- outside ---- */

bool
memory_letters_want_link(const struct memory_letters *letters)
{
	return letters->state != INBOX_CLOSED;
}

void
memory_letters_open(struct memory_letters *letters)
{
	letters->wanted = true;
	settle(letters);
}

void
memory_letters_close(struct memory_letters *letters)
{
	letters->wanted = false;
	settle(letters);
}

uint64_t
memory_letters_ask(struct memory_letters *letters, const char *text)
{
	struct question *question;

	if (memory_world_blocked(letters->broker->world))
		return 0;
	question = mem_alloc(sizeof(*question));
	question->number = ++letters->last;
	question->text = mem_strdup(text);
	question->until = now_of(letters) + BROKER_LETTER_TTL;
	TAILQ_INSERT_TAIL(&letters->waiting, question, entry);
	timers_set(
	    letters->broker->timers, &letters->asking, now_of(letters) + MEMORY_LETTERS_IDLE);
	settle(letters);
	send_waiting(letters);
	return letters->last;
}

void
memory_letters_reply(struct memory_letters *letters, uint64_t from, const char *text)
{
	struct letter_sender sender;

	if (letters->connection == NULL || memory_world_blocked(letters->broker->world) ||
	    !letter_senders_find(letters->senders, from, now_of(letters), &sender))
		return;
	send_letter(letters, (struct memory_call){.method = MEMORY_LETTER_REPLY,
				 .queue = sender.inbox,
				 .name = text,
				 .number = letter_number(sender.number)});
}

void
memory_letters_up(struct memory_letters *letters, struct memory_connection *connection)
{
	letters->connection = connection;
	if (letters->state == INBOX_WAITING)
		open_now(letters);
}

void
memory_letters_down(struct memory_letters *letters)
{
	letters->connection = NULL;
	timers_cancel(letters->broker->timers, &letters->again);
	forget_lane(letters);
	if (letters->state != INBOX_CLOSED)
		inbox_set_state(letters, INBOX_WAITING);
}

struct memory_letters *
memory_letters_new(struct memory_broker *broker)
{
	struct memory_letters *letters = mem_alloc(sizeof(*letters));

	letters->broker = broker;
	letters->state = INBOX_CLOSED;
	letters->senders = letter_senders_new();
	letters->hearer = (struct memory_hearer){
	    .arrived = on_arrived, .cancelled = on_cancelled, .closed = on_closed, .ctx = letters};
	timer_init(&letters->asking, on_asked_enough, letters, 0);
	timer_init(&letters->again, on_again, letters, 0);
	TAILQ_INIT(&letters->waiting);
	return letters;
}

void
memory_letters_clear(struct memory_letters *letters)
{
	struct question *question;

	timers_cancel(letters->broker->timers, &letters->asking);
	memory_letters_down(letters);
	inbox_set_state(letters, INBOX_CLOSED);
	while ((question = TAILQ_FIRST(&letters->waiting)) != NULL)
		question_free(letters, question);
}

void
memory_letters_free(struct memory_letters *letters)
{
	memory_letters_clear(letters);
	letter_senders_free(letters->senders);
	free(letters);
}
