/*
 * AMQP links over TCP or TLS: handshake and heartbeat. If an address accepts the connection but the
 * handshake fails, the next address of the host is tried. It owns stream and decoder, and knows no
 * channels.
 */
#ifndef AMQP_TCP_H
#define AMQP_TCP_H

#include "daemon/amqp/link.h"

struct event_base;

/*
 * Makes the dialer. base: borrowed. If a host wants TLS, the TLS files are read now. False and
 * *ret_error (malloc'ed): they cannot be used.
 */
bool amqp_tcp_dialer(struct event_base *base, const struct amqp_settings *settings,
    struct amqp_dialer *ret, char **ret_error) __attribute__((warn_unused_result));

#endif
