#include "daemon/broker/mailbox.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/auxiliary.h"
#include "daemon/broker/internal.h"
#include "daemon/broker/raw_channel.h"

#define ASK_EXCHANGE "lockbroker=ask"
/* BROKER_MESSAGE_TTL, in ms */
#define MESSAGE_EXPIRATION "5000"
_Static_assert(BROKER_MESSAGE_TTL == 5000 * INT64_C(1000000), "as MESSAGE_EXPIRATION says");
#define INBOX_EXPIRES 60000 /* ms */
#define INBOX_LENGTH 256
/* The maximum of unacknowledged deliveries. */
#define INBOX_PREFETCH 64
/*
 * The wait after the channel was closed for another cause than a refusal: from half of it to one
 * and a half.
 */
#define INBOX_AGAIN (100 * NSEC_PER_MSEC)
/* The wait after a refusal. */
#define INBOX_RARELY (30 * NSEC_PER_SEC)
/* The wait after no channel number was left. */
#define INBOX_NO_CHANNEL (1 * NSEC_PER_SEC)

enum inbox_state {
	INBOX_CLOSED,
	INBOX_WAITING, /* waits for the link, or for `again` */
	INBOX_OPENING, /* waits for consume-ok */
	INBOX_OPEN
};

/* A query that waits to be sent, for at most BROKER_MESSAGE_TTL. */
struct waiting_query {
	TAILQ_ENTRY(waiting_query) entry;
	uint64_t number;
	char *text; /* owned */
	size_t len;
	int64_t until;
};

/* The sender of a query, which can be answered for BROKER_MESSAGE_TTL. */
struct sender {
	uint64_t id;  /* 0: unused */
	char *inbox;  /* owned */
	char *number; /* owned */
	int64_t until;
};

struct amqp_mailbox {
	struct broker *broker; /* borrowed */
	enum inbox_state state;
	bool wanted;                     /* by broker_inbox_open() */
	struct timer asking;             /* wanted for a query, until this fires */
	struct timer again;              /* WAITING: the next try */
	char name[MAILBOX_NAME_MAX];     /* of the inbox; OPENING, OPEN */
	struct amqp_raw_channel channel; /* OPENING, OPEN */
	const char *user;                /* borrowed; login of the link; NULL: not sent */
	/* of the present delivery: it came through the exchange */
	bool is_query;
	TAILQ_HEAD(, waiting_query) queries; /* owned; in order */
	uint64_t last_query, last_sender;
	struct sender senders[MAILBOX_SENDERS_MAX]; /* by id */
	bool complained;                            /* of being refused, on this link */
};

/* ---- publishing ---- */

/* reply_to: NULL for a reply. */
static void
mailbox_publish(const struct amqp_mailbox *mailbox, const char *exchange, const char *to,
    const char *number, const char *reply_to, amqp_bytes_t text)
{
	amqp_basic_publish_t fields = {
	    .exchange = amqp_cstring_bytes(exchange), .routing_key = amqp_cstring_bytes(to)};
	amqp_basic_properties_t properties = {
	    ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_EXPIRATION_FLAG |
		      AMQP_BASIC_CORRELATION_ID_FLAG,
	    .delivery_mode = AMQP_DELIVERY_NONPERSISTENT,
	    .expiration = amqp_cstring_bytes(MESSAGE_EXPIRATION),
	    .correlation_id = amqp_cstring_bytes(number),
	};

	if (reply_to != NULL) {
		properties._flags |= AMQP_BASIC_REPLY_TO_FLAG;
		properties.reply_to = amqp_cstring_bytes(reply_to);
	}
	if (mailbox->user != NULL) {
		properties._flags |= AMQP_BASIC_USER_ID_FLAG;
		properties.user_id = amqp_cstring_bytes(mailbox->user);
	}
	amqp_raw_channel_publish(&mailbox->channel, &fields, &properties, text);
}

static void
query_free(struct amqp_mailbox *mailbox, struct waiting_query *query)
{
	TAILQ_REMOVE(&mailbox->queries, query, entry);
	free(query->text);
	free(query);
}

static void
mailbox_send_waiting(struct amqp_mailbox *mailbox)
{
	struct waiting_query *query;
	char room[BROKER_NUMBER_TEXT];

	while ((query = TAILQ_FIRST(&mailbox->queries)) != NULL) {
		if (query->until > broker_now(mailbox->broker)) {
			if (mailbox->state != INBOX_OPEN || mailbox->broker->blocked)
				return;
			mailbox_publish(mailbox, ASK_EXCHANGE, "",
			    broker_number_text(room, query->number), mailbox->name,
			    (amqp_bytes_t){.len = query->len, .bytes = query->text});
		}
		query_free(mailbox, query);
	}
}

/* ---- the inbox ---- */

