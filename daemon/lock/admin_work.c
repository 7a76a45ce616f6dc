#include "daemon/lock/admin_work.h"

#include <assert.h>
#include <stdio.h>

#include "daemon/base/fault.h"

/* Declares in flight at once: enough to keep the broker busy, few enough to stop soon after an error. */
#define DECLARES_MOST 64

static void
work_failed(struct lock_engine *engine, struct admin *admin, const struct broker_reply *reply)
{
	char text[sizeof(admin->text)];

	snprintf(text, sizeof(text), "%s %d of %d slots, then: %s",
	    admin->work == ADMIN_DESTROY ? "deleted" : "declared",
	    admin->work == ADMIN_DESTROY ? admin->found - admin->left : admin->confirmed,
	    admin->work == ADMIN_DESTROY ? admin->found : admin->target, reply->text);
	admin_unlock(engine, admin, REASON_BROKER_DENIED, text);
}

static void
on_declared(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct admin *admin = admin_find(engine, id);

	if (admin == NULL || admin->state != ADMIN_DECLARING)
		return; /* failed and over */
	admin->unanswered--;
	switch (reply->answer) {
	case BROKER_OK:
		admin->confirmed++;
		if (reply->lane_open)
			admin_work_go_on(engine, admin);
		break;
	case BROKER_SKIPPED: /* admin_lane_closed() sends it again */
		break;
	case BROKER_ABSENT:
	case BROKER_LOCKED:
	case BROKER_REFUSED:
		work_failed(engine, admin, reply);
		break;
	case BROKER_UNKNOWN:
		admin_abandon(engine, admin);
		break;
	}
}

static void
on_deleted(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct admin *admin = admin_find(engine, id);

	assert(admin != NULL && admin->state == ADMIN_DELETING);
	switch (reply->answer) {
	case BROKER_OK:
	case BROKER_ABSENT:
		admin->left--;
		if (reply->lane_open)
			admin_work_go_on(engine, admin);
		break;
	case BROKER_SKIPPED: /* admin_lane_closed() sends it again */
		break;
	case BROKER_LOCKED:
	case BROKER_REFUSED:
		work_failed(engine, admin, reply);
		break;
	case BROKER_UNKNOWN:
		admin_abandon(engine, admin);
		break;
	}
}

/* The slot that destroy deletes next: from the top. */
static int
next_to_go(const struct admin *admin)
{
	return FAULT(DESTROY_ASCENDING) ? admin->found - admin->left + 1 : admin->left;
}

void
admin_work_go_on(struct lock_engine *engine, struct admin *admin)
{
	const struct queue_naming *naming = engine->settings.naming;
	struct broker_done declared = {on_declared, engine, admin->op};
	struct broker_done deleted = {on_deleted, engine, admin->op};
	struct op *op = engine_op_find(engine, admin->op);

	if (op != NULL) {
		op->late = REASON_BROKER_UNAVAILABLE;
		op->late_text = NULL;
		engine_op_progress(engine, op);
	}
	if (admin->work == ADMIN_DESTROY) {
		if (admin->left == 0)
			admin_unlock(engine, admin, REASON_NONE, NULL);
		else
			broker_delete_slot(engine->broker, admin_lane(engine, admin),
			    queue_name_a(naming, admin->name, next_to_go(admin)).text, deleted);
		return;
	}
	if (admin->confirmed == admin->target) {
		admin_unlock(engine, admin, REASON_NONE, NULL);
		return;
	}
	while (admin->confirmed + admin->unanswered < admin->target &&
	       admin->unanswered < DECLARES_MOST) {
		int slot = admin->confirmed + ++admin->unanswered;

		broker_declare_slot(engine->broker, admin_lane(engine, admin),
		    queue_name_a(naming, admin->name, slot).text, declared);
	}
}
