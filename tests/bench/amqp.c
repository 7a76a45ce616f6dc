/*
 * What the broker itself needs, without lockbroker: the other half of each ratio of tests/bench. Speaks
 * rabbitmq-c's blocking calls on one connection, and prints seconds.
 *
 *	raw URL declares NAME COUNT	the durable queues NAME-1-A .. NAME-COUNT-A, all declares in flight
 *	raw URL deletes NAME COUNT	and their deletes
 *	raw URL handoff NAME COUNT MS	a slot from one pair of connections to another, so many times, each
 *					after a rest of MS: delete, one publish that is delivered, the claim
 *					flight; the median
 */
#include <err.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <amqp.h>
#if __has_include(<rabbitmq-c/tcp_socket.h>) /* since 0.12 */
#include <rabbitmq-c/tcp_socket.h>
#else
#include <amqp_tcp_socket.h>
#endif

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
connect_to(const char *url)
{
	char *copy = strdup(url); /* amqp_parse_url() writes into it */
	amqp_connection_state_t link = amqp_new_connection();
	struct amqp_connection_info info;
	amqp_socket_t *sock;

	if (copy == NULL)
		err(1, "memory");
	want_status(amqp_parse_url(copy, &info), "the URL");
	if (link == NULL || (sock = amqp_tcp_socket_new(link)) == NULL)
		errx(1, "no memory");
	want_status(amqp_socket_open(sock, info.host, info.port), "connecting");
	want(amqp_login(link, info.vhost, 0, AMQP_DEFAULT_FRAME_SIZE, 0, AMQP_SASL_METHOD_PLAIN,
		 info.user, info.password),
	    "login");
	amqp_channel_open(link, CHANNEL);
	want(amqp_get_rpc_reply(link), "channel.open");
	free(copy);
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

/* ---- the hand-off ---- */

/* As a daemon has them: one link for the Bs, one for what could hurt them. */
struct side {
	amqp_connection_state_t hold, side;
};

static struct side
auxiliary_open(const char *url)
{
	return (struct side){.hold = connect_to(url), .side = connect_to(url)};
}

static void
send_claim(amqp_connection_state_t link, const char *b, const char *a)
{
	amqp_queue_declare_t claim = {.queue = amqp_cstring_bytes(b), .exclusive = true};
	amqp_queue_declare_t check = {.queue = amqp_cstring_bytes(a), .passive = true};

	want_status(amqp_send_method(link, CHANNEL, AMQP_QUEUE_DECLARE_METHOD, &claim), "claim");
	want_status(amqp_send_method(link, CHANNEL, AMQP_QUEUE_DECLARE_METHOD, &check), "check");
}

static void
join_line(amqp_connection_state_t link, const char *line)
{
	amqp_bytes_t queue = amqp_cstring_bytes(line);

	amqp_queue_declare(link, CHANNEL, queue, false, true, false, true, amqp_empty_table);
	want(amqp_get_rpc_reply(link), "the line");
	amqp_basic_consume(
	    link, CHANNEL, queue, amqp_empty_bytes, false, true, false, amqp_empty_table);
	want(amqp_get_rpc_reply(link), "basic.consume");
}

static void
wake_line(amqp_connection_state_t link, const char *line)
{
	amqp_basic_properties_t properties = {
	    ._flags = AMQP_BASIC_EXPIRATION_FLAG, .expiration = amqp_cstring_bytes("2000")};

	want_status(amqp_basic_publish(link, CHANNEL, amqp_empty_bytes, amqp_cstring_bytes(line),
			false, false, &properties, amqp_cstring_bytes("1")),
	    "publish");
}

static void
read_hint(amqp_connection_state_t link)
{
	amqp_envelope_t envelope;

	amqp_maybe_release_buffers(link);
	want(amqp_consume_message(link, &envelope, NULL, 0), "a hint");
	amqp_destroy_envelope(&envelope);
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void
measure_handoff(const char *url, const char *name, size_t rounds, unsigned ms)
{
	struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
	double *took = calloc(rounds, sizeof(*took));
	struct side from = auxiliary_open(url), to = auxiliary_open(url);
	char a[256], b[256], line[256];

	if (took == NULL)
		err(1, "memory");
	snprintf(a, sizeof(a), "%s-1-A", name);
	snprintf(b, sizeof(b), "%s-1-B", name);
	snprintf(line, sizeof(line), "%s-W", name);
	send_declare(from.side, a);
	read_answer(from.side, AMQP_QUEUE_DECLARE_OK_METHOD);
	join_line(to.side, line);
	for (size_t i = 0; i < rounds; i++) {
		double began;

		send_claim(from.hold, b, a);
		read_answer(from.hold, AMQP_QUEUE_DECLARE_OK_METHOD);
		read_answer(from.hold, AMQP_QUEUE_DECLARE_OK_METHOD);
		nanosleep(&rest, NULL);
		began = now();
		send_delete(from.hold, b);
		read_answer(from.hold, AMQP_QUEUE_DELETE_OK_METHOD);
		wake_line(from.side, line);
		read_hint(to.side);
		send_claim(to.hold, b, a);
		read_answer(to.hold, AMQP_QUEUE_DECLARE_OK_METHOD);
		read_answer(to.hold, AMQP_QUEUE_DECLARE_OK_METHOD);
		took[i] = now() - began;
		send_delete(to.hold, b);
		read_answer(to.hold, AMQP_QUEUE_DELETE_OK_METHOD);
	}
	send_delete(from.side, a);
	read_answer(from.side, AMQP_QUEUE_DELETE_OK_METHOD);
	qsort(took, rounds, sizeof(*took), compare);
	printf("%.6f\n", took[rounds / 2]);
	free(took);
}

static void
measure_queues(const char *url, bool declares, const char *name, int count)
{
	amqp_connection_state_t link = connect_to(url);
	double began = now();
	char queue[256];

	for (int slot = 1; slot <= count; slot++) {
		snprintf(queue, sizeof(queue), "%s-%d-A", name, slot);
		(declares ? send_declare : send_delete)(link, queue);
	}
	for (int slot = 1; slot <= count; slot++)
		read_answer(
		    link, declares ? AMQP_QUEUE_DECLARE_OK_METHOD : AMQP_QUEUE_DELETE_OK_METHOD);
	printf("%.6f\n", now() - began);
	want(amqp_connection_close(link, AMQP_REPLY_SUCCESS), "closing");
	want_status(amqp_destroy_connection(link), "closing");
}

int
main(int argc, char *argv[])
{
	const char *what = argc > 2 ? argv[2] : "";

	if (argc == 5 && (strcmp(what, "declares") == 0 || strcmp(what, "deletes") == 0))
		measure_queues(argv[1], strcmp(what, "declares") == 0, argv[3], atoi(argv[4]));
	else if (argc == 6 && strcmp(what, "handoff") == 0)
		measure_handoff(argv[1], argv[3], (size_t)atoi(argv[4]), (unsigned)atoi(argv[5]));
	else
		errx(64,
		    "usage: raw URL declares|deletes NAME COUNT | raw URL handoff NAME COUNT MS");
	return 0;
}
