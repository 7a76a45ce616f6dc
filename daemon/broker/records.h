/*
 * The records of the way quorum: a quorum queue with one message for each name, and one with the floor of all
 * epochs. Its active consumer has all messages, and alone may administer this way. So to read the records and
 * to lock them is one. It owns the sessions of this daemon, each with a channel of its own on the auxiliary
 * connection. It knows no slots.
 *
 *	us:      declare, mark            qos consume                   floor, record           ack old ones
 *	broker:          ok, confirmed                records ... mark                floor, record
 *
 * Why a session has read everything: its mark was in the queue before it became a consumer. If the mark
 * was never returned, only this session was active after that, and without a break. All older messages came
 * before the mark. If the mark was returned, another session has ended. This one then begins again. A
 * cancelled consumer would keep its messages, unseen by the next one. So a session closes its channel instead.
 *
 * Why a write is performed: each message that is published comes back to the session. So it was committed,
 * and the session was still active then. The next active one has it, too. If there was a break, all messages
 * of the session come for a second time. A delivery that the session does not expect ends it.
 */
#ifndef BROKER_RECORDS_H
#define BROKER_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/broker/broker.h"

#define AMQP_RECORDS_QUEUE "lockbroker=quorum"

/* Bytes of the text of a record, with a NUL. */
#define RECORD_TEXT 256
/* The body of its message. Returns text. */
char *record_print(char text[RECORD_TEXT], const struct broker_record *record);
/* False: the message is no record. text: of len bytes, with a NUL behind them. */
bool record_read(const char *text, size_t len, struct broker_record *ret)
    __attribute__((warn_unused_result));
/* The same for the floor, from 1 on. */
char *floor_print(char text[RECORD_TEXT], uint64_t floor);
bool floor_read(const char *text, size_t len, uint64_t *ret) __attribute__((warn_unused_result));

struct amqp_records;

struct amqp_records *amqp_records_new(struct broker *broker); /* broker: borrowed */
void amqp_records_free(struct amqp_records *records);         /* before its channels */
bool amqp_records_in_use(const struct amqp_records *records);
/* After amqp_channels_attach(): begins the waiting sessions. */
void amqp_records_go(struct amqp_records *records);
/* After amqp_channels_fail(): all sessions are over. */
void amqp_records_fail(struct amqp_records *records);

#endif
