#include "daemon/broker/records.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/reconnector.h"
#include "daemon/broker/beads.h"
#include "daemon/broker/internal.h"
#include "daemon/broker/make.h"
#include "daemon/broker/ways.h"
#include "protocol/lockname.h"
#include "protocol/methods.h"

/*
 * Contents:
 *	The texts: a record and the floor as messages.
 *	Sessions: one for each use, with the entries that it has read.
 *	Answers: session_end() answers, or reports that the records are lost.
 *	Opening: session_begin() declares and marks, session_look() consumes, and session_decide() has read all.
 *	Writing: session_write() publishes the floor and the record; session_complete() acknowledges the old
 *	   one.
 *	Deliveries: session_on_message() takes records and marks, in the order of the queue.
 *	Outside: broker_records_open(), _find(), _set(), _remove() and _close().
 */

#define RECORDS_TAG 'r'
#define RECORDS_PREFETCH UINT16_MAX
/* A write is refused so many messages before the limit of a read, so that the queue can always be read. */
#define ROOM 100
/* Sessions that wait begin again at different times: the attempt of one can spoil that of another. */
#define PAUSE_MOST (200 * NSEC_PER_MSEC)

static const char late[] = "the broker did not answer in time";
static const char busy[] = "another administrator works on slots held by quorum";
static const char odd[] = "another administrator may have worked on slots held by quorum meanwhile";

enum session_state {
	SESSION_WAITING,   /* for the link */
	SESSION_PAUSING,   /* before it begins again; it has no channel */
	SESSION_DECLARING, /* waits for declare-ok, and for the confirm of its mark */
	SESSION_LOOKING,   /* is a consumer, and waits for its mark */
	SESSION_RESTING,   /* has the lock, but the queue is perhaps young */
	SESSION_OPEN,      /* has the lock, and the open was answered OK; as the next two */
	SESSION_WRITING,   /* waits for the messages that it has published */
	SESSION_PROVING,   /* waits for a mark behind its acknowledgements */
	SESSION_LOST       /* had the lock; it has no channel */
};

/* A record and its message. */
struct record_entry {
	UT_hash_handle hh; /* by name */
	struct broker_record record;
	uint64_t tag; /* of the delivery; 0: not delivered yet */
};

struct record_session {
	TAILQ_ENTRY(record_session) entry;
	struct amqp_records *records; /* borrowed */
	uint64_t id;
	enum session_state state;
	struct broker_done done; /* of the unanswered request; fn NULL: there is none */
	/* The words for a request that is not sent. The answer comes from the loop. NULL: none. */
	const char *refusal;
	enum broker_answer refusal_answer;
	struct amqp_raw_channel channel;
	struct timer timer;
	int64_t deadline;          /* clock time: the open waits no longer for others */
	char mark[AMQP_MARK_TEXT]; /* the newest one */
	unsigned messages;         /* that were delivered and stay, without marks */

	struct record_entry *by_name; /* owned */
	uint64_t floor, floor_tag;    /* and its message; 0: none */
	uint64_t *old;                /* owned; LOOKING: tags to acknowledge when the mark comes */
	size_t old_count, old_room;

	/* WRITING: */
	struct record_entry *coming;  /* owned; the new record; NULL: none */
	struct record_entry *leaving; /* of by_name: it is acknowledged last; NULL: none */
	uint64_t floor_coming, floor_coming_tag; /* 0: none, or not delivered yet */
};

struct amqp_records {
	struct broker *broker;            /* borrowed */
	TAILQ_HEAD(, record_session) all; /* owned */
	uint64_t serial;
};

/* ---- the texts ---- */

char *
record_print(char text[RECORD_TEXT], const struct broker_record *record)
{
	snprintf(text, RECORD_TEXT, "name %s size %u epoch %" PRIu64 " grace %" PRId64,
	    record->name, record->size, record->epoch, record->grace / NSEC_PER_MSEC);
	return text;
}

