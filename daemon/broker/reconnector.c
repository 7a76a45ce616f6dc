#include "daemon/broker/reconnector.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/broker/channel_internal.h"
#include "daemon/broker/internal.h"
#include "daemon/state/state.h"

/*
 * Contents:
 *	States and hosts: the host in words, and reconnector_set_state() with its log.
 *	The link's events: reconnector_plan_next() chooses time and host. reconnector_on_dead() ends all of a
 *	   link. reconnector_make_link() connects, or goes on with the link of an earlier program.
 *	Outside: amqp_reconnector_start() keeps it up. amqp_reconnector_need() and _rest() are for those on
 *	   demand.
 *	The successor, records of channels: channels_save() and channels_restore().
 *	The successor, the record of a connection: amqp_reconnector_save() and amqp_reconnector_resume().
 *	Life: also the questions about the state.
 *	The auxiliary connection on demand: amqp_auxiliary_need() before each use.
 */

/* After a link was up for so long, the backoff starts again. */
#define STEADY (10 * NSEC_PER_SEC)

struct amqp_reconnector {
	struct broker *broker; /* borrowed */
	enum broker_link which;
	struct amqp_reconnector_events events;
	struct amqp_channels *channels; /* owned */
	struct amqp_link *link;         /* owned; NULL = none */
	struct amqp_link *leaving;      /* owned; waits for close-ok; its events are ignored */
	struct amqp_counts counts;
	enum broker_state state;
	char *why;       /* owned */
	int code;        /* of the connection.close that ended the last link */
	char *host_text; /* owned; text of the host text_host; made when needed */
	size_t text_host;
	size_t host;
	bool keep;
	struct backoff backoff;
	bool first; /* lock connection: it was not up yet, and is in its first round of the hosts */
	bool died;  /* the last link that was up ended unexpectedly */
	uint64_t reconnects;
	int64_t up_since;
	int64_t not_before; /* clock time of the next try */
	struct timer retry; /* at not_before, while a try is wanted */
};

/* ---- states and hosts ---- */

/* Static. */
static const char *
reconnector_name(const struct amqp_reconnector *reconnector)
{
	return reconnector->which == BROKER_LOCKS       ? "lock connection"
	       : reconnector->which == BROKER_AUXILIARY ? "auxiliary connection"
							: "quorum connection";
}

static const struct amqp_host *
reconnector_current_host(const struct amqp_reconnector *reconnector)
{
	return &reconnector->broker->settings.hosts[reconnector->host];
}

bool
amqp_reconnector_is_tls(const struct amqp_reconnector *reconnector)
{
	return reconnector_current_host(reconnector)->tls;
}

const char *
amqp_reconnector_host_text(struct amqp_reconnector *reconnector)
{
	const struct amqp_host *host = reconnector_current_host(reconnector);

	if (reconnector->host_text != NULL && reconnector->text_host == reconnector->host)
		return reconnector->host_text;
	free(reconnector->host_text);
	reconnector->text_host = reconnector->host;
	if (host->port == 0)
		reconnector->host_text = mem_printf("%s:", host->host);
	else
		reconnector->host_text = mem_printf(
		    strchr(host->host, ':') != NULL ? "[%s]:%d" : "%s:%d", host->host, host->port);
	return reconnector->host_text;
}

/* Owns why. Returns whether state or reason is news. */
static bool
reconnector_set_state(struct amqp_reconnector *reconnector, enum broker_state state, char *why)
{
	bool news = state != reconnector->state || strcmp(why, reconnector->why) != 0;

	reconnector->state = state;
	free(reconnector->why);
	reconnector->why = why;
	return news;
}

