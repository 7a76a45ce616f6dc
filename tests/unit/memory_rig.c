#include "tests/unit/memory_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/amqp/link.h"
#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/setup.h"
#include "tests/unit/unit.h"

#define CHANNELS_OF_ONE 3

struct rig rig;
unsigned rig_channels_of_one = CHANNELS_OF_ONE;
struct memory_world *world;
struct broker *one, *two;

static int64_t
rig_now(void *ctx)
{
	(void)ctx;
	return rig.now;
}

static const struct clock rig_clock = {.now = rig_now};

static void
see(const char *what)
{
	size_t used = strlen(rig.seen);

	ck_assert(!rig.in_call);
	ck_assert_uint_lt(used + strlen(what) + 2, sizeof(rig.seen));
	snprintf(rig.seen + used, sizeof(rig.seen) - used, "%s%s", used == 0 ? "" : " ", what);
}

static const char *
answer_word(enum broker_answer answer)
{
	switch (answer) {
	case BROKER_OK:
		return "ok";
	case BROKER_ABSENT:
		return "absent";
	case BROKER_LOCKED:
		return "locked";
	case BROKER_UNREACHABLE:
		return "unreachable";
	case BROKER_REFUSED:
		return "refused";
	case BROKER_SKIPPED:
		return "skipped";
	case BROKER_UNKNOWN:
		return "unknown";
	}
	return "?";
}

static void
react(uint64_t id)
{
	if (id == rig.react_to && rig.reaction != NULL) {
		rig.react_to = 0;
		rig.reaction();
	}
}

static void
answered(uint64_t id, const struct broker_reply *reply)
{
	rig.sent_at[id] = reply->sent_at;
	ck_assert_ptr_nonnull(reply->text);
	snprintf(rig.text, sizeof(rig.text), "%s", reply->text);
	react(id);
}

static void
on_done(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	char text[64];

	(void)ctx;
	snprintf(text, sizeof(text), "%d=%s%s", (int)id, answer_word(reply->answer),
	    reply->channel_open ? "" : "!");
	see(text);
	answered(id, reply);
}

static void
on_names(void *ctx, uint64_t id, const struct broker_reply *reply, const char *const *names,
    size_t count)
{
	char text[256];
	size_t used =
	    (size_t)snprintf(text, sizeof(text), "%d=%s", (int)id, answer_word(reply->answer));

	(void)ctx;
	ck_assert(reply->answer == BROKER_OK || count == 0);
	for (size_t i = 0; i < count; i++)
		used += (size_t)snprintf(
		    text + used, sizeof(text) - used, "%c%s", i == 0 ? '(' : ',', names[i]);
	snprintf(text + used, sizeof(text) - used, "%s", count > 0 ? ")" : "");
	see(text);
	answered(id, reply);
}

static void
on_probe(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	char text[256];
	size_t used = (size_t)snprintf(text, sizeof(text), "p%d", (int)id);

	(void)ctx;
	for (size_t i = 0; i < seen->count; i++) {
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%c%s",
		    i == 0 ? '=' : ',', answer_word(seen->answers[i]));
	}
	see(text);
	react(id);
}

static void
on_link(void *ctx, enum broker_link link, enum broker_state state, const char *why)
{
	const struct broker *broker = ctx;
	char text[64];

	snprintf(text, sizeof(text), "%s%s:%s%s%s", broker == two ? "two." : "",
	    link == BROKER_LOCKS ? "locks" : "auxiliary",
	    state == BROKER_UP     ? "up"
	    : state == BROKER_DOWN ? "down"
				   : "refused",
	    *why != '\0' ? ":" : "", why);
	see(text);
}

static void
on_channel_closed(void *ctx, uint64_t channel, int code, const char *text)
{
	char what[64];

	(void)ctx;
	ck_assert_str_ne(text, "");
	rig.closed_channel = channel;
	snprintf(what, sizeof(what), "closed:%d", code);
	see(what);
}

