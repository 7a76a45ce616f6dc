#include "tests/broker/foreign.h"

#include <amqp.h>
#if __has_include(<rabbitmq-c/tcp_socket.h>) /* since 0.12 */
#include <rabbitmq-c/tcp_socket.h>
#else
#include <amqp_tcp_socket.h>
#endif

#include "tests/broker/amqp_rig.h"

#define CHANNEL 1

static amqp_connection_state_t foreign;

static void
want(amqp_rpc_reply_t reply)
{
	ck_assert_int_eq(reply.reply_type, AMQP_RESPONSE_NORMAL);
}

void
foreign_open(void)
{
	const struct amqp_host host = rig_host();
	amqp_socket_t *sock;

	foreign = amqp_new_connection();
	sock = amqp_tcp_socket_new(foreign);
	ck_assert_int_eq(amqp_socket_open(sock, host.host, host.port), AMQP_STATUS_OK);
	want(amqp_login(foreign, host.vhost, 0, AMQP_DEFAULT_FRAME_SIZE, 0, AMQP_SASL_METHOD_PLAIN,
	    host.user, host.password));
	amqp_channel_open(foreign, CHANNEL);
	want(amqp_get_rpc_reply(foreign));
}

void
foreign_close(void)
{
	want(amqp_connection_close(foreign, AMQP_REPLY_SUCCESS));
	amqp_destroy_connection(foreign);
}

void
foreign_declare(const char *queue, bool durable, const char *type, bool empty)
{
	amqp_table_entry_t entries[2];
	amqp_table_t arguments = {.entries = entries};

	if (type != NULL)
		entries[arguments.num_entries++] = (amqp_table_entry_t){
		    .key = amqp_cstring_bytes("x-queue-type"),
		    .value = {.kind = AMQP_FIELD_KIND_UTF8,
			.value.bytes = amqp_cstring_bytes(type)},
		};
	if (empty)
		entries[arguments.num_entries++] = (amqp_table_entry_t){
		    .key = amqp_cstring_bytes("x-max-length"),
		    .value = {.kind = AMQP_FIELD_KIND_I32},
		};
	amqp_queue_declare(
	    foreign, CHANNEL, amqp_cstring_bytes(queue), 0, durable, 0, 0, arguments);
	want(amqp_get_rpc_reply(foreign));
}

void
foreign_wait_queue(const char *queue)
{
	amqp_table_entry_t entries[] = {
	    {
		.key = amqp_cstring_bytes("x-max-length"),
		.value = {.kind = AMQP_FIELD_KIND_I32, .value.i32 = 64},
	    },
	    {
		.key = amqp_cstring_bytes("x-queue-type"),
		.value = {.kind = AMQP_FIELD_KIND_UTF8,
		    .value.bytes = amqp_cstring_bytes("classic")},
	    },
	};

	amqp_queue_declare(foreign, CHANNEL, amqp_cstring_bytes(queue), 0, 1, 0, 1,
	    (amqp_table_t){.num_entries = 2, .entries = entries});
	want(amqp_get_rpc_reply(foreign));
}

void
foreign_mutex_holder(const char *queue)
{
	amqp_table_entry_t entries[] = {
	    {
		.key = amqp_cstring_bytes("x-max-length"),
		.value = {.kind = AMQP_FIELD_KIND_I32, .value.i32 = 0},
	    },
	    {
		.key = amqp_cstring_bytes("x-queue-type"),
		.value = {.kind = AMQP_FIELD_KIND_UTF8,
		    .value.bytes = amqp_cstring_bytes("classic")},
	    },
	    {
		.key = amqp_cstring_bytes("x-overflow"),
		.value = {.kind = AMQP_FIELD_KIND_UTF8,
		    .value.bytes = amqp_cstring_bytes("reject-publish")},
	    },
	    {
		.key = amqp_cstring_bytes("x-expires"),
		.value = {.kind = AMQP_FIELD_KIND_I32, .value.i32 = 60 * 1000},
	    },
	};

	amqp_queue_declare(foreign, CHANNEL, amqp_cstring_bytes(queue), 0, 1, 0, 0,
	    (amqp_table_t){.num_entries = 4, .entries = entries});
	want(amqp_get_rpc_reply(foreign));
}

