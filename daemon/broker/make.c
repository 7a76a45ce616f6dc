#include "daemon/broker/make.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/beads.h"
#include "daemon/broker/internal.h"
#include "daemon/broker/reconnector.h"
#include "daemon/broker/ways.h"

/*
 * Contents:
 *	Quorum queues: arguments, consumer, messages and marks, for jobs, claims and records.
 *	Jobs: maker_job_set_timer() has the deadline of each state, and maker_job_end() answers.
 *	Jobs, requests: maker_job_ask() asks whether the queue is there, maker_job_enter() whether a node leads
 *	   it, and maker_job_look() what is in it. maker_job_publish_set() publishes the beads.
 *	Jobs, the news of the beads: maker_job_act() performs what beads.h decides. maker_job_decide() judges
 *	   what was seen.
 *	Jobs, deliveries: maker_job_on_message() takes beads, marks and foreign messages. maker_job_on_method(),
 *	   maker_job_on_closed() and maker_job_on_timer() take the rest.
 *	Jobs, outside: broker_make_beads() and so on begin one. They start with the link, and end with it.
 */

/* ---- quorum queues ---- */

/* As an argument of the queue it is stronger than the server's. More would harm the queue. */
#define CONSUMER_TIMEOUT_MS INT64_C(2592000000) /* 30 days */

void
amqp_quorum_queue_declare(
    const struct amqp_raw_channel *channel, const char *queue, struct amqp_quorum_queue wanted)
{
	const struct amqp_link *link = amqp_channels_link(channel->channels);
	amqp_table_entry_t arguments[6];
	amqp_queue_declare_t declare = {
	    .queue = amqp_cstring_bytes(queue),
	    .durable = 1,
	    .arguments = {.entries = arguments},
	};
	unsigned major = 0, minor = 0;
	int count = 0;

	if (link != NULL)
		(void)sscanf(link->server.version, "%u.%u", &major, &minor);
	arguments[count++] = amqp_entry_text("x-queue-type", "quorum");
	if (wanted.single)
		arguments[count++] = (amqp_table_entry_t){
		    .key = amqp_cstring_bytes("x-single-active-consumer"),
		    .value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1},
		};
	arguments[count++] = (amqp_table_entry_t){
	    .key = amqp_cstring_bytes("x-consumer-timeout"),
	    .value = {.kind = AMQP_FIELD_KIND_I64, .value.i64 = CONSUMER_TIMEOUT_MS},
	};
	/* On 3.x, -1 would drop a message at its first return. There is no limit without it. */
	if (major >= 4)
		arguments[count++] = amqp_entry_number("x-delivery-limit", -1);
	/* With the default, a killed node would delay the next holder by a minute. */
	if (wanted.quick && (major > 4 || (major == 4 && minor >= 3)))
		arguments[count++] = amqp_entry_number("x-consumer-disconnected-timeout", 1000);
	if (wanted.expires > 0)
		arguments[count++] = amqp_entry_number("x-expires", wanted.expires / NSEC_PER_MSEC);
	declare.arguments.num_entries = count;
	amqp_raw_channel_send(channel, AMQP_QUEUE_DECLARE_METHOD, &declare);
}

void
amqp_quorum_queue_attach(
    const struct amqp_raw_channel *channel, const char *queue, char kind, uint16_t prefetch)
{
	struct amqp_raw_channel_tag tag = amqp_raw_channel_tag(kind, 1);
	amqp_basic_qos_t qos = {.prefetch_count = prefetch};
	amqp_basic_consume_t consume = {
	    .queue = amqp_cstring_bytes(queue),
	    .consumer_tag = amqp_cstring_bytes(tag.text),
	};

	amqp_raw_channel_send(channel, AMQP_BASIC_QOS_METHOD, &qos);
	amqp_raw_channel_send(channel, AMQP_BASIC_CONSUME_METHOD, &consume);
}

void
amqp_quorum_queue_publish(
    const struct amqp_raw_channel *channel, const char *queue, const char *text)
{
	amqp_basic_publish_t fields = {.routing_key = amqp_cstring_bytes(queue)};
	amqp_basic_properties_t properties = {
	    ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG,
	    .delivery_mode = AMQP_DELIVERY_PERSISTENT,
	};

	amqp_raw_channel_publish(channel, &fields, &properties, amqp_cstring_bytes(text));
}

