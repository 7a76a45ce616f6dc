#include "daemon/lock/table/party.h"

#include <stdlib.h>

#include "daemon/base/mem.h"
#include "daemon/lock/lock.h"

const char *
lock_party_word(enum lock_party_state state)
{
	switch (state) {
	case LOCK_PARTY_WAITING:
		return "waiting";
	case LOCK_PARTY_BUSY:
		return "busy";
	case LOCK_PARTY_ADMITTED:
		return "granted";
	case LOCK_PARTY_CANCELLED:
		return "cancelled";
	case LOCK_PARTY_GONE:
		return "gone";
	}
	return "unknown";
}

struct party *
party_new(uint64_t waiter, const struct lock_acquire *acquire)
{
	struct party *party = mem_alloc(sizeof(*party));

	party->waiter = waiter;
	party->uid = acquire->uid;
	party->pid = acquire->pid;
	party->who = mem_strdup(acquire->who);
	party->why = mem_strdup(acquire->why);
	party->command = mem_strdup(acquire->command);
	return party;
}

void
party_free(struct party *party)
{
	if (party == NULL)
		return;
	free(party->who);
	free(party->why);
	free(party->command);
	free(party);
}
