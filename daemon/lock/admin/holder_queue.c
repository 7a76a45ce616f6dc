#include "daemon/lock/admin/holder_queue.h"

#include <stdio.h>

void
holder_queue_stays(char *ret_text, size_t size, int slot, const struct broker_reply *reply)
{
	const char *why = reply->answer == BROKER_REFUSED       ? ""
			  : reply->answer == BROKER_UNREACHABLE ? "its node cannot be reached: "
								: "the broker did not answer: ";

	snprintf(
	    ret_text, size, "the holder queue of slot %d stays: %s%s", slot, why, reply->text);
}