static bool
is_record(const struct broker_record *record)
{
	return lockname_error(record->name, strlen(record->name)) == NULL &&
	       record->size <= METHODS_SLOTS_MAX && record->epoch > 0 &&
	       record->epoch <= BEAD_EPOCH_MOST && record->grace >= BEAD_GRACE_LEAST &&
	       record->grace <= BEAD_GRACE_MOST;
}

bool
record_read(const char *text, size_t len, struct broker_record *ret)
{
	struct broker_record record = {0};
	char again[RECORD_TEXT];

	_Static_assert(BROKER_NAME_MAX == 200 && LOCKNAME_MAX == 200, "as in the format");
	if (len >= RECORD_TEXT ||
	    sscanf(text, "name %200s size %5u epoch %10" SCNu64 " grace %6" SCNd64, record.name,
		&record.size, &record.epoch, &record.grace) != 4)
		return false;
	record.grace *= NSEC_PER_MSEC;
	*ret = record;
	/* Only the one text that record_print() makes of it. */
	return strlen(text) == len && strcmp(record_print(again, &record), text) == 0 &&
	       is_record(&record);
}

char *
floor_print(char text[RECORD_TEXT], uint64_t floor)
{
	snprintf(text, RECORD_TEXT, "floor %" PRIu64, floor);
	return text;
}

bool
floor_read(const char *text, size_t len, uint64_t *ret)
{
	char again[RECORD_TEXT];

	return len < RECORD_TEXT && sscanf(text, "floor %10" SCNu64, ret) == 1 &&
	       strlen(text) == len && strcmp(floor_print(again, *ret), text) == 0 && *ret > 0 &&
	       *ret <= BEAD_EPOCH_MOST;
}

/* ---- sessions ---- */

static struct record_session *
session_find(const struct amqp_records *records, uint64_t id)
{
	struct record_session *session;

	TAILQ_FOREACH (session, &records->all, entry)
		if (session->id == id)
			break;
	return session;
}

static struct broker *
session_broker(const struct record_session *session)
{
	return session->records->broker;
}

static void
session_set_timer(struct record_session *session, int64_t wait)
{
	struct broker *broker = session_broker(session);

	timers_set(broker->timers, &session->timer, broker_now(broker) + wait);
}

static struct record_entry *
entry_find(const struct record_session *session, const char *name)
{
	struct record_entry *entry;

	HASH_FIND_STR(session->by_name, name, entry);
	return entry;
}

static void
entry_add(struct record_session *session, struct record_entry *entry)
{
	HASH_ADD_STR(session->by_name, record.name, entry);
}

static void
entry_remove(struct record_session *session, struct record_entry *entry)
{
	HASH_DEL(session->by_name, entry);
	free(entry);
}

/* Closes the channel: all its messages return. Nothing is read any more. */
static void
session_forget_all(struct record_session *session)
{
	struct record_entry *entry, *next;

	amqp_raw_channel_close(&session->channel);
	timers_cancel(session_broker(session)->timers, &session->timer);
	HASH_ITER (hh, session->by_name, entry, next)
		entry_remove(session, entry);
	free(session->coming);
	session->coming = session->leaving = NULL;
	session->floor = session->floor_tag = 0;
	session->floor_coming = session->floor_coming_tag = 0;
	session->messages = 0;
	session->old_count = 0;
}

static void
session_free(struct record_session *session)
{
	session_forget_all(session);
	TAILQ_REMOVE(&session->records->all, session, entry);
	free(session->old);
	free(session);
}

/* ---- answers ---- */

/* Last, as the callback may free the session. */
static void
session_answer(struct record_session *session, enum broker_answer what, int code, const char *text)
{
	const struct broker_reply reply = {
	    .answer = what, .channel_open = true, .code = code, .text = text};
	struct broker_done done = session->done;

	session->done.fn = NULL;
	session->refusal = NULL;
	if (done.fn != NULL && !session_broker(session)->stopped)
		done.fn(done.ctx, done.id, &reply);
}

