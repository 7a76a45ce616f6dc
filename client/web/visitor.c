#include "client/web/visitor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "client/web/note.h"
#include "config.h"
#include "protocol/json.h"

bool
visitor_token_make(struct visitor_settings *settings, unsigned port)
{
	unsigned char bytes[(VISITOR_TOKEN_SIZE - 1) / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return false;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(settings->token + 2 * i, 3, "%02x", bytes[i]);
	snprintf(settings->cookie, sizeof(settings->cookie), "lockbroker-web-%u", port);
	return true;
}

bool
visitor_token_is(const struct visitor_settings *settings, const char *text)
{
	volatile unsigned char differ = 0;

	if (text == NULL || strlen(text) != VISITOR_TOKEN_SIZE - 1)
		return false;
	for (size_t i = 0; i < VISITOR_TOKEN_SIZE - 1; i++)
		differ = (unsigned char)(differ | (text[i] ^ settings->token[i]));
	return differ == 0;
}

static bool
has_token(const struct visitor_settings *settings, struct MHD_Connection *connection)
{
	static const char bearer[] = "Bearer ";
	const char *text =
	    MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);

	if (text != NULL && strncmp(text, bearer, sizeof(bearer) - 1) == 0)
		return visitor_token_is(settings, text + sizeof(bearer) - 1);
	return visitor_token_is(
	    settings, MHD_lookup_connection_value(connection, MHD_COOKIE_KIND, settings->cookie));
}

/* The list has no spaces that count, and a name has no comma. */
static bool
is_listed(const char *list, const char *name)
{
	size_t len = strlen(name);

	for (; list != NULL && *list != '\0'; list += strcspn(list, ",")) {
		list += strspn(list, ", ");
		if (strncmp(list, name, len) == 0 && strcspn(list, ", ") == len)
			return true;
	}
	return false;
}

/* Whether the proxy can mean this as a name. */
static bool
is_name(const char *text)
{
	size_t len = strlen(text);

	if (len == 0 || len >= VISITOR_NAME_SIZE)
		return false;
	for (; *text != '\0'; text++)
		if ((unsigned char)*text <= ' ' || *text == ',' || *text == 0x7f)
			return false;
	return true;
}

bool
visitor_of(const struct visitor_settings *settings, struct MHD_Connection *connection,
    struct visitor *ret, const char **ret_why)
{
	const char *name;

	*ret = (struct visitor){.admin = settings->admin};
	if (settings->user_header == NULL) {
		*ret_why = "open the link that lockbroker-web printed at its start";
		return has_token(settings, connection);
	}
	name = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, settings->user_header);
	*ret_why = "the proxy names no visitor in the header of --user-header";
	if (name == NULL || !is_name(name))
		return false;
	strcpy(ret->name, name);
	ret->admin = ret->admin || is_listed(settings->admin_users, name);
	return true;
}

const char *
visitor_why_not(const struct visitor_settings *settings, const struct visitor *visitor)
{
	if (visitor->admin)
		return NULL;
	return settings->admin_users != NULL
		   ? "you are not among the administrators that --admin-users lists"
		   : "this page only shows: lockbroker-web was started without --admin";
}

struct reply
visitor_session(const struct visitor_settings *settings, const struct visitor *visitor)
{
	struct cJSON *session = json_new_object();
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	json_add_string(session, "visitor", *visitor->name != '\0' ? visitor->name : NULL);
	json_add_bool(session, "administrator", visitor->admin);
	json_add_string(session, "why", visitor_why_not(settings, visitor));
	json_add_string(session, "host", host);
	json_add_string(session, "version", PACKAGE_VERSION);
	return reply_tree(MHD_HTTP_OK, session);
}
