#include "daemon/peer/requests.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "daemon/base/log.h"
#include "daemon/base/mem.h"

/*
 * Contents:
 *	The account of a user: account_*(): what the connections of a user have in use.
 *	The requests of a peer: record_*(): a request, its charges and its end. requests_add(),
 *	   requests_resume(): a request begins, here or in an earlier program. requests_find*(),
 *	   requests_remove*(): by number or by id. requests_count() and others: how many there are of each kind.
 */

/* An id as bytes: 7 and "7" are two ids. */
struct id_key {
	char text[1 + MESSAGE_ID_MAX + 1];
};

struct kept_request {
	struct peer_request request; /* first: the part that callers see */
	struct id_key key;
	size_t kept;  /* bytes, in the account */
	bool scanned; /* SCANS: the broker has answered */
	UT_hash_handle by_number, by_id;
};

struct requests {
	struct kept_request *by_number, *by_id; /* owned, by both tables together */
	uint64_t last;
	size_t answering, scanning;
	struct account *account; /* borrowed */
};

/*
 * Bytes that a request is charged from its beginning: its record and most answers. A scan also
 * keeps data while it runs.
 */
#define QUICK_BYTES 1024
#define SCAN_BYTES ((size_t)32 * 1024)

/* ---- the account of a user ---- */

struct account *
account_open(struct accounts *all, uid_t uid)
{
	struct account *account;

	HASH_FIND(hh, all->by_uid, &uid, sizeof(uid), account);
	if (account == NULL) {
		account = mem_alloc(sizeof(*account));
		account->uid = uid;
		account->all = all;
		TAILQ_INIT(&account->due);
		TAILQ_INIT(&account->halted);
		TAILQ_INIT(&account->parked);
		HASH_ADD(hh, all->by_uid, uid, sizeof(uid), account);
	}
	account_add(account, ACCOUNT_PEERS, 1);
	return account;
}

void
account_close(struct account *account)
{
	struct accounts *all = account->all;

	account_remove(account, ACCOUNT_PEERS, 1);
	if (account->used[ACCOUNT_PEERS] > 0)
		return;
	for (int thing = 0; thing < ACCOUNT_THINGS; thing++)
		assert(account->used[thing] == 0);
	assert(TAILQ_EMPTY(&account->due));
	assert(TAILQ_EMPTY(&account->halted) && TAILQ_EMPTY(&account->parked));
	HASH_DELETE(hh, all->by_uid, account);
	free(account);
}

void
account_add(struct account *account, enum account_thing thing, size_t count)
{
	account->used[thing] += count;
	if (thing == ACCOUNT_BYTES)
		account->all->bytes += count;
}

void
account_remove(struct account *account, enum account_thing thing, size_t count)
{
	assert(account->used[thing] >= count);
	account->used[thing] -= count;
	if (thing == ACCOUNT_BYTES)
		account->all->bytes -= count;
}

bool
account_has_room(const struct account *account, enum account_thing thing)
{
	const struct accounts *all = account->all;

	if (account->used[thing] >= all->limits.most[thing])
		return false;
	return thing != ACCOUNT_BYTES || all->bytes < all->limits.all_bytes ||
	       account->used[thing] < ACCOUNT_LITTLE;
}

void
account_complain(struct account *account)
{
	if (!account->full)
		log_warning("uid %u: the daemon pauses reading; its connections use %zu KiB, all "
			    "connections %zu KiB",
		    (unsigned)account->uid, account->used[ACCOUNT_BYTES] / 1024,
		    account->all->bytes / 1024);
	account->full = true;
}

void
account_relax(struct account *account)
{
	const struct account_limits *limits = &account->all->limits;

	if (account->used[ACCOUNT_BYTES] < limits->most[ACCOUNT_BYTES] / 2 &&
	    account->all->bytes < limits->all_bytes / 2)
		account->full = false;
}

size_t
account_room(const struct account *account)
{
	const struct accounts *all = account->all;
	size_t used = account->used[ACCOUNT_BYTES], most = all->limits.most[ACCOUNT_BYTES] / 2;

	if (all->bytes >= all->limits.all_bytes && most > ACCOUNT_LITTLE)
		most = ACCOUNT_LITTLE;
	return used < most ? most - used : 0;
}

/* ---- the requests of a peer ---- */

static void
id_key_make(struct id_key *key, const struct message_id *id)
{
	switch (id->kind) {
	case MESSAGE_ID_NULL:
		snprintf(key->text, sizeof(key->text), "n");
		break;
	case MESSAGE_ID_INTEGER:
		snprintf(key->text, sizeof(key->text), "i%" PRId64, id->integer);
		break;
	case MESSAGE_ID_STRING:
		snprintf(key->text, sizeof(key->text), "s%s", id->string);
		break;
	}
}

struct requests *
requests_new(struct account *account)
{
	struct requests *requests = mem_alloc(sizeof(*requests));

	requests->account = account;
	return requests;
}

/* Whether the request waits by design. */
static bool
request_waits(const struct peer_request *request)
{
	return request->kind == REQUEST_WAITS || request->kind == REQUEST_WATCHES;
}

bool
request_ends_with_client(const struct peer_request *request)
{
	return request_waits(request) || request->kind == REQUEST_TRIES;
}

static void
record_keep(struct requests *requests, struct kept_request *record, size_t bytes)
{
	record->kept += bytes;
	account_add(requests->account, ACCOUNT_BYTES, bytes);
}