static void
reconnector_log_state(struct amqp_reconnector *reconnector, bool news)
{
	if (reconnector->broker->settings.in_process)
		return;
	switch (reconnector->state) {
	case BROKER_UP:
		log_info("%s up: %s, %s %s, cluster %s, heartbeat %d s",
		    reconnector_name(reconnector), amqp_reconnector_host_text(reconnector),
		    reconnector->link->server.product, reconnector->link->server.version,
		    reconnector->link->server.cluster, reconnector->link->heartbeat);
		break;
	case BROKER_DOWN:
		if (news && reconnector->which == BROKER_LOCKS)
			log_warning("lock connection down: %s", reconnector->why);
		else if (news)
			log_info("%s down: %s", reconnector_name(reconnector), reconnector->why);
		else
			log_debug(
			    "%s still down: %s", reconnector_name(reconnector), reconnector->why);
		break;
	case BROKER_LOGIN_REFUSED:
		if (news)
			log_error("%s refused by the broker: %s", reconnector_name(reconnector),
			    reconnector->why);
		else
			log_debug("%s still refused: %s", reconnector_name(reconnector),
			    reconnector->why);
		break;
	}
}

static void
reconnector_tell(struct amqp_reconnector *reconnector, bool news)
{
	if (news && reconnector->events.changed != NULL)
		reconnector->events.changed(reconnector->events.ctx, reconnector->which,
		    reconnector->state, reconnector->why);
}

/* ---- the link's events ---- */

static char *
reconnector_on_vet(void *ctx, const struct amqp_server *server)
{
	struct amqp_reconnector *reconnector = ctx;

	return reconnector->events.vet(reconnector->events.ctx, server);
}

/* The channels are attached. */
static void
reconnector_tell_up(struct amqp_reconnector *reconnector)
{
	bool news = reconnector_set_state(reconnector, BROKER_UP, mem_strdup(""));

	reconnector->first = false;
	reconnector->up_since = broker_now(reconnector->broker);
	reconnector->reconnects += reconnector->died;
	reconnector->died = false;
	reconnector_log_state(reconnector, news);
	reconnector->events.up(reconnector->events.ctx, reconnector->which);
	reconnector_tell(reconnector, news);
}

static void
reconnector_on_up(void *ctx)
{
	struct amqp_reconnector *reconnector = ctx;

	amqp_channels_attach(reconnector->channels, reconnector->link);
	reconnector_tell_up(reconnector);
}

static void
reconnector_on_frame(void *ctx, const struct amqp_frame *frame)
{
	struct amqp_reconnector *reconnector = ctx;

	amqp_channels_frame(reconnector->channels, frame);
}

static void
reconnector_on_blocked(void *ctx, bool blocked, const char *why)
{
	struct amqp_reconnector *reconnector = ctx;

	if (reconnector->events.blocked != NULL)
		reconnector->events.blocked(
		    reconnector->events.ctx, reconnector->which, blocked, why);
}

/*
 * Decides time and host of the next try. After a link that was up for long, the backoff starts
 * again. In the first round, the next host is tried at once.
 */
static void
reconnector_plan_next(struct amqp_reconnector *reconnector, bool was_up)
{
	int64_t pause = 0;

	if (was_up && broker_now(reconnector->broker) - reconnector->up_since >= STEADY)
		backoff_reset(&reconnector->backoff);
	if (!was_up && reconnector->keep)
		reconnector->host =
		    (reconnector->host + 1) % reconnector->broker->settings.host_count;
	reconnector->first = reconnector->first && reconnector->host > 0;
	if (!reconnector->first)
		pause = backoff_next(&reconnector->backoff, &reconnector->broker->jitter);
	reconnector->not_before = broker_now(reconnector->broker) + pause;
	if (reconnector->keep)
		timers_set(
		    reconnector->broker->timers, &reconnector->retry, reconnector->not_before);
}

