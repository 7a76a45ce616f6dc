/*
 * Lines out: what a peer was sent and has not read, as far as the kernel has not taken it. Owns the lines; knows
 * how much memory they take, and no limits.
 */
#ifndef PEER_UNREAD_H
#define PEER_UNREAD_H

#include <stddef.h>

struct unread;

struct unread *unread_new(void);
void unread_free(struct unread *unread);

/* Both copy the line. */
void unread_put(struct unread *unread, const char *line);
/* It is written when all else is, and the next such line replaces it. */
void unread_put_newest(struct unread *unread, const char *line);
/* Bytes that are to be written, without the newest line. */
size_t unread_length(const struct unread *unread);
/* Bytes of memory that it takes: a line goes when all of it was written. */
size_t unread_size(const struct unread *unread);
/* Writes what fd takes. Returns 0, or the errno that ends fd. */
int unread_write(struct unread *unread, int fd);

#endif
