#include "daemon/broker/memory_letters.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/broker/letter_inbox.h"
#include "daemon/broker/letter_questions.h"
#include "daemon/broker/letter_senders.h"
#include "daemon/broker/memory_post.h"

struct memory_letters {
	struct memory_broker *broker;         /* borrowed */
	struct memory_connection *connection; /* borrowed; NULL: the link is not up */
	struct letter_inbox inbox;
	char *name;                         /* owned; of the inbox, while OPENING, OPEN */
	uint64_t lane;                      /* OPENING, OPEN; else 0 */
	struct letter_questions *questions; /* owned */
	struct letter_senders *senders;     /* owned */
	struct memory_hearer hearer;
};

static int64_t
now_of(const struct memory_letters *letters)
{
	return clock_now(timers_clock(letters->broker->timers));
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
send_waiting(struct memory_letters *letters)
{
	struct letter_question question;

	while (letters->inbox.state == LETTER_INBOX_OPEN &&
	       letter_questions_take(letters->questions, now_of(letters), &question)) {
		send_letter(letters, (struct memory_call){.method = MEMORY_LETTER_ASK,
					 .queue = letters->name,
					 .name = question.text,
					 .number = question.number});
		free(question.text);
	}
}

/* ---- the inbox ---- */

static void
forget_lane(struct memory_letters *letters)
{
	letters->lane = 0;
	free(letters->name);
	letters->name = NULL;
}

static void
lost(struct memory_letters *letters)
{
	forget_lane(letters);
	letter_inbox_later(&letters->inbox,
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
	letter_inbox_opened(&letters->inbox);
	send_waiting(letters);
}

static void
on_open(void *ctx)
{
	struct memory_letters *letters = ctx;
	struct memory_call call = {.method = MEMORY_INBOX_OPEN};

	if (letters->connection == NULL)
		return;
	letter_inbox_opening(&letters->inbox);
	call.lane = letters->lane = broker_lane_take((struct broker *)letters->broker, BROKER_SIDE);
	call.queue = letters->name = mem_printf(LETTER_INBOX "%" PRIu64 "-%" PRIu64,
	    memory_connection_number(letters->connection), letters->lane);
	memory_connection_lane_hear(letters->connection, letters->lane, &letters->hearer);
	memory_broker_request(letters->broker, &call,
	    (struct broker_done){.fn = on_opened, .ctx = letters, .id = call.lane});
}

static void
leave_lane(struct memory_letters *letters)
{
	const struct memory_call call = {
	    .method = MEMORY_INBOX_CLOSE, .lane = letters->lane, .queue = letters->name};

	memory_connection_lane_hear(letters->connection, call.lane, NULL);
	memory_broker_request(letters->broker, &call,
	    (struct broker_done){.fn = on_sent, .ctx = letters, .id = call.lane});
	forget_lane(letters);
}

static void
on_close(void *ctx)
{
	struct memory_letters *letters = ctx;

	if (letters->lane != 0)
		leave_lane(letters);
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
	    (message->reply_to != NULL && strcmp(message->reply_to, letters->name) == 0))
		return;
	if (message->reply_to == NULL) {
		letter.asked = message->number;
		if (events->replied != NULL &&
		    letter_questions_know(letters->questions, letter.asked))
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
	return letters->inbox.state != LETTER_INBOX_CLOSED;
}

void
memory_letters_open(struct memory_letters *letters)
{
	letter_inbox_want(&letters->inbox, true);
}

void
memory_letters_close(struct memory_letters *letters)
{
	letter_inbox_want(&letters->inbox, false);
}

uint64_t
memory_letters_ask(struct memory_letters *letters, const char *text)
{
	uint64_t number;

	if (memory_world_blocked(letters->broker->world))
		return 0;
	number = letter_questions_add(letters->questions, text, strlen(text), now_of(letters));
	letter_inbox_want_until(&letters->inbox, now_of(letters) + MEMORY_LETTERS_IDLE);
	send_waiting(letters);
	return number;
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
				 .number = broker_number(sender.number)});
}

void
memory_letters_up(struct memory_letters *letters, struct memory_connection *connection)
{
	letters->connection = connection;
	letter_inbox_link_up(&letters->inbox);
}

void
memory_letters_down(struct memory_letters *letters)
{
	letters->connection = NULL;
	forget_lane(letters);
	letter_inbox_link_down(&letters->inbox);
}

struct memory_letters *
memory_letters_new(struct memory_broker *broker)
{
	struct memory_letters *letters = mem_alloc(sizeof(*letters));
	const struct letter_inbox_events events = {
	    .open = on_open, .close = on_close, .ctx = letters};

	letters->broker = broker;
	letter_inbox_init(&letters->inbox, broker->timers, &events);
	letters->questions = letter_questions_new();
	letters->senders = letter_senders_new();
	letters->hearer = (struct memory_hearer){
	    .arrived = on_arrived, .cancelled = on_cancelled, .closed = on_closed, .ctx = letters};
	return letters;
}

void
memory_letters_clear(struct memory_letters *letters)
{
	memory_letters_down(letters);
	letter_inbox_clear(&letters->inbox);
	letter_questions_clear(letters->questions);
}

void
memory_letters_free(struct memory_letters *letters)
{
	memory_letters_clear(letters);
	letter_questions_free(letters->questions);
	letter_senders_free(letters->senders);
	free(letters);
}