static void
reconnector_on_dead(void *ctx, struct amqp_link *link, bool refused, int code, const char *why)
{
	struct amqp_reconnector *reconnector = ctx;
	bool news, was_up = reconnector->state == BROKER_UP;

	if (link == reconnector->leaving) {
		reconnector->leaving = NULL;
		amqp_link_free(link);
		return;
	}
	assert(link == reconnector->link);
	reconnector->link = NULL;
	reconnector->died |= was_up;
	reconnector->code = code;
	if (code == AMQP_NOT_ALLOWED)
		amqp_channels_learn_limit(reconnector->channels);
	news = reconnector_set_state(reconnector, refused ? BROKER_LOGIN_REFUSED : BROKER_DOWN,
	    reconnector_current_host(reconnector)->port == 0
		? mem_strdup(why)
		: mem_printf("%s: %s", amqp_reconnector_host_text(reconnector), why));
	reconnector_log_state(reconnector, news);
	reconnector_plan_next(reconnector, was_up);
	amqp_channels_fail(reconnector->channels);
	reconnector->events.down(reconnector->events.ctx, reconnector->which);
	amqp_link_free(link);
	reconnector_tell(reconnector, news);
}

/* In the first round, one silent host must not take the time of the others. */
static int64_t
reconnector_try_until(const struct amqp_reconnector *reconnector)
{
	const struct amqp_settings *settings = &reconnector->broker->settings;

	if (!reconnector->first || reconnector->host + 1 == settings->host_count ||
	    settings->first_timeout == 0)
		return 0;
	return broker_now(reconnector->broker) + settings->first_timeout;
}

/* saved: of an earlier program; NULL: a new link. */
static void
reconnector_make_link(struct amqp_reconnector *reconnector, const struct amqp_link_saved *saved)
{
	enum broker_link which = reconnector->which;
	const struct amqp_link_config config = {
	    .timers = reconnector->broker->timers,
	    .settings = &reconnector->broker->settings,
	    .host = reconnector_current_host(reconnector),
	    .until = reconnector_try_until(reconnector),
	    .name = reconnector_name(reconnector),
	    .role = which >= BROKER_QUORUM      ? AMQP_LINK_QUORUM
		    : which == BROKER_AUXILIARY ? AMQP_LINK_AUXILIARY
						: AMQP_LINK_LOCKS,
	    .number = which >= BROKER_QUORUM ? which - BROKER_QUORUM : 0,
	    .counts = &reconnector->counts,
	};
	const struct amqp_link_events events = {
	    .vet = reconnector_on_vet,
	    .up = reconnector_on_up,
	    .frame = reconnector_on_frame,
	    .blocked = reconnector_on_blocked,
	    .dead = reconnector_on_dead,
	    .ctx = reconnector,
	};
	const struct amqp_dialer *dialer = &reconnector->broker->dialer;

	assert(reconnector->link == NULL);
	timers_cancel(reconnector->broker->timers, &reconnector->retry);
	reconnector->link = saved == NULL ? dialer->connect(dialer->ctx, &config, &events)
					  : dialer->resume(dialer->ctx, &config, &events, saved);
}

static void
reconnector_on_retry(void *ctx, uint64_t id)
{
	(void)id;
	reconnector_make_link(ctx, NULL);
}

/* ---- outside ---- */

void
amqp_reconnector_start(struct amqp_reconnector *reconnector)
{
	reconnector->keep = reconnector->first = true;
	if (reconnector_current_host(reconnector)->port != 0) {
		free(reconnector->why);
		reconnector->why =
		    mem_printf("%s: not connected yet", amqp_reconnector_host_text(reconnector));
	}
	reconnector_make_link(reconnector, NULL);
}

void
amqp_reconnector_need(struct amqp_reconnector *reconnector, size_t host)
{
	if (reconnector->link != NULL)
		return;
	reconnector->host = host;
	if (broker_now(reconnector->broker) >= reconnector->not_before)
		reconnector_make_link(reconnector, NULL);
	else if (!timer_is_set(&reconnector->retry))
		timers_set(
		    reconnector->broker->timers, &reconnector->retry, reconnector->not_before);
}

void
amqp_reconnector_rest(struct amqp_reconnector *reconnector, const char *why)
{
	bool news;

	assert(reconnector->state == BROKER_UP && !amqp_channels_in_use(reconnector->channels));
	/* The link died just now, which the loop will report. */
	if (reconnector->link->state != AMQP_LINK_UP)
		return;
	amqp_link_free(reconnector->leaving);
	reconnector->leaving = reconnector->link;
	reconnector->link = NULL;
	amqp_link_close(reconnector->leaving);
	reconnector->code = 0;
	news = reconnector_set_state(reconnector, BROKER_DOWN, mem_strdup(why));
	reconnector_log_state(reconnector, news);
	amqp_channels_fail(reconnector->channels);
	reconnector->events.down(reconnector->events.ctx, reconnector->which);
	reconnector_tell(reconnector, news);
}

