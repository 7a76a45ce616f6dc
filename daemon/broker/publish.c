#include "daemon/broker/publish.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/channel.h"
#include "daemon/broker/internal.h"
#include "daemon/broker/reconnector.h"
#include "daemon/broker/ways.h"

/*
 * Contents:
 *	Lists of texts: name_list_add() and name_list_done().
 *	Mailbox: what it has.
 *	Mailbox, publishing: amqp_mailbox_send_waiting() sends queries while the inbox is open.
 *	Mailbox, the inbox: inbox_settle() opens and closes it. inbox_open_now() declares and consumes.
 *	Mailbox, messages that arrive: mailbox_on_message() tells queries and replies apart.
 *	Mailbox, outside: broker_ask() and broker_reply_to().
 *	Mailbox, life: with the broker.
 *	Directory: its jobs, and their states.
 *	Directory, answers: each request is a job. directory_job_finish() answers it.
 *	Directory, sending: directory_job_put_back() ends a reading. directory_job_send() declares, publishes a
 *	   name, or gets all messages.
 *	Directory, receiving: directory_job_on_message() and directory_job_on_method() take messages, confirms
 *	   and refusals.
 *	Directory, outside: broker_directory_read(), _leave() and _enter().
 */

/* ---- lists of texts ---- */

void
name_list_add(struct name_list *list, const char *name)
{
	if (list->count == list->room) {
		list->room = list->room == 0 ? 16 : 2 * list->room;
		list->all = mem_grow(list->all, list->room, sizeof(*list->all));
	}
	list->all[list->count++] = mem_strdup(name);
}

void
name_list_done(struct name_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->all[i]);
	free(list->all);
	*list = (struct name_list){0};
}

/* ---- mailbox ---- */

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

/* ---- mailbox, publishing ---- */

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

void
amqp_mailbox_send_waiting(struct amqp_mailbox *mailbox)
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

/* ---- mailbox, the inbox ---- */

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

	/* The high bits: two seeds may have the same low bits (nrand48(3)). */
	if (replays)
		for (size_t i = 0; i < sizeof(random); i++)
			random[i] = (uint8_t)(jitter_below(jitter, INT64_C(1) << 62) >> 54);
	else
		random_fill(random, sizeof(random));
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
	amqp_raw_channel_send(&mailbox->channel, AMQP_BASIC_QOS_METHOD,
	    &(amqp_basic_qos_t){.prefetch_count = INBOX_PREFETCH});
	amqp_raw_channel_send(&mailbox->channel, AMQP_BASIC_CONSUME_METHOD,
	    &(amqp_basic_consume_t){.queue = amqp_cstring_bytes(mailbox->name)});
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

/* ---- mailbox, messages that arrive ---- */

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
		amqp_mailbox_send_waiting(mailbox);
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

/* ---- mailbox, outside ---- */

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
		amqp_mailbox_send_waiting(mailbox);
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

/* ---- mailbox, life ---- */

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

/* ---- directory ---- */

/* The maximum of unanswered gets. */
#define GETS_MAX 256

enum directory_job_kind { JOB_READ, JOB_ENTER, JOB_LEAVE };

enum directory_job_state {
	JOB_WAITING,      /* waits for the link */
	JOB_DECLARING,    /* waits for declare-ok */
	JOB_READING,      /* waits for the answers to `gets` gets */
	JOB_PUTTING_BACK, /* waits for the end of its channel */
	JOB_CONFIRMING,   /* waits for the confirm of its message */
	JOB_OVER          /* has no channel; its answer is due */
};

struct directory_job {
	TAILQ_ENTRY(directory_job) in_all;
	struct amqp_directory *directory; /* borrowed */
	enum directory_job_kind kind;
	enum directory_job_state state;
	char *queue, *name; /* owned; name: NULL for JOB_READ */
	struct broker_names_done done;
	struct amqp_raw_channel channel;
	int64_t sent_at;

