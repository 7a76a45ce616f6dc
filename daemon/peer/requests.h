/*
 * The requests of one peer that are not answered yet: which id on the wire belongs to which number in
 * the engine, and how many of them count as being answered. Charges them to the user's account. Owns its
 * records; knows neither sockets nor the engine.
 */
#ifndef PEER_REQUESTS_H
#define PEER_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/message.h"

struct account;
struct requests;
struct dispatch_row; /* a method: handlers.h */

enum request_kind {
	REQUEST_QUICK,  /* counts as being answered */
	REQUEST_SCANS,  /* the same, and asks the broker about many queues first */
	REQUEST_WAITS,  /* by design: does not count as being answered */
	REQUEST_WATCHES /* the same, and is sent news */
};

struct request {
	uint64_t number;
	struct message_id id;
	const struct dispatch_row *row; /* static */
	enum request_kind kind;
};

/* account: borrowed, and outlives them. */
struct requests *requests_new(struct account *account);
void requests_free(struct requests *requests);

/* NULL when a request with that id is unanswered still. Borrowed until it is removed. */
const struct request *requests_add(struct requests *requests, const struct message_id *id,
    const struct dispatch_row *row, enum request_kind kind);
/* NULL when there is none such. */
const struct request *requests_find(const struct requests *requests, uint64_t number);
const struct request *requests_find_id(
    const struct requests *requests, const struct message_id *id);
void requests_remove(struct requests *requests, uint64_t number);
/* So many bytes more are kept for the answer, until the request is removed. */
void requests_keep(struct requests *requests, uint64_t number, size_t bytes);
/* Forgets those that wait by design, telling `left` of each: the engine will not answer them any more. */
void requests_remove_waiting(
    struct requests *requests, void (*left)(void *ctx, const struct request *request), void *ctx);

/* A scan is over at the broker: another may begin, though this one may wait for other daemons now. */
void requests_scanned(struct requests *requests, uint64_t number);
/* Whether it waits by design. */
bool request_waits(const struct request *request);
size_t requests_count(const struct requests *requests);
/* Those that do not wait by design. */
size_t requests_answering(const struct requests *requests);
/* Of these, the scans that the broker has not answered. */
size_t requests_scanning(const struct requests *requests);
/* Those that do. */
size_t requests_waiting(const struct requests *requests);

#endif