uint64_t
amqp_quorum_queue_random(struct broker *broker)
{
	uint64_t number = (uint64_t)jitter_below(&broker->jitter, INT64_MAX);

	if (!broker->settings.replays)
		random_fill(&number, sizeof(number));
	return number;
}

char *
amqp_mark_print(char text[AMQP_MARK_TEXT], uint64_t number)
{
	snprintf(text, AMQP_MARK_TEXT, "mark %016" PRIx64, number);
	return text;
}

bool
amqp_is_mark(const char *text)
{
	char again[AMQP_MARK_TEXT];
	uint64_t number;

	return sscanf(text, "mark %16" SCNx64, &number) == 1 &&
	       strcmp(amqp_mark_print(again, number), text) == 0;
}

/* ---- jobs ---- */

#define MAKER_TAG 'm'
/* A queue hears of the end of a channel a moment later, such as that of a look. So a delete asks so often. */
#define ASKS_MOST 4
#define ASK_AGAIN (100 * NSEC_PER_MSEC)
/* A claimant that was attached before can take a mark. It leaves within the deadline of the first one. */
#define MARKS_MOST 2
/* A job begins anew so often, as a claim does (quorum.c). */
#define ATTACHES_MOST 16
/* Beads that a look or a repair takes, at most. */
#define SEEN_MOST 1000

enum maker_work {
	JOB_MAKES,   /* the slot, as `wanted` */
	JOB_LOOKS,   /* tells what is there, and changes nothing */
	JOB_REMOVES, /* publishes a removal, claims the slot, and deletes it */
	JOB_DELETES, /* the same, if a removal is there already */
	JOB_CLAIMS,  /* the same, without one: a slot in use stays */
	JOB_CLEARS,  /* the same, but the slot is perhaps no slot, and has no beads to claim */
	JOB_DROPS    /* deletes a classic queue at the place of a slot */
};

enum maker_state {
	JOB_WAITING,   /* waits for the link */
	JOB_DECLARING, /* waits for declare-ok; of a passive declare, if it neither MAKES nor LOOKS */
	JOB_RESTING,   /* the queue is young; CLEARS and DROPS: it has a consumer */
	JOB_CONFIRMING, /* waits for the confirm of a message: a node leads the queue */
	JOB_LOOKING,    /* waits for its mark */
	JOB_PAUSING,  /* no set is there; earlier holders of the name may believe in their holds */
	JOB_CLEANING, /* a set is there, or published: `beads` says what is to be done */
	JOB_DELETING  /* the slot is held here, and the delete is sent */
};

struct maker_job {
	TAILQ_ENTRY(maker_job) entry;
	struct amqp_makers *makers; /* borrowed */
	enum maker_state state;
	char *queue; /* owned */
	enum maker_work work;
	bool removed;               /* a removal is there, as a confirm or its delivery says */
	struct broker_beads wanted; /* MAKES */
	struct broker_done done;
	struct amqp_raw_channel channel;
	struct timer timer;       /* the deadline of the state, or its end */
	uint64_t mark, publisher; /* random */
	unsigned major, minor;    /* of the server */
	unsigned asks;            /* passive declares */
	unsigned marks;           /* MAKES: that were published */
	unsigned attaches;        /* on new channels, as the order of the beads was not certain */
	bool asks_type;           /* LOOKS: the queue has other arguments; is it a quorum queue? */
	uint32_t messages;        /* that were ready, as declare-ok said */
	bool vacant; /* the same: no message and no consumer; perhaps no node leads it */
	/* owned; LOOKING: the beads before the mark. A repair keeps them until its set is complete */
	struct bead *seen;
	size_t seen_count, seen_room;
	unsigned foreign;               /* messages that are neither beads nor marks */
	struct broker_beads_seen found; /* the same in words; after the mark */
	struct beads beads;             /* CLEANING */
	bool others;                    /* CLEANING: beads of another publisher came */
	uint64_t fence;                 /* of the claim before a delete */
};

static const char late[] = "the broker did not answer in time";
static const char busy[] = "the slot is held";
static const char leaderless[] = "no node leads the queue";
static const char shared[] = "the queue has no single active consumer";
static const char crowded[] = "the queue has more than 1000 messages";

struct amqp_makers {
	struct broker *broker;       /* borrowed */
	TAILQ_HEAD(, maker_job) all; /* owned */
};

static int64_t
makers_now(const struct maker_job *job)
{
	return broker_now(job->makers->broker);
}