bool
amqp_reconnector_drop(struct amqp_reconnector *reconnector, const char *why)
{
	timers_cancel(reconnector->broker->timers, &reconnector->retry);
	if (reconnector->link == NULL)
		return false;
	amqp_link_drop(reconnector->link, why);
	return true;
}

/* ---- the successor, records of channels ---- */

struct channel_record {
	int number;
	uint64_t id; /* 0: idle */
	int consumer;
};

static const struct state_field channel_fields[] = {
    STATE_RANGE(channel_record, number, 1, UINT16_MAX),
    STATE_FIELD(channel_record, id, STATE_NUMBER),
    STATE_RANGE(channel_record, consumer, CONSUMER_NEVER, CONSUMER_ENDED),
    {0},
};

struct channels_record {
	uint64_t serial;
	int limit;
};

static const struct state_field channels_fields[] = {
    STATE_FIELD(channels_record, serial, STATE_NUMBER),
    STATE_RANGE(channels_record, limit, 0, UINT16_MAX),
    {0},
};

/* Of a quorum connection, which has no other channels than raw ones. */
struct raw_record {
	int number;
	int64_t closing_at; /* 0: it is open */
};

static const struct state_field raw_fields[] = {
    STATE_RANGE(raw_record, number, 1, UINT16_MAX),
    STATE_FIELD(raw_record, closing_at, STATE_SIGNED),
    {0},
};

static bool
channels_are_raw(const struct amqp_channels *channels)
{
	return channels->which >= BROKER_QUORUM;
}

/*
 * Whether no request of a channel is unanswered and no channel is being opened or closed, so that
 * the channels can be saved. A raw channel of a quorum connection may be closing.
 */
static bool
channels_are_still(const struct amqp_channels *channels)
{
	const struct channel *channel;

	if (!TAILQ_EMPTY(&channels->in_order) || !TAILQ_EMPTY(&channels->orphans))
		return false;
	TAILQ_FOREACH (channel, &channels->all, in_all) {
		/* One that never closes must not prevent the replacement. */
		if (channel->state != CHANNEL_OPEN &&
		    !(channels_are_raw(channels) && channel->state == CHANNEL_CLOSING))
			return false;
	}
	return true;
}

static void
channels_save_raw(const struct amqp_channels *channels, struct state_writer *writer)
{
	const struct channel *channel;

	TAILQ_FOREACH (channel, &channels->all, in_all) {
		const struct raw_record record = {
		    .number = channel->number, .closing_at = channel->closing_at};

		state_put(writer, "raw-channel", raw_fields, &record);
	}
}

/* Writes a record for each channel. They are still. */
static void
channels_save(const struct amqp_channels *channels, struct state_writer *writer)
{
	const struct channel *channel;

	state_put(writer, "channels", channels_fields,
	    &(struct channels_record){.serial = channels->serial, .limit = (int)channels->limit});
	if (channels_are_raw(channels)) {
		channels_save_raw(channels, writer);
		return;
	}
	TAILQ_FOREACH (channel, &channels->all, in_all) {
		const struct channel_record record = {.number = channel->number,
		    .id = channel->id,
		    .consumer = (int)channel->consumer};

		state_put(writer, "channel", channel_fields, &record);
	}
}

