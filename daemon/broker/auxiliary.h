/*
 * Everything that is done over the auxiliary connection but for requests on channels: probes, the directory,
 * watches, wait queues, daemon messages. One list of them, so that all hear when the link comes, goes, or is
 * blocked.
 */
#ifndef BROKER_AUXILIARY_H
#define BROKER_AUXILIARY_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/backoff.h"
#include "daemon/broker/channel.h"

struct amqp_counters;
struct amqp_directory;
struct amqp_hints;
struct amqp_mailbox;
struct amqp_wait_queues;
struct amqp_probes;
struct amqp_watches;

struct amqp_auxiliary {
	struct amqp_probes *probes; /* owned, as all here */
	struct amqp_directory *directory;
	struct amqp_watches *watches;
	struct amqp_wait_queues *wait_queues;
	struct amqp_hints *hints;
	struct amqp_counters *counters;
	struct amqp_mailbox *mailbox;
};

struct amqp_auxiliary_config {
	struct timers *timers;          /* borrowed, as all here */
	struct amqp_channels *channels; /* the auxiliary connection's */
	struct jitter *jitter;
	const struct amqp_settings *settings;
	void (*watch_news)(void *ctx, const char *queue, enum broker_news news);
	void (*wait_queue_news)(void *ctx, const struct broker_wait_queue_event *event);
	void (*asked)(void *ctx, const struct broker_message *message);
	void (*replied)(void *ctx, const struct broker_message *message);
	void *ctx;
};

void amqp_auxiliary_init(
    struct amqp_auxiliary *auxiliary, const struct amqp_auxiliary_config *config);
void amqp_auxiliary_done(struct amqp_auxiliary *auxiliary); /* before channels */
/* From now on nobody is answered or told anything. */
void amqp_auxiliary_silence(struct amqp_auxiliary *auxiliary);

/* Somebody waits for an answer that the link is needed for, or for news. */
bool amqp_auxiliary_in_use(const struct amqp_auxiliary *auxiliary);
/* Of those, who stays when the link goes: it is to be made anew for them. */
bool amqp_auxiliary_stays(const struct amqp_auxiliary *auxiliary);

/* After amqp_channels_attach: what waits is sent. user: who the link logged in as; NULL: not known. */
void amqp_auxiliary_go(struct amqp_auxiliary *auxiliary, const char *user);
/* After amqp_channels_fail; code: of connection.close, 0 = there was none. */
void amqp_auxiliary_fail(struct amqp_auxiliary *auxiliary, int code);
/* The link does not come up in time: who waits for an answer has waited enough. */
void amqp_auxiliary_give_up(struct amqp_auxiliary *auxiliary);
void amqp_auxiliary_block(struct amqp_auxiliary *auxiliary, bool blocked);

#endif
