#include "daemon/broker/letters.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/tapped.h"

#define EXCHANGE "lockbroker=ask"
/* BROKER_LETTER_TTL, in ms */
#define EXPIRATION "5000"
_Static_assert(BROKER_LETTER_TTL == 5000 * INT64_C(1000000), "as EXPIRATION says");
#define INBOX_EXPIRES 60000 /* ms */
#define INBOX_LENGTH 256
/* Unread letters on their way to us. */
#define PREFETCH 64
/* After the channel was closed under an open inbox; half of it to one and a half. */
#define AGAIN (100 * NSEC_PER_MSEC)
/* After it was refused. */
#define RARELY (30 * NSEC_PER_SEC)
/* No channel number was left. */
#define NO_LANE (1 * NSEC_PER_SEC)

enum inbox_state {
	INBOX_CLOSED,
	INBOX_WAITING, /* for the link, or for its time to be opened again */
	INBOX_OPENING, /* the answer is to come */
	INBOX_OPEN
};

/* Waits to be sent, for BROKER_LETTER_TTL at most. */
struct question {
	TAILQ_ENTRY(question) entry;
	uint64_t number;
	char *text; /* owned */
	size_t len;
	int64_t until;
};

/* Whom a letter came from, so that it can be answered, for BROKER_LETTER_TTL. */
struct sender {
	uint64_t id;  /* 0: nobody */
	char *inbox;  /* owned */
	char *number; /* owned */
	int64_t until;
};

struct amqp_letters {
	struct amqp_letters_config config;
	enum inbox_state state;
	bool wanted;                      /* by who answers */
	struct timer asking;              /* wanted by one who asks, until then */
	struct timer again;               /* WAITING for its time */
	char name[64];                    /* of the inbox, while OPENING, OPEN */
	struct amqp_tapped lane;          /* open while OPENING, OPEN */
	const char *user;                 /* borrowed; of the link; NULL: not said */
	bool is_question;                 /* what is being delivered: it came by the exchange */
	TAILQ_HEAD(, question) questions; /* owned; in order */
	uint64_t last_question, last_sender;
	struct sender senders[LETTER_SENDERS_MAX]; /* by id */
	bool blocked;
	bool complained; /* of being refused, on this link */
	bool silent;
};

static int64_t
now(const struct amqp_letters *letters)
{
	return clock_now(timers_clock(letters->config.timers));
}

/* ---- publishing ---- */

/* reply_to NULL: a reply. */
static void
publish(const struct amqp_letters *letters, const char *exchange, const char *to,
    const char *number, const char *reply_to, amqp_bytes_t text)
{
	amqp_basic_publish_t fields = {
	    .exchange = amqp_cstring_bytes(exchange), .routing_key = amqp_cstring_bytes(to)};
	amqp_basic_properties_t properties = {
	    ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_EXPIRATION_FLAG |
		      AMQP_BASIC_CORRELATION_ID_FLAG,
	    .delivery_mode = AMQP_DELIVERY_NONPERSISTENT,
	    .expiration = amqp_cstring_bytes(EXPIRATION),
	    .correlation_id = amqp_cstring_bytes(number),
	};

	if (reply_to != NULL) {
		properties._flags |= AMQP_BASIC_REPLY_TO_FLAG;
		properties.reply_to = amqp_cstring_bytes(reply_to);
	}
	if (letters->user != NULL) {
		properties._flags |= AMQP_BASIC_USER_ID_FLAG;
		properties.user_id = amqp_cstring_bytes(letters->user);
	}
	amqp_tapped_publish(&letters->lane, &fields, &properties, text);
}

static void
question_free(struct amqp_letters *letters, struct question *question)
{
	TAILQ_REMOVE(&letters->questions, question, entry);
	free(question->text);
	free(question);
}

static void
send_waiting(struct amqp_letters *letters)
{
	struct question *question;
	char room[BROKER_NUMBER_TEXT];

	while ((question = TAILQ_FIRST(&letters->questions)) != NULL) {
		if (question->until > now(letters)) {
			if (letters->state != INBOX_OPEN || letters->blocked)
				return;
			publish(letters, EXCHANGE, "", broker_number_text(room, question->number),
			    letters->name,
			    (amqp_bytes_t){.len = question->len, .bytes = question->text});
		}
		question_free(letters, question);
	}
}