/* NULL: the number cannot be. */
static struct channel *
channels_restore_number(struct amqp_channels *channels, int number)
{
	struct numbers *numbers = &channels->numbers;
	struct channel *channel;

	if ((unsigned)number > numbers->max || numbers->user_of[number] != NULL)
		return NULL;
	channel = mem_alloc(sizeof(*channel));
	TAILQ_INIT(&channel->requests);
	TAILQ_INSERT_TAIL(&channels->all, channel, in_all);
	channel->state = CHANNEL_OPEN;
	channel->number = (uint16_t)number;
	numbers->user_of[number] = channel;
	numbers->used++;
	if (numbers->next < channel->number)
		numbers->next = channel->number;
	FAULT(RESTORED_NUMBER_UNUSED, numbers->user_of[number] = NULL; numbers->used--);
	return channel;
}

static bool
channels_restore_one(
    struct amqp_channels *channels, const struct channel_record *record, uint64_t serial)
{
	struct channel *channel;

	if (record->id >> 1 > serial || (record->id & 1) != 0 || record->consumer == CONSUMER_ASKED)
		return false;
	if (record->id != 0
		? amqp_channel_find(channels, record->id) != NULL
		: record->consumer == CONSUMER_ON || channels->idle_count == AMQP_CHANNELS_IDLE)
		return false;
	channel = channels_restore_number(channels, record->number);
	if (channel == NULL)
		return false;
	channel->consumer = (enum consumer_state)record->consumer;
	channel->id = record->id;
	if (channel->id != 0) {
		HASH_ADD(hh, channels->by_id, id, sizeof(channel->id), channel);
	} else {
		TAILQ_INSERT_TAIL(&channels->idle, channel, in_idle);
		channels->idle_count++;
	}
	return true;
}

static bool
channels_restore_raw(struct amqp_channels *channels, struct state_reader *reader)
{
	int64_t now = broker_now(channels->broker);
	struct raw_record record;
	struct channel *channel;

	while (state_is(reader, "raw-channel")) {
		if (!state_take(reader, "raw-channel", raw_fields, &record))
			return false;
		channel = record.closing_at >= 0 && record.closing_at <= now
			      ? channels_restore_number(channels, record.number)
			      : NULL;
		if (channel == NULL)
			return state_spoil(reader, "invalid record of a raw channel");
		channel->closing_at = record.closing_at;
		if (record.closing_at != 0)
			channel->state = CHANNEL_CLOSING;
	}
	return true;
}

/*
 * After amqp_channels_attach(), with no channel yet: reads these records. False: the reader has the
 * error.
 */
static bool
channels_restore(struct amqp_channels *channels, struct state_reader *reader)
{
	struct numbers *numbers = &channels->numbers;
	struct channels_record all;
	struct channel_record record;

	assert(channels->link != NULL && TAILQ_EMPTY(&channels->all));
	if (!state_take(reader, "channels", channels_fields, &all))
		return false;
	if (all.serial > UINT64_MAX >> 1)
		return state_spoil(reader, "the serial number is too large");
	if (channels_are_raw(channels) && !channels_restore_raw(channels, reader))
		return false;
	while (!channels_are_raw(channels) && state_is(reader, "channel")) {
		if (!state_take(reader, "channel", channel_fields, &record))
			return false;
		if (!channels_restore_one(channels, &record, all.serial))
			return state_spoil(reader, "invalid record of a channel");
	}
	for (unsigned number = numbers->next; number > 0; number--) {
		if (numbers->user_of[number] == NULL)
			numbers->free_again[numbers->free_count++] = (uint16_t)number;
	}
	channels->serial = all.serial;
	channels->limit = (unsigned)all.limit;
	return true;
}

/* ---- the successor, the record of a connection ---- */

/* The connection, its place in the configuration, and its server. */
struct link_record {
	const char *host, *vhost, *user;
	int port;
	struct amqp_link_saved link;
	const char *product, *version, *cluster;
	bool persistent, deletes_by_name, hides_queues;
};

#define LINK_FIELD(member, kind)                                                                   \
	{                                                                                          \
#member, kind, offsetof(struct link_record, link.member), 0, 0                     \
	}
#define LINK_RANGE(member, least, most)                                                            \
	{                                                                                          \
#member, STATE_INT, offsetof(struct link_record, link.member), least, most         \
	}

