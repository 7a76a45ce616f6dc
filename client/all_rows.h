/*
 * The holders and waiters of all locks on all hosts, read at once: a watch that ends when it is complete.
 */
#ifndef CLIENT_ALL_ROWS_H
#define CLIENT_ALL_ROWS_H

#include "client/asking.h"

/*
 * Sets *ret_json to {"rows":[...],"more":N,"silent_hosts":[...]}, with the rows of the protocol; free() it.
 * Otherwise an enum lb_code of the handle.
 */
int all_rows_read(const struct asking *asking, char **ret_json);

#endif
