#include "daemon/broker/exclusion.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/broker/mailbox.h"
#include "daemon/broker/way.h"

/* Another node of a cluster may learn of a new queue late: it is asked again after this. */
#define EXCLUSION_AGAIN (50 * NSEC_PER_MSEC)

static const char exclusion_shared[] =
    "two connections share their exclusive queues, so two clients could "
    "hold one slot: use no proxy that shares connections";
static const char exclusion_separate[] =
    "one connection does not see the queues of another: this host is "
    "more than one broker";

enum exclusion_state {
	EXCLUSION_NONE,      /* no lock connection, or the test is over */
	EXCLUSION_WAITING,   /* for the auxiliary connection */
	EXCLUSION_DECLARING, /* the lock connection declares the queue */
	EXCLUSION_CHECKING   /* the auxiliary connection looks for it, now or at `again` */
};

struct amqp_exclusion {
	struct amqp_exclusion_config config;
	enum exclusion_state state;
	bool told;                          /* a verdict, to let others go on */
	bool absent;                        /* the last answer was that there is no such queue */
	char queue[MAILBOX_NAME_MAX];       /* DECLARING, CHECKING */
	uint64_t lock_channel, aux_channel; /* taken; 0: none */
	struct timer limit;                 /* while the first verdict is missing */
	struct timer again;                 /* CHECKING */
};

static void
exclusion_set_state(struct amqp_exclusion *exclusion, enum exclusion_state state)
{
	assert(state <= EXCLUSION_WAITING || state == exclusion->state + 1);
	exclusion->state = state;
}

static void
exclusion_set_timer(struct amqp_exclusion *exclusion, struct timer *timer, int64_t wait)
{
	struct timers *timers = exclusion->config.timers;

	timers_set(timers, timer, clock_now(timers_clock(timers)) + wait);
}

static void
exclusion_tell(
    struct amqp_exclusion *exclusion, enum amqp_exclusion_verdict verdict, const char *why)
{
	exclusion->told = true;
	timers_cancel(exclusion->config.timers, &exclusion->limit);
	exclusion->config.verdict(exclusion->config.ctx, verdict, why);
}

static void
exclusion_on_dropped(void *ctx, uint64_t channel, const struct broker_reply *reply)
{
	struct amqp_exclusion *exclusion = ctx;

	(void)reply;
	amqp_channels_put(exclusion->config.locks, channel);
	if (exclusion->lock_channel == channel)
		exclusion->lock_channel = 0;
}

/* The queue is not needed any more. */
static void
exclusion_drop_queue(struct amqp_exclusion *exclusion)
{
	amqp_channels_request(exclusion->config.locks, exclusion->lock_channel, way_queue.drop,
	    exclusion->queue,
	    (struct broker_done){
		.fn = exclusion_on_dropped, .ctx = exclusion, .id = exclusion->lock_channel});
}

/* ---- the two answers ---- */

/* The answer of the auxiliary connection, with the queue of the lock connection in place. */
static void
exclusion_conclude(struct amqp_exclusion *exclusion, const struct broker_reply *reply)
{
	enum broker_answer answer = reply->answer;

	FAULT_IF(SHARED_QUEUE_IGNORED, answer == BROKER_OK, answer = BROKER_LOCKED);
	FAULT_IF(UNSEEN_QUEUE_IGNORED, answer == BROKER_ABSENT, answer = BROKER_LOCKED);
	exclusion->absent = answer == BROKER_ABSENT;
	if (exclusion->absent && timer_is_set(&exclusion->limit)) {
		exclusion_set_timer(exclusion, &exclusion->again, EXCLUSION_AGAIN);
		return;
	}
	exclusion_set_state(
	    exclusion, answer == BROKER_UNKNOWN ? EXCLUSION_WAITING : EXCLUSION_NONE);
	exclusion_drop_queue(exclusion);
	switch (answer) {
	case BROKER_LOCKED:
		exclusion_tell(exclusion, AMQP_EXCLUSION_KEPT, "");
		break;
	case BROKER_OK:
		exclusion_tell(exclusion, AMQP_EXCLUSION_BROKEN, exclusion_shared);
		break;
	case BROKER_ABSENT:
		exclusion_tell(exclusion, AMQP_EXCLUSION_BROKEN, exclusion_separate);
		break;
	case BROKER_UNKNOWN:
		break; /* amqp_exclusion_fail() comes */
	case BROKER_REFUSED:
	case BROKER_SKIPPED:
	case BROKER_UNREACHABLE:
		exclusion_tell(exclusion, AMQP_EXCLUSION_NOT_TESTED, reply->text);
		break;
	}
}

static void
exclusion_on_checked(void *ctx, uint64_t channel, const struct broker_reply *reply)
{
	struct amqp_exclusion *exclusion = ctx;

	amqp_channels_put(exclusion->config.auxiliary, channel);
	/* Else the lock connection ended meanwhile, and the queue with it. */
	if (exclusion->aux_channel != channel)
		return;
	exclusion->aux_channel = 0;
	exclusion_conclude(exclusion, reply);
}

