#include "tests/bench/bench.h"

#include "config.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Redis: hiredis ---- */

/* A lock that is not given up ends after this time, ms. */
#define REDIS_EXPIRES "30000"

#ifdef HAVE_HIREDIS
#include <hiredis/hiredis.h>

struct redis *
redis_open(const char *port)
{
	redisContext *context = redisConnect("127.0.0.1", atoi(port));

	if (context == NULL || context->err != 0)
		errx(1, "redis: %s", context == NULL ? "no memory" : context->errstr);
	return (struct redis *)context;
}

int
redis_fd(const struct redis *redis)
{
	return ((const redisContext *)redis)->fd;
}

void
redis_ask(struct redis *redis, bool lock, const char *name)
{
	redisContext *context = (redisContext *)redis;
	int done = 0;

	if (lock)
		redisAppendCommand(context, "SET %s 1 NX PX " REDIS_EXPIRES, name);
	else
		redisAppendCommand(context, "DEL %s", name);
	while (!done)
		if (redisBufferWrite(context, &done) != REDIS_OK)
			errx(1, "redis: %s", context->errstr);
}

bool
redis_answered(struct redis *redis)
{
	redisContext *context = (redisContext *)redis;
	redisReply *reply = NULL;
	void *got = NULL;

	if (redisBufferRead(context) != REDIS_OK ||
	    redisGetReplyFromReader(context, &got) != REDIS_OK)
		errx(1, "redis: %s", context->errstr);
	reply = got;
	if (reply == NULL)
		return false;
	if (reply->type != REDIS_REPLY_STATUS &&
	    !(reply->type == REDIS_REPLY_INTEGER && reply->integer == 1))
		errx(1, "redis refused: type %d %s", reply->type, reply->str);
	freeReplyObject(reply);
	return true;
}

#endif

/* ---- etcd: its lock service (v3lock) over gRPC's C core, the fields of its messages by hand ---- */

#ifdef HAVE_GRPC
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

/* Of the lease of all locks of a connection; longer than a run takes. */
#define LEASE_SECONDS 36000

struct call {
	grpc_call *call;
	grpc_byte_buffer *reply;
	grpc_metadata_array first, last;
	grpc_status_code status;
	grpc_slice details;
	unsigned char key[256]; /* of the lock, at etcd */
	size_t key_len;
};

struct etcd {
	grpc_channel *channel;
	grpc_completion_queue *queue;
	uint64_t lease;
	struct call *calls;
};

static size_t
put_varint(unsigned char *to, uint64_t number)
{
	size_t len = 0;

	for (; number >= 0x80; number >>= 7)
		to[len++] = (unsigned char)(number | 0x80);
	to[len++] = (unsigned char)number;
	return len;
}

/* A protobuf field of bytes, or of a number. */
static size_t
put_bytes(unsigned char *to, unsigned field, const void *bytes, size_t size)
{
	size_t len = put_varint(to, field << 3 | 2);

	len += put_varint(to + len, size);
	memcpy(to + len, bytes, size);
	return len + size;
}

static size_t
put_varint_field(unsigned char *to, unsigned field, uint64_t number)
{
	size_t len = put_varint(to, field << 3);

	return len + put_varint(to + len, number);
}

/* Finds field 2 of bytes. All fields of a LockResponse are shorter than 128 bytes. */
static void
read_key(struct call *call)
{
	grpc_byte_buffer_reader reader;
	grpc_slice slice;
	const uint8_t *at, *end;

	if (!grpc_byte_buffer_reader_init(&reader, call->reply))
		errx(1, "etcd: no answer");
	slice = grpc_byte_buffer_reader_readall(&reader);
	grpc_byte_buffer_reader_destroy(&reader);
	at = GRPC_SLICE_START_PTR(slice);
	end = GRPC_SLICE_END_PTR(slice);
	for (; at + 2 <= end; at += 2 + at[1]) {
		if (at[0] != (2 << 3 | 2))
			continue;
		call->key_len = at[1];
		memcpy(call->key, at + 2, at[1]);
	}
	grpc_slice_unref(slice);
}

