/*
 * The replacement of the running daemon by its successor. First comes the rehearsal (successor.h).
 * Then the daemon is frozen and its state is saved, and the new program takes over. At each step the
 * daemon can go on instead. It borrows all parts of the daemon.
 */
#ifndef SERVER_REPLACEMENT_H
#define SERVER_REPLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

struct broker;
struct config;
struct dispatch;
struct dispatch_past;
struct event_base;
struct listener;
struct lock_engine;
struct peers;
struct replacement;
struct timers;

/* Everything is borrowed. */
struct replacement_config {
	const struct config *started;
	const struct dispatch_past *past;
	struct event_base *base;
	struct timers *timers;
	struct broker *broker;
	struct lock_engine *engine;
	struct dispatch *dispatch;
	struct peers *peers;
	struct listener *listener;
	/*
	 * The daemon is not replaced, and the log has the reason. restarts: the signal by which the
	 * service manager restarts the daemon; NULL: the daemon goes on.
	 */
	void (*goes_on)(void *ctx, const char *restarts);
	void *ctx;
};

struct replacement *replacement_new(const struct replacement_config *config);
void replacement_free(struct replacement *replacement); /* NULL is fine */
/* restarts: as above; static. There must be no replacement under way. */
void replacement_begin(struct replacement *replacement, const char *restarts);
/* The replacement under way becomes a restart by the service manager. restarts: as above; static. */
void replacement_restart(struct replacement *replacement, const char *restarts);
bool replacement_is_under_way(const struct replacement *replacement);
/* The daemon stops: ends the replacement, without `goes_on`. */
void replacement_stop(struct replacement *replacement);
/* After each pass of the loop. Does not return if the successor takes over. */
void replacement_check(struct replacement *replacement);

#endif
