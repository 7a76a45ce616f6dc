/*
 * The requests of one peer that are not answered yet: which id on the wire belongs to which number in
 * the engine, and how many of them count as being answered. Owns its records; knows neither sockets
 * nor the engine.
 */
#ifndef PEER_REQUESTS_H
#define PEER_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/message.h"

struct requests;
struct dispatch_row; /* a method: handlers.h */

/* What the requests of some peers, as those of one uid, come to. */
struct requests_sum {
	size_t waiting, scanning;
};

enum request_kind {
	REQUEST_QUICK, /* is answered as soon as the broker has answered */
	REQUEST_WAITS, /* by design: does not count as being answered */
	REQUEST_SCANS  /* asks the broker about more than there may be */
};

struct request {
	uint64_t number;
	struct message_id id;
	const struct dispatch_row *row; /* static */
	enum request_kind kind;
};

struct requests *requests_new(void);
void requests_free(struct requests *requests);
/* From now on they count there, too; borrowed, and outlives them. Before the first is added. */
void requests_count_in(struct requests *requests, struct requests_sum *sum);

/* NULL when a request with that id is unanswered still. Borrowed until it is removed. */
const struct request *requests_add(struct requests *requests, const struct message_id *id,
    const struct dispatch_row *row, enum request_kind kind);
/* NULL when there is none such. */
const struct request *requests_find(const struct requests *requests, uint64_t number);
const struct request *requests_find_id(
    const struct requests *requests, const struct message_id *id);
void requests_remove(struct requests *requests, uint64_t number);
/* Forgets those that wait by design, telling `left` of each: the engine will not answer them any more. */
void requests_remove_waiting(
    struct requests *requests, void (*left)(void *ctx, const struct request *request), void *ctx);

size_t requests_count(const struct requests *requests);
/* Those that do not wait by design. */
size_t requests_answering(const struct requests *requests);
/* Those that do. */
size_t requests_waiting(const struct requests *requests);
/* What they count in; all 0 when that is nowhere. */
struct requests_sum requests_in_all(const struct requests *requests);

#endif
