/*
 * The quorum queue of the model, as RabbitMQ keeps it, and its faults. It owns no world. It knows
 * of a client only what is on the way to it, and nothing of the protocol.
 *
 * A step is told before it is made: step_say() begins it, and server_* and step_add() end it.
 * Then it may be one of several, because the server chooses.
 */
#ifndef TESTS_MODEL_SERVER_H
#define TESTS_MODEL_SERVER_H

#include "tests/model/quorum.h"

enum { BEADS = 3 };

/* Of the search that runs. */
extern const struct setup *setup;

static inline bool
makes(enum mistake mistake)
{
	return setup->mistake == mistake;
}

/* ---- messages ---- */

/* A bead is set * 3 + number + 1; behind them are the marks of the clients. */
static inline unsigned
set_of(unsigned message)
{
	return (message - 1) / BEADS;
}

static inline unsigned
bead_of(unsigned message)
{
	return (message - 1) % BEADS;
}

static inline bool
is_mark(unsigned message)
{
	return message > BEADS * SETS_MAX;
}

static inline unsigned
message_of_bead(unsigned set, unsigned bead)
{
	return set * BEADS + bead + 1;
}

static inline unsigned
mark_of(unsigned client)
{
	return BEADS * SETS_MAX + client + 1;
}

/* As the mark of a third client, which does not exist then. */
enum { message_of_stranger = BEADS * SETS_MAX + CLIENTS_MAX };

unsigned n_clients(void);
unsigned beads_of_a_set(void);

/* The bit that the order of the beads keeps. */
bool order_is_clean(const uint8_t beads[BEADS]);

/* The channel of a client, and the one before. */
static inline unsigned
channel_of(unsigned client)
{
	return 2 * client;
}

static inline unsigned
old_channel_of(unsigned client)
{
	return 2 * client + 1;
}

/* ---- steps ---- */

void steps_clear(bool tell);
size_t steps_get(const struct step **ret_steps);
__attribute__((format(printf, 1, 2))) void step_say(const char *format, ...);
__attribute__((format(printf, 1, 2))) void step_say_also(const char *format, ...);
void step_is_fault(void);
void step_is_grant(void);
void step_violates(const char *property);
void step_add(const struct world *world);

/* ---- requests of clients ---- */

enum request { REJECT = 0, ACKNOWLEDGE = 0x80 };

/* A delivery that is not the last one of its message has no effect: nothing is sent. */
void server_send(struct world *w, unsigned channel, struct seen delivery, enum request request);
/* The client has closed its channel: it becomes its old one. Not while that one exists. */
void server_close(struct world *w, unsigned client);
bool server_has_old_channel(const struct world *w, unsigned client);

/* ---- acts of the server ---- */

/* Delivers what is ready to the active consumer. Without one, any consumer becomes it. Adds the steps. */
void server_go_on(struct world *w);
void server_publish(struct world *w, unsigned message);
void server_delete_queue(struct world *w);
bool server_reads_order(const struct world *w, unsigned set, uint8_t ret_beads[BEADS]);
bool server_has_set(const struct world *w, unsigned set);
bool server_has_consumer(const struct world *w);

/* Adds each step that is the server's: attaches, rejects, faults. */
void server_steps(const struct world *w);

#endif