static void
exclusion_check(struct amqp_exclusion *exclusion)
{
	exclusion->aux_channel = amqp_channels_take(exclusion->config.auxiliary);
	amqp_channels_request(exclusion->config.auxiliary, exclusion->aux_channel,
	    &amqp_request_check, exclusion->queue,
	    (struct broker_done){
		.fn = exclusion_on_checked, .ctx = exclusion, .id = exclusion->aux_channel});
}

static void
exclusion_on_again(void *ctx, uint64_t id)
{
	(void)id;
	exclusion_check(ctx);
}

static void
exclusion_on_declared(void *ctx, uint64_t channel, const struct broker_reply *reply)
{
	struct amqp_exclusion *exclusion = ctx;

	if (exclusion->lock_channel == channel && reply->answer == BROKER_OK) {
		exclusion_set_state(exclusion, EXCLUSION_CHECKING);
		exclusion_check(exclusion);
		return;
	}
	amqp_channels_put(exclusion->config.locks, channel);
	if (exclusion->lock_channel != channel)
		return;
	exclusion->lock_channel = 0;
	exclusion_set_state(exclusion, EXCLUSION_NONE);
	if (reply->answer != BROKER_UNKNOWN)
		exclusion_tell(exclusion, AMQP_EXCLUSION_NOT_TESTED, reply->text);
}

static void
exclusion_on_limit(void *ctx, uint64_t id)
{
	struct amqp_exclusion *exclusion = ctx;

	(void)id;
	if (exclusion->absent)
		exclusion_tell(exclusion, AMQP_EXCLUSION_BROKEN, exclusion_separate);
	else
		exclusion_tell(exclusion, AMQP_EXCLUSION_NOT_TESTED,
		    "the broker did not answer within request-timeout");
}

/* ---- outside ---- */

void
amqp_exclusion_begin(struct amqp_exclusion *exclusion)
{
	exclusion_set_state(exclusion, EXCLUSION_WAITING);
	exclusion->told = exclusion->absent = false;
	exclusion_set_timer(exclusion, &exclusion->limit, exclusion->config.timeout);
}

bool
amqp_exclusion_go(struct amqp_exclusion *exclusion)
{
	if (exclusion->state != EXCLUSION_WAITING || exclusion->lock_channel != 0)
		return false;
	exclusion->lock_channel = amqp_channels_take(exclusion->config.locks);
	if (exclusion->lock_channel == 0)
		return false;
	exclusion_set_state(exclusion, EXCLUSION_DECLARING);
	amqp_mailbox_name(exclusion->queue, MAILBOX_INBOX "test-", exclusion->config.jitter,
	    exclusion->config.replays);
	amqp_channels_request(exclusion->config.locks, exclusion->lock_channel, way_queue.claim,
	    exclusion->queue,
	    (struct broker_done){
		.fn = exclusion_on_declared, .ctx = exclusion, .id = exclusion->lock_channel});
	return !exclusion->told;
}

void
amqp_exclusion_fail(struct amqp_exclusion *exclusion, const char *why)
{
	/* Between two checks, no request tells of the end. */
	if (timer_is_set(&exclusion->again)) {
		timers_cancel(exclusion->config.timers, &exclusion->again);
		exclusion_set_state(exclusion, EXCLUSION_WAITING);
		exclusion_drop_queue(exclusion);
	}
	if (exclusion->state == EXCLUSION_WAITING && !exclusion->told)
		exclusion_tell(exclusion, AMQP_EXCLUSION_NOT_TESTED, why);
}

void
amqp_exclusion_stop(struct amqp_exclusion *exclusion)
{
	exclusion_set_state(exclusion, EXCLUSION_NONE);
	exclusion->lock_channel = exclusion->aux_channel = 0;
	timers_cancel(exclusion->config.timers, &exclusion->limit);
	timers_cancel(exclusion->config.timers, &exclusion->again);
}

bool
amqp_exclusion_is_running(const struct amqp_exclusion *exclusion)
{
	return exclusion->lock_channel != 0;
}

/* ---- life ---- */

struct amqp_exclusion *
amqp_exclusion_new(const struct amqp_exclusion_config *config)
{
	struct amqp_exclusion *exclusion = mem_alloc(sizeof(*exclusion));

	exclusion->config = *config;
	timer_init(&exclusion->limit, exclusion_on_limit, exclusion, 0);
	timer_init(&exclusion->again, exclusion_on_again, exclusion, 0);
	return exclusion;
}

void
amqp_exclusion_free(struct amqp_exclusion *exclusion)
{
	if (exclusion == NULL)
		return;
	amqp_exclusion_stop(exclusion);
	free(exclusion);
}
