/*
 * Asking the other daemons of a vhost, and hearing what they ask: messages out (broker.h) with a deadline,
 * their answers in, and which daemons there are. Owns its inquiries and what it knows of the others;
 * broker and timers are borrowed. Knows nothing of what the messages are about.
 *
 * Who is there: a daemon that means to answer says hello, says bye when it does no more, and says with
 * every message whether it stays. An inquiry that ran until its deadline has heard everybody (a roll
 * call); so for a while (INSPECT_ROLL) one to which all that are known have answered need not wait for
 * its deadline, unless messages may have gone unheard since. Who is known and did not answer is missing,
 * and forgotten after a while.
 *
 * Every daemon has to answer every inquiry. Each user has INSPECT_USER_MAX inquiries at once; the others are
 * sent when those have ended.
 */
#ifndef VIEW_INSPECT_H
#define VIEW_INSPECT_H

#include "daemon/base/clock.h"
#include "daemon/base/timers.h"
#include "daemon/broker/broker.h"
#include "daemon/view/daemon_message.h"

/* For so long after a roll call no other is needed, and who is missing is named. */
#define INSPECT_ROLL (60 * NSEC_PER_SEC)
/* Daemons that are kept in mind; others are answered, and not waited for. */
#define INSPECT_HOSTS_MAX 1024
/* Inquiries of one user that are answered at once. */
#define INSPECT_USER_MAX 4
/* Messages of one daemon that are taken as its answer. */
#define INSPECT_PARTS_MAX 8

struct inspect;

/* `user` is the broker's user who sent it, vouched for by it; "": not said. */
typedef void inspect_asked_fn(
    void *ctx, uint64_t from, const struct daemon_message *message, const char *user);

/* head: its strings are borrowed. timeout: ns until an inquiry ends. */
struct inspect *inspect_new(struct broker *broker, struct timers *timers,
    const struct daemon_message_head *head, int64_t timeout, inspect_asked_fn *asked, void *ctx);
/* Says bye if it has said hello. Its inquiries end untold. */
void inspect_free(struct inspect *inspect);
void inspect_set_timeout(struct inspect *inspect, int64_t timeout);

/* Whether messages go out at all, as far as is known now. */
bool inspect_can_ask(const struct inspect *inspect);
/* Whether we answer: the inbox is open, and the others know. */
void inspect_stay(struct inspect *inspect, bool stays);
bool inspect_stays(const struct inspect *inspect);
/* A message to be completed. */
struct cJSON *inspect_message(
    const struct inspect *inspect, enum daemon_message_op op, bool answer);
/* Answers a message; takes `message`. False: it is too long, and was not sent. */
bool inspect_answer(struct inspect *inspect, uint64_t from, struct cJSON *message);
/* Such a message is not heeded: one in a while is logged. */
void inspect_pass_over(struct inspect *inspect, const char *user, const char *what);

/* What an inquiry is told; both may end it, or begin another. */
struct inspect_done {
	bool everybody; /* every daemon answers what is asked: it is a roll call */
	void (*heard)(void *ctx, uint64_t id, const struct daemon_message *answer);
	void (*over)(void *ctx, uint64_t id); /* its deadline has passed; it is gone afterwards */
	void *ctx;
	uint64_t id;
};

/*
 * Takes `message`. user: who wants to know, as in turns.h; TURNS_DAEMONS for what this daemon asks for all. The
 * inquiry's number; 0: the others cannot be asked now.
 */
uint64_t inspect_ask(struct inspect *inspect, int64_t user, enum daemon_message_op op,
    struct cJSON *message, struct inspect_done done);
/* Ends it untold. One that is gone, or 0, is fine. */
void inspect_end(struct inspect *inspect, uint64_t inquiry);
/* The same for one that is not over: it is one of its user's until it has been answered, or its time is over. */
void inspect_leave(struct inspect *inspect, uint64_t inquiry);
/* Whether everybody has answered as far as is known, so that there is nothing to wait for. */
bool inspect_is_whole(const struct inspect *inspect, uint64_t inquiry);
/* Whether that daemon has answered wholly. */
bool inspect_has_answered(const struct inspect *inspect, uint64_t inquiry, uint32_t run);
/* Whether that daemon is known and not forgotten. */
bool inspect_knows(const struct inspect *inspect, uint32_t run);
/* Hosts that are known and have not answered, as an array; inquiry 0: all that are known. */
struct cJSON *inspect_missing(const struct inspect *inspect, uint64_t inquiry);

/* The broker's messages. */
void inspect_message_asked(struct inspect *inspect, const struct broker_message *message);
void inspect_message_replied(struct inspect *inspect, const struct broker_message *message);
/* There may have been messages that did not come: somebody's hello among them. */
void inspect_unheard(struct inspect *inspect);

#endif
