#include "daemon/peer/log_limit.h"

#include <inttypes.h>
#include <stdlib.h>

#include <uthash.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/base/users.h"

#define PERIOD NSEC_PER_SEC

/* A user with lines in the last second. */
struct writer {
	uid_t uid;
	uint64_t lines; /* with those that were left out */
	struct timer end;
	UT_hash_handle hh;
};

struct log_limit {
	struct timers *timers;  /* borrowed */
	struct writer *writers; /* owned */
};

struct log_limit *
log_limit_new(struct timers *timers)
{
	struct log_limit *limit = mem_alloc(sizeof(*limit));

	limit->timers = timers;
	return limit;
}

static void
end(struct log_limit *limit, struct writer *writer)
{
	const char *name = user_name(writer->uid);

	if (writer->lines > LOG_LIMIT_LINES)
		log_info("uid %u%s%.60s%s: %" PRIu64 " log lines about its requests were left out",
		    (unsigned)writer->uid, name == NULL ? "" : " (", name == NULL ? "" : name,
		    name == NULL ? "" : ")", writer->lines - LOG_LIMIT_LINES);
	timers_cancel(limit->timers, &writer->end);
	HASH_DEL(limit->writers, writer);
	free(writer);
}

static void
second_is_over(void *ctx, uint64_t uid)
{
	struct log_limit *limit = ctx;
	const uid_t key = (uid_t)uid;
	struct writer *writer;

	HASH_FIND(hh, limit->writers, &key, sizeof(key), writer);
	end(limit, writer);
}

void
log_limit_end(struct log_limit *limit)
{
	struct writer *writer, *next;

	HASH_ITER (hh, limit->writers, writer, next)
		end(limit, writer);
}

void
log_limit_free(struct log_limit *limit)
{
	log_limit_end(limit);
	free(limit);
}

bool
log_limit_takes(struct log_limit *limit, uid_t uid)
{
	struct writer *writer;

	HASH_FIND(hh, limit->writers, &uid, sizeof(uid), writer);
	if (writer == NULL) {
		writer = mem_alloc(sizeof(*writer));
		writer->uid = uid;
		timer_init(&writer->end, second_is_over, limit, uid);
		timers_set(
		    limit->timers, &writer->end, clock_now(timers_clock(limit->timers)) + PERIOD);
		HASH_ADD(hh, limit->writers, uid, sizeof(writer->uid), writer);
	}
	FAULT(FLOOD_IS_LOGGED, return true);
	return ++writer->lines <= LOG_LIMIT_LINES;
}
