/*
 * The auxiliary connection on demand. Each use of it is announced here. It is brought up to the host
 * of the lock connection, and rests when it was not used for a while (broker.c). It knows no uses.
 */
#ifndef BROKER_AUXILIARY_H
#define BROKER_AUXILIARY_H

struct broker;

/* Brings it up, unless the broker is stopped. */
void amqp_auxiliary_need(struct broker *broker);
/* It was used until now, so that it rests later. */
void amqp_auxiliary_use(struct broker *broker);

#endif