static void
maker_job_set_timer(struct maker_job *job, int64_t wait)
{
	timers_set(job->makers->broker->timers, &job->timer, makers_now(job) + wait);
}

/* An answer of the broker, or of the next holder, is awaited. */
static void
maker_job_set_deadline(struct maker_job *job)
{
	maker_job_set_timer(job, job->makers->broker->settings.probe_timeout);
}

/* Closes the channel, answers, and frees the job. */
static void
maker_job_end(struct maker_job *job, enum broker_answer answer, int code, const char *text)
{
	struct amqp_makers *makers = job->makers;
	struct broker_done done = job->done;
	const struct broker_beads_seen found = job->found;
	/* The channel is its own: none of the caller's has closed. */
	const struct broker_reply reply = {.answer = answer,
	    .channel_open = true,
	    .code = code,
	    .text = text,
	    .fence = job->fence,
	    .removed = job->removed,
	    .beads = job->work == JOB_LOOKS && answer == BROKER_OK ? &found : NULL};

	amqp_raw_channel_close(&job->channel);
	timers_cancel(makers->broker->timers, &job->timer);
	TAILQ_REMOVE(&makers->all, job, entry);
	free(job->seen);
	free(job->queue);
	free(job);
	if (!makers->broker->stopped)
		done.fn(done.ctx, done.id, &reply);
}

/* ---- jobs, requests ---- */

static void
maker_job_publish(struct maker_job *job, const char *text)
{
	amqp_quorum_queue_publish(&job->channel, job->queue, text);
}

static void
maker_job_publish_confirmed(struct maker_job *job, const char *text)
{
	amqp_raw_channel_send(
	    &job->channel, AMQP_CONFIRM_SELECT_METHOD, &(amqp_confirm_select_t){0});
	maker_job_publish(job, text);
}

/* More than the usual one, if foreign messages or odd beads could keep the mark away. */
static uint16_t
maker_job_find_prefetch(const struct maker_job *job)
{
	uint32_t prefetch = BEADS_PREFETCH;

	if (job->messages > BEADS)
		prefetch += job->messages < SEEN_MOST ? job->messages : SEEN_MOST;
	return (uint16_t)prefetch;
}

static void
maker_job_attach(struct maker_job *job)
{
	maker_job_set_deadline(job);
	amqp_quorum_queue_attach(
	    &job->channel, job->queue, MAKER_TAG, maker_job_find_prefetch(job));
}

static void
maker_job_publish_mark(struct maker_job *job)
{
	char text[AMQP_MARK_TEXT];

	job->marks++;
	job->mark = amqp_quorum_queue_random(job->makers->broker);
	maker_job_publish(job, amqp_mark_print(text, job->mark));
}

/* Becomes a consumer, and then publishes the mark. */
static void
maker_job_look(struct maker_job *job)
{
	job->state = JOB_LOOKING;
	maker_job_attach(job);
	maker_job_publish_mark(job);
}

/* Becomes a consumer. The queue must have a leader. */
static void
maker_job_consume(struct maker_job *job)
{
	if (job->work == JOB_REMOVES || job->work == JOB_DELETES || job->work == JOB_CLAIMS) {
		beads_init(&job->beads, job->major, job->minor);
		job->state = JOB_CLEANING;
		/* Before the consume, so that the removal comes to the holder, or to this job. */
		if (job->work == JOB_REMOVES)
			maker_job_publish_confirmed(job, AMQP_REMOVAL_TEXT);
		maker_job_attach(job);
	} else {
		maker_job_look(job);
	}
}

/*
 * The queue is there. If it shows neither a message nor a consumer, perhaps no node leads it. A consume would
 * end the connection then (541): at once over 3.10.8, after 65 s over 4.0.5. A publish is nacked, or not
 * answered (both tried). So a mark comes first. It is not the mark of the look, and is acknowledged when it
 * comes.
 */
static void
maker_job_enter(struct maker_job *job)
{
	char text[AMQP_MARK_TEXT];

	if (!job->vacant) {
		maker_job_consume(job);
		return;
	}
	job->state = JOB_CONFIRMING;
	maker_job_set_deadline(job);
	maker_job_publish_confirmed(
	    job, amqp_mark_print(text, amqp_quorum_queue_random(job->makers->broker)));
}

