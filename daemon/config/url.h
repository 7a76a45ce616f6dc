/*
 * Broker URLs: amqp[s]://[USER[:PASSWORD]@]HOST[:PORT][/VHOST], in a list separated by commas. It
 * reads them, and hides their passwords. It knows no other keys.
 */
#ifndef CONFIG_URL_H
#define CONFIG_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/config/config.h"

/*
 * Reads one URL of len bytes. Returns NULL, or why it is not valid. The reason is static and never
 * contains a part of the URL, which may hold a password. The caller owns the members of *ret, which
 * are unchanged on failure.
 */
const char *url_parse(const char *text, size_t len, struct config_broker *ret)
    __attribute__((warn_unused_result));
void url_done(struct config_broker *broker);
/* The URL of a broker, with a password as "***". The caller owns it. */
char *url_format(const struct config_broker *broker);
/*
 * Overwrites the passwords in a list of URLs, valid or not, with asterisks. Returns whether there
 * was one.
 */
bool url_blank(char *list);

#endif