/* Nothing is sent. */
static void
session_refuse(struct record_session *session, enum broker_answer what, const char *words)
{
	session->refusal = words;
	session->refusal_answer = what;
	session_set_timer(session, 0);
}

/* The open is answered, and the session is gone. */
static void
session_fail(struct record_session *session, enum broker_answer what, int code, const char *text)
{
	const struct broker *broker = session_broker(session);
	struct broker_done done = session->done;
	const struct broker_reply reply = {
	    .answer = what, .channel_open = true, .code = code, .text = text};

	session_free(session);
	if (!broker->stopped)
		done.fn(done.ctx, done.id, &reply);
}

/* The session was open. Its write is perhaps performed. */
static void
session_lose(struct record_session *session, int code, const char *text)
{
	struct amqp_records *records = session->records;
	const struct broker_events *events = &records->broker->events;
	uint64_t id = session->id;

	session_forget_all(session);
	session->state = SESSION_LOST;
	session_answer(session, BROKER_UNKNOWN, code, text);
	if (session_find(records, id) != NULL && events->records_lost != NULL)
		events->records_lost(events->ctx, id, text);
}

static void
session_end(struct record_session *session, enum broker_answer what, int code, const char *text)
{
	if (session->state < SESSION_OPEN)
		session_fail(session, what, code, text);
	else
		session_lose(session, code, text);
}

/* ---- opening ---- */

static void
session_publish(struct record_session *session, const char *text)
{
	amqp_quorum_queue_publish(&session->channel, AMQP_RECORDS_QUEUE, text);
}

static void
session_publish_mark(struct record_session *session)
{
	struct broker *broker = session_broker(session);

	session_publish(session, amqp_mark_print(session->mark, amqp_quorum_queue_random(broker)));
}

static void
session_begin(struct record_session *session)
{
	const struct broker *broker = session_broker(session);
	amqp_confirm_select_t select = {0};

	session->state = SESSION_WAITING;
	if (amqp_channels_link(broker->channels) == NULL ||
	    !amqp_raw_channel_open(&session->channel, RECORD_TEXT)) {
		timers_set(broker->timers, &session->timer, session->deadline);
		return;
	}
	session->state = SESSION_DECLARING;
	session_set_timer(session, broker->settings.probe_timeout);
	amqp_raw_channel_send(&session->channel, AMQP_CONFIRM_SELECT_METHOD, &select);
	/* Not quick: it outlives an upgrade of RabbitMQ from 4.0 to 4.3. */
	amqp_quorum_queue_declare(
	    &session->channel, AMQP_RECORDS_QUEUE, (struct amqp_quorum_queue){.single = true});
	session_publish_mark(session);
}

/* The mark is in the queue. */
static void
session_look(struct record_session *session)
{
	const struct broker *broker = session_broker(session);
	int64_t again = broker_now(broker) + broker->settings.probe_timeout;

	session->state = SESSION_LOOKING;
	timers_set(
	    broker->timers, &session->timer, again < session->deadline ? again : session->deadline);
	amqp_quorum_queue_attach(
	    &session->channel, AMQP_RECORDS_QUEUE, RECORDS_TAG, RECORDS_PREFETCH);
}

static void
session_begin_again(struct record_session *session)
{
	session_forget_all(session);
	session->state = SESSION_PAUSING;
	session_set_timer(session, jitter_below(&session_broker(session)->jitter, PAUSE_MOST));
}

/* Until the mark comes, nothing is acknowledged. */
static void
session_ack_later(struct record_session *session, uint64_t tag)
{
	if (session->old_count == session->old_room) {
		session->old_room = session->old_room == 0 ? 16 : 2 * session->old_room;
		session->old = mem_grow(session->old, session->old_room, sizeof(*session->old));
	}
	session->old[session->old_count++] = tag;
}

static void
session_replace(struct record_session *session, uint64_t tag)
{
	session->messages--;
	session_ack_later(session, tag);
}

/*
 * Of two records of one name, the one with the larger epoch counts. Of the same epoch it is the later one.
 * Their writer died before it acknowledged the old one.
 */