static void
on_watch(void *ctx, const char *queue, enum broker_news news)
{
	char what[64];

	snprintf(what, sizeof(what), "%s%s:%s", ctx == two ? "two." : "",
	    news == BROKER_WATCHED ? "watched"
	    : news == BROKER_HINT  ? "hint"
				   : "unwatched",
	    queue);
	see(what);
	if (rig.heard != NULL)
		rig.heard(queue, news);
}

static void
on_line(void *ctx, const struct broker_wait_queue_event *event)
{
	char what[96];

	snprintf(what, sizeof(what), "%s%s:%s/%d", ctx == two ? "two." : "",
	    event->news == BROKER_WAIT_QUEUE_JOINED   ? "joined"
	    : event->news == BROKER_WAIT_QUEUE_HINT   ? "hint"
	    : event->news == BROKER_WAIT_QUEUE_NOBODY ? "nobody"
						      : "left",
	    event->queue, event->priority);
	if (event->news == BROKER_WAIT_QUEUE_HINT || event->news == BROKER_WAIT_QUEUE_NOBODY)
		snprintf(what + strlen(what), sizeof(what) - strlen(what), "=%d", event->slot);
	see(what);
	if (rig.wait_queue_heard != NULL)
		rig.wait_queue_heard(event);
}

static void
on_asked(void *ctx, const struct broker_message *message)
{
	char what[96];

	ck_assert_uint_eq(strlen(message->text), message->len);
	ck_assert_str_eq(message->user, "memory");
	rig.from = message->from;
	snprintf(what, sizeof(what), "%sasked:%.40s", ctx == two ? "two." : "", message->text);
	see(what);
	if (rig.message_heard != NULL)
		rig.message_heard(message);
}

static void
on_replied(void *ctx, const struct broker_message *message)
{
	char what[96];

	snprintf(what, sizeof(what), "%sreplied:%d=%.40s", ctx == two ? "two." : "",
	    (int)message->asked, message->text);
	see(what);
	if (rig.message_heard != NULL)
		rig.message_heard(message);
}

static void
on_count(void *ctx, uint64_t id, int consumers)
{
	char what[32];

	(void)ctx;
	snprintf(what, sizeof(what), "c%d=%d", (int)id, consumers);
	see(what);
}

/* ---- the behaviour's plan ---- */

static int64_t
planned_delay(void *ctx)
{
	(void)ctx;
	return rig.delays_used < RIG_PLAN ? rig.delays[rig.delays_used++] : 0;
}

static bool
planned_silence(void *ctx)
{
	(void)ctx;
	return rig.silences_used < RIG_PLAN && rig.silences[rig.silences_used++];
}

static bool
planned_deafness(void *ctx, const struct broker *broker, const char *queue)
{
	(void)ctx;
	(void)broker;
	(void)queue;
	return rig.deafnesses_used < RIG_PLAN && rig.deafnesses[rig.deafnesses_used++];
}

/* ---- raw links ---- */

struct raw {
	struct broker *broker; /* owned; it is never started, and lends its dialer */
	struct amqp_link *link;
	char name;
	char got[32];    /* the body that arrives */
	char header[32]; /* its header */
	bool wants_header;
	int64_t acquired, failed; /* its counts; -1: none */
	uint64_t to_come;
	SLIST_ENTRY(raw) entry;
};
static SLIST_HEAD(, raw) raws = SLIST_HEAD_INITIALIZER(raws);

static char *
raw_vet(void *ctx, const struct amqp_server *server)
{
	(void)ctx;
	(void)server;
	return NULL;
}

static void
raw_up(void *ctx)
{
	(void)ctx;
}

static void
raw_blocked(void *ctx, bool blocked, const char *why)
{
	(void)ctx;
	(void)blocked;
	(void)why;
}

