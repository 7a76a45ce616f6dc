#include "daemon/lock/table/requester.h"

#include <stdlib.h>

#include "daemon/base/mem.h"
#include "daemon/lock/lock.h"
#include "protocol/json.h"

const char *
lock_row_word(enum lock_row_state state)
{
	switch (state) {
	case LOCK_ROW_WAITING:
		return "waiting";
	case LOCK_ROW_BUSY:
		return "busy";
	case LOCK_ROW_ADMITTED:
		return "granted";
	case LOCK_ROW_CANCELLED:
		return "cancelled";
	case LOCK_ROW_GONE:
		return "gone";
	}
	return "unknown";
}

/* Words of a user come to the logs and terminals of others. */
static char *
words_new(const char *words)
{
	char *copy = mem_strdup(words);

	if (copy != NULL)
		json_clean(copy);
	return copy;
}

struct requester *
requester_new(uint64_t waiter, const struct lock_acquire *acquire)
{
	struct requester *requester = mem_alloc(sizeof(*requester));

	requester->waiter = waiter;
	requester->uid = acquire->uid;
	requester->pid = acquire->pid;
	requester->who = words_new(acquire->who);
	requester->why = words_new(acquire->why);
	requester->command = words_new(acquire->command);
	return requester;
}

void
requester_free(struct requester *requester)
{
	if (requester == NULL)
		return;
	free(requester->who);
	free(requester->why);
	free(requester->command);
	free(requester);
}