	unsigned gets;
	bool empty;    /* a get found nothing */
	unsigned seen; /* messages */
	struct name_list found;
	uint64_t *to_remove; /* owned; JOB_LEAVE: delivery tags of the found messages */
	size_t remove_room;

	enum broker_answer answer; /* PUTTING_BACK, OVER: the answer */
	int code;
	char *text; /* owned; NULL = "" */
};
TAILQ_HEAD(directory_jobs, directory_job);

struct amqp_directory {
	struct broker *broker;     /* borrowed */
	struct directory_jobs all; /* owned */
	struct timer over;         /* set while a job is OVER */
};

static void
directory_job_set_state(struct directory_job *job, enum directory_job_state state)
{
	switch (state) {
	case JOB_WAITING:
		abort(); /* the first state */
	case JOB_DECLARING:
		assert(job->state == JOB_WAITING);
		break;
	case JOB_READING:
	case JOB_CONFIRMING:
		assert(job->state == JOB_DECLARING);
		break;
	case JOB_PUTTING_BACK:
		assert(job->state == JOB_READING);
		break;
	case JOB_OVER:
		assert(job->state != JOB_OVER && job->channel.number == 0);
		break;
	}
	job->state = state;
}

/* job: in no list any more. */
static void
directory_job_free(struct directory_job *job)
{
	amqp_raw_channel_forget(&job->channel);
	name_list_done(&job->found);
	free(job->to_remove);
	free(job->queue);
	free(job->name);
	free(job->text);
	free(job);
}

/* ---- directory, answers ---- */

/* Answers and frees a job, which is in no list any more. */
static void
directory_job_answer(struct directory_job *job)
{
	struct amqp_directory *directory = job->directory;
	struct broker_names_done done = job->done;
	struct name_list found = {0};
	char *text = job->text;
	const struct broker_reply reply = {
	    .answer = job->answer,
	    .sent_at = job->sent_at,
	    .code = job->code,
	    .text = text != NULL ? text : "",
	};

	job->text = NULL;
	if (job->answer == BROKER_OK) {
		found = job->found;
		job->found = (struct name_list){0};
	}
	directory_job_free(job);
	if (!directory->broker->stopped)
		done.fn(done.ctx, done.id, &reply, (const char *const *)found.all, found.count);
	name_list_done(&found);
	free(text);
}

/* For a job that was never sent: it is answered from the loop. */
static void
directory_job_give_up(struct directory_job *job, const char *text)
{
	struct amqp_directory *directory = job->directory;

	job->answer = BROKER_UNKNOWN;
	job->text = mem_strdup(text);
	directory_job_set_state(job, JOB_OVER);
	timers_set(directory->broker->timers, &directory->over, broker_now(directory->broker));
}

/* Every method of the job is answered. */
static void
directory_job_finish(struct directory_job *job)
{
	amqp_raw_channel_close(&job->channel);
	directory_job_set_state(job, JOB_OVER);
	TAILQ_REMOVE(&job->directory->all, job, in_all);
	directory_job_answer(job);
}

static struct directory_job *
directory_first_over(const struct amqp_directory *directory)
{
	struct directory_job *job;

	TAILQ_FOREACH (job, &directory->all, in_all)
		if (job->state == JOB_OVER)
			break;
	return job;
}

static void
directory_on_over(void *ctx, uint64_t id)
{
	struct amqp_directory *directory = ctx;
	struct directory_job *job = directory_first_over(directory);

	(void)id;
	if (job == NULL)
		return;
	TAILQ_REMOVE(&directory->all, job, in_all);
	/* One job for each run: its callback may cause the answers of the others. */
	if (directory_first_over(directory) != NULL)
		timers_set(
		    directory->broker->timers, &directory->over, broker_now(directory->broker));
	directory_job_answer(job);
}

/* ---- directory, sending ---- */

