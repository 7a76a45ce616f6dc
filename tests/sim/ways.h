/*
 * The ways between a daemon and the world, and what befalls them: links that die, seen by either end
 * first; links on which nothing arrives; daemons that are stopped, or whose timers are late. The world
 * gives up a link two to three heartbeats after the last byte that it read from it, never earlier.
 */
#ifndef TESTS_SIM_WAYS_H
#define TESTS_SIM_WAYS_H

#include "tests/sim/sim.h"

void ways_init(struct sim_daemon *daemon);
/* The daemon is gone. */
void ways_done(struct sim_daemon *daemon);
/* The daemon notices that a link is dead; the world `notice` ns later. It is up after `back` ns. */
void ways_cut(struct sim_daemon *daemon, enum broker_link link, int64_t notice, int64_t back);
/* The world ends the link though it was not silent; the daemon notices after `notice` ns. */
void ways_tear(struct sim_daemon *daemon, enum broker_link link, int64_t notice);
/* The same of its lock connection, which is up, as its node goes down. */
void ways_is_torn(struct sim_daemon *daemon);
/* Nothing arrives on these ways of its lock connection, for so long (INT64_MAX: ever). */
void ways_block(struct sim_daemon *daemon, unsigned ways, int64_t time);
/* Neither end hears the other on its auxiliary connection. */
void ways_freeze_auxiliary(struct sim_daemon *daemon);
/* The daemon does nothing (or only hears, and its timers wait) for so long. */
void ways_stop(struct sim_daemon *daemon, int64_t time);
void ways_suspend(struct sim_daemon *daemon, int64_t time);
/* Ends all that. */
void ways_free(struct sim_daemon *daemon);
/* The behaviour's hook: ns until the world notices that the daemon made a link anew. None may break. */
int64_t ways_notice(
    void *ctx, const struct broker *broker, enum broker_link link, const char *broken);

#endif
