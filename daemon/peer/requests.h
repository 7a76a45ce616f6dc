/*
 * The unanswered requests of one peer: the id on the wire and the engine's number of each. It
 * counts them, and charges them to the user's account. Owns its records. It knows neither sockets
 * nor the engine.
 */
#ifndef PEER_REQUESTS_H
#define PEER_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/message.h"

struct account;
struct requests;
struct dispatch_row; /* a method (handlers.h) */

enum request_kind {
	REQUEST_QUICK,   /* counts against max_requests */
	REQUEST_SCANS,   /* counts against max_requests, and scans many queues at the broker */
	REQUEST_WAITS,   /* waits by design: does not count against max_requests */
	REQUEST_WATCHES, /* as REQUEST_WAITS, and gets notifications */
	REQUEST_TRIES    /* as REQUEST_QUICK, but ends unanswered with its client */
};

struct request {
	uint64_t number;
	struct message_id id;
	const struct dispatch_row *row; /* static */
	enum request_kind kind;
	/* For a successor, which repeats the request; NULL: it need not be repeated. NUL-terminated. */
	const char *line;
	int64_t since; /* clock time when the line came */
};

/* account is borrowed, and outlives the requests. */
struct requests *requests_new(struct account *account);
void requests_free(struct requests *requests);

/* NULL: a request with that id is unanswered. The result is borrowed until it is removed. */
const struct request *requests_add(struct requests *requests, const struct message_id *id,
    const struct dispatch_row *row, enum request_kind kind);
/* The number of the newest request in an earlier program. Call it before requests_resume(). */
void requests_set_last(struct requests *requests, uint64_t last);
/* As requests_add(), with the number that it had there. NULL, too: there is no such number. */
const struct request *requests_resume(struct requests *requests, const struct request *resumed);
/* Keeps a copy of the line of the request, charged to the user's account. */
void requests_keep_line(
    struct requests *requests, uint64_t number, const char *line, size_t len, int64_t since);
/* The number of the newest request so far. */
uint64_t requests_last(const struct requests *requests);
void requests_each(const struct requests *requests,
    void (*fn)(void *ctx, const struct request *request), void *ctx);
/* NULL: there is none. */
const struct request *requests_find(const struct requests *requests, uint64_t number);
const struct request *requests_find_id(
    const struct requests *requests, const struct message_id *id);
void requests_remove(struct requests *requests, uint64_t number);
/* Charges so many more bytes for the answer until the request is removed. */
void requests_keep(struct requests *requests, uint64_t number, size_t bytes);
/*
 * Removes the requests that wait by design or try, and calls `left` for each. The engine does not
 * answer them any more.
 */
void requests_remove_waiting(
    struct requests *requests, void (*left)(void *ctx, const struct request *request), void *ctx);

/*
 * The broker has answered the scan, so another one may begin. The request may still wait for other
 * daemons.
 */
void requests_scanned(struct requests *requests, uint64_t number);
/* Whether the request waits by design. */
bool request_waits(const struct request *request);
/* Whether it waits by design or tries: it ends unanswered with its client. */
bool request_ends_with_client(const struct request *request);
size_t requests_count(const struct requests *requests);
/* The number of requests that do not wait by design. */
size_t requests_answering(const struct requests *requests);
/* The number of scans that the broker has not answered. */
size_t requests_scanning(const struct requests *requests);
/* The number of requests that wait by design. */
size_t requests_waiting(const struct requests *requests);

#endif
