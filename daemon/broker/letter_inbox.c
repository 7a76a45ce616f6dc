#include "daemon/broker/letter_inbox.h"

#include <assert.h>

static void
inbox_set_state(struct letter_inbox *inbox, enum letter_inbox_state state)
{
	assert(state != LETTER_INBOX_OPENING || inbox->state == LETTER_INBOX_WAITING);
	assert(state != LETTER_INBOX_OPEN || inbox->state == LETTER_INBOX_OPENING);
	inbox->state = state;
}

static void
open_now(struct letter_inbox *inbox)
{
	timers_cancel(inbox->timers, &inbox->again);
	inbox->events.open(inbox->events.ctx);
}

static void
on_again(void *ctx, uint64_t id)
{
	(void)id;
	open_now(ctx);
}

/* Opens or closes it, as it is wanted. */
static void
settle(struct letter_inbox *inbox)
{
	bool wanted = inbox->wanted || timer_is_set(&inbox->asking);

	if (wanted && inbox->state == LETTER_INBOX_CLOSED) {
		inbox_set_state(inbox, LETTER_INBOX_WAITING);
		open_now(inbox);
	} else if (!wanted && inbox->state != LETTER_INBOX_CLOSED) {
		timers_cancel(inbox->timers, &inbox->again);
		inbox_set_state(inbox, LETTER_INBOX_CLOSED);
		inbox->events.close(inbox->events.ctx);
	}
}

static void
on_asked_enough(void *ctx, uint64_t id)
{
	(void)id;
	settle(ctx);
}

void
letter_inbox_init(
    struct letter_inbox *inbox, struct timers *timers, const struct letter_inbox_events *events)
{
	*inbox = (struct letter_inbox){
	    .timers = timers, .events = *events, .state = LETTER_INBOX_CLOSED};
	timer_init(&inbox->asking, on_asked_enough, inbox, 0);
	timer_init(&inbox->again, on_again, inbox, 0);
}

void
letter_inbox_clear(struct letter_inbox *inbox)
{
	inbox->wanted = false;
	timers_cancel(inbox->timers, &inbox->asking);
	timers_cancel(inbox->timers, &inbox->again);
	inbox_set_state(inbox, LETTER_INBOX_CLOSED);
}

void
letter_inbox_want(struct letter_inbox *inbox, bool wanted)
{
	inbox->wanted = wanted;
	settle(inbox);
}

void
letter_inbox_want_until(struct letter_inbox *inbox, int64_t until)
{
	timers_set(inbox->timers, &inbox->asking, until);
	settle(inbox);
}

void
letter_inbox_opening(struct letter_inbox *inbox)
{
	inbox_set_state(inbox, LETTER_INBOX_OPENING);
}

void
letter_inbox_opened(struct letter_inbox *inbox)
{
	inbox_set_state(inbox, LETTER_INBOX_OPEN);
}

void
letter_inbox_later(struct letter_inbox *inbox, int64_t again)
{
	inbox_set_state(inbox, LETTER_INBOX_WAITING);
	timers_set(inbox->timers, &inbox->again, again);
}

void
letter_inbox_link_up(struct letter_inbox *inbox)
{
	if (inbox->state == LETTER_INBOX_WAITING)
		open_now(inbox);
}

void
letter_inbox_link_down(struct letter_inbox *inbox)
{
	timers_cancel(inbox->timers, &inbox->again);
	if (inbox->state != LETTER_INBOX_CLOSED)
		inbox_set_state(inbox, LETTER_INBOX_WAITING);
}
