/*
 * Claims and holds by quorum over AMQP: a channel with one consumer for each, on connections of their
 * own. beads.h decides what a delivery means. This module owns the channels, the deadlines, and the
 * answers to the engine's requests.
 *
 *	us:      open qos consume       qos    reject 2                   reject 2                 close
 *	broker:                   1 2 3     ok           2 (held)   ...           2 (renewed)
 *
 * The connections are made when they are needed (reclaim.h). A channel is never used for a second claim:
 * RabbitMQ 3.x numbers the messages of a consumer tag from the beginning again.
 */
#ifndef BROKER_QUORUM_H
#define BROKER_QUORUM_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/broker/broker.h"

/* How long a release waits for its proof. Moves of a queue's leader delay answers by up to 103 ms. */
#define AMQP_QUORUM_PROOF (250 * NSEC_PER_MSEC)

struct amqp_quorum;
struct amqp_server;
struct state_reader;
struct state_writer;

/* broker: borrowed. vet: as that of a link (link.h), with the broker. */
struct amqp_quorum *amqp_quorum_new(
    struct broker *broker, char *(*vet)(void *ctx, const struct amqp_server *server));
/* Closes the connections for good. No answer and no event comes after this. */
void amqp_quorum_quit(struct amqp_quorum *quorum);
void amqp_quorum_free(struct amqp_quorum *quorum); /* NULL is fine */

/* Whether a channel's id is one of this module. */
bool amqp_quorum_has(uint64_t id);
struct amqp_reconnector *amqp_quorum_reconnector(
    const struct amqp_quorum *quorum, enum broker_link which);

/* As broker_channel_take(), for one claim. Never 0. */
uint64_t amqp_quorum_take(struct amqp_quorum *quorum);
/* Ends the claim or the hold, if there is one: its channel closes, and the slot may need a grace. */
void amqp_quorum_put(struct amqp_quorum *quorum, uint64_t id);

/*
 * The answers are those of broker_claim(), with fence and grace if it is OK. Each other answer ends the
 * claim. If the last hold did not end cleanly, the event `unclean` comes, and the answer after the grace.
 */
void amqp_quorum_claim(
    struct amqp_quorum *quorum, uint64_t id, const char *queue, struct broker_done done);
/* The proof that the hold goes on. OK, or SKIPPED if the hold ends before. */
void amqp_quorum_check(struct amqp_quorum *quorum, uint64_t id, struct broker_done done);
/*
 * The claim is answered. stopped: the holder uses the slot no more. Then the slot is free at once if the
 * broker confirms it in AMQP_QUORUM_PROOF (`proved` of the reply). Else the next holder waits.
 */
void amqp_quorum_drop(
    struct amqp_quorum *quorum, uint64_t id, bool stopped, struct broker_done done);

/* The lock connection is up: reclaims that wait for a connection are tried now. */
void amqp_quorum_wake(struct amqp_quorum *quorum);

/*
 * The successor (setup.h). It goes on with claims that are granted or in their grace, and with reclaims. Other
 * claims end: their channels are closed, and a proof that was sent is reclaimed. A renewal can be unanswered. It is
 * awaited, and never sent again.
 */
/* Whether there is something to save. Frozen, it does not become true. */
bool amqp_quorum_has_state(const struct amqp_quorum *quorum);
/* False: a connection cannot be handed over. Over TLS it is not: its holds become suspect. */
bool amqp_quorum_save(struct amqp_quorum *quorum, struct state_writer *writer);
/* False: the reader has the error. */
bool amqp_quorum_resume(struct amqp_quorum *quorum, struct state_reader *reader)
    __attribute__((warn_unused_result));
size_t amqp_quorum_taken(const struct amqp_quorum *quorum); /* claims, in any state */

#endif