/* ---- the inbox ---- */

static void
inbox_set_state(struct amqp_letters *letters, enum inbox_state state)
{
	assert(state != INBOX_OPENING || letters->state == INBOX_WAITING);
	assert(state != INBOX_OPEN || letters->state == INBOX_OPENING);
	letters->state = state;
}

static void
name_inbox(struct amqp_letters *letters)
{
	uint8_t random[16];
	size_t used = strlen(LETTER_INBOX);
	ssize_t got = sizeof(random);

	/* High bits: those of two seeds are unlike where the low ones are alike (nrand48(3)). */
	if (letters->config.replays)
		for (size_t i = 0; i < sizeof(random); i++)
			random[i] =
			    (uint8_t)(jitter_below(letters->config.jitter, INT64_C(1) << 62) >> 54);
	else
		got = getrandom(random, sizeof(random), 0);
	/* So few bytes come whole, and without an interruption (getrandom(2)). */
	assert(got == (ssize_t)sizeof(random));
	memcpy(letters->name, LETTER_INBOX, used);
	for (size_t i = 0; i < sizeof(random); i++, used += 2)
		snprintf(letters->name + used, sizeof(letters->name) - used, "%02x", random[i]);
}

static void
send_declares(const struct amqp_letters *letters)
{
	amqp_exchange_declare_t ask = {
	    .exchange = amqp_cstring_bytes(EXCHANGE),
	    .type = amqp_cstring_bytes("fanout"),
	    .durable = 1,
	};
	amqp_table_entry_t arguments[] = {
	    amqp_entry_number("x-expires", INBOX_EXPIRES),
	    amqp_entry_number("x-max-length", INBOX_LENGTH),
	    amqp_entry_text("x-queue-type", "classic"),
	};
	amqp_queue_declare_t declare = {
	    .queue = amqp_cstring_bytes(letters->name),
	    .durable = 1,
	    .auto_delete = 1,
	    .arguments = {.num_entries = 3, .entries = arguments},
	};
	amqp_queue_bind_t bind = {
	    .queue = amqp_cstring_bytes(letters->name),
	    .exchange = amqp_cstring_bytes(EXCHANGE),
	};

	amqp_tapped_send(&letters->lane, AMQP_EXCHANGE_DECLARE_METHOD, &ask);
	amqp_tapped_send(&letters->lane, AMQP_QUEUE_DECLARE_METHOD, &declare);
	amqp_tapped_send(&letters->lane, AMQP_QUEUE_BIND_METHOD, &bind);
}

static void
send_consume(const struct amqp_letters *letters)
{
	amqp_basic_qos_t qos = {.prefetch_count = PREFETCH};
	amqp_basic_consume_t consume = {.queue = amqp_cstring_bytes(letters->name)};

	amqp_tapped_send(&letters->lane, AMQP_BASIC_QOS_METHOD, &qos);
	amqp_tapped_send(&letters->lane, AMQP_BASIC_CONSUME_METHOD, &consume);
}

static void
open_later(struct amqp_letters *letters, int64_t again)
{
	inbox_set_state(letters, INBOX_WAITING);
	timers_set(letters->config.timers, &letters->again,
	    now(letters) + again / 2 + jitter_below(letters->config.jitter, again));
}

static void
open_now(struct amqp_letters *letters)
{
	timers_cancel(letters->config.timers, &letters->again);
	if (letters->silent || amqp_lanes_link(letters->config.lanes) == NULL)
		return;
	if (!amqp_tapped_open(&letters->lane, BROKER_LETTER_MAX)) {
		open_later(letters, NO_LANE);
		return;
	}
	inbox_set_state(letters, INBOX_OPENING);
	name_inbox(letters);
	send_declares(letters);
	send_consume(letters);
}

static void
on_again(void *ctx, uint64_t id)
{
	(void)id;
	open_now(ctx);
}