static void
inbox_set_state(struct amqp_mailbox *mailbox, enum inbox_state state)
{
	assert(state != INBOX_OPENING || mailbox->state == INBOX_WAITING);
	assert(state != INBOX_OPEN || mailbox->state == INBOX_OPENING);
	mailbox->state = state;
}

void
amqp_mailbox_name(
    char ret[MAILBOX_NAME_MAX], const char *prefix, struct jitter *jitter, bool replays)
{
	uint8_t random[16];
	size_t used = strlen(prefix);
	ssize_t got = sizeof(random);

	/* The high bits: two seeds may have the same low bits (nrand48(3)). */
	if (replays)
		for (size_t i = 0; i < sizeof(random); i++)
			random[i] = (uint8_t)(jitter_below(jitter, INT64_C(1) << 62) >> 54);
	else
		got = getrandom(random, sizeof(random), 0);
	/* getrandom(2) returns so few bytes completely, and without an interruption. */
	assert(got == (ssize_t)sizeof(random));
	assert(used + 2 * sizeof(random) < MAILBOX_NAME_MAX);
	memcpy(ret, prefix, used);
	for (size_t i = 0; i < sizeof(random); i++, used += 2)
		snprintf(ret + used, MAILBOX_NAME_MAX - used, "%02x", random[i]);
}

static void
inbox_send_declares(const struct amqp_mailbox *mailbox)
{
	amqp_exchange_declare_t ask = {
	    .exchange = amqp_cstring_bytes(ASK_EXCHANGE),
	    .type = amqp_cstring_bytes("fanout"),
	    .durable = 1,
	};
	amqp_table_entry_t arguments[] = {
	    amqp_entry_number("x-expires", INBOX_EXPIRES),
	    amqp_entry_number("x-max-length", INBOX_LENGTH),
	    amqp_entry_text("x-queue-type", "classic"),
	};
	amqp_queue_declare_t declare = {
	    .queue = amqp_cstring_bytes(mailbox->name),
	    .durable = 1,
	    .auto_delete = 1,
	    .arguments = {.num_entries = 3, .entries = arguments},
	};
	amqp_queue_bind_t bind = {
	    .queue = amqp_cstring_bytes(mailbox->name),
	    .exchange = amqp_cstring_bytes(ASK_EXCHANGE),
	};

	amqp_raw_channel_send(&mailbox->channel, AMQP_EXCHANGE_DECLARE_METHOD, &ask);
	amqp_raw_channel_send(&mailbox->channel, AMQP_QUEUE_DECLARE_METHOD, &declare);
	amqp_raw_channel_send(&mailbox->channel, AMQP_QUEUE_BIND_METHOD, &bind);
}

static void
inbox_send_consume(const struct amqp_mailbox *mailbox)
{
	amqp_basic_qos_t qos = {.prefetch_count = INBOX_PREFETCH};
	amqp_basic_consume_t consume = {.queue = amqp_cstring_bytes(mailbox->name)};

	amqp_raw_channel_send(&mailbox->channel, AMQP_BASIC_QOS_METHOD, &qos);
	amqp_raw_channel_send(&mailbox->channel, AMQP_BASIC_CONSUME_METHOD, &consume);
}

static void
inbox_open_later(struct amqp_mailbox *mailbox, int64_t again)
{
	inbox_set_state(mailbox, INBOX_WAITING);
	timers_set(mailbox->broker->timers, &mailbox->again,
	    broker_now(mailbox->broker) + again / 2 +
		jitter_below(&mailbox->broker->jitter, again));
}

static void
inbox_open_now(struct amqp_mailbox *mailbox)
{
	struct broker *broker = mailbox->broker;

	timers_cancel(broker->timers, &mailbox->again);
	if (broker->stopped || amqp_channels_link(broker->channels) == NULL)
		return;
	if (!amqp_raw_channel_open(&mailbox->channel, BROKER_MESSAGE_MAX)) {
		inbox_open_later(mailbox, INBOX_NO_CHANNEL);
		return;
	}
	inbox_set_state(mailbox, INBOX_OPENING);
	amqp_mailbox_name(mailbox->name, MAILBOX_INBOX, &broker->jitter, broker->settings.replays);
	inbox_send_declares(mailbox);
	inbox_send_consume(mailbox);
}

static void
inbox_on_again(void *ctx, uint64_t id)
{
	(void)id;
	inbox_open_now(ctx);
}

/* Opens or closes the inbox, as it is wanted. */
static void
inbox_settle(struct amqp_mailbox *mailbox)
{
	bool wanted = mailbox->wanted || timer_is_set(&mailbox->asking);

	if (wanted && mailbox->state == INBOX_CLOSED) {
		inbox_set_state(mailbox, INBOX_WAITING);
		inbox_open_now(mailbox);
	} else if (!wanted && mailbox->state != INBOX_CLOSED) {
		timers_cancel(mailbox->broker->timers, &mailbox->again);
		inbox_set_state(mailbox, INBOX_CLOSED);
		amqp_raw_channel_close(&mailbox->channel);
	}
}

