#include "daemon/broker/amqp_probe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/amqp_tapped.h"

/*
 * Probes that were given up are kept until their confirms come; when so many have piled up the channel
 * is replaced. A queue without its majority never confirms.
 */
#define GIVEN_UP_MAX 16
/*
 * Messages on their way at once; who asks for more waits for confirms. With the longest names this is a
 * third of the output at which a link is given up as one that is not read.
 */
#define UNCONFIRMED_MAX 16384

enum place { PLACE_OPEN, PLACE_RETURNED, PLACE_DONE };

struct probe {
	TAILQ_ENTRY(probe) in_all;
	struct amqp_probes *probes; /* borrowed */
	struct broker_probe_done done;
	size_t count, left;          /* left: places that are not DONE */
	uint64_t first_tag;          /* 0 = not sent yet */
	bool hopeless;               /* asked while nothing may be published: never sent */
	bool given_up;               /* answered at its deadline, its confirms are still to come */
	char **queues;               /* owned, and each; NULL once sent */
	enum place *places;          /* owned */
	enum broker_answer *answers; /* owned */
	struct timer deadline;
};
TAILQ_HEAD(probe_list, probe);

struct amqp_probes {
	struct timers *timers;    /* borrowed */
	struct amqp_lanes *lanes; /* borrowed */
	int64_t timeout;
	struct probe_list all; /* owned; the sent ones by tag */
	unsigned given_up;
	size_t unconfirmed; /* messages on their way, but for those that were given up */
	uint64_t last_tag;  /* of the lane */
	struct amqp_tapped lane;
	char *refused; /* owned; the broker's words on this link; NULL = it has not refused */
	bool silent;
};

static int64_t
now(const struct amqp_probes *probes)
{
	return clock_now(timers_clock(probes->timers));
}

static void
free_queues(struct probe *probe)
{
	if (probe->queues == NULL)
		return;
	for (size_t i = 0; i < probe->count; i++)
		free(probe->queues[i]);
	free(probe->queues);
	probe->queues = NULL;
}

/* It must be off the list. */
static void
probe_free(struct probe *probe)
{
	struct amqp_probes *probes = probe->probes;

	timers_cancel(probes->timers, &probe->deadline);
	if (probe->given_up)
		probes->given_up--;
	free_queues(probe);
	free(probe->places);
	free(probe->answers);
	free(probe);
}

/* The places that are still open stay BROKER_UNKNOWN, as they began. */
static void
probe_answer(struct probe *probe)
{
	if (!probe->probes->silent && !probe->given_up)
		probe->done.fn(probe->done.ctx, probe->done.id, probe->answers, probe->count);
}

/* Answers and frees each of a list made of probes->all: what the answers ask anew is not in it. */
static void
answer_all(struct probe_list *list)
{
	struct probe *probe;

	while ((probe = TAILQ_FIRST(list)) != NULL) {
		TAILQ_REMOVE(list, probe, in_all);
		probe_answer(probe);
		probe_free(probe);
	}
}

/* ---- sending ---- */

static bool
open_channel(struct amqp_probes *probes)
{
	amqp_confirm_select_t select = {0};

	if (probes->lane.channel != 0)
		return true;
	if (!amqp_tapped_open(&probes->lane, 0))
		return false;
	probes->last_tag = 0;
	FAULT(CONFIRMS_OFF_BY_ONE, probes->last_tag = 1);
	amqp_tapped_send(&probes->lane, AMQP_CONFIRM_SELECT_METHOD, &select);
	return true;
}

/*
 * One message: transient, without content, dropped at once where there is a queue (expiration 0). A
 * return carries no tag, so the message carries it: two probes may ask for one queue at once.
 */
static void
publish(struct amqp_probes *probes, const char *queue)
{
	char tag[BROKER_NUMBER_TEXT];
	amqp_basic_publish_t fields = {
	    .routing_key = amqp_cstring_bytes(queue),
	    .mandatory = 1,
	};
	amqp_basic_properties_t properties = {
	    ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_EXPIRATION_FLAG |
		      AMQP_BASIC_CORRELATION_ID_FLAG,
	    .delivery_mode = AMQP_DELIVERY_NONPERSISTENT,
	    .expiration = amqp_cstring_bytes("0"),
	};

	properties.correlation_id = amqp_cstring_bytes(broker_number_text(tag, ++probes->last_tag));
	amqp_tapped_publish(&probes->lane, &fields, &properties, amqp_empty_bytes);
}

