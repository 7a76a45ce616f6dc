/*
 * Broker URLs: amqp[s]://[USER[:PASSWORD]@]HOST[:PORT][/VHOST], a list of them separated by commas,
 * and getting passwords out of sight.
 */
#ifndef CONFIG_URL_H
#define CONFIG_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/config/config.h"

/*
 * Reads one URL of len bytes. NULL, or why it is none (static, and never a part of the URL, which
 * may hold a password). Members of *ret are owned by the caller; untouched on failure.
 */
const char *url_parse(const char *text, size_t len, struct config_broker *ret)
    __attribute__((warn_unused_result));
void url_done(struct config_broker *broker);
/* The URL that gives the broker, a password as "***". Owned by the caller. */
char *url_format(const struct config_broker *broker);
/* Overwrites the passwords in a list of URLs, good or bad, with asterisks; says whether it met one. */
bool url_blank(char *list);

#endif
