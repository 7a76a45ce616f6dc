/*
 * The visitor that sends a request, and its role: by the proxy's header, or by the token of this start.
 * Borrows the settings. It knows no daemon: the daemon has its own rules for the user that lockbroker-web runs
 * as.
 */
#ifndef CLIENT_WEB_VISITOR_H
#define CLIENT_WEB_VISITOR_H

#include <stdbool.h>

#include <microhttpd.h>

#include "client/web/reply.h"

#define VISITOR_NAME_SIZE 129
/* Hexadecimal digits of a token, with the NUL. */
#define VISITOR_TOKEN_SIZE 65

struct visitor_settings {
	const char *user_header; /* borrowed; NULL: visitors have the token */
	bool admin;              /* each visitor is an administrator */
	const char *admin_users; /* borrowed; NULL: none; separated by commas */
	char token[VISITOR_TOKEN_SIZE];
	char cookie[32]; /* its name: browsers send a cookie to all ports of a host */
};

struct visitor {
	char name[VISITOR_NAME_SIZE]; /* "": the proxy names nobody, as there is none */
	bool admin;
};

/* Makes the token. port: of the cookie's name. False: errno says why. */
bool visitor_token_make(struct visitor_settings *settings, unsigned port);
/* Whether the text is the token. Takes the same time for each text of its length. */
bool visitor_token_is(const struct visitor_settings *settings, const char *text);
/* False: a stranger; *ret_why is a sentence, static. */
bool visitor_of(const struct visitor_settings *settings, struct MHD_Connection *connection,
    struct visitor *ret, const char **ret_why);
/* Why this visitor's acts are refused; NULL: they are not. Static. */
const char *visitor_why_not(const struct visitor_settings *settings, const struct visitor *visitor);

/* The answer to GET /v1/session. */
struct reply visitor_session(
    const struct visitor_settings *settings, const struct visitor *visitor);

#endif