static void
probe_send(struct amqp_probes *probes, struct probe *probe)
{
	probe->first_tag = probes->last_tag + 1;
	for (size_t i = 0; i < probe->count; i++)
		publish(probes, probe->queues[i]);
	probes->unconfirmed += probe->count;
	free_queues(probe);
}

/* In the order of asking. What cannot be sent waits, and ends at its deadline at the latest. */
static void
send_waiting(struct amqp_probes *probes)
{
	struct probe *probe;

	TAILQ_FOREACH (probe, &probes->all, in_all) {
		if (probe->first_tag != 0 || probe->hopeless)
			continue;
		if (probes->unconfirmed + probe->count > UNCONFIRMED_MAX || !open_channel(probes))
			return;
		probe_send(probes, probe);
	}
}

/* ---- confirms ---- */

/* The sent probe that a tag belongs to. */
static struct probe *
find_tag(const struct amqp_probes *probes, uint64_t tag)
{
	struct probe *probe;

	TAILQ_FOREACH (probe, &probes->all, in_all)
		if (probe->first_tag != 0 && tag >= probe->first_tag &&
		    tag - probe->first_tag < probe->count)
			return probe;
	return NULL;
}

static void
settle(struct probe *probe, size_t i, bool acked)
{
	if (probe->places[i] == PLACE_DONE)
		return;
	if (acked)
		probe->answers[i] = probe->places[i] == PLACE_RETURNED ? BROKER_ABSENT : BROKER_OK;
	probe->places[i] = PLACE_DONE;
	probe->left--;
	if (!probe->given_up)
		probe->probes->unconfirmed--;
}

/* Those that have nothing open any more are answered. */
static void
finish(struct amqp_probes *probes)
{
	struct probe_list ready = TAILQ_HEAD_INITIALIZER(ready);
	struct probe *probe, *next;

	TAILQ_FOREACH_SAFE (probe, &probes->all, in_all, next) {
		if (probe->first_tag == 0 || probe->left > 0)
			continue;
		TAILQ_REMOVE(&probes->all, probe, in_all);
		TAILQ_INSERT_TAIL(&ready, probe, in_all);
	}
	answer_all(&ready);
}

/* False: confirms what was never sent. */
static bool
take_confirm(struct amqp_probes *probes, uint64_t tag, bool multiple, bool acked)
{
	struct probe *probe;

	FAULT(MULTIPLE_IS_SINGLE, multiple = false);
	FAULT(NACK_IS_ACK, acked = true);
	if (tag > probes->last_tag || (tag == 0 && !multiple))
		return false;
	if (!multiple) {
		probe = find_tag(probes, tag);
		if (probe != NULL)
			settle(probe, (size_t)(tag - probe->first_tag), acked);
	} else {
		if (tag == 0)
			tag = probes->last_tag;
		TAILQ_FOREACH (probe, &probes->all, in_all)
			for (size_t i = 0; probe->first_tag != 0 && i < probe->count &&
					   probe->first_tag + i <= tag;
			     i++)
				settle(probe, i, acked);
	}
	finish(probes);
	send_waiting(probes);
	return true;
}

/* A message that came back, whole: its tag is what we put into it. */
static bool
on_message(void *ctx)
{
	struct amqp_probes *probes = ctx;
	uint64_t tag = broker_number(probes->lane.content.correlation_id);
	struct probe *probe;

	if (tag == 0 || tag > probes->last_tag)
		return false;
	FAULT(RETURN_OF_ANOTHER, tag = probes->last_tag);
	probe = find_tag(probes, tag);
	if (probe != NULL && probe->places[tag - probe->first_tag] == PLACE_OPEN)
		probe->places[tag - probe->first_tag] = PLACE_RETURNED;
	return true;
}

static bool
on_method(void *ctx, const struct amqp_frame *frame)
{
	struct amqp_probes *probes = ctx;

	switch (frame->method) {
	case AMQP_CONFIRM_SELECT_OK_METHOD:
		return true;
	case AMQP_BASIC_RETURN_METHOD:
		return amqp_tapped_announce(&probes->lane, 0);
	case AMQP_BASIC_ACK_METHOD: {
		const amqp_basic_ack_t *ack = frame->fields;

		return take_confirm(probes, ack->delivery_tag, ack->multiple, true);
	}
	case AMQP_BASIC_NACK_METHOD: {
		const amqp_basic_nack_t *nack = frame->fields;

		return take_confirm(probes, nack->delivery_tag, nack->multiple, false);
	}
	default:
		return false;
	}
}

/* ---- giving up ---- */