/* Under a fresh proof that nobody else holds the slot; or of a queue that is no slot. */
static void
maker_job_send_delete(struct maker_job *job, uint64_t fence)
{
	/* Of a quorum queue, if-unused would end the connection. */
	amqp_queue_delete_t delete = {
	    .queue = amqp_cstring_bytes(job->queue), .if_unused = job->work == JOB_DROPS};

	job->state = JOB_DELETING;
	job->fence = fence;
	maker_job_set_deadline(job);
	amqp_raw_channel_send(&job->channel, AMQP_QUEUE_DELETE_METHOD, &delete);
}

/* Whether the queue is there, and has messages or a consumer. */
static void
maker_job_ask(struct maker_job *job)
{
	amqp_queue_declare_t declare = {.queue = amqp_cstring_bytes(job->queue), .passive = 1};

	job->asks++;
	job->state = JOB_DECLARING;
	maker_job_set_deadline(job);
	amqp_raw_channel_send(&job->channel, AMQP_QUEUE_DECLARE_METHOD, &declare);
}

/* In dirty order: an accident that returns them in the order of publication reads as dirty. */
static void
maker_job_publish_set(struct maker_job *job)
{
	static const unsigned order[BEADS] = {1, 3, 2};
	struct bead bead = {
	    .epoch = job->wanted.epoch,
	    .publisher = job->publisher,
	    .grace = job->wanted.grace,
	    .major = job->major,
	};
	char text[BEAD_TEXT];

	job->state = JOB_CLEANING;
	beads_own(&job->beads, job->publisher);
	maker_job_set_deadline(job);
	for (unsigned i = 0; i < BEADS; i++) {
		bead.number = order[i];
		FAULT(BEADS_PUBLISHED_CLEAN, bead.number = i + 1);
		maker_job_publish(job, bead_print(text, &bead));
	}
}

/* ---- jobs, the news of the beads ---- */

static bool
maker_job_deletes(const struct maker_job *job)
{
	return job->work == JOB_CLEARS || job->work == JOB_CLAIMS ||
	       ((job->work == JOB_REMOVES || job->work == JOB_DELETES) && job->removed);
}

/* A newer set is complete: those that it replaces go. */
static void
maker_job_ack_seen(struct maker_job *job)
{
	for (size_t i = 0; i < job->seen_count; i++)
		amqp_raw_channel_ack(&job->channel, job->seen[i].tag);
	job->seen_count = 0;
}

/*
 * To claim the set that is there. Messages that came with it or after it can have brought it, in an order that is
 * not certain. On a new channel it comes first.
 */
static bool
maker_job_attach_anew(struct maker_job *job)
{
	amqp_raw_channel_close(&job->channel);
	if (++job->attaches > ATTACHES_MOST || !amqp_raw_channel_open(&job->channel, BEAD_TEXT)) {
		maker_job_end(job, BROKER_UNKNOWN, 0, beads_end_words(BEADS_END_UNSURE));
		return false;
	}
	job->seen_count = 0;
	job->others = false;
	job->state = JOB_CLEANING;
	beads_init(&job->beads, job->major, job->minor);
	maker_job_attach(job);
	return true;
}

/* False: the job has ended. */
static bool
maker_job_act(struct maker_job *job, struct beads_acts acts)
{
	enum beads_end end = job->beads.end;

	for (unsigned i = 0; i < acts.ack_count; i++)
		amqp_raw_channel_ack(&job->channel, acts.acks[i]);
	if (acts.reject != 0)
		amqp_raw_channel_reject(&job->channel, acts.reject);
	if (acts.barrier)
		amqp_raw_channel_send(&job->channel, AMQP_BASIC_QOS_METHOD,
		    &(amqp_basic_qos_t){.prefetch_count = maker_job_find_prefetch(job)});
	switch (acts.news) {
	case BEADS_NO_NEWS:
	case BEADS_RENEWED:
		break;
	case BEADS_UNCLEAN:
		maker_job_ack_seen(job);
		if (beads_are_new(&job->beads))
			return maker_job_act(job, beads_release_new(&job->beads, makers_now(job)));
		maker_job_set_timer(job, job->beads.until - makers_now(job));
		break;
	case BEADS_NOW_HELD:
		maker_job_ack_seen(job);
		if (maker_job_deletes(job)) {
			maker_job_send_delete(job, beads_fence(&job->beads, 0));
			break;
		}
		maker_job_set_deadline(job);
		return maker_job_act(job, beads_release(&job->beads, makers_now(job)));
	case BEADS_NOW_RELEASED:
		maker_job_end(job, job->work == JOB_MAKES ? BROKER_OK : BROKER_LOCKED, 0, "");
		return false;
	case BEADS_NOW_OVER:
		if (end == BEADS_END_UNSURE)
			return maker_job_attach_anew(job);
		maker_job_end(job,
		    end == BEADS_END_TWO_SETS || end == BEADS_END_VERSION ? BROKER_REFUSED
									  : BROKER_LOCKED,
		    0, beads_end_words(end));
		return false;
	}
	return true;
}

