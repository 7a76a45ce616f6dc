/*
 * The output of one peer that the kernel has not taken yet. Owns the lines. It knows their size in
 * memory, but no limits.
 */
#ifndef PEER_UNREAD_H
#define PEER_UNREAD_H

#include <stddef.h>

struct unread;

struct unread *unread_new(void);
void unread_free(struct unread *unread);

/* Both copy the line. */
void unread_put(struct unread *unread, const char *line);
/* The same for bytes of any number of lines. */
void unread_put_bytes(struct unread *unread, const void *bytes, size_t len);
/* The next such line replaces it, unless another line came between them or it is being written. */
void unread_put_newest(struct unread *unread, const char *line);
/* Bytes to be written, without the newest line. */
size_t unread_length(const struct unread *unread);
/* Bytes of memory. A line is freed when all of it was written. */
size_t unread_size(const struct unread *unread);
/* All these bytes, and the newest line. The caller frees the copy. */
char *unread_copy(const struct unread *unread, size_t *ret_len);
/* Writes as much as fd takes. Returns 0 or an errno. An errno ends the connection. */
int unread_write(struct unread *unread, int fd);

#endif