static void
session_load_record(struct record_session *session, const struct broker_record *record)
{
	struct record_entry *entry = entry_find(session, record->name);

	if (entry == NULL) {
		entry = mem_alloc(sizeof(*entry));
		entry->record = *record;
		entry_add(session, entry);
	} else if (record->epoch < entry->record.epoch) {
		session_replace(session, session->channel.delivery);
		return;
	} else {
		session_replace(session, entry->tag);
		entry->record = *record;
	}
	entry->tag = session->channel.delivery;
}

static void
session_load_floor(struct record_session *session, uint64_t floor)
{
	if (floor < session->floor) {
		session_replace(session, session->channel.delivery);
		return;
	}
	if (session->floor_tag != 0)
		session_replace(session, session->floor_tag);
	session->floor = floor;
	session->floor_tag = session->channel.delivery;
}

static void
session_opened(struct record_session *session)
{
	timers_cancel(session_broker(session)->timers, &session->timer);
	session->state = SESSION_OPEN;
	session_answer(session, BROKER_OK, 0, "");
}

/* The lock is ours, and all is read. A queue with a floor is not young: its writer has rested. */
static void
session_decide(struct record_session *session)
{
	for (size_t i = 0; i < session->old_count; i++)
		amqp_raw_channel_ack(&session->channel, session->old[i]);
	session->old_count = 0;
	if (session->floor_tag != 0) {
		session_opened(session);
		return;
	}
	session->state = SESSION_RESTING;
	session_set_timer(session, AMQP_QUORUM_QUEUE_REST);
}

/* Of a message that stays. */
static bool
session_is_too_many(struct record_session *session)
{
	char words[64];

	if (++session->messages <= BROKER_DIRECTORY_MAX)
		return false;
	snprintf(words, sizeof(words), "the queue has more than %d messages", BROKER_DIRECTORY_MAX);
	session_end(session, BROKER_REFUSED, 0, words);
	return true;
}

/* ---- writing ---- */

static void
session_ack(struct record_session *session, uint64_t tag)
{
	amqp_raw_channel_ack(&session->channel, tag);
	session->messages--;
}

/* All that was published is in the queue, and the session is active. */
static void
session_complete(struct record_session *session)
{
	bool written = session->floor_coming != 0 || session->coming != NULL;
	bool removed = session->leaving != NULL && session->coming == NULL;

	if (session->floor_coming != 0) {
		if (session->floor_tag != 0)
			session_ack(session, session->floor_tag);
		session->floor = session->floor_coming;
		session->floor_tag = session->floor_coming_tag;
	}
	if (session->leaving != NULL) {
		session_ack(session, session->leaving->tag);
		entry_remove(session, session->leaving);
	}
	if (session->coming != NULL)
		entry_add(session, session->coming);
	session->leaving = session->coming = NULL;
	session->floor_coming = session->floor_coming_tag = 0;
	if (written && !removed) {
		session_opened(session);
		return;
	}
	/* The queue performs the acknowledgement before this. */
	session->state = SESSION_PROVING;
	session_set_timer(session, session_broker(session)->settings.probe_timeout);
	session_publish_mark(session);
}

static bool
session_is_delivered(const struct record_session *session)
{
	return (session->floor_coming == 0 || session->floor_coming_tag != 0) &&
	       (session->coming == NULL || session->coming->tag != 0);
}

/*
 * The caller has set `coming` and `leaving`. The floor is published first, so that no record has a larger
 * epoch.
 */
static void
session_write(struct record_session *session, uint64_t lowest, struct broker_done done)
{
	char text[RECORD_TEXT];

	session->done = done;
	session->state = SESSION_WRITING;
	session_set_timer(session, session_broker(session)->settings.probe_timeout);
	if (lowest > session->floor) {
		session->floor_coming = lowest;
		session_publish(session, floor_print(text, lowest));
	}
	if (session->coming != NULL)
		session_publish(session, record_print(text, &session->coming->record));
	FAULT_IF(RECORD_ACKED_EARLY, session->coming != NULL && session->leaving != NULL,
	    session_ack(session, session->leaving->tag));
	if (session_is_delivered(session))
		session_complete(session);
}

