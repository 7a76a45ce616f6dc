/*
 * A copy of the settings of amqp_broker.h, which its owner may do without after.
 */
#ifndef BROKER_AMQP_SETTINGS_H
#define BROKER_AMQP_SETTINGS_H

#include "daemon/broker/amqp_broker.h"

/* All but the TLS files, which are used up by then, and the passwords, which stay the owner's. */
void amqp_settings_copy(struct amqp_settings *ret, const struct amqp_settings *settings);
void amqp_settings_done(struct amqp_settings *copy);
/* Whether any host is spoken to over TLS. */
bool amqp_settings_want_tls(const struct amqp_settings *settings);

#endif