static void
raw_dead(void *ctx, struct amqp_link *link, bool was_refused, int code, const char *why)
{
	const struct raw *raw = ctx;
	char text[64];

	(void)link;
	(void)was_refused;
	snprintf(text, sizeof(text), "%c:dead:%d", raw->name, code);
	see(text);
	snprintf(rig.text, sizeof(rig.text), "%s", why);
}

/* A channel that the server closed is open again after this. */
static void
raw_closed(struct raw *raw, uint16_t channel, const amqp_channel_close_t *close)
{
	snprintf(rig.text, sizeof(rig.text), "%.*s", (int)close->reply_text.len,
	    (const char *)close->reply_text.bytes);
	amqp_link_send(
	    raw->link, channel, AMQP_CHANNEL_CLOSE_OK_METHOD, &(amqp_channel_close_ok_t){0});
	raw_open(raw, channel);
}

/* "": not recorded. */
static const char *
raw_word(const struct amqp_frame *frame, char room[32])
{
	const amqp_queue_declare_ok_t *ok = frame->fields;

	switch (frame->method) {
	case AMQP_QUEUE_DECLARE_OK_METHOD:
		snprintf(
		    room, 32, "declared(%d,%d)", (int)ok->message_count, (int)ok->consumer_count);
		return room;
	case AMQP_CHANNEL_CLOSE_METHOD:
		snprintf(room, 32, "closed:%d",
		    ((const amqp_channel_close_t *)frame->fields)->reply_code);
		return room;
	case AMQP_BASIC_CONSUME_OK_METHOD:
		return "consuming";
	case AMQP_BASIC_CANCEL_OK_METHOD:
		return "cancelled";
	case AMQP_BASIC_CANCEL_METHOD:
		return "cancel";
	case AMQP_CHANNEL_CLOSE_OK_METHOD:
		return "close-ok";
	case AMQP_QUEUE_DELETE_OK_METHOD:
		return "deleted";
	case AMQP_BASIC_GET_EMPTY_METHOD:
		return "empty";
	case AMQP_BASIC_ACK_METHOD:
		return "ack";
	case AMQP_BASIC_NACK_METHOD:
		return "nack";
	case AMQP_BASIC_RETURN_METHOD:
		return "return";
	default:
		return "";
	}
}

static void
raw_headers(struct raw *raw, const amqp_basic_properties_t *properties)
{
	const amqp_table_t *headers = &properties->headers;

	raw->acquired = raw->failed = -1;
	raw->header[0] = '\0';
	for (int i = 0; properties->_flags & AMQP_BASIC_HEADERS_FLAG && i < headers->num_entries;
	     i++) {
		const amqp_field_value_t *value = &headers->entries[i].value;
		char key[32];

		snprintf(key, sizeof(key), "%.*s", (int)headers->entries[i].key.len,
		    (const char *)headers->entries[i].key.bytes);
		if (strcmp(key, "x-acquired-count") == 0)
			raw->acquired = value->value.i64;
		else if (strcmp(key, "x-delivery-count") == 0)
			raw->failed = value->value.i64;
		else
			snprintf(raw->header, sizeof(raw->header), "%.*s",
			    (int)value->value.bytes.len, (const char *)value->value.bytes.bytes);
	}
}

static void
raw_got(const struct raw *raw, char room[32])
{
	if (raw->wants_header)
		ck_assert_str_eq(raw->header, raw->got);
	if (raw->acquired >= 0 && raw->failed >= 0)
		snprintf(
		    room, 32, "got(%.10s,%d/%d)", raw->got, (int)raw->acquired, (int)raw->failed);
	else if (raw->acquired >= 0 || raw->failed >= 0)
		snprintf(room, 32, "got(%.10s,%d)", raw->got,
		    (int)(raw->acquired >= 0 ? raw->acquired : raw->failed));
	else
		snprintf(room, 32, "got(%.20s)", raw->got);
}

