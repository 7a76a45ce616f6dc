/*
 * The floor of all epochs, in the records (broker_records_floor()). A set that is made anew is above the floor.
 * A
 * removed slot takes its counts with it. So does a mutex, which RabbitMQ deletes after an hour without use. Before
 * that, the floor must be above its fencing numbers. This module raises the
 * floor in the background, until it has succeeded.
 */
#ifndef LOCK_FENCE_FLOOR_H
#define LOCK_FENCE_FLOOR_H

#include "daemon/lock/core/engine.h"

/* A maker of a mutex raises the floor by so much above its set. Each stands for 4,096 returns of a bead. */
#define FENCE_EPOCHS 4

/* Each later set is to be above this epoch. */
void fence_floor_raise(struct lock_engine *engine, uint64_t epoch);
/* This daemon has raised it to that. */
void fence_floor_rose(struct lock_engine *engine, uint64_t epoch);
/* The hold was granted. If it is a mutex that nears the floor, the floor rises. */
void fence_floor_granted(struct lock_engine *engine, const struct hold *hold);
void fence_floor_init(struct lock_engine *engine);
void fence_floor_done(struct lock_engine *engine);

#endif