static const struct state_field link_fields[] = {
    STATE_FIELD(link_record, host, STATE_TEXT),
    STATE_RANGE(link_record, port, 0, UINT16_MAX),
    STATE_FIELD(link_record, vhost, STATE_TEXT),
    STATE_FIELD(link_record, user, STATE_TEXT),
    LINK_FIELD(fd, STATE_SOCKET),
    LINK_FIELD(connection, STATE_NUMBER),
    LINK_RANGE(channel_max, 1, UINT16_MAX),
    LINK_RANGE(frame_max, 0, AMQP_FRAME_MAX),
    LINK_RANGE(heartbeat, 1, UINT16_MAX),
    LINK_FIELD(input, STATE_BYTES),
    LINK_FIELD(output, STATE_BYTES),
    STATE_FIELD(link_record, product, STATE_TEXT),
    STATE_FIELD(link_record, version, STATE_TEXT),
    STATE_FIELD(link_record, cluster, STATE_TEXT),
    STATE_FIELD(link_record, persistent, STATE_BOOL),
    STATE_FIELD(link_record, deletes_by_name, STATE_BOOL),
    STATE_FIELD(link_record, hides_queues, STATE_BOOL),
    {0},
};

bool
broker_tried_all(const struct broker *broker)
{
	return !broker->locks->first;
}

bool
amqp_reconnector_is_still(const struct amqp_reconnector *reconnector)
{
	return reconnector->state == BROKER_UP && reconnector->link->state == AMQP_LINK_UP &&
	       channels_are_still(reconnector->channels);
}

bool
amqp_reconnector_save(struct amqp_reconnector *reconnector, struct state_writer *writer)
{
	const struct amqp_host *host = reconnector_current_host(reconnector);
	const struct amqp_server *server = &reconnector->link->server;
	struct link_record record = {
	    .host = host->host,
	    .port = host->port,
	    .vhost = host->vhost,
	    .user = host->user,
	    .product = server->product,
	    .version = server->version,
	    .cluster = server->cluster,
	    .persistent = server->persistent,
	    .deletes_by_name = server->deletes_by_name,
	    .hides_queues = server->hides_queues,
	};

	if (!amqp_link_save(reconnector->link, &record.link))
		return false;
	state_put(writer, "link", link_fields, &record);
	channels_save(reconnector->channels, writer);
	return true;
}

/* NULL is equal to "" alone. */
static bool
is_same_text(const char *a, const char *b)
{
	return strcmp(a != NULL ? a : "", b != NULL ? b : "") == 0;
}

/* False: the configuration has no such broker any more. */
static bool
reconnector_find_host(struct amqp_reconnector *reconnector, const struct link_record *record)
{
	const struct amqp_settings *settings = &reconnector->broker->settings;

	for (size_t i = 0; i < settings->host_count; i++) {
		const struct amqp_host *host = &settings->hosts[i];

		if (host->tls || host->port != record->port ||
		    !is_same_text(host->host, record->host) ||
		    !is_same_text(host->vhost, record->vhost) ||
		    !is_same_text(host->user, record->user))
			continue;
		reconnector->host = i;
		return true;
	}
	return false;
}

bool
amqp_reconnector_resume(struct amqp_reconnector *reconnector, struct state_reader *reader)
{
	struct link_record record;

	if (!state_take(reader, "link", link_fields, &record))
		return false;
	if (!reconnector_find_host(reconnector, &record))
		return state_spoil(reader, "the configuration does not have this broker");
	if (record.link.fd < 0 && record.link.connection == 0)
		return state_spoil(reader, "the connection to the broker did not arrive");
	reconnector->keep = reconnector->which == BROKER_LOCKS;
	reconnector_make_link(reconnector, &record.link);
	if (reconnector->link == NULL)
		return state_spoil(reader, "invalid record of the connection, or it is gone");
	reconnector->link->server = (struct amqp_server){
	    .product = mem_strdup(record.product != NULL ? record.product : ""),
	    .version = mem_strdup(record.version != NULL ? record.version : ""),
	    .cluster = mem_strdup(record.cluster != NULL ? record.cluster : ""),
	    .persistent = record.persistent,
	    .deletes_by_name = record.deletes_by_name,
	    .hides_queues = record.hides_queues,
	};
	amqp_channels_attach(reconnector->channels, reconnector->link);
	if (!channels_restore(reconnector->channels, reader))
		return false;
	reconnector_tell_up(reconnector);
	return true;
}