/* Earlier holders of the name stop meanwhile. */
static void
maker_job_pause_before_set(struct maker_job *job)
{
	job->state = JOB_PAUSING;
	maker_job_set_timer(job, FAULT_ELSE(BEADS_WITHOUT_PAUSE, 0, job->wanted.wait));
}

/* No claim could use these messages. So at most an earlier holder believes in its hold. */
static void
maker_job_replace(struct maker_job *job)
{
	if (maker_job_deletes(job)) {
		maker_job_send_delete(job, job->found.epoch << BEAD_FENCE_BITS);
	} else if (job->found.epoch >= job->wanted.epoch) {
		maker_job_end(job, BROKER_LOCKED, 0, "newer messages came meanwhile");
	} else {
		maker_job_pause_before_set(job);
	}
}

/* The set that is there is claimed. Single beads go with it, or with the next complete set. */
static void
maker_job_claim(struct maker_job *job)
{
	struct bead *seen = job->seen;
	size_t count = job->seen_count;
	bool goes_on = true;

	if (job->found.found != BROKER_BEADS_NONE && job->found.found != BROKER_BEADS_PART &&
	    FAULT_ELSE(BEADS_BEFORE_MARK_IGNORED, true, false)) {
		(void)maker_job_attach_anew(job);
		return;
	}

	job->seen = NULL;
	job->seen_count = job->seen_room = 0;
	FAULT(BEADS_BEFORE_MARK_IGNORED, count = 0);
	beads_init(&job->beads, job->major, job->minor);
	job->state = JOB_CLEANING;
	maker_job_set_deadline(job);
	for (size_t i = 0; goes_on && i < count; i++)
		goes_on = maker_job_act(job, beads_take(&job->beads, &seen[i], makers_now(job)));
	free(seen);
	if (!goes_on || job->beads.state != BEADS_GATHERING)
		return;
	maker_job_pause_before_set(job);
}

/* The mark came: nobody else is active, and `seen` is all that is there. */
static void
maker_job_decide(struct maker_job *job)
{
	bool claimable;

	beads_look(job->seen, job->seen_count, job->major, &job->found);
	job->found.foreign = job->foreign;
	claimable = beads_look_claimable(&job->found);
	FAULT_IF(REPAIR_BESIDE_SET, job->work == JOB_MAKES, claimable = false);
	beads_init(&job->beads, job->major, job->minor);
	if (job->work == JOB_LOOKS)
		maker_job_end(job, BROKER_OK, 0, "");
	else if (!claimable && (job->wanted.repairs || job->work == JOB_CLEARS))
		maker_job_replace(job);
	else
		maker_job_claim(job);
}

/* ---- jobs, deliveries ---- */

static void
maker_job_see(struct maker_job *job, const struct bead *bead)
{
	if (job->seen_count == SEEN_MOST) {
		maker_job_end(job, BROKER_REFUSED, 0, crowded);
		return;
	}
	if (job->seen_count == job->seen_room) {
		job->seen_room = job->seen_room == 0 ? BEADS_PREFETCH : 2 * job->seen_room;
		job->seen = mem_grow(job->seen, job->seen_room, sizeof(*job->seen));
	}
	job->seen[job->seen_count++] = *bead;
}

static void
maker_job_take_bead(struct maker_job *job, const struct bead *bead)
{
	switch (job->state) {
	case JOB_LOOKING:
		maker_job_see(job, bead);
		break;
	case JOB_PAUSING:
		maker_job_end(job, BROKER_LOCKED, 0, "somebody else makes this slot");
		break;
	case JOB_CLEANING:
		job->others |= bead->publisher != job->publisher;
		if (job->others)
			beads_own(&job->beads, 0);
		(void)maker_job_act(job, beads_take(&job->beads, bead, makers_now(job)));
		break;
	case JOB_DELETING:
		break; /* the queue is gone soon */
	case JOB_WAITING:
	case JOB_DECLARING:
	case JOB_RESTING:
	case JOB_CONFIRMING:
		abort(); /* it is no consumer */
	}
}