void
foreign_consume(const char *queue, int priority)
{
	amqp_table_entry_t entry = {
	    .key = amqp_cstring_bytes("x-priority"),
	    .value = {.kind = AMQP_FIELD_KIND_I32, .value.i32 = priority},
	};

	amqp_basic_qos(foreign, CHANNEL, 0, 1, 0);
	want(amqp_get_rpc_reply(foreign));
	amqp_basic_consume(foreign, CHANNEL, amqp_cstring_bytes(queue), amqp_empty_bytes, 0, 0, 0,
	    (amqp_table_t){.num_entries = 1, .entries = &entry});
	want(amqp_get_rpc_reply(foreign));
}

void
foreign_delete(const char *queue)
{
	amqp_queue_delete(foreign, CHANNEL, amqp_cstring_bytes(queue), 0, 0);
	want(amqp_get_rpc_reply(foreign));
}

void
foreign_publish(const char *queue, const void *body, size_t len)
{
	const amqp_basic_properties_t properties = {
	    ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG,
	    .delivery_mode = AMQP_DELIVERY_PERSISTENT,
	};

	ck_assert_int_eq(
	    amqp_basic_publish(foreign, CHANNEL, amqp_empty_bytes, amqp_cstring_bytes(queue), 0, 0,
		&properties, (amqp_bytes_t){.len = len, .bytes = (void *)body}),
	    AMQP_STATUS_OK);
}

void
foreign_hint(const char *queue, const char *correlation_id)
{
	const amqp_basic_properties_t properties = {
	    ._flags = correlation_id != NULL ? AMQP_BASIC_CORRELATION_ID_FLAG : 0,
	    .correlation_id = amqp_cstring_bytes(correlation_id != NULL ? correlation_id : ""),
	};

	ck_assert_int_eq(amqp_basic_publish(foreign, CHANNEL, amqp_empty_bytes,
			     amqp_cstring_bytes(queue), 0, 0, &properties, amqp_empty_bytes),
	    AMQP_STATUS_OK);
}

static amqp_bytes_t
set(amqp_basic_properties_t *properties, amqp_flags_t flag, const char *value)
{
	if (value == NULL)
		return amqp_empty_bytes;
	properties->_flags |= flag;
	return amqp_cstring_bytes(value);
}

bool
foreign_write(const struct foreign_message *message)
{
	amqp_basic_properties_t properties = {0};

	properties.correlation_id =
	    set(&properties, AMQP_BASIC_CORRELATION_ID_FLAG, message->number);
	properties.reply_to = set(&properties, AMQP_BASIC_REPLY_TO_FLAG, message->reply_to);
	properties.user_id = set(&properties, AMQP_BASIC_USER_ID_FLAG, message->user);
	ck_assert_int_eq(amqp_basic_publish(foreign, CHANNEL, amqp_cstring_bytes(message->exchange),
			     amqp_cstring_bytes(message->key), 0, 0, &properties,
			     amqp_cstring_bytes(message->text)),
	    AMQP_STATUS_OK);
	/* Anything that is answered comes after the refusal. */
	amqp_basic_qos(foreign, CHANNEL, 0, 1, 0);
	return amqp_get_rpc_reply(foreign).reply_type == AMQP_RESPONSE_NORMAL;
}

unsigned
foreign_count(const char *queue)
{
	const amqp_queue_declare_ok_t *ok = amqp_queue_declare(
	    foreign, CHANNEL, amqp_cstring_bytes(queue), 1, 0, 0, 0, amqp_empty_table);

	want(amqp_get_rpc_reply(foreign));
	return ok->message_count;
}

void
foreign_flush(const char *queue)
{
	/* The count is older than these messages, but the channel has passed them on by then. */
	(void)foreign_count(queue);
}

void
foreign_drop(void)
{
	amqp_destroy_connection(foreign);
}

void
foreign_get(const char *queue, unsigned count)
{
	for (; count > 0; count--) {
		amqp_message_t message;

		want(amqp_basic_get(foreign, CHANNEL, amqp_cstring_bytes(queue), 0));
		want(amqp_read_message(foreign, CHANNEL, &message, 0));
		amqp_destroy_message(&message);
		amqp_maybe_release_buffers(foreign);
	}
}
