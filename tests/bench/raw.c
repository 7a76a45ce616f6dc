/*
 * What the broker itself needs, without lockbroker: the other half of each ratio of tests/bench. Speaks
 * rabbitmq-c's blocking calls on one connection, and prints seconds.
 *
 *	raw URL declares NAME COUNT	the durable queues NAME-1-A .. NAME-COUNT-A, all declares in flight
 *	raw URL deletes NAME COUNT	and their deletes
 */
#include <err.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <amqp.h>
#include <amqp_tcp_socket.h>

#define CHANNEL 1

static double
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void
want(amqp_rpc_reply_t reply, const char *what)
{
	if (reply.reply_type != AMQP_RESPONSE_NORMAL)
		errx(1, "%s: %s", what,
		    reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION
			? amqp_error_string2(reply.library_error)
			: "refused by the broker");
}

static void
want_status(int status, const char *what)
{
	if (status != AMQP_STATUS_OK)
		errx(1, "%s: %s", what, amqp_error_string2(status));
}

static amqp_connection_state_t
connect_to(char *url)
{
	amqp_connection_state_t link = amqp_new_connection();
	struct amqp_connection_info info;
	amqp_socket_t *sock;

	want_status(amqp_parse_url(url, &info), "the URL");
	if (link == NULL || (sock = amqp_tcp_socket_new(link)) == NULL)
		errx(1, "no memory");
	want_status(amqp_socket_open(sock, info.host, info.port), "connecting");
	want(amqp_login(link, info.vhost, 0, AMQP_DEFAULT_FRAME_SIZE, 0, AMQP_SASL_METHOD_PLAIN,
		 info.user, info.password),
	    "login");
	amqp_channel_open(link, CHANNEL);
	want(amqp_get_rpc_reply(link), "channel.open");
	return link;
}

static void
read_answer(amqp_connection_state_t link, amqp_method_number_t wanted)
{
	amqp_frame_t frame;

	do {
		amqp_maybe_release_buffers(link);
		want_status(amqp_simple_wait_frame(link, &frame), "an answer");
	} while (frame.frame_type != AMQP_FRAME_METHOD);
	if (frame.payload.method.id != wanted)
		errx(1, "the broker answered with %s", amqp_method_name(frame.payload.method.id));
}

static void
send_declare(amqp_connection_state_t link, const char *queue)
{
	amqp_table_entry_t most = {
	    .key = amqp_cstring_bytes("x-max-length"),
	    .value = {.kind = AMQP_FIELD_KIND_I32, .value = {.i32 = 0}},
	};
	amqp_queue_declare_t declare = {
	    .queue = amqp_cstring_bytes(queue),
	    .durable = true,
	    .arguments = {.num_entries = 1, .entries = &most},
	};

	want_status(
	    amqp_send_method(link, CHANNEL, AMQP_QUEUE_DECLARE_METHOD, &declare), "declare");
}

static void
send_delete(amqp_connection_state_t link, const char *queue)
{
	amqp_queue_delete_t delete = {.queue = amqp_cstring_bytes(queue)};

	want_status(amqp_send_method(link, CHANNEL, AMQP_QUEUE_DELETE_METHOD, &delete), "delete");
}

int
main(int argc, char *argv[])
{
	bool declares = argc == 5 && strcmp(argv[2], "declares") == 0;
	bool deletes = argc == 5 && strcmp(argv[2], "deletes") == 0;
	amqp_connection_state_t link;
	char queue[256];
	double began;
	int count;

	if (!declares && !deletes)
		errx(64, "usage: raw URL declares|deletes NAME COUNT");
	count = atoi(argv[4]);
	link = connect_to(argv[1]);
	began = now();
	for (int slot = 1; slot <= count; slot++) {
		snprintf(queue, sizeof(queue), "%s-%d-A", argv[3], slot);
		(declares ? send_declare : send_delete)(link, queue);
	}
	for (int slot = 1; slot <= count; slot++)
		read_answer(
		    link, declares ? AMQP_QUEUE_DECLARE_OK_METHOD : AMQP_QUEUE_DELETE_OK_METHOD);
	printf("%.6f\n", now() - began);
	want(amqp_connection_close(link, AMQP_REPLY_SUCCESS), "closing");
	want_status(amqp_destroy_connection(link), "closing");
	return 0;
}
