#include "daemon/broker/broker.h"

#include <string.h>

const char *
broker_state_word(enum broker_state state)
{
	switch (state) {
	case BROKER_DOWN:
		return "down";
	case BROKER_UP:
		return "up";
	case BROKER_DENIED:
		return "denied";
	}
	return "?";
}

bool
broker_is_name(const void *body, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (((const char *)body)[i] < ' ' || ((const char *)body)[i] > '~')
			return false;
	}
	return len > 0 && len <= BROKER_NAME_MAX;
}

uint64_t
broker_number(const char *text)
{
	uint64_t number = 0;

	if (strlen(text) > 19 || strspn(text, "0123456789") != strlen(text))
		return 0;
	for (; *text != '\0'; text++)
		number = 10 * number + (uint64_t)(*text - '0');
	return number;
}

char *
broker_number_text(char room[BROKER_NUMBER_TEXT], uint64_t number)
{
	char *at = room + BROKER_NUMBER_TEXT - 1;

	*at = '\0';
	do {
		*--at = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	return at;
}

int
broker_hint_slot(const char *text)
{
	int slot = 0;

	for (; *text != '\0'; text++) {
		if (*text < '0' || *text > '9' || slot > 10 * 1000)
			return 0;
		slot = 10 * slot + (*text - '0');
	}
	return slot;
}

static const struct broker_ops *
ops_of(const struct broker *broker)
{
	return ((const struct broker_base *)broker)->ops;
}

void
broker_set_events(struct broker *broker, const struct broker_events *events)
{
	((struct broker_base *)broker)->events = *events;
}

void
broker_start(struct broker *broker)
{
	ops_of(broker)->start(broker);
}

void
broker_stop(struct broker *broker)
{
	ops_of(broker)->stop(broker);
}

void
broker_free(struct broker *broker)
{
	if (broker == NULL)
		return;
	ops_of(broker)->stop(broker);
	ops_of(broker)->free(broker);
}

void
broker_reset(struct broker *broker, enum broker_link link, const char *why)
{
	ops_of(broker)->reset(broker, link, why);
}

void
broker_watch(struct broker *broker, const char *queue)
{
	ops_of(broker)->watch(broker, queue);
}

void
broker_unwatch(struct broker *broker, const char *queue)
{
	ops_of(broker)->unwatch(broker, queue);
}

void
broker_get_info(const struct broker *broker, struct broker_info *ret)
{
	ops_of(broker)->get_info(broker, ret);
}

uint64_t
broker_lane_take(struct broker *broker, enum broker_link link)
{
	return ops_of(broker)->lane_take(broker, link);
}

void
broker_lane_put(struct broker *broker, uint64_t lane)
{
	ops_of(broker)->lane_put(broker, lane);
}

void
broker_claim(struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	ops_of(broker)->claim(broker, lane, queue, done);
}

void
broker_check(struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	ops_of(broker)->check(broker, lane, queue, done);
}

void
broker_drop(struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	ops_of(broker)->drop(broker, lane, queue, done);
}

void
broker_declare_slot(
    struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	ops_of(broker)->declare_slot(broker, lane, queue, done);
}

void
broker_declare_marker(
    struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	ops_of(broker)->declare_marker(broker, lane, queue, done);
}

void
broker_delete_slot(struct broker *broker, uint64_t lane, const char *queue, struct broker_done done)
{
	ops_of(broker)->delete_slot(broker, lane, queue, done);
}

void
broker_directory_read(struct broker *broker, const char *queue, struct broker_names_done done)
{
	ops_of(broker)->directory_read(broker, queue, done);
}

void
broker_directory_enter(
    struct broker *broker, const char *queue, const char *name, struct broker_names_done done)
{
	ops_of(broker)->directory_enter(broker, queue, name, done);
}

void
broker_directory_leave(
    struct broker *broker, const char *queue, const char *name, struct broker_names_done done)
{
	ops_of(broker)->directory_leave(broker, queue, name, done);
}

void
broker_probe(
    struct broker *broker, const char *const *queues, size_t count, struct broker_probe_done done)
{
	ops_of(broker)->probe(broker, queues, count, done);
}

void
broker_line_join(struct broker *broker, const char *queue, int priority, unsigned credit)
{
	ops_of(broker)->line_join(broker, queue, priority, credit);
}

void
broker_line_leave(struct broker *broker, const char *queue, int priority)
{
	ops_of(broker)->line_leave(broker, queue, priority);
}

void
broker_line_wake(struct broker *broker, const char *queue, int slot)
{
	ops_of(broker)->line_wake(broker, queue, slot);
}

void
broker_line_count(struct broker *broker, const char *queue, struct broker_count_done done)
{
	ops_of(broker)->line_count(broker, queue, done);
}

void
broker_inbox_open(struct broker *broker)
{
	ops_of(broker)->inbox_open(broker);
}

void
broker_inbox_close(struct broker *broker)
{
	ops_of(broker)->inbox_close(broker);
}

uint64_t
broker_ask(struct broker *broker, const char *text, size_t len)
{
	return ops_of(broker)->ask(broker, text, len);
}

void
broker_reply_to(struct broker *broker, uint64_t from, const char *text, size_t len)
{
	ops_of(broker)->reply_to(broker, from, text, len);
}
