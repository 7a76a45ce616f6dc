/*
 * The modules that use the auxiliary connection with channels of their own: probes, the directory,
 * watches, wait queues, hints, counts and daemon messages. This list owns them, and passes on that
 * the link is up, ended or blocked. It knows nothing of their work.
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
	struct timers *timers;          /* borrowed, as all pointers here */
	struct amqp_channels *channels; /* of the auxiliary connection */
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
void amqp_auxiliary_done(struct amqp_auxiliary *auxiliary); /* before its channels */
/* No callback is called after this. */
void amqp_auxiliary_silence(struct amqp_auxiliary *auxiliary);

/* Whether a module needs the link: for an answer, or for news. */
bool amqp_auxiliary_in_use(const struct amqp_auxiliary *auxiliary);
/* Whether a module still needs a link after this one ended: the link is then made again. */
bool amqp_auxiliary_stays(const struct amqp_auxiliary *auxiliary);

/*
 * After amqp_channels_attach(): sends the waiting requests. user: the login of the link; NULL: not
 * known.
 */
void amqp_auxiliary_go(struct amqp_auxiliary *auxiliary, const char *user);
/* After amqp_channels_fail(). code: of connection.close, 0 = there was none. */
void amqp_auxiliary_fail(struct amqp_auxiliary *auxiliary, int code);
/* The link does not come up in time: answers the waiting requests. */
void amqp_auxiliary_give_up(struct amqp_auxiliary *auxiliary);
/* connection.blocked: modules publish nothing until the alarm ends. */
void amqp_auxiliary_block(struct amqp_auxiliary *auxiliary, bool blocked);

#endif