/*
 * A message that is no bead is acknowledged: also a removal, if the slot is made again. A look
 * leaves it, unless it is a mark.
 */
static void
maker_job_take_foreign(struct maker_job *job, const char *text, uint64_t returned)
{
	char mark[AMQP_MARK_TEXT];
	bool is_mark = amqp_is_mark(text);
	bool mine =
	    job->state == JOB_LOOKING && strcmp(text, amqp_mark_print(mark, job->mark)) == 0;

	if (strcmp(text, AMQP_REMOVAL_TEXT) == 0 && job->work != JOB_MAKES) {
		job->removed = true;
		beads_foreign(&job->beads, returned, true);
		return;
	}
	if (job->work != JOB_LOOKS)
		beads_foreign(&job->beads, returned, false);
	if (is_mark || job->work != JOB_LOOKS)
		amqp_raw_channel_ack(&job->channel, job->channel.delivery);
	job->foreign += !is_mark;
	if (!mine)
		return;
	/* Another consumer had it before. It was active then, and may have had beads, too. */
	if (returned > 0)
		maker_job_end(job, BROKER_LOCKED, 0, "another consumer was active");
	else
		maker_job_decide(job);
}

static bool
maker_job_on_message(void *ctx)
{
	struct maker_job *job = ctx;
	const struct amqp_content *content = &job->channel.content;
	struct bead bead;

	if (content->size < BEAD_TEXT && content->returned <= BEAD_COUNT_MOST &&
	    bead_read(content->body, (size_t)content->size, &bead)) {
		bead.count = content->returned;
		bead.tag = job->channel.delivery;
		maker_job_take_bead(job, &bead);
	} else {
		maker_job_take_foreign(job, content->body, content->returned);
	}
	return true;
}

/* While all beads are ready, no consumer holds the slot. It perhaps tries to claim it. */
static void
maker_job_declared(struct maker_job *job, const amqp_queue_declare_ok_t *ok)
{
	job->messages = ok->message_count;
	job->vacant = ok->message_count == 0 && ok->consumer_count == 0;
	if (job->asks_type) {
		maker_job_end(job, BROKER_REFUSED, AMQP_PRECONDITION_FAILED, shared);
	} else if (job->work == JOB_MAKES) {
		job->state = JOB_RESTING;
		maker_job_set_timer(job, AMQP_QUORUM_QUEUE_REST);
	} else if (job->work == JOB_REMOVES || job->work == JOB_DELETES ||
		   job->work == JOB_CLAIMS) {
		maker_job_enter(job); /* behind those that claim it now */
	} else if (ok->consumer_count > 0 && job->work != JOB_LOOKS && job->asks < ASKS_MOST) {
		job->state = JOB_RESTING;
		maker_job_set_timer(job, ASK_AGAIN);
	} else if (ok->consumer_count > 0 && (job->work != JOB_LOOKS || job->messages < BEADS)) {
		maker_job_end(job, BROKER_LOCKED, 0, busy);
	} else if (job->messages > SEEN_MOST) {
		maker_job_end(job, BROKER_REFUSED, 0, crowded);
	} else if (job->work == JOB_DROPS) {
		maker_job_send_delete(job, 0);
	} else {
		maker_job_enter(job);
	}
}

static bool
maker_job_on_method(void *ctx, const struct amqp_frame *frame)
{
	struct maker_job *job = ctx;

	switch (frame->method) {
	case AMQP_QUEUE_DECLARE_OK_METHOD:
		if (job->state != JOB_DECLARING)
			return false;
		maker_job_declared(job, frame->fields);
		return true;
	case AMQP_BASIC_CONSUME_OK_METHOD:
		FAULT_IF(CONSUME_OK_TRUSTED, job->state == JOB_LOOKING, maker_job_decide(job));
		return true;
	case AMQP_BASIC_QOS_OK_METHOD:
		(void)maker_job_act(job, beads_barrier(&job->beads, makers_now(job)));
		return true;
	case AMQP_CONFIRM_SELECT_OK_METHOD:
		return true;
	case AMQP_BASIC_ACK_METHOD:
		if (job->state == JOB_CONFIRMING)
			maker_job_consume(job);
		else
			job->removed |= job->work == JOB_REMOVES; /* it publishes nothing else */
		return true;
	case AMQP_BASIC_NACK_METHOD:
		if (job->state == JOB_CONFIRMING)
			maker_job_end(job, BROKER_UNREACHABLE, 0, leaderless);
		else if (job->work == JOB_REMOVES)
			maker_job_end(
			    job, BROKER_UNKNOWN, 0, "the broker did not take the removal");
		return true;
	case AMQP_BASIC_DELIVER_METHOD: {
		const amqp_basic_deliver_t *deliver = frame->fields;

		return amqp_raw_channel_announce(&job->channel, deliver->delivery_tag);
	}
	case AMQP_QUEUE_DELETE_OK_METHOD:
		if (job->state != JOB_DELETING)
			return false;
		maker_job_end(job, BROKER_OK, 0, "");
		return true;
	case AMQP_BASIC_CANCEL_METHOD:
		if (job->state == JOB_DELETING)
			return true; /* by the delete */
		maker_job_end(job, BROKER_LOCKED, 0, "the broker ended the consumer");
		return true;
	default:
		return false;
	}
}

