/* The channels of a connection in the state for a successor (channel.h). */
#include <assert.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/broker/channel_internal.h"
#include "daemon/state/state.h"

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

bool
amqp_channels_are_still(const struct amqp_channels *channels)
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

void
amqp_channels_save(const struct amqp_channels *channels, struct state_writer *writer)
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
	int64_t now = clock_now(timers_clock(channels->broker->timers));
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

bool
amqp_channels_restore(struct amqp_channels *channels, struct state_reader *reader)
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

size_t
amqp_channels_taken(const struct amqp_channels *channels)
{
	return HASH_COUNT(channels->by_id);
}

bool
amqp_channels_restore_to_hold(struct amqp_channels *channels, uint64_t id, bool consumes)
{
	struct channel *channel = amqp_channel_find(channels, id);

	if (channel == NULL || channel->restored || (channel->consumer == CONSUMER_ON) != consumes)
		return false;
	channel->restored = true;
	return true;
}

bool
amqp_channels_resume_raw(
    struct amqp_channels *channels, uint16_t number, const struct amqp_raw_handler *handler)
{
	struct numbers *numbers = &channels->numbers;
	struct channel *channel = number <= numbers->max ? numbers->user_of[number] : NULL;

	if (channel == NULL || channel->state != CHANNEL_OPEN || channel->handler != NULL)
		return false;
	channel->handler = handler;
	return true;
}

void
amqp_channels_drop_unused(struct amqp_channels *channels)
{
	static const struct amqp_raw_handler nobody;
	struct channel *channel;

	TAILQ_FOREACH (channel, &channels->all, in_all) {
		if (channel->state != CHANNEL_OPEN || channel->handler != NULL)
			continue;
		channel->handler = &nobody;
		amqp_channels_drop_raw(channels, channel->number);
	}
}
