#include "daemon/config/url.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"

/* A vhost is a short string of AMQP 0-9-1. User and password have the same limit. */
#define URL_PART_MAX 255
#define URL_MAX 2048

static const char not_a_url[] =
    "no broker URL: expected amqp://USER:PASSWORD@HOST:PORT/VHOST, special "
    "characters as %XX";
static const char no_host[] = "no host: expected amqp://USER@HOST:PORT/VHOST";

/* Finds bytes that no URL contains. */
static const char *
url_check_bytes(const char *text)
{
	for (const char *p = text; *p != '\0'; p++) {
		if ((unsigned char)*p <= ' ' || *p == 0x7f)
			return "a space or control character must be written as %XX";
		if (strncmp(p, "%00", 3) == 0)
			return "%00 is not allowed";
		if (*p == '%' && (!isxdigit((unsigned char)p[1]) || !isxdigit((unsigned char)p[2])))
			return "after % there must be two hexadecimal digits";
		if (*p == '?' || *p == '#')
			return "? and # must be written as %3F and %23: a broker URL has no "
			       "options";
	}
	return NULL;
}

/* Replaces each %XX of a part by its byte. */
static void
url_decode(char *part)
{
	char *to = part, pair[3] = "";

	for (; *part != '\0'; part++) {
		if (*part == '%') {
			memcpy(pair, part + 1, 2);
			*to++ = (char)strtoul(pair, NULL, 16);
			part += 2;
		} else {
			*to++ = *part;
		}
	}
	*to = '\0';
}

static const char *
url_check_host(const char *host)
{
	if (*host == '\0')
		return no_host;
	if (strlen(host) > URL_PART_MAX)
		return "the host's name is too long";
	for (; *host != '\0'; host++) {
		if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:",
			*host) == NULL)
			return "the host is not a name or an address";
	}
	return NULL;
}

/* The parts of a URL, as pointers into it. */
struct url_parts {
	bool tls;
	char *user, *password; /* NULL: none */
	char *host;
	char *port;  /* NULL: the usual one */
	char *vhost; /* without the slash in front of it; "": none */
};

/* Cuts `text` at the first of that character. Returns the rest; NULL: there is none. */
static char *
cut(char *text, char at)
{
	char *rest = strchr(text, at);

	if (rest == NULL)
		return NULL;
	*rest = '\0';
	return rest + 1;
}

static const char *
url_split(char *text, struct url_parts *ret)
{
	char *slashes = strstr(text, "://"), *authority, *rest;

	*ret = (struct url_parts){.vhost = text + strlen(text)};
	if (slashes == NULL)
		return not_a_url;
	*slashes = '\0';
	ret->tls = strcasecmp(text, "amqps") == 0;
	if (!ret->tls && strcasecmp(text, "amqp") != 0)
		return not_a_url;
	authority = slashes + 3;
	if ((rest = cut(authority, '/')) != NULL)
		ret->vhost = rest;
	if ((rest = cut(authority, '@')) != NULL) {
		ret->user = authority;
		ret->password = cut(authority, ':');
		authority = rest;
	}
	if (strchr(authority, '@') != NULL ||
	    (ret->password != NULL && strchr(ret->password, ':') != NULL))
		return not_a_url;
	ret->host = authority;
	if (*authority != '[') {
		ret->port = cut(authority, ':');
		return NULL;
	}
	ret->host++;
	rest = cut(ret->host, ']');
	if (rest == NULL || (*rest != '\0' && *rest != ':'))
		return not_a_url;
	ret->port = *rest == ':' ? rest + 1 : NULL;
	return NULL;
}

/* The port of a URL; 0: it is none. */
static int
url_port(const struct url_parts *parts)
{
	size_t len;

	if (parts->port == NULL)
		return parts->tls ? 5671 : 5672;
	len = strlen(parts->port);
	if (len == 0 || len > 5 || strspn(parts->port, "0123456789") != len)
		return 0;
	return atoi(parts->port);
}