static void
raw_frame(void *ctx, const struct amqp_frame *frame)
{
	struct raw *raw = ctx;
	char room[32], text[64];
	const char *word = "";

	if (frame->type == AMQP_FRAME_HEADER) {
		raw->got[0] = '\0';
		raw->to_come = frame->body_size;
		raw_headers(raw, frame->fields);
	} else if (frame->type == AMQP_FRAME_BODY) {
		strncat(raw->got, frame->body.bytes, frame->body.len);
		raw->to_come -= frame->body.len;
		if (raw->to_come == 0) {
			raw_got(raw, room);
			word = room;
		}
	} else {
		word = raw_word(frame, room);
	}
	if (word[0] != '\0') {
		snprintf(text, sizeof(text), "%c%d:%s", raw->name, frame->channel, word);
		see(text);
	}
	if (frame->type == AMQP_FRAME_METHOD && frame->method == AMQP_CHANNEL_CLOSE_METHOD)
		raw_closed(raw, frame->channel, frame->fields);
}

struct raw *
raw_new(unsigned node)
{
	static const struct amqp_host host = {
	    .host = "memory", .vhost = "/", .user = "raw", .password = ""};
	static const struct amqp_settings settings = {.heartbeat = 10};
	static struct amqp_counts counts;
	struct raw *raw = mem_alloc(sizeof(*raw));
	const struct amqp_link_config config = {.timers = rig.timers,
	    .settings = &settings,
	    .host = &host,
	    .name = "raw link",
	    .counts = &counts};
	const struct amqp_link_events events = {.vet = raw_vet,
	    .up = raw_up,
	    .frame = raw_frame,
	    .blocked = raw_blocked,
	    .dead = raw_dead,
	    .ctx = raw};
	const struct amqp_dialer *dialer;

	raw->name = SLIST_EMPTY(&raws) ? 'a' : (char)(SLIST_FIRST(&raws)->name + 1);
	raw->broker = rig_broker_new(2047);
	memory_broker_set_node(raw->broker, node);
	dialer = broker_dialer(raw->broker);
	raw->link = dialer->connect(dialer->ctx, &config, &events);
	SLIST_INSERT_HEAD(&raws, raw, entry);
	run();
	raw_open(raw, 1);
	run();
	return raw;
}

void
raw_end(struct raw *raw)
{
	SLIST_REMOVE(&raws, raw, raw, entry);
	amqp_link_free(raw->link);
	broker_free(raw->broker);
	free(raw);
}

uint64_t
raw_number(const struct raw *raw)
{
	return memory_broker_connection(raw->broker, BROKER_AUXILIARY);
}

void
raw_open(struct raw *raw, uint16_t channel)
{
	amqp_channel_open_t open = {.out_of_band = amqp_empty_bytes};

	amqp_link_send(raw->link, channel, AMQP_CHANNEL_OPEN_METHOD, &open);
}

void
raw_declare(struct raw *raw, uint16_t channel, const char *queue, enum raw_declare how)
{
	amqp_table_entry_t entries[] = {
	    amqp_entry_number("x-max-length", 0),
	    amqp_entry_text("x-overflow", "reject-publish"),
	    amqp_entry_number("x-expires", RAW_EXPIRES),
	};
	amqp_table_entry_t quorum[] = {
	    amqp_entry_text("x-queue-type", "quorum"),
	    amqp_entry_true("x-single-active-consumer"),
	    amqp_entry_number("x-delivery-limit", -1),
	};
	amqp_queue_declare_t declare = {
	    .queue = amqp_cstring_bytes(queue),
	    .passive = how == RAW_PASSIVE,
	    .exclusive = how == RAW_EXCLUSIVE,
	    .durable = how >= RAW_DURABLE,
	    .arguments = {.num_entries = how == RAW_MUTEX    ? 3
					 : how == RAW_HOLDER ? 2
							     : 0,
		.entries = entries},
	};

	if (how >= RAW_QUORUM)
		declare.arguments =
		    (amqp_table_t){.num_entries = how == RAW_QUORUM ? 3 : 2, .entries = quorum};
	amqp_link_send(raw->link, channel, AMQP_QUEUE_DECLARE_METHOD, &declare);
}