static void
directory_job_send_declare(const struct directory_job *job)
{
	amqp_table_entry_t type = amqp_entry_text("x-queue-type", "classic");
	amqp_queue_declare_t declare = {
	    .queue = amqp_cstring_bytes(job->queue),
	    .passive = job->kind != JOB_ENTER,
	    .durable = job->kind == JOB_ENTER,
	};

	if (job->kind == JOB_ENTER) {
		declare.arguments.num_entries = 1;
		declare.arguments.entries = &type;
	}
	amqp_raw_channel_send(&job->channel, AMQP_QUEUE_DECLARE_METHOD, &declare);
}

static void
directory_job_send_name(const struct directory_job *job)
{
	amqp_basic_publish_t fields = {.routing_key = amqp_cstring_bytes(job->queue)};
	amqp_basic_properties_t properties = {
	    ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG,
	    .delivery_mode = AMQP_DELIVERY_PERSISTENT,
	};

	amqp_raw_channel_publish(
	    &job->channel, &fields, &properties, amqp_cstring_bytes(job->name));
}

static void
directory_job_send(struct directory_job *job)
{
	struct amqp_directory *directory = job->directory;
	amqp_confirm_select_t select = {0};

	job->sent_at = broker_now(directory->broker);
	if (!amqp_raw_channel_open(&job->channel, BROKER_NAME_MAX)) {
		directory_job_give_up(job, "the auxiliary connection has no channel left");
		return;
	}
	directory_job_set_state(job, JOB_DECLARING);
	if (job->kind == JOB_ENTER)
		amqp_raw_channel_send(&job->channel, AMQP_CONFIRM_SELECT_METHOD, &select);
	directory_job_send_declare(job);
	if (job->kind == JOB_ENTER)
		directory_job_send_name(job);
}

/* left: the known number of messages. One more get finds the end. */
static void
directory_job_send_gets(struct directory_job *job, uint32_t left)
{
	amqp_basic_get_t get = {.queue = amqp_cstring_bytes(job->queue)};

	while (!job->empty && job->gets < GETS_MAX && job->gets <= left) {
		job->gets++;
		amqp_raw_channel_send(&job->channel, AMQP_BASIC_GET_METHOD, &get);
	}
}

/* All messages were seen: removes those that leave, and puts the others back. */
static void
directory_job_put_back(struct directory_job *job)
{
	amqp_basic_consume_t consume = {.queue = amqp_cstring_bytes(job->queue)};

	if (job->seen > BROKER_DIRECTORY_MAX) {
		job->answer = BROKER_REFUSED;
		job->text = mem_printf("the queue has more than %d messages", BROKER_DIRECTORY_MAX);
	} else {
		job->answer = BROKER_OK;
		for (size_t i = 0; job->kind == JOB_LEAVE && i < job->found.count; i++)
			amqp_raw_channel_ack(&job->channel, job->to_remove[i]);
	}
	amqp_raw_channel_send(&job->channel, AMQP_BASIC_CONSUME_METHOD, &consume);
	directory_job_set_state(job, JOB_PUTTING_BACK);
	amqp_raw_channel_end(&job->channel);
}

/* ---- directory, receiving ---- */

static void
directory_job_find_name(struct directory_job *job, const char *name)
{
	if (job->kind == JOB_LEAVE) {
		if (job->found.count == job->remove_room) {
			job->remove_room = job->remove_room == 0 ? 16 : 2 * job->remove_room;
			job->to_remove =
			    mem_grow(job->to_remove, job->remove_room, sizeof(*job->to_remove));
		}
		job->to_remove[job->found.count] = job->channel.delivery;
		FAULT(FIRST_NAME_LEAVES, job->to_remove[job->found.count] = job->found.count + 1);
	}
	name_list_add(&job->found, name);
}