static void
maker_job_on_closed(void *ctx, int code, const char *text)
{
	struct maker_job *job = ctx;
	enum broker_answer answer = BROKER_UNKNOWN;

	/* The first difference hides whether the queue is a quorum queue. A second declare tells. */
	if (job->work == JOB_LOOKS && code == AMQP_PRECONDITION_FAILED && !job->asks_type &&
	    strstr(text, "'x-single-active-consumer'") != NULL &&
	    amqp_raw_channel_open(&job->channel, BEAD_TEXT)) {
		job->asks_type = true;
		amqp_quorum_queue_declare(
		    &job->channel, job->queue, (struct amqp_quorum_queue){.quick = true});
		return;
	}
	if (job->channel.blames)
		answer = amqp_request_refusal(&(struct amqp_request){0}, code, text);
	maker_job_end(job, answer, code, text);
}

static void
maker_job_on_timer(void *ctx, uint64_t id)
{
	struct maker_job *job = ctx;

	(void)id;
	switch (job->state) {
	case JOB_WAITING:
		maker_job_end(job, BROKER_UNKNOWN, 0, late);
		break;
	case JOB_DECLARING:
		maker_job_end(
		    job, job->work == JOB_LOOKS ? BROKER_UNREACHABLE : BROKER_UNKNOWN, 0, late);
		break;
	case JOB_RESTING:
		if (job->work == JOB_MAKES)
			maker_job_enter(job);
		else
			maker_job_ask(job);
		break;
	case JOB_CONFIRMING:
		if (job->makers->broker->blocked)
			maker_job_end(job, BROKER_UNKNOWN, 0, BROKER_ALARM_WORDS);
		else
			maker_job_end(job, BROKER_UNREACHABLE, 0, leaderless);
		break;
	case JOB_LOOKING:
		FAULT_IF(REPAIR_OF_HELD, job->wanted.repairs, maker_job_decide(job); return;);
		if (job->work == JOB_MAKES && job->marks < MARKS_MOST) {
			maker_job_set_deadline(job);
			maker_job_publish_mark(job);
			break;
		}
		if (job->work == JOB_LOOKS && job->messages == 0)
			maker_job_end(job, BROKER_UNREACHABLE, 0, leaderless);
		else
			maker_job_end(job, BROKER_LOCKED, 0, busy);
		break;
	case JOB_PAUSING:
		maker_job_publish_set(job);
		break;
	case JOB_CLEANING:
		maker_job_set_deadline(job);
		/* No set came. If the removal was not confirmed, nothing is known. */
		if (job->beads.state == BEADS_GATHERING)
			maker_job_end(job,
			    job->work == JOB_REMOVES && !job->removed ? BROKER_UNKNOWN
								      : BROKER_LOCKED,
			    0, busy);
		else if (job->beads.state != BEADS_IN_GRACE)
			maker_job_end(job, BROKER_UNKNOWN, 0, late);
		else if (maker_job_deletes(job))
			(void)maker_job_act(job, beads_prove(&job->beads, makers_now(job)));
		else
			(void)maker_job_act(job, beads_release(&job->beads, makers_now(job)));
		break;
	case JOB_DELETING:
		maker_job_end(job, BROKER_UNKNOWN, 0, late);
		break;
	}
}

/* ---- jobs, outside ---- */