void
raw_consume(struct raw *raw, uint16_t channel, const char *queue, bool exclusive)
{
	amqp_basic_consume_t consume = {
	    .queue = amqp_cstring_bytes(queue),
	    .consumer_tag = amqp_cstring_bytes("h"),
	    .no_ack = 1,
	    .exclusive = exclusive,
	};

	amqp_link_send(raw->link, channel, AMQP_BASIC_CONSUME_METHOD, &consume);
}

void
raw_cancel(struct raw *raw, uint16_t channel, const char *tag)
{
	amqp_basic_cancel_t cancel = {.consumer_tag = amqp_cstring_bytes(tag)};

	amqp_link_send(raw->link, channel, AMQP_BASIC_CANCEL_METHOD, &cancel);
}

void
raw_delete(struct raw *raw, uint16_t channel, const char *queue, enum raw_if condition)
{
	amqp_queue_delete_t delete = {
	    .queue = amqp_cstring_bytes(queue),
	    .if_unused = (condition & RAW_IF_UNUSED) != 0,
	    .if_empty = (condition & RAW_IF_EMPTY) != 0,
	};

	amqp_link_send(raw->link, channel, AMQP_QUEUE_DELETE_METHOD, &delete);
}

void
raw_get(struct raw *raw, uint16_t channel, const char *queue)
{
	amqp_basic_get_t get = {.queue = amqp_cstring_bytes(queue)};

	amqp_link_send(raw->link, channel, AMQP_BASIC_GET_METHOD, &get);
}

void
raw_confirm(struct raw *raw, uint16_t channel)
{
	amqp_link_send(raw->link, channel, AMQP_CONFIRM_SELECT_METHOD, &(amqp_confirm_select_t){0});
}

void
raw_publish(struct raw *raw, uint16_t channel, const char *queue)
{
	amqp_basic_publish_t publish = {
	    .exchange = amqp_empty_bytes, .routing_key = amqp_cstring_bytes(queue), .mandatory = 1};
	amqp_basic_properties_t properties = {0};

	amqp_link_publish(raw->link, channel, &publish, &properties, amqp_cstring_bytes("m"));
}

void
raw_put(struct raw *raw, uint16_t channel, const char *queue, const char *body)
{
	amqp_table_entry_t header = amqp_entry_text("h", body);
	amqp_basic_publish_t publish = {
	    .exchange = amqp_empty_bytes, .routing_key = amqp_cstring_bytes(queue)};
	amqp_basic_properties_t properties = {
	    ._flags = AMQP_BASIC_HEADERS_FLAG,
	    .headers = {.num_entries = 1, .entries = &header},
	};

	amqp_link_publish(raw->link, channel, &publish, &properties, amqp_cstring_bytes(body));
}

void
raw_attach(struct raw *raw, uint16_t channel, const char *queue)
{
	amqp_basic_consume_t consume = {
	    .queue = amqp_cstring_bytes(queue), .consumer_tag = amqp_cstring_bytes("h")};

	raw->wants_header = true;
	amqp_link_send(raw->link, channel, AMQP_BASIC_CONSUME_METHOD, &consume);
}

void
raw_reject(struct raw *raw, uint16_t channel, unsigned tag)
{
	amqp_basic_reject_t reject = {.delivery_tag = tag, .requeue = true};

	amqp_link_send(raw->link, channel, AMQP_BASIC_REJECT_METHOD, &reject);
}

void
raw_ack(struct raw *raw, uint16_t channel, unsigned tag)
{
	amqp_basic_ack_t ack = {.delivery_tag = tag};

	amqp_link_send(raw->link, channel, AMQP_BASIC_ACK_METHOD, &ack);
}