/* Takes a whole message. A message that is not a name is foreign. */
static void
directory_job_take_message(struct directory_job *job)
{
	const struct amqp_content *content = &job->channel.content;

	if (content->size > content->body_max ||
	    !broker_is_name(content->body, (size_t)content->size))
		return;
	if (job->kind == JOB_READ || strcmp(content->body, job->name) == 0)
		directory_job_find_name(job, content->body);
}

/* Beyond the maximum no more gets are sent, but the answers to earlier ones still come. */
static bool
directory_job_take_got(struct directory_job *job, const amqp_basic_get_ok_t *got)
{
	if (job->state != JOB_READING || job->gets == 0 ||
	    !amqp_raw_channel_announce(&job->channel, got->delivery_tag))
		return false;
	job->gets--;
	if (++job->seen <= BROKER_DIRECTORY_MAX)
		directory_job_send_gets(job, got->message_count);
	return true;
}

static bool
directory_job_take_empty(struct directory_job *job)
{
	if (job->state != JOB_READING || job->gets == 0 ||
	    job->channel.content.state != AMQP_CONTENT_IDLE)
		return false;
	job->gets--;
	job->empty = true;
	if (job->gets == 0)
		directory_job_put_back(job);
	return true;
}

static bool
directory_job_take_declared(struct directory_job *job, const amqp_queue_declare_ok_t *declared)
{
	if (job->state != JOB_DECLARING)
		return false;
	if (job->kind == JOB_ENTER) {
		directory_job_set_state(job, JOB_CONFIRMING);
		return true;
	}
	directory_job_set_state(job, JOB_READING);
	directory_job_send_gets(job, declared->message_count);
	return true;
}

static bool
directory_job_take_confirm(struct directory_job *job, bool taken)
{
	if (job->state != JOB_CONFIRMING)
		return false;
	if (taken) {
		job->answer = BROKER_OK;
		name_list_add(&job->found, job->name);
	} else {
		job->answer = BROKER_UNKNOWN;
		job->text = mem_strdup("the broker did not accept the message");
	}
	directory_job_finish(job);
	return true;
}

static bool
directory_job_on_message(void *ctx)
{
	struct directory_job *job = ctx;

	directory_job_take_message(job);
	if (job->gets == 0)
		directory_job_put_back(job);
	return true;
}

static bool
directory_job_on_method(void *ctx, const struct amqp_frame *frame)
{
	struct directory_job *job = ctx;

	switch (frame->method) {
	case AMQP_CONFIRM_SELECT_OK_METHOD:
		return true;
	case AMQP_QUEUE_DECLARE_OK_METHOD:
		return directory_job_take_declared(job, frame->fields);
	case AMQP_BASIC_GET_OK_METHOD:
		return directory_job_take_got(job, frame->fields);
	case AMQP_BASIC_GET_EMPTY_METHOD:
		return directory_job_take_empty(job);
	case AMQP_BASIC_ACK_METHOD:
		return directory_job_take_confirm(job, true);
	case AMQP_BASIC_NACK_METHOD:
		return directory_job_take_confirm(job, false);
	default:
		return false;
	}
}

/*
 * The channel is closed: code 0 for our close, else for a refused method. The broker did not
 * perform the methods behind that.
 */
static void
directory_job_on_closed(void *ctx, int code, const char *text)
{
	struct directory_job *job = ctx;
	bool declaring = job->state == JOB_DECLARING, reading = job->state == JOB_READING,
	     refused = job->channel.blames && (declaring || reading),
	     missing =
		 refused && code == AMQP_NOT_FOUND &&
		 amqp_request_refusal(&amqp_request_declare_slot, code, text) == BROKER_ABSENT;

	if (code == 0) {
		directory_job_finish(job);
		return;
	}
	job->answer = !refused                             ? BROKER_UNKNOWN
		      : code == AMQP_NOT_FOUND && !missing ? BROKER_UNREACHABLE
							   : BROKER_REFUSED;
	job->code = code;
	free(job->text);
	job->text = mem_strdup(text);
	/* A directory that does not exist has no names. */
	if (missing && declaring && job->kind != JOB_ENTER) {
		job->answer = BROKER_OK;
		job->code = 0;
		job->text[0] = '\0';
	}
	directory_job_finish(job);
}

