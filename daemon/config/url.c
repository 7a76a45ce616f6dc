#include "daemon/config/url.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <amqp.h>

#include "daemon/base/mem.h"

/* A vhost is a short string of AMQP 0-9-1. User and password have the same limit. */
#define URL_PART_MAX 255
#define URL_MAX 2048

/* Finds bytes that amqp_parse_url() accepts, although no URL contains them. */
static const char *
url_check_bytes(const char *text)
{
	for (const char *p = text; *p != '\0'; p++) {
		if ((unsigned char)*p <= ' ' || *p == 0x7f)
			return "a space or control character must be written as %XX";
		if (strncmp(p, "%00", 3) == 0)
			return "%00 is not allowed";
	}
	return NULL;
}

static const char *
url_check_host(const char *host)
{
	if (*host == '\0')
		return "no host: expected amqp://USER@HOST:PORT/VHOST";
	if (strlen(host) > URL_PART_MAX)
		return "the host's name is too long";
	for (; *host != '\0'; host++) {
		if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:",
			*host) == NULL)
			return "the host is not a name or an address";
	}
	return NULL;
}

/*
 * amqp_parse_url() points into the URL for parts that it found, and to its own defaults for others.
 */
static bool
is_within(const char *part, const char *buf, size_t len)
{
	return (uintptr_t)part >= (uintptr_t)buf && (uintptr_t)part <= (uintptr_t)buf + len;
}

static const char *
url_take(char *buf, size_t len, struct config_broker *ret)
{
	struct amqp_connection_info info;
	const char *error, *vhost;
	bool has_user;

	if (amqp_parse_url(buf, &info) != AMQP_STATUS_OK)
		return "no broker URL: expected amqp://USER:PASSWORD@HOST:PORT/VHOST, special "
		       "characters "
		       "as %XX";
	if (!is_within(info.host, buf, len))
		return "no host: expected amqp://USER@HOST:PORT/VHOST";
	if ((error = url_check_host(info.host)) != NULL)
		return error;
	if (info.port < 1 || info.port > 65535)
		return "the port is not between 1 and 65535";
	has_user = is_within(info.user, buf, len);
	if (*info.user == '\0')
		return "a password without a user";
	/* RabbitMQ has no vhost without a name. "/" alone is usual for the default vhost. */
	vhost = *info.vhost == '\0' ? "/" : info.vhost;
	if (strlen(info.user) > URL_PART_MAX || strlen(vhost) > URL_PART_MAX ||
	    strlen(info.password) > URL_PART_MAX)
		return "user, password or vhost is longer than 255 bytes";
	ret->password_given = is_within(info.password, buf, len);
	if (ret->password_given && *info.password != '\0' &&
	    strspn(info.password, "*") == strlen(info.password))
		return "the password is asterisks, as --print-config prints it; set the real one";
	ret->tls = info.ssl != 0;
	ret->host = mem_strdup(info.host);
	ret->port = info.port;
	ret->vhost = mem_strdup(vhost);
	ret->user = mem_strdup(info.user);
	ret->password = has_user && !ret->password_given ? NULL : mem_strdup(info.password);
	return NULL;
}

const char *
url_parse(const char *text, size_t len, struct config_broker *ret)
{
	struct config_broker broker = {0};
	const char *error;
	char *buf, *slash;

	if (len > URL_MAX)
		return "longer than 2048 bytes";
	buf = mem_alloc(len + 1);
	memcpy(buf, text, len);
	/*
	 * HOST// is the default vhost according to rabbitmq-c's manual, but its parser refuses it.
	 */
	slash = len > 2 ? buf + len - 2 : buf;
	if (strcmp(slash, "//") == 0 && len > 2 && buf[len - 3] != ':')
		slash[1] = '\0';
	error = url_check_bytes(buf);
	if (error == NULL)
		error = url_take(buf, len, &broker);
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

		if (c <= ' ' || c == 0x7f || strchr(":/?#[]@,%", c) != NULL) {
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