/* Opens or closes it, as it is wanted. */
static void
settle(struct amqp_letters *letters)
{
	bool wanted = letters->wanted || timer_is_set(&letters->asking);

	if (wanted && letters->state == INBOX_CLOSED) {
		inbox_set_state(letters, INBOX_WAITING);
		open_now(letters);
	} else if (!wanted && letters->state != INBOX_CLOSED) {
		timers_cancel(letters->config.timers, &letters->again);
		inbox_set_state(letters, INBOX_CLOSED);
		amqp_tapped_close(&letters->lane);
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
sender_done(struct sender *sender)
{
	free(sender->inbox);
	free(sender->number);
	*sender = (struct sender){0};
}

/*
 * Its id; 0: that is no inbox, or no number. Only an inbox is answered: a letter says by itself where its
 * reply is to go, and could name any queue there.
 */
static uint64_t
sender_add(struct amqp_letters *letters, const char *inbox, const char *number)
{
	struct sender *sender;

	if (strncmp(inbox, LETTER_INBOX, strlen(LETTER_INBOX)) != 0 || broker_number(number) == 0)
		return 0;
	sender = &letters->senders[++letters->last_sender % LETTER_SENDERS_MAX];
	sender_done(sender);
	*sender = (struct sender){.id = letters->last_sender,
	    .inbox = mem_strdup(inbox),
	    .number = mem_strdup(number),
	    .until = now(letters) + BROKER_LETTER_TTL};
	return sender->id;
}

/* The text is ours: whoever hears it may close the inbox. */
static void
tell(struct amqp_letters *letters, struct broker_letter *letter)
{
	const struct amqp_content *content = &letters->lane.content;

	if (letters->is_question) {
		letter->from = sender_add(letters, content->reply_to, content->correlation_id);
		if (letter->from != 0)
			letters->config.asked(letters->config.ctx, letter);
	} else {
		letter->asked = broker_number(content->correlation_id);
		FAULT(REPLY_TO_LAST, letter->asked++);
		if (letter->asked > 0 && letter->asked <= letters->last_question)
			letters->config.replied(letters->config.ctx, letter);
	}
}

static bool
on_message(void *ctx)
{
	struct amqp_letters *letters = ctx;
	const struct amqp_content *content = &letters->lane.content;
	struct broker_letter letter = {.len = (size_t)content->size};
	char *text, *user;

	amqp_tapped_ack(&letters->lane, letters->lane.delivery);
	/* Our own question comes to us, too. */
	if (letters->silent || content->size > BROKER_LETTER_MAX ||
	    (letters->is_question && strcmp(content->reply_to, letters->name) == 0))
		return true;
	text = mem_alloc(letter.len + 1);
	memcpy(text, content->body, letter.len);
	user = mem_strdup(content->user_id);
	letter.text = text;
	letter.user = user;
	tell(letters, &letter);
	free(text);
	free(user);
	return true;
}

static bool
on_method(void *ctx, const struct amqp_frame *frame)
{
	struct amqp_letters *letters = ctx;

	switch (frame->method) {
	case AMQP_EXCHANGE_DECLARE_OK_METHOD:
	case AMQP_QUEUE_DECLARE_OK_METHOD:
	case AMQP_QUEUE_BIND_OK_METHOD:
	case AMQP_BASIC_QOS_OK_METHOD:
		return true;
	case AMQP_BASIC_CONSUME_OK_METHOD:
		if (letters->state != INBOX_OPENING)
			return false;
		inbox_set_state(letters, INBOX_OPEN);
		send_waiting(letters);
		return true;
	case AMQP_BASIC_CANCEL_METHOD:
		amqp_tapped_close(&letters->lane);
		open_later(letters, AGAIN);
		return true;
	case AMQP_BASIC_DELIVER_METHOD: {
		const amqp_basic_deliver_t *deliver = frame->fields;

		letters->is_question = deliver->exchange.len > 0;
		return amqp_tapped_announce(&letters->lane, deliver->delivery_tag);
	}
	default:
		return false;
	}
}

static void
on_closed(void *ctx, int code, const char *text)
{
	struct amqp_letters *letters = ctx;

	/* "user_id property set to 'a' but authenticated user was 'b'": of a token, or an alias. */
	if (code == AMQP_PRECONDITION_FAILED && strstr(text, "user_id") != NULL) {
		letters->user = NULL;
		open_later(letters, AGAIN);
		return;
	}
	if (!letters->complained)
		log_warning("the broker refused a message to another daemon: %s (%d)", text, code);
	letters->complained = true;
	open_later(letters, RARELY);
}

/* ---- outside ---- */

void
amqp_letters_open(struct amqp_letters *letters)
{
	letters->wanted = true;
	settle(letters);
}

void
amqp_letters_close(struct amqp_letters *letters)
{
	letters->wanted = false;
	settle(letters);
}

bool
amqp_letters_any(const struct amqp_letters *letters)
{
	return letters->state != INBOX_CLOSED;
}

uint64_t
amqp_letters_ask(struct amqp_letters *letters, const char *text, size_t len)
{
	struct question *question;

	assert(len <= BROKER_LETTER_MAX);
	if (letters->blocked)
		return 0;
	question = mem_alloc(sizeof(*question));
	question->number = ++letters->last_question;
	question->text = mem_alloc(len + 1);
	memcpy(question->text, text, len);
	question->len = len;
	question->until = now(letters) + BROKER_LETTER_TTL;
	TAILQ_INSERT_TAIL(&letters->questions, question, entry);
	timers_set(letters->config.timers, &letters->asking, now(letters) + letters->config.idle);
	settle(letters);
	send_waiting(letters);
	return letters->last_question;
}

void
amqp_letters_reply(struct amqp_letters *letters, uint64_t from, const char *text, size_t len)
{
	const struct sender *sender = &letters->senders[from % LETTER_SENDERS_MAX];

	assert(len <= BROKER_LETTER_MAX);
	if (letters->state != INBOX_OPEN || letters->blocked || from == 0 || sender->id != from ||
	    sender->until <= now(letters))
		return;
	publish(letters, "", sender->inbox, sender->number, NULL,
	    (amqp_bytes_t){.len = len, .bytes = (void *)text});
}

void
amqp_letters_block(struct amqp_letters *letters, bool blocked)
{
	letters->blocked = blocked;
	send_waiting(letters);
}

void
amqp_letters_go(struct amqp_letters *letters, const char *user)
{
	letters->user = user;
	if (letters->state == INBOX_WAITING)
		open_now(letters);
}

void
amqp_letters_fail(struct amqp_letters *letters)
{
	letters->blocked = false;
	letters->complained = false;
	amqp_tapped_forget(&letters->lane);
	timers_cancel(letters->config.timers, &letters->again);
	if (letters->state != INBOX_CLOSED)
		inbox_set_state(letters, INBOX_WAITING);
}

/* ---- life ---- */

struct amqp_letters *
amqp_letters_new(const struct amqp_letters_config *config)
{
	static const struct amqp_tapped_events events = {
	    .method = on_method, .message = on_message, .closed = on_closed};
	struct amqp_letters *letters = mem_alloc(sizeof(*letters));

	letters->config = *config;
	TAILQ_INIT(&letters->questions);
	timer_init(&letters->asking, on_asked_enough, letters, 0);
	timer_init(&letters->again, on_again, letters, 0);
	amqp_tapped_init(&letters->lane, config->lanes, &events, letters);
	return letters;
}

void
amqp_letters_silence(struct amqp_letters *letters)
{
	letters->silent = true;
	letters->wanted = false;
	timers_cancel(letters->config.timers, &letters->asking);
	timers_cancel(letters->config.timers, &letters->again);
	inbox_set_state(letters, INBOX_CLOSED);
}

void
amqp_letters_free(struct amqp_letters *letters)
{
	struct question *question;

	if (letters == NULL)
		return;
	amqp_letters_silence(letters);
	amqp_letters_fail(letters);
	while ((question = TAILQ_FIRST(&letters->questions)) != NULL)
		question_free(letters, question);
	for (size_t i = 0; i < LETTER_SENDERS_MAX; i++)
		sender_done(&letters->senders[i]);
	free(letters);
}
