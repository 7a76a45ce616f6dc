/*
 * Asking the other daemons of a vhost, and hearing what they ask: messages out (broker.h) with a deadline,
 * their answers in, and which daemons there are. Owns its queries and what it knows of the others;
 * broker and timers are borrowed. Knows nothing of what the messages are about.
 *
 * Who is there: a daemon that means to answer says hello, says bye when it does no more, and says with
 * every message whether it stays. A query that ran until its deadline has heard everybody (a roll
 * call); so for a while (QUERIES_ROLL) one to which all that are known have answered need not wait for
 * its deadline, unless messages may have gone unheard since. Who is known and did not answer is missing,
 * and forgotten after a while.
 *
 * Every daemon has to answer every query. Each user has QUERIES_USER_MAX queries at once; the others are
 * sent when those have ended.
 */
#ifndef VIEW_QUERIES_H
#define VIEW_QUERIES_H

#include "daemon/base/clock.h"
#include "daemon/base/timers.h"
#include "daemon/broker/broker.h"
#include "daemon/view/daemon_message.h"

/* For so long after a roll call no other is needed, and who is missing is named. */
#define QUERIES_ROLL (60 * NSEC_PER_SEC)
/* Daemons that are kept in mind; others are answered, and not waited for. */
#define QUERIES_HOSTS_MAX 1024
/* Queries of one user that are answered at once. */
#define QUERIES_USER_MAX 4
/* Messages of one daemon that are taken as its answer. */
#define QUERIES_PARTS_MAX 8

struct queries;

/* `user` is the broker's user who sent it, vouched for by it; "": not said. */
typedef void queries_asked_fn(
    void *ctx, uint64_t from, const struct daemon_message *message, const char *user);

/* head: its strings are borrowed. timeout: ns until a query ends. */
struct queries *queries_new(struct broker *broker, struct timers *timers,
    const struct daemon_message_head *head, int64_t timeout, queries_asked_fn *asked, void *ctx);
/* Says bye if it has said hello. Its queries end untold. */
void queries_free(struct queries *queries);
void queries_set_timeout(struct queries *queries, int64_t timeout);

/* Whether messages go out at all, as far as is known now. */
bool queries_can_ask(const struct queries *queries);
/* Whether we answer: the inbox is open, and the others know. */
void queries_stay(struct queries *queries, bool stays);
bool queries_stays(const struct queries *queries);
/* A message to be completed. */
struct cJSON *queries_message(
    const struct queries *queries, enum daemon_message_op op, bool answer);
/* Answers a message; takes `message`. False: it is too long, and was not sent. */
bool queries_answer(struct queries *queries, uint64_t from, struct cJSON *message);
/* Such a message is not heeded: one in a while is logged. */
void queries_pass_over(struct queries *queries, const char *user, const char *what);

/* What a query is told; both may end it, or begin another. */
struct queries_done {
	bool everybody; /* every daemon answers what is asked: it is a roll call */
	void (*heard)(void *ctx, uint64_t id, const struct daemon_message *answer);
	void (*over)(void *ctx, uint64_t id); /* its deadline has passed; it is gone afterwards */
	void *ctx;
	uint64_t id;
};

/*
 * Takes `message`. user: who wants to know, as in round_robin.h; ROUND_ROBIN_DAEMONS for what this daemon
 * asks for all. The query's number; 0: the others cannot be asked now.
 */
uint64_t queries_ask(struct queries *queries, int64_t user, enum daemon_message_op op,
    struct cJSON *message, struct queries_done done);
/* Ends it untold. One that is gone, or 0, is fine. */
void queries_end(struct queries *queries, uint64_t query);
/* The same for one that is not over: it is one of its user's until it has been answered, or its time is over. */
void queries_leave(struct queries *queries, uint64_t query);
/* Whether everybody has answered as far as is known, so that there is nothing to wait for. */
bool queries_is_whole(const struct queries *queries, uint64_t query);
/* Whether that daemon has answered wholly. */
bool queries_has_answered(const struct queries *queries, uint64_t query, uint32_t run);
/* Whether that daemon is known and not forgotten. */
bool queries_knows(const struct queries *queries, uint32_t run);
/* Hosts that are known and have not answered, as an array; query 0: all that are known. */
struct cJSON *queries_missing(const struct queries *queries, uint64_t query);

/* The broker's messages. */
void queries_message_asked(struct queries *queries, const struct broker_message *message);
void queries_message_replied(struct queries *queries, const struct broker_message *message);
/* There may have been messages that did not come: somebody's hello among them. */
void queries_unheard(struct queries *queries);

#endif
