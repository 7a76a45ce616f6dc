/*
 * The log lines of changes to semaphores, and at debug of looks at them: who asked for what, and how it
 * ended. A change is remembered until then, as it goes on when its peer has hung up. journal.c's.
 */
#ifndef PEER_JOURNAL_CHANGE_H
#define PEER_JOURNAL_CHANGE_H

#include <stdbool.h>
#include <stdint.h>

struct changes;
struct conn;
struct lock_answer;
struct method_params;
struct request;

struct changes *changes_new(void);
void changes_free(struct changes *changes);

/* `method` is static. Each one ends by an answer, or is left. */
void changes_add(struct changes *changes, const struct conn *conn, const struct request *request,
    const char *method, const struct method_params *params);
/* One that is not known is fine, here and below. */
void changes_end(
    struct changes *changes, uint64_t peer, uint64_t number, const struct lock_answer *answer);
/* Nothing will be heard of it any more. */
void changes_leave(struct changes *changes, uint64_t peer, uint64_t number);

void look_requested(const struct conn *conn, const struct request *request, const char *method,
    const struct method_params *params);
void look_ended(const struct conn *conn, const struct request *request, const char *method,
    const struct lock_answer *answer);

/* "for ever", or "5.000 s". Returns buf. */
const char *journal_change_time(char buf[32], int64_t ns);

#endif
