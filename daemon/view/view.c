#include "daemon/view/view.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/base/mem.h"
#include "daemon/view/inside.h"
#include "protocol/json.h"

/*
 * So long after somebody went it is seen whether anybody is left; others are answered until then, so that
 * short holds do not open and close the inbox all the time.
 */
#define STAY_IDLE (60 * NSEC_PER_SEC)
/* Jobs have so much time, and rest for so long, so that they do not delay holders. */
#define JOB_SLICE (NSEC_PER_MSEC / 4)
#define JOB_REST NSEC_PER_MSEC

uint64_t
view_id(struct view *view)
{
	return ++view->last_id;
}

struct row_facts
view_facts(const struct view *view)
{
	struct timespec wall;

	clock_gettime(CLOCK_REALTIME, &wall);
	return (struct row_facts){.run = view->settings.run,
	    .host = view->settings.host,
	    .now = clock_now(timers_clock(view->timers)),
	    .wall = wall.tv_sec * NSEC_PER_SEC + wall.tv_nsec};
}

bool
view_is_over(const struct view *view, int64_t end)
{
	return clock_now(timers_clock(view->timers)) >= end;
}

int64_t
view_user(const struct view *view, uint64_t peer)
{
	return view->listener.user(view->listener.ctx, peer);
}

void
view_refuse(
    struct view *view, uint64_t peer, uint64_t request, enum reason reason, const char *text)
{
	view->listener.done(view->listener.ctx, peer, request, reason, text, NULL);
}

/* ---- jobs ---- */

static void
schedule(struct view *view, int64_t wait)
{
	if (turns_first(&view->jobs) != NULL && !timer_is_set(&view->work))
		timers_set(view->timers, &view->work, clock_now(timers_clock(view->timers)) + wait);
}

static void
work(void *ctx, uint64_t id)
{
	struct view *view = ctx;
	int64_t end = clock_now(timers_clock(view->timers)) + JOB_SLICE;
	struct job *job;

	(void)id;
	while ((job = turns_first(&view->jobs)) != NULL) {
		/* Before the step, which may free the job. */
		turns_pass(&view->jobs);
		job->step(view, job, end);
		if (view_is_over(view, end))
			break;
	}
	schedule(view, JOB_REST);
}

void
view_job_begin(struct view *view, struct job *job, int64_t user)
{
	turns_add(&view->jobs, &job->turn, user, job);
	schedule(view, 0);
}

void
view_job_end(struct view *view, struct job *job)
{
	turns_remove(&view->jobs, &job->turn);
}

/* ---- whether others are answered ---- */

static bool
somebody_is_here(const struct view *view)
{
	struct lock_counts counts;

	lock_get_counts(view->engine, &counts);
	return counts.holds + counts.waiting > 0;
}

static void
settle(void *ctx, uint64_t id)
{
	struct view *view = ctx;

	(void)id;
	inspect_stay(view->inspect, somebody_is_here(view));
}

void
view_changed(struct view *view, const struct lock_party *row)
{
	int64_t now = clock_now(timers_clock(view->timers));

	/* In a pass of its own: this is inside the engine. */
	if (row->state == LOCK_PARTY_WAITING && !inspect_stays(view->inspect))
		timers_set(view->timers, &view->settle, now);
	else if (row->state == LOCK_PARTY_GONE && !timer_is_set(&view->settle))
		timers_set(view->timers, &view->settle, now + STAY_IDLE);
	feed_changed(view->feed, row);
}

/* ---- what the engine and the broker say ---- */

void
view_peer_left(struct view *view, uint64_t peer)
{
	show_peer_left(view, peer);
	census_peer_left(view, peer);
}

void
view_answer(struct view *view, uint64_t request, const struct lock_answer *answer)
{
	show_answered(view, request, answer);
}

void
view_asked(struct view *view, const struct broker_letter *letter)
{
	inspect_letter_asked(view->inspect, letter);
}

void
view_replied(struct view *view, const struct broker_letter *letter)
{
	inspect_letter_replied(view->inspect, letter);
}

void
view_unheard(struct view *view)
{
	inspect_unheard(view->inspect);
}

/* ---- lifecycle ---- */

struct view *
view_new(struct lock_engine *engine, struct broker *broker, struct timers *timers,
    const struct view_settings *settings, const struct view_listener *listener)
{
	struct view *view = mem_alloc(sizeof(*view));
	const struct inspect_settings asking = {.run = settings->run,
	    .host = mem_strdup(settings->host),
	    .naming = mem_strdup(settings->naming),
	    .timeout = settings->timeout};

	view->engine = engine;
	view->timers = timers;
	view->settings = *settings;
	view->settings.host = asking.host;
	view->settings.naming = asking.naming;
	view->listener = *listener;
	view->inspect = inspect_new(broker, timers, &asking, answers_asked, view);
	view->feed = feed_new(view);
	timer_init(&view->settle, settle, view, 0);
	turns_init(&view->jobs);
	turns_init(&view->counts);
	TAILQ_INIT(&view->asked);
	timer_init(&view->work, work, view, 0);
	return view;
}

void
view_free(struct view *view)
{
	if (view == NULL)
		return;
	timers_cancel(view->timers, &view->settle);
	timers_cancel(view->timers, &view->work);
	feed_free(view->feed);
	answers_free_all(view);
	show_free_all(view);
	census_free_all(view);
	steer_free_all(view);
	inspect_free(view->inspect);
	free((char *)view->settings.host);
	free((char *)view->settings.naming);
	free(view);
}

void
view_set_timeout(struct view *view, int64_t timeout)
{
	inspect_set_timeout(view->inspect, timeout);
}