/* False: it is none of those that the session has published. */
static bool
session_take_own(struct record_session *session, const char *text)
{
	char wanted[RECORD_TEXT];
	uint64_t tag = session->channel.delivery;

	if (session->state == SESSION_PROVING && strcmp(text, session->mark) == 0) {
		amqp_raw_channel_ack(&session->channel, tag);
		session_opened(session);
		return true;
	}
	if (session->state != SESSION_WRITING)
		return false;
	if (session->coming != NULL && session->coming->tag == 0 &&
	    strcmp(text, record_print(wanted, &session->coming->record)) == 0)
		session->coming->tag = tag;
	else if (session->floor_coming_tag == 0 &&
		 strcmp(text, floor_print(wanted, session->floor_coming)) == 0)
		session->floor_coming_tag = tag;
	else
		return false;
	session->messages++;
	if (session_is_delivered(session))
		session_complete(session);
	return true;
}

/* ---- deliveries ---- */

/*
 * The mark of a session that waits must go back to it when this one ends, so it stays. If it was returned
 * before, that session is perhaps dead. Foreign messages stay.
 */
static void
session_take_first(struct record_session *session, const char *text, size_t len)
{
	struct broker_record record;
	uint64_t floor;

	if (strcmp(text, session->mark) == 0) {
		amqp_raw_channel_ack(&session->channel, session->channel.delivery);
		if (FAULT_ELSE(RETURNED_MARK_TRUSTED, 0, session->channel.content.returned) > 0)
			session_begin_again(session);
		else
			session_decide(session);
		return;
	}
	session_set_timer(session, session_broker(session)->settings.probe_timeout);
	if (amqp_is_mark(text)) {
		if (session->channel.content.returned > 0)
			session_ack_later(session, session->channel.delivery);
		return;
	}
	if (session_is_too_many(session))
		return;
	if (record_read(text, len, &record))
		session_load_record(session, &record);
	else if (floor_read(text, len, &floor))
		session_load_floor(session, floor);
}

/*
 * The session has the lock. Only somebody else who has it can return messages, or publish records: the
 * session is over then.
 */
static void
session_take_later(struct record_session *session, const char *text, size_t len)
{
	struct broker_record record;
	uint64_t floor;

	if (session->channel.content.returned > 0) {
		session_end(session, BROKER_LOCKED, 0, odd);
		return;
	}
	if (session_take_own(session, text) || amqp_is_mark(text) || session_is_too_many(session))
		return;
	if (record_read(text, len, &record) || floor_read(text, len, &floor))
		session_end(session, BROKER_LOCKED, 0, odd);
}

static bool
session_on_message(void *ctx)
{
	struct record_session *session = ctx;
	const struct amqp_content *content = &session->channel.content;
	size_t len = (size_t)content->size;
	const char *text = content->body;

	/* Too long, or with a NUL: it is none of ours. */
	if (content->size >= RECORD_TEXT || strlen(text) != len) {
		text = "";
		len = 0;
	}
	if (session->state == SESSION_LOOKING)
		session_take_first(session, text, len);
	else
		session_take_later(session, text, len);
	return true;
}

static bool
session_on_confirm(struct record_session *session, bool taken)
{
	if (!taken)
		session_end(session, BROKER_UNKNOWN, 0, "the broker did not accept the message");
	else if (session->state == SESSION_DECLARING)
		session_look(session);
	FAULT_IF(CONFIRM_IS_PROOF, taken && session->state == SESSION_WRITING,
	    session_answer(session, BROKER_OK, 0, ""));
	return true;
}

