#include "daemon/lock/admin/holder_queue.h"

#include <stdio.h>

void
holder_queue_stays(struct holder_stays *stays, int slot, const struct broker_reply *reply)
{
	bool refused = reply != NULL && reply->answer == BROKER_REFUSED;
	bool unreachable = reply != NULL && reply->answer == BROKER_UNREACHABLE;
	bool absent_node = unreachable && reply->code == 404;

	if (stays->slot > 0 ||
	    (reply != NULL && (reply->answer == BROKER_OK || reply->answer == BROKER_ABSENT ||
				  reply->answer == BROKER_LOCKED)))
		return;
	stays->slot = slot;
	stays->reason = refused ? REASON_BROKER_REFUSED : REASON_BROKER_UNAVAILABLE;
	snprintf(stays->text, sizeof(stays->text), "the holder queue of slot %d stays: %s%s", slot,
	    absent_node              ? "its node cannot be reached: "
	    : refused || unreachable ? ""
				     : "the broker did not answer ",
	    refused || unreachable ? reply->text : "about it");
}

void
holder_queue_failed(char *ret_text, size_t size, int slot, const struct broker_reply *reply)
{
	if (slot > 0 && reply->answer == BROKER_LOCKED)
		snprintf(ret_text, size,
		    "slot %d is still held by an exclusive queue, from before; try again when it "
		    "is released",
		    slot);
	else
		snprintf(ret_text, size, "%s", reply->text);
}