void
raw_close(struct raw *raw, uint16_t channel)
{
	amqp_channel_close_t close = {.reply_code = AMQP_REPLY_SUCCESS};

	amqp_link_send(raw->link, channel, AMQP_CHANNEL_CLOSE_METHOD, &close);
}

/* ---- fixtures ---- */

/* One seed gives one name of an inbox, so no two brokers may have the same. */
static uint64_t seeds;

struct broker *
rig_broker_new_at(struct timers *timers, unsigned channels_max)
{
	struct broker *broker = memory_broker_new_at(world, timers, 10, channels_max, ++seeds);
	struct broker_events events = {.link = on_link,
	    .channel_closed = on_channel_closed,
	    .watch = on_watch,
	    .wait_queue = on_line,
	    .asked = on_asked,
	    .replied = on_replied,
	    .ctx = broker};

	broker_set_events(broker, &events);
	return broker;
}

struct broker *
rig_broker_new(unsigned channels_max)
{
	return rig_broker_new_at(rig.timers, channels_max);
}

void
rig_new(const struct memory_behaviour *behaviour)
{
	static const struct memory_behaviour planned = {
	    .delay = planned_delay, .silent = planned_silence, .unheard = planned_deafness};

	rig = (struct rig){.now = 1000 * NSEC_PER_SEC};
	seeds = 0;
	rig.timers = timers_new(&rig_clock);
	world = memory_world_new(rig.timers, behaviour == NULL ? &planned : behaviour);
	one = rig_broker_new(rig_channels_of_one);
	two = rig_broker_new(2047);
}

void
rig_start(void)
{
	rig.in_call = true;
	broker_start(one);
	broker_start(two);
	rig.in_call = false;
	run();
	ck_saw("locks:up two.locks:up");
}

void
rig_free(void)
{
	while (!SLIST_EMPTY(&raws))
		raw_end(SLIST_FIRST(&raws));
	broker_free(one);
	broker_free(two);
	memory_world_free(world);
	ck_assert_int_eq(timers_next(rig.timers), INT64_MAX);
	timers_free(rig.timers);
	rig_channels_of_one = CHANNELS_OF_ONE;
}

void
rig_setup(void)
{
	rig_new(NULL);
	rig_start();
}

void
rig_setup_unstarted(void)
{
	rig_new(NULL);
}

void
rig_teardown(void)
{
	rig_free();
	ck_saw("");
}

/* A link is made anew at the earliest a nanosecond after its death. */
#define AT_ONCE 8

void
run(void)
{
	pass(AT_ONCE);
}

void
pass(int64_t ns)
{
	int64_t until = rig.now + (ns > 0 ? ns : AT_ONCE);

	while (timers_next(rig.timers) <= until) {
		if (timers_next(rig.timers) > rig.now)
			rig.now = timers_next(rig.timers);
		timers_run(rig.timers);
	}
	rig.now = until;
}

/* ---- calls of the seam ---- */

struct broker_done
done(uint64_t id)
{
	return (struct broker_done){.fn = on_done, .id = id};
}

void
claim(struct broker *broker, uint64_t channel, const char *queue, uint64_t id)
{
	rig.in_call = true;
	broker_claim(broker, channel, BROKER_BY_QUEUE, queue, done(id));
	rig.in_call = false;
}

void
check(struct broker *broker, uint64_t channel, const char *queue, uint64_t id)
{
	rig.in_call = true;
	broker_check(broker, channel, queue, done(id));
	rig.in_call = false;
}

void
drop(struct broker *broker, uint64_t channel, const char *queue, uint64_t id)
{
	rig.in_call = true;
	broker_drop(broker, channel, BROKER_BY_QUEUE, queue, true, done(id));
	rig.in_call = false;
}

void
declare_slot(struct broker *broker, uint64_t channel, const char *queue, uint64_t id)
{
	rig.in_call = true;
	broker_declare_slot(broker, channel, queue, done(id));
	rig.in_call = false;
}