static bool
session_on_method(void *ctx, const struct amqp_frame *frame)
{
	struct record_session *session = ctx;

	switch (frame->method) {
	case AMQP_CONFIRM_SELECT_OK_METHOD:
	case AMQP_QUEUE_DECLARE_OK_METHOD:
	case AMQP_BASIC_QOS_OK_METHOD:
		return true;
	case AMQP_BASIC_CONSUME_OK_METHOD:
		FAULT_IF(
		    MARK_NOT_AWAITED, session->state == SESSION_LOOKING, session_decide(session));
		return true;
	case AMQP_BASIC_ACK_METHOD:
		return session_on_confirm(session, true);
	case AMQP_BASIC_NACK_METHOD:
		return session_on_confirm(session, false);
	case AMQP_BASIC_DELIVER_METHOD: {
		const amqp_basic_deliver_t *deliver = frame->fields;

		return session->state >= SESSION_LOOKING &&
		       amqp_raw_channel_announce(&session->channel, deliver->delivery_tag);
	}
	case AMQP_BASIC_CANCEL_METHOD:
		session_end(session, BROKER_LOCKED, 0, "the broker ended the consumer");
		return true;
	default:
		return false;
	}
}

static void
session_on_closed(void *ctx, int code, const char *text)
{
	struct record_session *session = ctx;
	enum broker_answer what = BROKER_UNKNOWN;

	if (session->channel.blames)
		what = amqp_request_refusal(&(struct amqp_request){0}, code, text);
	session_end(session, what, code, text);
}

static void
session_on_timer(void *ctx, uint64_t id)
{
	struct record_session *session = ctx;
	const struct broker *broker = session_broker(session);
	bool over = broker_now(broker) >= session->deadline;

	(void)id;
	if (session->refusal != NULL) {
		if (session->state < SESSION_OPEN)
			session_fail(session, session->refusal_answer, 0, session->refusal);
		else
			session_answer(session, session->refusal_answer, 0, session->refusal);
		return;
	}
	switch (session->state) {
	case SESSION_PAUSING:
	case SESSION_LOOKING:
		if (broker->blocked)
			session_fail(session, BROKER_UNKNOWN, 0, BROKER_ALARM_WORDS);
		else if (over)
			session_fail(session, BROKER_LOCKED, 0, busy);
		else if (session->state == SESSION_PAUSING)
			session_begin(session);
		else
			session_begin_again(session);
		break;
	case SESSION_RESTING:
		session_opened(session);
		break;
	case SESSION_WAITING:
	case SESSION_DECLARING:
	case SESSION_WRITING:
	case SESSION_PROVING:
		session_end(
		    session, BROKER_UNKNOWN, 0, broker->blocked ? BROKER_ALARM_WORDS : late);
		break;
	case SESSION_OPEN:
	case SESSION_LOST:
		abort(); /* they have no deadline */
	}
}

/* ---- outside ---- */

uint64_t
broker_records_open(struct broker *broker, struct broker_done done)
{
	static const struct amqp_raw_channel_events events = {.method = session_on_method,
	    .message = session_on_message,
	    .closed = session_on_closed};
	struct record_session *session = mem_alloc(sizeof(*session));

	session->records = broker->records;
	session->id = ++broker->records->serial;
	session->done = done;
	session->deadline = broker_now(broker) + broker->settings.connect_timeout;
	amqp_raw_channel_init(&session->channel, broker->channels, &events, session);
	timer_init(&session->timer, session_on_timer, session, 0);
	TAILQ_INSERT_TAIL(&broker->records->all, session, entry);
	if (broker->blocked)
		session_refuse(session, BROKER_UNKNOWN, BROKER_ALARM_WORDS);
	else
		session_begin(session);
	amqp_auxiliary_need(broker);
	return session->id;
}

const struct broker_record *
broker_records_find(const struct broker *broker, uint64_t id, const char *name)
{
	const struct record_session *session = session_find(broker->records, id);
	const struct record_entry *entry = session != NULL ? entry_find(session, name) : NULL;

	return entry != NULL ? &entry->record : NULL;
}

uint64_t
broker_records_floor(const struct broker *broker, uint64_t id)
{
	const struct record_session *session = session_find(broker->records, id);

	return session != NULL ? session->floor : 0;
}