static void
inbox_on_asked_enough(void *ctx, uint64_t id)
{
	(void)id;
	inbox_settle(ctx);
}

/* ---- messages that arrive ---- */

static void
sender_done(struct sender *sender)
{
	free(sender->inbox);
	free(sender->number);
	*sender = (struct sender){0};
}

/*
 * Returns the sender's id; 0: not an inbox, or no number. Only an inbox is answered: a message
 * itself says where its reply goes, and could name any queue.
 */
static uint64_t
sender_add(struct amqp_mailbox *mailbox, const char *inbox, const char *number)
{
	struct sender *sender;

	if (strncmp(inbox, MAILBOX_INBOX, strlen(MAILBOX_INBOX)) != 0 || broker_number(number) == 0)
		return 0;
	sender = &mailbox->senders[++mailbox->last_sender % MAILBOX_SENDERS_MAX];
	sender_done(sender);
	*sender = (struct sender){.id = mailbox->last_sender,
	    .inbox = mem_strdup(inbox),
	    .number = mem_strdup(number),
	    .until = broker_now(mailbox->broker) + BROKER_MESSAGE_TTL};
	return sender->id;
}

/* The text is a copy, because a callback may close the inbox. */
static void
mailbox_tell(struct amqp_mailbox *mailbox, struct broker_message *message)
{
	const struct amqp_content *content = &mailbox->channel.content;
	const struct broker_events *events = &mailbox->broker->events;

	if (mailbox->is_query) {
		message->from = sender_add(mailbox, content->reply_to, content->correlation_id);
		if (message->from != 0 && events->asked != NULL)
			events->asked(events->ctx, message);
	} else {
		message->asked = broker_number(content->correlation_id);
		FAULT(REPLY_TO_LAST, message->asked++);
		if (message->asked > 0 && message->asked <= mailbox->last_query &&
		    events->replied != NULL)
			events->replied(events->ctx, message);
	}
}

static bool
mailbox_on_message(void *ctx)
{
	struct amqp_mailbox *mailbox = ctx;
	const struct amqp_content *content = &mailbox->channel.content;
	struct broker_message message = {.len = (size_t)content->size};
	char *text, *user;

	amqp_raw_channel_ack(&mailbox->channel, mailbox->channel.delivery);
	/* The daemon's own query arrives here, too. */
	if (mailbox->broker->stopped || content->size > BROKER_MESSAGE_MAX ||
	    (mailbox->is_query && strcmp(content->reply_to, mailbox->name) == 0))
		return true;
	text = mem_alloc(message.len + 1);
	memcpy(text, content->body, message.len);
	user = mem_strdup(content->user_id);
	message.text = text;
	message.user = user;
	mailbox_tell(mailbox, &message);
	free(text);
	free(user);
	return true;
}

static bool
mailbox_on_method(void *ctx, const struct amqp_frame *frame)
{
	struct amqp_mailbox *mailbox = ctx;

	switch (frame->method) {
	case AMQP_EXCHANGE_DECLARE_OK_METHOD:
	case AMQP_QUEUE_DECLARE_OK_METHOD:
	case AMQP_QUEUE_BIND_OK_METHOD:
	case AMQP_BASIC_QOS_OK_METHOD:
		return true;
	case AMQP_BASIC_CONSUME_OK_METHOD:
		if (mailbox->state != INBOX_OPENING)
			return false;
		inbox_set_state(mailbox, INBOX_OPEN);
		mailbox_send_waiting(mailbox);
		return true;
	case AMQP_BASIC_CANCEL_METHOD:
		amqp_raw_channel_close(&mailbox->channel);
		inbox_open_later(mailbox, INBOX_AGAIN);
		return true;
	case AMQP_BASIC_DELIVER_METHOD: {
		const amqp_basic_deliver_t *deliver = frame->fields;

		mailbox->is_query = deliver->exchange.len > 0;
		return amqp_raw_channel_announce(&mailbox->channel, deliver->delivery_tag);
	}
	default:
		return false;
	}
}

static void
mailbox_on_closed(void *ctx, int code, const char *text)
{
	struct amqp_mailbox *mailbox = ctx;

	/* "user_id property set to 'a' but authenticated user was 'b'": of a token, or an alias. */
	if (code == AMQP_PRECONDITION_FAILED && strstr(text, "user_id") != NULL) {
		mailbox->user = NULL;
		inbox_open_later(mailbox, INBOX_AGAIN);
		return;
	}
	if (!mailbox->channel.blames) {
		inbox_open_later(mailbox, INBOX_AGAIN);
		return;
	}
	if (!mailbox->complained)
		log_warning("the broker refused a message to another daemon: %s (%d)", text, code);
	mailbox->complained = true;
	inbox_open_later(mailbox, INBOX_RARELY);
}

