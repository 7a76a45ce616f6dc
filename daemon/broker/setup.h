/*
 * Makes a broker (broker.h): up to ten AMQP connections to hosts of one cluster, from a list. They are the lock
 * connection, the auxiliary connection, and those for holds by quorum. The broker owns the links and their
 * channels, and reconnects with full-jitter backoff. It never blocks.
 */
#ifndef BROKER_SETUP_H
#define BROKER_SETUP_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/base/timers.h"
#include "daemon/broker/broker.h"

struct amqp_counts;
struct amqp_dialer;
struct amqp_channels;
struct amqp_settings;
struct state_reader;
struct state_writer;

/*
 * timers: borrowed. dialer: owned from now on; it makes the links, over TCP or to the server in
 * memory.
 */
struct broker *broker_new(struct timers *timers, uint64_t seed,
    const struct amqp_settings *settings, const struct amqp_dialer *dialer);

/*
 * The successor (daemon/state). The lock connection and the quorum connections are handed over, and the
 * auxiliary connection is made anew.
 */
/* Frozen, claims and holds by quorum begin no rotation, no proof after a grace and no reclaim. */
void broker_freeze(struct broker *broker, bool frozen);
/* The oldest version of the state that has records for all that is there. Frozen, it does not grow. */
int broker_state_version(const struct broker *broker);
/* Whether what is held by quorum can be saved, and whether none of its requests is unanswered. */
bool broker_quorum_is_still(const struct broker *broker);
bool broker_quorum_is_idle(const struct broker *broker);
/* That connection is over TLS, or will be: it ends with this program. */
bool broker_is_tls(const struct broker *broker, enum broker_link link);
/* Whether the lock connection is up, and all its requests are answered. */
bool broker_is_still(const struct broker *broker);
/* Whether a hint of this daemon is not sent yet. */
bool broker_owes_hints(const struct broker *broker);
/*
 * Writes the records of the connections, which are still and whose sockets remain open. One that is
 * not up has none. False: one cannot be handed over.
 */
bool broker_save(struct broker *broker, struct state_writer *writer);
/*
 * Instead of broker_start(): goes on with these connections. If there was no lock connection, it connects. The
 * event `link` comes from inside. False: the reader has the error.
 */
bool broker_resume(struct broker *broker, struct state_reader *reader)
    __attribute__((warn_unused_result));
/* The number of taken channels of the lock connection, and of claims by quorum. */
size_t broker_channels_taken(const struct broker *broker);
/*
 * A restored hold goes on with the channel of the lock connection. False: the channel is not taken,
 * another hold has it, or it has a consumer and `consumes` is false, or the other way round.
 */
bool broker_restore_channel(struct broker *broker, uint64_t channel, bool consumes);
/*
 * The same by quorum, for a hold. False: there is no such hold of that queue. ret_proof: as the answer to the
 * newest broker_check_holder().
 */
bool broker_restore_hold(struct broker *broker, uint64_t channel, const char *queue,
    struct broker_reply *ret_proof) __attribute__((warn_unused_result));
/* For a claim in its grace. claimed: gets the answer to the claim. ret_until: the end of the grace. */
bool broker_restore_grace(struct broker *broker, uint64_t channel, const char *queue,
    struct broker_done claimed, int64_t *ret_until) __attribute__((warn_unused_result));
/* Whether a claim by quorum waits for the end of a grace. */
bool broker_in_grace(const struct broker *broker, uint64_t channel);
/*
 * A restored hold by quorum: if the earlier program has asked for a proof, `done` gets its answer. False: it has
 * not.
 */
bool broker_await_proof(struct broker *broker, uint64_t channel, struct broker_done done);

/*
 * For the next login at hosts[host] of the settings. password: borrowed, as that of the settings.
 */
void broker_set_password(struct broker *broker, size_t host, const char *password);

/* ---- for tests and the server in memory ---- */

void broker_get_counts(const struct broker *broker, enum broker_link link, struct amqp_counts *ret);
const struct amqp_dialer *broker_dialer(const struct broker *broker);
const struct amqp_channels *broker_channels(const struct broker *broker, enum broker_link link);
/* The number of watches, placed or not. */
size_t broker_watched(const struct broker *broker);

#endif