void
delete_slot(struct broker *broker, uint64_t channel, const char *queue, uint64_t id)
{
	rig.in_call = true;
	broker_delete_slot(broker, channel, queue, done(id));
	rig.in_call = false;
}

void
declare_marker(struct broker *broker, uint64_t channel, const char *queue, uint64_t id)
{
	rig.in_call = true;
	broker_declare_marker(broker, channel, queue, done(id));
	rig.in_call = false;
}

static struct broker_names_done
names_done(uint64_t id)
{
	return (struct broker_names_done){.fn = on_names, .id = id};
}

void
read_names(struct broker *broker, const char *queue, uint64_t id)
{
	rig.in_call = true;
	broker_directory_read(broker, queue, names_done(id));
	rig.in_call = false;
}

void
enter_name(struct broker *broker, const char *queue, const char *name, uint64_t id)
{
	rig.in_call = true;
	broker_directory_enter(broker, queue, name, names_done(id));
	rig.in_call = false;
}

void
leave_name(struct broker *broker, const char *queue, const char *name, uint64_t id)
{
	rig.in_call = true;
	broker_directory_leave(broker, queue, name, names_done(id));
	rig.in_call = false;
}

void
probe(struct broker *broker, const char *const *queues, size_t count, uint64_t id)
{
	struct broker_question questions[BROKER_PROBE_MAX];

	for (size_t i = 0; i < count; i++)
		questions[i] = (struct broker_question){queues[i], BROKER_ASK_EXISTENCE};
	rig.in_call = true;
	broker_probe(
	    broker, questions, count, (struct broker_probe_done){.fn = on_probe, .id = id});
	rig.in_call = false;
}

uint64_t
take(struct broker *broker, enum broker_link link)
{
	uint64_t channel;

	rig.in_call = true;
	channel = broker_channel_take(broker, link);
	rig.in_call = false;
	return channel;
}

void
watch(struct broker *broker, const char *queue)
{
	rig.in_call = true;
	broker_watch(broker, queue);
	rig.in_call = false;
}

void
unwatch(struct broker *broker, const char *queue)
{
	rig.in_call = true;
	broker_unwatch(broker, queue);
	rig.in_call = false;
}

void
join(struct broker *broker, const char *queue, int priority, unsigned credit)
{
	rig.in_call = true;
	broker_wait_queue_join(broker, queue, priority, credit);
	rig.in_call = false;
}

void
leave(struct broker *broker, const char *queue, int priority)
{
	rig.in_call = true;
	broker_wait_queue_leave(broker, queue, priority);
	rig.in_call = false;
}

void
wake(struct broker *broker, const char *queue, int slot)
{
	rig.in_call = true;
	broker_wait_queue_wake(broker, queue, slot);
	rig.in_call = false;
}

void
count(struct broker *broker, const char *queue, uint64_t id)
{
	rig.in_call = true;
	broker_wait_queue_count(
	    broker, queue, (struct broker_count_done){.fn = on_count, .id = id});
	rig.in_call = false;
}

uint64_t
ask(struct broker *broker, const char *text)
{
	uint64_t number;

	rig.in_call = true;
	number = broker_ask(broker, text, strlen(text));
	rig.in_call = false;
	return number;
}

void
reply(struct broker *broker, uint64_t from, const char *text)
{
	rig.in_call = true;
	broker_reply_to(broker, from, text, strlen(text));
	rig.in_call = false;
}

bool
exists(const char *queue)
{
	return memory_world_has(world, queue, NULL);
}

const struct broker *
owner_of(const char *queue)
{
	const struct broker *owner = NULL;

	ck_assert(memory_world_has(world, queue, &owner));
	return owner;
}

TCase *
rig_tcase(Suite *suite, const char *name)
{
	TCase *tcase = tcase_create(name);

	tcase_add_checked_fixture(tcase, rig_setup, rig_teardown);
	suite_add_tcase(suite, tcase);
	return tcase;
}