static void
maker_job_go(struct maker_job *job)
{
	const struct amqp_link *link = amqp_channels_link(job->makers->broker->channels);

	if (link == NULL || !amqp_raw_channel_open(&job->channel, BEAD_TEXT))
		return;
	(void)sscanf(link->server.version, "%u.%u", &job->major, &job->minor);
	FAULT_IF(BEADS_DELETED_UNCLAIMED, job->work == JOB_CLAIMS, maker_job_send_delete(job, 0);
		 return;);
	if (job->work != JOB_MAKES && job->work != JOB_LOOKS) {
		maker_job_ask(job);
		return;
	}
	job->state = JOB_DECLARING;
	maker_job_set_deadline(job);
	amqp_quorum_queue_declare(&job->channel, job->queue,
	    (struct amqp_quorum_queue){
		.single = true, .quick = true, .expires = job->wanted.expires});
}

/* wanted: of a slot that is made; else NULL. */
static void
maker_job_start(struct broker *broker, enum maker_work work, const char *queue,
    const struct broker_beads *wanted, struct broker_done done)
{
	static const struct amqp_raw_channel_events events = {.method = maker_job_on_method,
	    .message = maker_job_on_message,
	    .closed = maker_job_on_closed};
	struct maker_job *job = mem_alloc(sizeof(*job));

	job->makers = broker->makers;
	job->queue = mem_strdup(queue);
	job->work = work;
	if (wanted != NULL)
		job->wanted = *wanted;
	job->done = done;
	job->publisher = amqp_quorum_queue_random(broker);
	amqp_raw_channel_init(&job->channel, broker->channels, &events, job);
	timer_init(&job->timer, maker_job_on_timer, job, 0);
	TAILQ_INSERT_TAIL(&broker->makers->all, job, entry);
	maker_job_set_timer(job, broker->settings.connect_timeout);
	amqp_auxiliary_need(broker);
	maker_job_go(job);
}

void
broker_make_beads(struct broker *broker, const char *queue, const struct broker_beads *wanted,
    struct broker_done done)
{
	assert(wanted->epoch > 0 && wanted->epoch <= BEAD_EPOCH_MOST);
	assert(wanted->grace >= BEAD_GRACE_LEAST && wanted->grace <= BEAD_GRACE_MOST);
	maker_job_start(broker, JOB_MAKES, queue, wanted, done);
}

void
broker_look_at_beads(struct broker *broker, const char *queue, struct broker_done done)
{
	maker_job_start(broker, JOB_LOOKS, queue, NULL, done);
}

void
broker_clear_beads(struct broker *broker, const char *queue, bool classic, struct broker_done done)
{
	maker_job_start(broker, classic ? JOB_DROPS : JOB_CLEARS, queue, NULL, done);
}

void
broker_remove_beads(struct broker *broker, const char *queue, struct broker_done done)
{
	maker_job_start(broker, JOB_REMOVES, queue, NULL, done);
}

void
broker_delete_beads(struct broker *broker, const char *queue, struct broker_done done)
{
	maker_job_start(broker, JOB_CLAIMS, queue, NULL, done);
}

void
broker_delete_removed(struct broker *broker, const char *queue, struct broker_done done)
{
	maker_job_start(broker, JOB_DELETES, queue, NULL, done);
}

struct amqp_makers *
amqp_makers_new(struct broker *broker)
{
	struct amqp_makers *makers = mem_alloc(sizeof(*makers));

	makers->broker = broker;
	TAILQ_INIT(&makers->all);
	return makers;
}

void
amqp_makers_free(struct amqp_makers *makers)
{
	amqp_makers_fail(makers);
	free(makers);
}

bool
amqp_makers_in_use(const struct amqp_makers *makers)
{
	return !TAILQ_EMPTY(&makers->all);
}

void
amqp_makers_go(struct amqp_makers *makers)
{
	struct maker_job *job, *next;

	TAILQ_FOREACH_SAFE (job, &makers->all, entry, next)
		if (job->state == JOB_WAITING)
			maker_job_go(job);
}

/* Jobs that the answers begin are behind these. */
void
amqp_makers_fail(struct amqp_makers *makers)
{
	struct maker_job *job;
	size_t count = 0;

	TAILQ_FOREACH (job, &makers->all, entry)
		count++;
	while (count-- > 0) {
		job = TAILQ_FIRST(&makers->all);
		amqp_raw_channel_forget(&job->channel);
		maker_job_end(job, BROKER_UNKNOWN, 0, "the connection to the broker was lost");
	}
}