/* The channel is gone: what was sent on it will not be confirmed. */
static void
channel_lost(struct amqp_probes *probes)
{
	struct probe_list sent = TAILQ_HEAD_INITIALIZER(sent);
	struct probe *probe, *next;

	probes->unconfirmed = 0;
	TAILQ_FOREACH_SAFE (probe, &probes->all, in_all, next) {
		if (probe->first_tag == 0)
			continue;
		TAILQ_REMOVE(&probes->all, probe, in_all);
		TAILQ_INSERT_TAIL(&sent, probe, in_all);
	}
	answer_all(&sent);
}

static void
on_closed(void *ctx, int code, const char *text)
{
	struct amqp_probes *probes = ctx;

	if (probes->refused == NULL) {
		log_warning("the broker refuses to be probed: %s (%d)", text, code);
		probes->refused = mem_strdup(text);
	}
	channel_lost(probes);
	send_waiting(probes);
}

static void
on_deadline(void *ctx, uint64_t id)
{
	struct probe *probe = ctx;
	struct amqp_probes *probes = probe->probes;

	(void)id;
	probe_answer(probe);
	if (probe->first_tag == 0) {
		TAILQ_REMOVE(&probes->all, probe, in_all);
		probe_free(probe);
		return;
	}
	probe->given_up = true;
	probes->unconfirmed -= probe->left;
	if (++probes->given_up > GIVEN_UP_MAX) {
		amqp_tapped_close(&probes->lane);
		channel_lost(probes);
	}
	send_waiting(probes);
}

/* ---- outside ---- */

void
amqp_probes_ask(struct amqp_probes *probes, const char *const *queues, size_t count, bool hopeless,
    struct broker_probe_done done)
{
	struct probe *probe = mem_alloc(sizeof(*probe));

	assert(count > 0 && count <= BROKER_PROBE_MAX);
	FAULT(ALARM_UNHEEDED, hopeless = false);
	probe->probes = probes;
	probe->done = done;
	probe->hopeless = hopeless;
	probe->count = probe->left = count;
	probe->places = mem_alloc(count * sizeof(*probe->places));
	probe->answers = mem_alloc(count * sizeof(*probe->answers));
	probe->queues = mem_alloc(count * sizeof(*probe->queues));
	for (size_t i = 0; i < count; i++) {
		assert(strlen(queues[i]) <= UINT8_MAX);
		probe->queues[i] = mem_strdup(queues[i]);
		probe->answers[i] = BROKER_UNKNOWN;
	}
	timer_init(&probe->deadline, on_deadline, probe, 0);
	timers_set(
	    probes->timers, &probe->deadline, now(probes) + (hopeless ? 0 : probes->timeout));
	TAILQ_INSERT_TAIL(&probes->all, probe, in_all);
	if (amqp_lanes_link(probes->lanes) != NULL && !hopeless)
		send_waiting(probes);
}

bool
amqp_probes_in_use(const struct amqp_probes *probes)
{
	struct probe *probe;

	TAILQ_FOREACH (probe, &probes->all, in_all)
		if (!probe->given_up)
			return true;
	return false;
}

const char *
amqp_probes_refused(const struct amqp_probes *probes)
{
	return probes->refused != NULL ? probes->refused : "";
}

void
amqp_probes_go(struct amqp_probes *probes)
{
	send_waiting(probes);
}

void
amqp_probes_fail(struct amqp_probes *probes)
{
	struct probe_list lost = TAILQ_HEAD_INITIALIZER(lost);

	amqp_tapped_forget(&probes->lane);
	probes->unconfirmed = 0;
	free(probes->refused);
	probes->refused = NULL;
	TAILQ_CONCAT(&lost, &probes->all, in_all);
	answer_all(&lost);
}

struct amqp_probes *
amqp_probes_new(struct timers *timers, struct amqp_lanes *lanes, int64_t timeout)
{
	static const struct amqp_tapped_events events = {
	    .method = on_method, .message = on_message, .closed = on_closed};
	struct amqp_probes *probes = mem_alloc(sizeof(*probes));

	probes->timers = timers;
	probes->lanes = lanes;
	probes->timeout = timeout;
	amqp_tapped_init(&probes->lane, lanes, &events, probes);
	TAILQ_INIT(&probes->all);
	return probes;
}

void
amqp_probes_silence(struct amqp_probes *probes)
{
	probes->silent = true;
}

void
amqp_probes_free(struct amqp_probes *probes)
{
	if (probes == NULL)
		return;
	amqp_probes_silence(probes);
	amqp_probes_fail(probes);
	free(probes);
}
