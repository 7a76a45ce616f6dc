/*
 * Who is at the other end of a local socket, by the kernel's word at the time of connect(2)
 * (SO_PEERCRED, SO_PEERGROUPS; unix(7)). Never by the peer's.
 */
#ifndef PEER_CREDENTIALS_H
#define PEER_CREDENTIALS_H

#include <stdbool.h>

#include "daemon/config/access.h"

/* False with errno when the kernel will not say; *ret is untouched then. */
bool credentials_read(int fd, struct access_subject *ret) __attribute__((warn_unused_result));
void credentials_done(struct access_subject *subject);

#endif
