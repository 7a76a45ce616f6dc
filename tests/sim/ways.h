/*
 * The connections between a daemon and the world, and their troubles. Links end, and either end
 * notices first. Links deliver nothing. Daemons are stopped, or their timers are late. The world
 * gives up a link two to three heartbeats after the last byte that it read, never earlier.
 */
#ifndef TESTS_SIM_WAYS_H
#define TESTS_SIM_WAYS_H

#include "tests/sim/sim.h"

void ways_init(struct sim_daemon *daemon);
/* The daemon is gone. */
void ways_done(struct sim_daemon *daemon);
/*
 * The daemon notices the end of a link; the world notices `notice` ns later. The link is up again
 * after `back` ns.
 */
void ways_cut(struct sim_daemon *daemon, enum broker_link link, int64_t notice, int64_t back);
/* The world ends a link that was not silent. The daemon notices after `notice` ns. */
void ways_tear(struct sim_daemon *daemon, enum broker_link link, int64_t notice);
/* The same for the lock connection, which is up, because its node goes down. */
void ways_is_torn(struct sim_daemon *daemon);
/* These ways of the lock connection deliver nothing for that time. INT64_MAX: for ever. */
void ways_block(struct sim_daemon *daemon, unsigned ways, int64_t time);
/* A link delivers nothing in either direction. The daemon gives it up after a while. */
void ways_freeze(struct sim_daemon *daemon, enum broker_link link);
/* ways_stop() stops the daemon for that time. ways_suspend() stops only its timers. */
void ways_stop(struct sim_daemon *daemon, int64_t time);
void ways_suspend(struct sim_daemon *daemon, int64_t time);
/* Ends all these troubles. */
void ways_free(struct sim_daemon *daemon);
/*
 * Hook of the behaviour: ns until the world notices that the daemon made a link anew. No link may
 * break.
 */
int64_t ways_notice(
    void *ctx, const struct broker *broker, enum broker_link link, const char *broken);

#endif