/* ---- outside ---- */

void
broker_inbox_open(struct broker *broker)
{
	if (broker->stopped)
		return;
	broker->mailbox->wanted = true;
	inbox_settle(broker->mailbox);
	amqp_auxiliary_need(broker);
}

void
broker_inbox_close(struct broker *broker)
{
	if (broker->stopped)
		return;
	amqp_auxiliary_use(broker);
	broker->mailbox->wanted = false;
	inbox_settle(broker->mailbox);
}

bool
amqp_mailbox_any(const struct amqp_mailbox *mailbox)
{
	return mailbox->state != INBOX_CLOSED;
}

static void
query_add(struct amqp_mailbox *mailbox, const char *text, size_t len)
{
	struct waiting_query *query = mem_alloc(sizeof(*query));

	query->number = ++mailbox->last_query;
	query->text = mem_alloc(len + 1);
	memcpy(query->text, text, len);
	query->len = len;
	query->until = broker_now(mailbox->broker) + BROKER_MESSAGE_TTL;
	TAILQ_INSERT_TAIL(&mailbox->queries, query, entry);
}

uint64_t
broker_ask(struct broker *broker, const char *text, size_t len)
{
	struct amqp_mailbox *mailbox = broker->mailbox;

	if (broker->stopped)
		return 0;
	assert(len <= BROKER_MESSAGE_MAX);
	if (!broker->blocked) {
		query_add(mailbox, text, len);
		timers_set(broker->timers, &mailbox->asking,
		    broker_now(mailbox->broker) + broker->settings.auxiliary_idle);
		inbox_settle(mailbox);
		mailbox_send_waiting(mailbox);
	}
	amqp_auxiliary_need(broker);
	return broker->blocked ? 0 : mailbox->last_query;
}

void
broker_reply_to(struct broker *broker, uint64_t from, const char *text, size_t len)
{
	const struct amqp_mailbox *mailbox = broker->mailbox;
	const struct sender *sender = &mailbox->senders[from % MAILBOX_SENDERS_MAX];

	if (broker->stopped)
		return;
	assert(len <= BROKER_MESSAGE_MAX);
	if (mailbox->state != INBOX_OPEN || broker->blocked || from == 0 || sender->id != from ||
	    sender->until <= broker_now(mailbox->broker))
		return;
	mailbox_publish(mailbox, "", sender->inbox, sender->number, NULL,
	    (amqp_bytes_t){.len = len, .bytes = (void *)text});
}

void
amqp_mailbox_go_on(struct amqp_mailbox *mailbox)
{
	mailbox_send_waiting(mailbox);
}

void
amqp_mailbox_go(struct amqp_mailbox *mailbox, const char *user)
{
	mailbox->user = user;
	if (mailbox->state == INBOX_WAITING)
		inbox_open_now(mailbox);
}

void
amqp_mailbox_fail(struct amqp_mailbox *mailbox)
{
	mailbox->complained = false;
	amqp_raw_channel_forget(&mailbox->channel);
	timers_cancel(mailbox->broker->timers, &mailbox->again);
	if (mailbox->state != INBOX_CLOSED)
		inbox_set_state(mailbox, INBOX_WAITING);
}

/* ---- life ---- */

struct amqp_mailbox *
amqp_mailbox_new(struct broker *broker)
{
	static const struct amqp_raw_channel_events events = {.method = mailbox_on_method,
	    .message = mailbox_on_message,
	    .closed = mailbox_on_closed};
	struct amqp_mailbox *mailbox = mem_alloc(sizeof(*mailbox));

	mailbox->broker = broker;
	TAILQ_INIT(&mailbox->queries);
	timer_init(&mailbox->asking, inbox_on_asked_enough, mailbox, 0);
	timer_init(&mailbox->again, inbox_on_again, mailbox, 0);
	amqp_raw_channel_init(&mailbox->channel, broker->channels, &events, mailbox);
	return mailbox;
}

void
amqp_mailbox_free(struct amqp_mailbox *mailbox)
{
	struct waiting_query *query;

	timers_cancel(mailbox->broker->timers, &mailbox->asking);
	amqp_mailbox_fail(mailbox);
	while ((query = TAILQ_FIRST(&mailbox->queries)) != NULL)
		query_free(mailbox, query);
	for (size_t i = 0; i < MAILBOX_SENDERS_MAX; i++)
		sender_done(&mailbox->senders[i]);
	free(mailbox);
}
