/*
 * AMQP links over TCP: handshake, TLS, heartbeat, and the next of a host's addresses where one takes the
 * connection and does not let it become a link.
 */
#ifndef AMQP_TCP_H
#define AMQP_TCP_H

#include "daemon/amqp/link.h"

struct event_base;

/*
 * base: borrowed. False and *ret_error (malloc'ed text) when the TLS files cannot be used, which are read
 * now if a host wants TLS.
 */
bool amqp_tcp_dialer(struct event_base *base, const struct amqp_settings *settings,
    struct amqp_dialer *ret, char **ret_error) __attribute__((warn_unused_result));

#endif
