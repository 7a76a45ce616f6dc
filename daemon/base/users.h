/*
 * The names of this host's users, for logs. They come from /etc/passwd alone: getpwuid(3) may ask a
 * server, and the daemon's loop may not wait for it. Users of a directory service have no name here.
 */
#ifndef BASE_USERS_H
#define BASE_USERS_H

#include <sys/types.h>

/* NULL: there is none. Borrowed until the next call. */
const char *user_name(uid_t uid);
/* Another file instead, for tests. NULL: /etc/passwd again. */
void user_names_set_file(const char *path);

#endif