static const char *
url_take(char *buf, struct config_broker *ret)
{
	struct url_parts parts;
	const char *error = url_split(buf, &parts), *user, *password, *vhost;
	char *texts[] = {parts.user, parts.password, parts.host, parts.vhost};
	int port = url_port(&parts);

	if (error != NULL)
		return error;
	if (port < 1 || port > 65535)
		return "the port is not between 1 and 65535";
	if (parts.user != NULL && *parts.user == '\0')
		return "a password without a user";
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i] != NULL)
			url_decode(texts[i]);
	if ((error = url_check_host(parts.host)) != NULL)
		return error;
	user = parts.user != NULL ? parts.user : "guest";
	password = parts.user != NULL ? parts.password : "guest";
	/* RabbitMQ has no vhost without a name. "/" alone is usual for the default vhost. */
	vhost = *parts.vhost == '\0' ? "/" : parts.vhost;
	if (strlen(user) > URL_PART_MAX || strlen(vhost) > URL_PART_MAX ||
	    (password != NULL && strlen(password) > URL_PART_MAX))
		return "user, password or vhost is longer than 255 bytes";
	if (parts.password != NULL && *password != '\0' &&
	    strspn(password, "*") == strlen(password))
		return "the password is asterisks, as --print-config prints it; set the real one";
	*ret = (struct config_broker){
	    .tls = parts.tls,
	    .host = mem_strdup(parts.host),
	    .port = port,
	    .vhost = mem_strdup(vhost),
	    .user = mem_strdup(user),
	    .password = password != NULL ? mem_strdup(password) : NULL,
	    .password_given = parts.password != NULL,
	};
	return NULL;
}

const char *
url_parse(const char *text, size_t len, struct config_broker *ret)
{
	struct config_broker broker = {0};
	const char *error;
	char *buf;

	if (len > URL_MAX)
		return "longer than 2048 bytes";
	buf = mem_alloc(len + 1);
	memcpy(buf, text, len);
	error = url_check_bytes(buf);
	if (error == NULL)
		error = url_take(buf, &broker);
	explicit_bzero(buf, len);
	free(buf);
	if (error == NULL)
		*ret = broker;
	return error;
}

void
url_done(struct config_broker *broker)
{
	free(broker->host);
	free(broker->vhost);
	free(broker->user);
	if (broker->password != NULL)
		explicit_bzero(broker->password, strlen(broker->password));
	free(broker->password);
}

/* Encodes only bytes that have another meaning in a list of URLs. */
static char *
url_encode(const char *part)
{
	static const char hex[] = "0123456789ABCDEF";
	char *buf = mem_alloc(strlen(part) * 3 + 1), *to = buf;

	for (; *part != '\0'; part++) {
		unsigned char c = (unsigned char)*part;

		if (c <= ' ' || c >= 0x7f || strchr(":/?#[]@,%", c) != NULL) {
			*to++ = '%';
			*to++ = hex[c >> 4];
			*to++ = hex[c & 15];
		} else {
			*to++ = (char)c;
		}
	}
	return buf;
}

/* USER[:***]@. Empty for guest with the default password. */
static char *
format_user(const struct config_broker *broker)
{
	char *user = url_encode(broker->user), *text;

	if (broker->password_given)
		text = mem_printf("%s:***@", user);
	else
		text = strcmp(user, "guest") == 0 ? mem_strdup("") : mem_printf("%s@", user);
	free(user);
	return text;
}

char *
url_format(const struct config_broker *broker)
{
	bool ip6 = strchr(broker->host, ':') != NULL;
	char *user = format_user(broker), *vhost = url_encode(broker->vhost);
	char *url = mem_printf("%s://%s%s%s%s:%d/%s", broker->tls ? "amqps" : "amqp", user,
	    ip6 ? "[" : "", broker->host, ip6 ? "]" : "", broker->port, vhost);

	free(user);
	free(vhost);
	return url;
}

bool
url_blank(char *list)
{
	bool met = false;

	for (char *url = list; *url != '\0';) {
		size_t len = strcspn(url, ",");
		char *from = strstr(url, "://"), *at = NULL, *colon = NULL;

		if (from != NULL && from < url + len) {
			from += 3;
			/* The last @, as an invalid URL may contain several. */
			at = memrchr(from, '@', (size_t)(url + len - from));
			if (at != NULL)
				colon = memchr(from, ':', (size_t)(at - from));
		}
		if (colon != NULL && colon + 1 < at) {
			memset(colon + 1, '*', (size_t)(at - colon - 1));
			met = true;
		}
		url += len;
		url += *url == ',';
	}
	return met;
}
