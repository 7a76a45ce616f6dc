/*
 * Queries to the other daemons of a vhost, and the queries that come from them. Owns the sent
 * queries and the list of known daemons. It borrows broker and timers. It does not know what the
 * messages mean.
 *
 * A daemon that answers sends hello. A daemon that stops answering sends bye. Every message says
 * whether its sender answers later queries. A roll call is a query that ran until its deadline
 * and that every daemon answers. For QUERIES_ROLL after a roll call, a query is complete as soon as
 * all known daemons have answered. This does not hold if messages may have been missed since. A
 * known daemon that did not answer is a silent host, and is forgotten after a while.
 *
 * Every daemon has to answer every query. Each user has at most QUERIES_USER_MAX open queries.
 * Further ones are sent when those have ended.
 */
#ifndef VIEW_QUERIES_H
#define VIEW_QUERIES_H

#include "daemon/base/clock.h"
#include "daemon/base/timers.h"
#include "daemon/broker/broker.h"
#include "daemon/view/daemon_message.h"

/* ns for which a roll call counts, and after which a silent daemon is forgotten. */
#define QUERIES_ROLL (60 * NSEC_PER_SEC)
/* Limit of known daemons. Queries take the answers of further daemons, but do not wait for them. */
#define QUERIES_HOSTS_MAX 1024
/* Open queries of one user. */
#define QUERIES_USER_MAX 4
/* Messages of one daemon that count as its answer to a query. */
#define QUERIES_PARTS_MAX 8

struct queries;

/* `user` is the sender's user at the broker, which the broker has checked; "": unknown. */
typedef void queries_asked_fn(
    void *ctx, uint64_t from, const struct daemon_message *message, const char *user);

/* The strings of head are borrowed. timeout: ns until a query ends. */
struct queries *queries_new(struct broker *broker, struct timers *timers,
    const struct daemon_message_head *head, int64_t timeout, queries_asked_fn *asked, void *ctx);
/* Sends bye if it has sent hello. Ends all queries without a callback. */
void queries_free(struct queries *queries);
void queries_set_timeout(struct queries *queries, int64_t timeout);

/* Whether this daemon answers others. If it stays, its inbox is open and it sends hello. */
void queries_stay(struct queries *queries, bool stays);
bool queries_stays(const struct queries *queries);
/*
 * The daemon has started: sends bye, unless hello was sent. Others then do not wait for a daemon
 * that this one replaced, and that was killed.
 */
void queries_begin(struct queries *queries);
/* A message to which the caller adds its members. */
struct cJSON *queries_message(
    const struct queries *queries, enum daemon_message_op op, bool answer);
/* Sends an answer; takes `message`. False: the message is too long. */
bool queries_answer(struct queries *queries, uint64_t from, struct cJSON *message);
/* The caller ignored a message. Logs one such message in a while. */
void queries_pass_over(struct queries *queries, const char *user, const char *what);

/* The callbacks of a query. Both may end the query, and may begin another one. */
struct queries_done {
	bool everybody; /* every daemon answers this question, so the query is a roll call */
	void (*heard)(void *ctx, uint64_t id, const struct daemon_message *answer);
	void (*over)(void *ctx, uint64_t id); /* the deadline has passed; then the query is gone */
	void *ctx;
	uint64_t id;
};

/*
 * Begins a query; takes `message`. user: as in round_robin.h, ROUND_ROBIN_DAEMONS for the daemon's
 * own queries. Returns the number of the query; 0: it cannot be sent now.
 */
uint64_t queries_ask(struct queries *queries, int64_t user, enum daemon_message_op op,
    struct cJSON *message, struct queries_done done);
/* Ends a query without a callback. 0 and an ended query are allowed. */
void queries_end(struct queries *queries, uint64_t query);
/*
 * Ends a query without a callback. If it was sent, it counts as one of its user's until it is
 * answered or its deadline passes.
 */
void queries_leave(struct queries *queries, uint64_t query);
/* Whether all known daemons have answered, so that the caller need not wait. */
bool queries_is_whole(const struct queries *queries, uint64_t query);
/* Whether that daemon has sent its whole answer. */
bool queries_has_answered(const struct queries *queries, uint64_t query, uint32_t run);
/* Whether that daemon is known. */
bool queries_knows(const struct queries *queries, uint32_t run);
/* An array of the known hosts that have not answered. query 0: all known hosts. */
struct cJSON *queries_missing(const struct queries *queries, uint64_t query);

/* From the broker's events. */
void queries_message_asked(struct queries *queries, const struct broker_message *message);
void queries_message_replied(struct queries *queries, const struct broker_message *message);
/* The daemon may have missed messages, among them the hello of another daemon. */
void queries_unheard(struct queries *queries);

#endif
