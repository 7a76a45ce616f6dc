/*
 * Answers over HTTP, with the headers that each of them has. An answer is made once and sent once. It knows no
 * request.
 */
#ifndef CLIENT_WEB_REPLY_H
#define CLIENT_WEB_REPLY_H

#include <stddef.h>

#include <microhttpd.h>

#include "client/lockbroker.h"

/* A file of the page, embedded at build time (pages.c). */
struct page_file {
	const char *name, *type, *text;
};
/* Ends with a NULL name. The first one is that of "/". */
extern const struct page_file page_files[];

struct cJSON;

struct reply {
	unsigned status;
	struct MHD_Response *response; /* owned; NULL: there is no answer yet */
};

/* Copies the text. */
struct reply reply_text(unsigned status, const char *type, const char *text);
struct reply reply_json(unsigned status, const char *json);
/* The same of a tree, which it frees. */
struct reply reply_tree(unsigned status, struct cJSON *tree);
/* An error that is not the daemon's, in the daemon's form. code: enum lb_code. */
struct reply reply_error(unsigned status, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The status of a code of the daemon or of the library. */
unsigned reply_status(int code);
/* Takes ownership of response, which can be NULL. */
struct reply reply_response(unsigned status, const char *type, struct MHD_Response *response);
void reply_header(struct reply *reply, const char *name, const char *value);

#endif