/* ---- directory, outside ---- */

static struct directory_job *
directory_job_new(struct amqp_directory *directory, enum directory_job_kind kind, const char *queue,
    const char *name, struct broker_names_done done)
{
	static const struct amqp_raw_channel_events events = {.method = directory_job_on_method,
	    .message = directory_job_on_message,
	    .closed = directory_job_on_closed};
	struct directory_job *job = mem_alloc(sizeof(*job));

	assert(strlen(queue) <= UINT8_MAX);
	job->directory = directory;
	job->kind = kind;
	job->state = JOB_WAITING;
	job->queue = mem_strdup(queue);
	job->name = mem_strdup(name);
	job->done = done;
	amqp_raw_channel_init(&job->channel, directory->broker->channels, &events, job);
	job->sent_at = broker_now(directory->broker);
	TAILQ_INSERT_TAIL(&directory->all, job, in_all);
	return job;
}

/* Sends a job at once if there is a link. Else it waits for one. */
static void
directory_job_begin(struct directory_job *job)
{
	struct broker *broker = job->directory->broker;

	if (amqp_channels_link(broker->channels) != NULL)
		directory_job_send(job);
	amqp_auxiliary_need(broker);
}

void
broker_directory_read(struct broker *broker, const char *queue, struct broker_names_done done)
{
	directory_job_begin(directory_job_new(broker->directory, JOB_READ, queue, NULL, done));
}

void
broker_directory_leave(
    struct broker *broker, const char *queue, const char *name, struct broker_names_done done)
{
	directory_job_begin(directory_job_new(broker->directory, JOB_LEAVE, queue, name, done));
}

void
broker_directory_enter(
    struct broker *broker, const char *queue, const char *name, struct broker_names_done done)
{
	struct directory_job *job =
	    directory_job_new(broker->directory, JOB_ENTER, queue, name, done);

	assert(broker_is_name(name, strlen(name)));
	if (!broker->blocked) {
		directory_job_begin(job);
		return;
	}
	directory_job_give_up(job, BROKER_ALARM_WORDS);
	amqp_auxiliary_need(broker);
}

bool
amqp_directory_in_use(const struct amqp_directory *directory)
{
	return !TAILQ_EMPTY(&directory->all);
}

void
amqp_directory_go(struct amqp_directory *directory)
{
	struct directory_job *job;

	TAILQ_FOREACH (job, &directory->all, in_all)
		if (job->state == JOB_WAITING)
			directory_job_send(job);
}

void
amqp_directory_fail(struct amqp_directory *directory)
{
	struct directory_jobs lost = TAILQ_HEAD_INITIALIZER(lost);
	struct directory_job *job;

	TAILQ_CONCAT(&lost, &directory->all, in_all);
	while ((job = TAILQ_FIRST(&lost)) != NULL) {
		TAILQ_REMOVE(&lost, job, in_all);
		amqp_raw_channel_forget(&job->channel);
		if (job->state != JOB_OVER) {
			job->answer = BROKER_UNKNOWN;
			directory_job_set_state(job, JOB_OVER);
		}
		directory_job_answer(job);
	}
}

struct amqp_directory *
amqp_directory_new(struct broker *broker)
{
	struct amqp_directory *directory = mem_alloc(sizeof(*directory));

	directory->broker = broker;
	TAILQ_INIT(&directory->all);
	timer_init(&directory->over, directory_on_over, directory, 0);
	return directory;
}

void
amqp_directory_free(struct amqp_directory *directory)
{
	amqp_directory_fail(directory);
	timers_cancel(directory->broker->timers, &directory->over);
	free(directory);
}