static void
record_charge(struct requests *requests, struct kept_request *record)
{
	enum request_kind kind = record->request.kind;

	if (kind == REQUEST_WATCHES)
		account_add(requests->account, ACCOUNT_WATCHES, 1);
	if (request_waits(&record->request)) {
		account_add(requests->account, ACCOUNT_WAITS, 1);
		return;
	}
	requests->answering++;
	record_keep(requests, record, kind == REQUEST_SCANS ? SCAN_BYTES : QUICK_BYTES);
	if (kind == REQUEST_SCANS) {
		account_add(requests->account, ACCOUNT_SCANS, 1);
		requests->scanning++;
	}
}

static void
record_end_scan(struct requests *requests, struct kept_request *record)
{
	if (record->scanned || record->request.kind != REQUEST_SCANS)
		return;
	record->scanned = true;
	requests->scanning--;
	account_remove(requests->account, ACCOUNT_SCANS, 1);
}

static void
record_remove(struct requests *requests, struct kept_request *record)
{
	record_end_scan(requests, record);
	if (record->request.kind == REQUEST_WATCHES)
		account_remove(requests->account, ACCOUNT_WATCHES, 1);
	if (request_waits(&record->request))
		account_remove(requests->account, ACCOUNT_WAITS, 1);
	else
		requests->answering--;
	account_remove(requests->account, ACCOUNT_BYTES, record->kept);
	HASH_DELETE(by_number, requests->by_number, record);
	HASH_DELETE(by_id, requests->by_id, record);
	free((char *)record->request.line);
	free(record);
}

static struct kept_request *
record_find(const struct requests *requests, uint64_t number)
{
	struct kept_request *record;

	HASH_FIND(by_number, requests->by_number, &number, sizeof(number), record);
	return record;
}

void
requests_free(struct requests *requests)
{
	struct kept_request *record, *next;

	if (requests == NULL)
		return;
	HASH_ITER (by_number, requests->by_number, record, next)
		record_remove(requests, record);
	assert(requests->by_id == NULL && requests->answering == 0);
	free(requests);
}

/* The request must have a number and an id that no other has. */
static const struct peer_request *
record_add(struct requests *requests, const struct peer_request *request)
{
	struct kept_request *record = mem_alloc(sizeof(*record));

	record->request = *request;
	record->request.line = NULL;
	id_key_make(&record->key, &request->id);
	HASH_ADD(by_number, requests->by_number, request.number, sizeof(uint64_t), record);
	HASH_ADD_KEYPTR(by_id, requests->by_id, record->key.text, strlen(record->key.text), record);
	record_charge(requests, record);
	return &record->request;
}

const struct peer_request *
requests_add(struct requests *requests, const struct message_id *id, const struct dispatch_row *row,
    enum request_kind kind)
{
	const struct peer_request request = {
	    .number = requests->last + 1, .id = *id, .row = row, .kind = kind};

	if (requests_find_id(requests, id) != NULL)
		return NULL;
	requests->last++;
	return record_add(requests, &request);
}

void
requests_set_last(struct requests *requests, uint64_t last)
{
	requests->last = last;
}

const struct peer_request *
requests_resume(struct requests *requests, const struct peer_request *resumed)
{
	if (resumed->number == 0 || resumed->number > requests->last ||
	    record_find(requests, resumed->number) != NULL ||
	    requests_find_id(requests, &resumed->id) != NULL)
		return NULL;
	return record_add(requests, resumed);
}

void
requests_keep_line(
    struct requests *requests, uint64_t number, const char *line, size_t len, int64_t since)
{
	struct kept_request *record = record_find(requests, number);
	char *copy;

	if (record == NULL || record->request.line != NULL)
		return;
	copy = mem_alloc(len + 1);
	memcpy(copy, line, len);
	record->request.line = copy;
	record->request.since = since;
	record_keep(requests, record, len + 1);
}

uint64_t
requests_last(const struct requests *requests)
{
	return requests->last;
}

void
requests_each(const struct requests *requests,
    void (*fn)(void *ctx, const struct peer_request *request), void *ctx)
{
	for (struct kept_request *record = requests->by_number; record != NULL;
	     record = record->by_number.next)
		fn(ctx, &record->request);
}

const struct peer_request *
requests_find(const struct requests *requests, uint64_t number)
{
	const struct kept_request *record = record_find(requests, number);

	return record == NULL ? NULL : &record->request;
}

const struct peer_request *
requests_find_id(const struct requests *requests, const struct message_id *id)
{
	struct kept_request *record;
	struct id_key key;

	id_key_make(&key, id);
	HASH_FIND(by_id, requests->by_id, key.text, strlen(key.text), record);
	return record == NULL ? NULL : &record->request;
}

void
requests_remove(struct requests *requests, uint64_t number)
{
	struct kept_request *record = record_find(requests, number);

	if (record != NULL)
		record_remove(requests, record);
}

void
requests_keep(struct requests *requests, uint64_t number, size_t bytes)
{
	struct kept_request *record = record_find(requests, number);

	if (record != NULL)
		record_keep(requests, record, bytes);
}

void
requests_scanned(struct requests *requests, uint64_t number)
{
	struct kept_request *record = record_find(requests, number);

	if (record != NULL)
		record_end_scan(requests, record);
}

void
requests_remove_waiting(struct requests *requests,
    void (*left)(void *ctx, const struct peer_request *request), void *ctx)
{
	struct kept_request *record, *next;

	HASH_ITER (by_number, requests->by_number, record, next) {
		if (!request_ends_with_client(&record->request))
			continue;
		left(ctx, &record->request);
		record_remove(requests, record);
	}
}

size_t
requests_count(const struct requests *requests)
{
	return HASH_CNT(by_number, requests->by_number);
}

size_t
requests_answering(const struct requests *requests)
{
	return requests->answering;
}

size_t
requests_scanning(const struct requests *requests)
{
	return requests->scanning;
}

size_t
requests_waiting(const struct requests *requests)
{
	return requests_count(requests) - requests->answering;
}