/* NULL: the request is refused. */
static struct record_session *
session_to_write(struct broker *broker, uint64_t id, struct broker_done done)
{
	struct record_session *session = session_find(broker->records, id);

	assert(session != NULL && session->done.fn == NULL);
	assert(session->state == SESSION_OPEN || session->state == SESSION_LOST);
	if (session->state == SESSION_OPEN && !broker->blocked)
		return session;
	session->done = done;
	if (session->state == SESSION_LOST)
		session_refuse(session, BROKER_SKIPPED, "");
	else
		session_refuse(session, BROKER_UNKNOWN, BROKER_ALARM_WORDS);
	return NULL;
}

void
broker_records_set(struct broker *broker, uint64_t id, const struct broker_record *record,
    uint64_t lowest, struct broker_done done)
{
	struct record_session *session = session_to_write(broker, id, done);
	struct record_entry *old;

	assert(lowest <= BEAD_EPOCH_MOST && (record == NULL || is_record(record)));
	if (session == NULL)
		return;
	if (session->messages >= BROKER_DIRECTORY_MAX - ROOM) {
		session->done = done;
		session_refuse(
		    session, BROKER_REFUSED, "the queue of the records has too many messages");
		return;
	}
	if (record != NULL) {
		old = entry_find(session, record->name);
		assert(old == NULL || record->epoch >= old->record.epoch);
		if (old == NULL || old->record.size != record->size ||
		    old->record.epoch != record->epoch || old->record.grace != record->grace) {
			session->leaving = old;
			session->coming = mem_alloc(sizeof(*session->coming));
			session->coming->record = *record;
		}
		if (record->epoch > lowest)
			lowest = record->epoch;
	}
	session_write(session, lowest, done);
}

void
broker_records_remove(
    struct broker *broker, uint64_t id, const char *name, uint64_t lowest, struct broker_done done)
{
	struct record_session *session = session_to_write(broker, id, done);

	assert(lowest <= BEAD_EPOCH_MOST);
	if (session == NULL)
		return;
	session->leaving = entry_find(session, name);
	session_write(session, lowest, done);
}

void
broker_records_close(struct broker *broker, uint64_t id)
{
	struct record_session *session = session_find(broker->records, id);

	if (session != NULL)
		session_free(session);
}

struct amqp_records *
amqp_records_new(struct broker *broker)
{
	struct amqp_records *records = mem_alloc(sizeof(*records));

	records->broker = broker;
	TAILQ_INIT(&records->all);
	return records;
}

void
amqp_records_free(struct amqp_records *records)
{
	struct record_session *session;

	while ((session = TAILQ_FIRST(&records->all)) != NULL) {
		amqp_raw_channel_forget(&session->channel);
		session_free(session);
	}
	free(records);
}

bool
amqp_records_in_use(const struct amqp_records *records)
{
	const struct record_session *session;

	TAILQ_FOREACH (session, &records->all, entry)
		if (session->state != SESSION_LOST)
			return true;
	return false;
}

void
amqp_records_go(struct amqp_records *records)
{
	struct record_session *session;

	TAILQ_FOREACH (session, &records->all, entry)
		if (session->state == SESSION_WAITING && session->refusal == NULL)
			session_begin(session);
}

/* The first one that is not lost, of those that were there before. */
static struct record_session *
records_first_before(const struct amqp_records *records, uint64_t serial)
{
	struct record_session *session;

	TAILQ_FOREACH (session, &records->all, entry)
		if (session->state != SESSION_LOST && session->id <= serial)
			break;
	return session;
}

void
amqp_records_fail(struct amqp_records *records)
{
	const uint64_t serial = records->serial;
	struct record_session *session;

	while ((session = records_first_before(records, serial)) != NULL) {
		amqp_raw_channel_forget(&session->channel);
		session_end(session, BROKER_UNKNOWN, 0, "the connection to the broker was lost");
	}
}