struct amqp_channels *
amqp_reconnector_channels(const struct amqp_reconnector *reconnector)
{
	return reconnector->channels;
}

enum broker_state
amqp_reconnector_state(const struct amqp_reconnector *reconnector)
{
	return reconnector->state;
}

const char *
amqp_reconnector_why(const struct amqp_reconnector *reconnector)
{
	return reconnector->why;
}

int
amqp_reconnector_code(const struct amqp_reconnector *reconnector)
{
	return reconnector->code;
}

size_t
amqp_reconnector_host(const struct amqp_reconnector *reconnector)
{
	return reconnector->host;
}

bool
amqp_reconnector_is_idle(const struct amqp_reconnector *reconnector)
{
	return reconnector->link == NULL && !timer_is_set(&reconnector->retry);
}

const struct amqp_link *
amqp_reconnector_link(const struct amqp_reconnector *reconnector)
{
	return reconnector->state == BROKER_UP ? reconnector->link : NULL;
}

const struct amqp_counts *
amqp_reconnector_counts(const struct amqp_reconnector *reconnector)
{
	return &reconnector->counts;
}

uint64_t
amqp_reconnector_count(const struct amqp_reconnector *reconnector)
{
	return reconnector->reconnects;
}

/* ---- life ---- */

struct amqp_reconnector *
amqp_reconnector_new(
    struct broker *broker, enum broker_link which, const struct amqp_reconnector_events *events)
{
	struct amqp_reconnector *reconnector = mem_alloc(sizeof(*reconnector));

	reconnector->broker = broker;
	reconnector->which = which;
	reconnector->events = *events;
	reconnector->channels = amqp_channels_new(broker, which, &reconnector->counts);
	reconnector->state = BROKER_DOWN;
	reconnector->why = mem_strdup("not connected yet");
	reconnector->not_before = INT64_MIN;
	backoff_init(
	    &reconnector->backoff, broker->settings.backoff_first, broker->settings.backoff_most);
	timer_init(&reconnector->retry, reconnector_on_retry, reconnector, 0);
	return reconnector;
}

void
amqp_reconnector_quit(struct amqp_reconnector *reconnector)
{
	timers_cancel(reconnector->broker->timers, &reconnector->retry);
	if (reconnector->link != NULL)
		amqp_link_quit(reconnector->link);
	if (reconnector->leaving != NULL)
		amqp_link_quit(reconnector->leaving);
}

void
amqp_reconnector_free(struct amqp_reconnector *reconnector)
{
	if (reconnector == NULL)
		return;
	amqp_reconnector_quit(reconnector);
	amqp_channels_free(reconnector->channels);
	amqp_link_free(reconnector->link);
	amqp_link_free(reconnector->leaving);
	free(reconnector->why);
	free(reconnector->host_text);
	free(reconnector);
}

/* ---- the auxiliary connection on demand ---- */

void
amqp_auxiliary_use(struct broker *broker)
{
	broker->auxiliary_used = broker_now(broker);
}

void
amqp_auxiliary_need(struct broker *broker)
{
	if (broker->stopped)
		return;
	amqp_auxiliary_use(broker);
	if (amqp_reconnector_state(broker->locks) == BROKER_UP) {
		timers_cancel(broker->timers, &broker->auxiliary_wait);
		amqp_reconnector_need(broker->auxiliary, amqp_reconnector_host(broker->locks));
	} else if (amqp_reconnector_is_idle(broker->auxiliary) &&
		   !timer_is_set(&broker->auxiliary_wait)) {
		timers_set(broker->timers, &broker->auxiliary_wait,
		    broker->auxiliary_used + broker->settings.connect_timeout);
	}
}