static void
start_call(
    struct etcd *etcd, struct call *call, const char *method, const void *message, size_t len)
{
	grpc_slice slice = grpc_slice_from_copied_buffer(message, len);
	grpc_byte_buffer *request = grpc_raw_byte_buffer_create(&slice, 1);
	grpc_op ops[6] = {
	    {.op = GRPC_OP_SEND_INITIAL_METADATA},
	    {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = request},
	    {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
	    {.op = GRPC_OP_RECV_INITIAL_METADATA,
		.data.recv_initial_metadata.recv_initial_metadata = &call->first},
	    {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->reply},
	    {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
		.data.recv_status_on_client = {.trailing_metadata = &call->last,
		    .status = &call->status,
		    .status_details = &call->details}},
	};

	call->call = grpc_channel_create_call(etcd->channel, NULL, GRPC_PROPAGATE_DEFAULTS,
	    etcd->queue, grpc_slice_from_static_string(method), NULL,
	    gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
	if (grpc_call_start_batch(call->call, ops, 6, call, NULL) != GRPC_CALL_OK)
		errx(1, "etcd: %s", method);
	grpc_byte_buffer_destroy(request);
	grpc_slice_unref(slice);
}

size_t
etcd_answered(struct etcd *etcd)
{
	grpc_event event =
	    grpc_completion_queue_next(etcd->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
	struct call *call = event.tag;

	if (!event.success || call->status != GRPC_STATUS_OK)
		errx(1, "etcd: status %d %.*s", (int)call->status,
		    (int)GRPC_SLICE_LENGTH(call->details),
		    (const char *)GRPC_SLICE_START_PTR(call->details));
	read_key(call);
	grpc_byte_buffer_destroy(call->reply);
	grpc_slice_unref(call->details);
	grpc_call_unref(call->call);
	return (size_t)(call - etcd->calls);
}

struct etcd *
etcd_open(const char *port, size_t calls)
{
	struct etcd *etcd = checked_alloc(1, sizeof(*etcd));
	grpc_channel_credentials *insecure = grpc_insecure_credentials_create();
	unsigned char message[64];
	char target[64];
	size_t len;

	grpc_init();
	snprintf(target, sizeof(target), "127.0.0.1:%s", port);
	etcd->channel = grpc_channel_create(target, insecure, NULL);
	grpc_channel_credentials_release(insecure);
	etcd->queue = grpc_completion_queue_create_for_next(NULL);
	etcd->calls = checked_alloc(calls, sizeof(*etcd->calls));
	for (size_t i = 0; i < calls; i++) {
		grpc_metadata_array_init(&etcd->calls[i].first);
		grpc_metadata_array_init(&etcd->calls[i].last);
	}
	etcd->lease = (uint64_t)(now() * 1e6); /* never used before at this server */
	len = put_varint_field(message, 1, LEASE_SECONDS);
	len += put_varint_field(message + len, 2, etcd->lease);
	start_call(etcd, &etcd->calls[0], "/etcdserverpb.Lease/LeaseGrant", message, len);
	etcd_answered(etcd);
	return etcd;
}

void
etcd_ask(struct etcd *etcd, size_t which, bool lock, const char *name)
{
	struct call *call = &etcd->calls[which];
	unsigned char message[512];
	size_t len;

	if (lock) {
		len = put_bytes(message, 1, name, strlen(name));
		len += put_varint_field(message + len, 2, etcd->lease);
		start_call(etcd, call, "/v3lockpb.Lock/Lock", message, len);
	} else {
		len = put_bytes(message, 1, call->key, call->key_len);
		start_call(etcd, call, "/v3lockpb.Lock/Unlock", message, len);
	}
}

#endif
