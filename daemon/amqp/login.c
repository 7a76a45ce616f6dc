#include "daemon/amqp/login.h"

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/amqp/buffer.h"
#include "daemon/base/mem.h"

static char *
server_string(const amqp_table_t *properties, const char *key)
{
	for (int i = 0; i < properties->num_entries; i++) {
		const amqp_table_entry_t *entry = &properties->entries[i];

		if (entry->value.kind != AMQP_FIELD_KIND_UTF8 || entry->key.len != strlen(key) ||
		    memcmp(entry->key.bytes, key, entry->key.len) != 0)
			continue;
		return amqp_frame_words(entry->value.value.bytes);
	}
	return mem_strdup("");
}

void
amqp_server_init(struct amqp_server *ret, const amqp_connection_start_t *start)
{
	ret->product = server_string(&start->server_properties, "product");
	ret->version = server_string(&start->server_properties, "version");
	ret->cluster = server_string(&start->server_properties, "cluster_name");
	ret->persistent = true;
	ret->deletes_by_name = amqp_server_deletes_by_name(ret->product, ret->version);
	ret->hides_queues = amqp_server_hides_queues(ret->product, ret->version);
}

bool
amqp_server_deletes_by_name(const char *product, const char *version)
{
	int major, minor, patch;

	if (version == NULL || strcmp(product, "RabbitMQ") != 0 ||
	    sscanf(version, "%d.%d.%d", &major, &minor, &patch) != 3)
		return true;
	if (major != 4)
		return major < 4;
	if (minor == 1)
		return patch < 8;
	if (minor == 2)
		return patch < 3;
	return minor < 1;
}

/* https://github.com/rabbitmq/rabbitmq-server/pull/4563 */
bool
amqp_server_hides_queues(const char *product, const char *version)
{
	int major, minor;

	if (version == NULL || strcmp(product, "RabbitMQ") != 0 ||
	    sscanf(version, "%d.%d", &major, &minor) != 2)
		return true;
	return major < 3 || (major == 3 && minor < 11);
}

/* Whether a list, separated by spaces, contains a word. */
static bool
offers(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = strstr(list, word); at != NULL; at = strstr(at + 1, word))
		if ((at == list || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
			return true;
	return false;
}

static bool
put_start_ok(struct evbuffer *out, const struct amqp_login *login, const char *mechanism,
    amqp_bytes_t response)
{
	amqp_table_entry_t capabilities[] = {
	    amqp_entry_true("consumer_cancel_notify"),
	    amqp_entry_true("connection.blocked"),
	    amqp_entry_true("publisher_confirms"),
	    amqp_entry_true("basic.nack"),
	    /* Without it, a refused login is only a closed socket, after one second. */
	    amqp_entry_true("authentication_failure_close"),
	};
	amqp_table_entry_t properties[] = {
	    amqp_entry_text("product", "lockbroker"),
	    amqp_entry_text("version", PACKAGE_VERSION),
	    amqp_entry_text("connection_name", login->name),
	    {
		.key = amqp_cstring_bytes("capabilities"),
		.value = {.kind = AMQP_FIELD_KIND_TABLE,
		    .value.table = {.num_entries = sizeof(capabilities) / sizeof(capabilities[0]),
			.entries = capabilities}},
	    },
	};
	amqp_connection_start_ok_t fields = {
	    .client_properties = {.num_entries = sizeof(properties) / sizeof(properties[0]),
		.entries = properties},
	    .mechanism = amqp_cstring_bytes(mechanism),
	    .response = response,
	    .locale = amqp_cstring_bytes("en_US"),
	};

	return amqp_frame_put_secret(out, 0, AMQP_CONNECTION_START_OK_METHOD, &fields);
}

char *
amqp_login_put(
    struct evbuffer *out, const amqp_connection_start_t *start, const struct amqp_login *login)
{
	const char *mechanism = login->external ? "EXTERNAL" : "PLAIN";
	char *offered = amqp_frame_words(start->mechanisms), *error = NULL, *plain = NULL;
	amqp_bytes_t response = amqp_empty_bytes;
	size_t user_len = strlen(login->user), password_len = strlen(login->password);

	if (start->version_major != 0 || start->version_minor != 9) {
		error = mem_printf("the broker speaks AMQP %d.%d, not 0.9", start->version_major,
		    start->version_minor);
	} else if (!offers(offered, mechanism)) {
		error = mem_printf("the broker does not offer the login mechanism %s, only: %s",
		    mechanism, offered);
	} else {
		if (!login->external) {
			/* NUL user NUL password (RFC 4616) */
			plain = mem_alloc(user_len + password_len + 2);
			memcpy(plain + 1, login->user, user_len);
			memcpy(plain + 2 + user_len, login->password, password_len);
			response.bytes = plain;
			response.len = user_len + password_len + 2;
		}
		if (!put_start_ok(out, login, mechanism, response))
			error = mem_strdup("user and password are too long for AMQP");
	}
	if (plain != NULL)
		explicit_bzero(plain, response.len);
	free(plain);
	free(offered);
	return error;
}
