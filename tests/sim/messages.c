#include "tests/sim/messages.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/check.h"

/* Some take several frames. */
#define TEXT_MOST 20000
#define TEXT_USUAL 100
#define QUESTION "question "
#define REPLY "reply "
/* A message is delivered, and answered, within so long, when all is well. */
#define DAEMON_MESSAGE_TIME (500 * NSEC_PER_MSEC)
/* An inbox that was refused is opened again within so long. */
#define OPENED_AGAIN (46 * NSEC_PER_SEC)

/*
 * The text of a daemon's message of that number: as long as chance will have it, the same each
 * time.
 */
static size_t
write_text(char text[TEXT_MOST], const char *kind, int daemon, uint64_t number)
{
	struct dice dice = {.state = number << 8 | (uint64_t)daemon};
	size_t most = dice_percent(&dice, 10) ? TEXT_MOST - 1 : TEXT_USUAL;
	size_t len = (size_t)snprintf(text, TEXT_MOST, "%s%d %" PRIu64 " ", kind, daemon, number);
	size_t wanted = (size_t)dice_below(&dice, most + 1);

	for (; len < wanted; len++)
		text[len] = (char)('a' + (len + number) % 26);
	text[len] = '\0';
	return len;
}

static bool
is_text(const struct broker_message *message, const char *kind, int daemon, uint64_t number)
{
	char text[TEXT_MOST];
	size_t len = write_text(text, kind, daemon, number);

	return message->len == len && memcmp(message->text, text, len + 1) == 0;
}

void
messages_start(struct sim_daemon *daemon)
{
	if (daemon->sim->plan.messages)
		broker_inbox_open(daemon->broker);
}

static void
ask(struct sim *sim, struct sim_daemon *daemon)
{
	char text[TEXT_MOST];
	size_t len = write_text(text, QUESTION, daemon->number, daemon->last_message + 1);

	/* The daemon learns the number of the query afterwards: so the queries are counted here, too. */
	if (broker_ask(daemon->broker, text, len) == 0)
		return;
	daemon->last_message++;
	daemon->replies = 0;
	NOTE(sim, .text = "{d} asks all, {n}", .daemon = daemon->number,
	    .n = (int64_t)daemon->last_message);
}

void
messages_step(struct sim *sim)
{
	if (sim->plan.messages && dice_percent(&sim->dice, 10))
		ask(sim, &sim->daemons[dice_below(&sim->dice, (uint64_t)sim->plan.daemons)]);
}

void
messages_asked(struct sim_daemon *daemon, const struct broker_message *message)
{
	struct sim *sim = daemon->sim;
	char text[TEXT_MOST];
	uint64_t number = 0;
	int asker = -1;

	sim->truth.moment++;
	sscanf(message->text, QUESTION "%d %" SCNu64, &asker, &number);
	NOTE(sim, .text = "{d} is asked {m} by daemon {n}", .daemon = daemon->number,
	    .n = asker + 1, .m = (int64_t)number);
	if (!is_text(message, QUESTION, asker, number))
		check_fail(sim, 0, "daemon %d got an incomplete query", daemon->number + 1);
	/* From a link that the world thought alive it may come to the inbox of the next one. */
	else if (asker == daemon->number && sim->now >= sim->waits.settled)
		check_fail(sim, 0, "daemon %d got its own query", daemon->number + 1);
	broker_reply_to(
	    daemon->broker, message->from, text, write_text(text, REPLY, asker, number));
}

void
messages_replied(struct sim_daemon *daemon, const struct broker_message *message)
{
	struct sim *sim = daemon->sim;

	sim->truth.moment++;
	NOTE(sim, .text = "{d} has a reply to {n}", .daemon = daemon->number,
	    .n = (int64_t)message->asked);
	if (message->asked == 0 || message->asked > daemon->last_message ||
	    !is_text(message, REPLY, daemon->number, message->asked))
		check_fail(
		    sim, 0, "daemon %d got an incomplete or unwanted reply", daemon->number + 1);
	daemon->replies += message->asked == daemon->last_message;
}

void
messages_meet(struct sim *sim)
{
	if (!sim->plan.messages)
		return;
	sim_pass(sim, OPENED_AGAIN);
	for (int i = 0; i < sim->plan.daemons; i++) {
		struct sim_daemon *daemon = &sim->daemons[i];

		check_is_caused(sim);
		ask(sim, daemon);
		sim_pass(sim, DAEMON_MESSAGE_TIME);
		if (sim->violation[0] == '\0' && daemon->replies != sim->plan.daemons - 1)
			check_fail(sim, 0, "daemon %d asked all, and got %d replies", i + 1,
			    daemon->replies);
	}
}
