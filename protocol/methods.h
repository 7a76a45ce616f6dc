/*
 * The methods of the wire and their parameters: one table row a method, from which params are
 * checked and decoded. What a method does is dispatch's business; who may call it, too.
 */
#ifndef PROTOCOL_METHODS_H
#define PROTOCOL_METHODS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/duration.h"
#include "protocol/lockname.h"
#include "protocol/message.h"

/* Most slots of a semaphore (PROTOCOL.md, "slots"). */
#define METHODS_SLOTS_MAX 10000
/* Of slots: there are no slots to wait for; "unlimited" on the wire. */
#define METHODS_UNLIMITED (-2)
/* The highest priority, and with a minus the lowest (PROTOCOL.md, "priority"). */
#define METHODS_PRIORITY_MOST 100
/* Bytes of the peer's own words: who, why, command. */
#define METHODS_WORDS_MAX 256
/* Bytes of a lock's or waiter's id ("lock", "waiter"). */
#define METHODS_LOCK_MAX 64

/* What PARAM_WORDs stand for: places in their lists. */
enum method_order { METHOD_ORDER_DESCENDING, METHOD_ORDER_ASCENDING };
enum method_slot_state { METHOD_SLOT_FREE, METHOD_SLOT_BUSY };

/*
 * Decoded parameters: a method uses the members its row names, and has the rest at the defaults
 * given here. Strings are borrowed from the request's tree.
 */
struct method_params {
	const char *name;    /* valid lock name */
	enum lock_kind kind; /* LOCK_KIND_SEMAPHORE */
	int64_t timeout;     /* ns; DURATION_FOREVER; 0 = try */
	int64_t wait;        /* ns; 0 (do not wait); DURATION_FOREVER for null */
	int priority;        /* -100..100, higher first; 0 */
	int slots;           /* 0..METHODS_SLOTS_MAX, METHODS_UNLIMITED; 1 */
	int add, remove;     /* resize, instead of slots: 1..METHODS_SLOTS_MAX; 0 = not given */
	int create;          /* acquire: with how many slots, when there is no such lock; 0 = not */
	int slot;            /* await: from 1 */
	int overshoot;       /* 0..METHODS_SLOTS_MAX; 0 */
	int order;           /* enum method_order; METHOD_ORDER_DESCENDING */
	int state;           /* enum method_slot_state */
	bool exist_ok;       /* false */
	bool repair;         /* false */
	bool progress;       /* false */
	bool lease;          /* false */
	bool broker;         /* ping: false */
	bool all;            /* deny: all who wait for name; false */
	const char *lock;    /* the id that a grant carried */
	const char *waiter;  /* the id that a row carried; NULL = not given */
	struct message_id id;            /* cancel: the request meant */
	const char *who, *why, *command; /* NULL */
};

enum param_type {
	PARAM_NAME,     /* const char *: lock name */
	PARAM_KIND,     /* enum lock_kind */
	PARAM_DURATION, /* int64_t ns: a number of seconds, or null = for ever */
	PARAM_INTEGER,  /* int, between min and max */
	PARAM_SLOTS,    /* int, between min and max, or METHODS_UNLIMITED: "unlimited" */
	PARAM_WORD,     /* int: the place of the word in words */
	PARAM_BOOL,     /* bool */
	PARAM_STRING,   /* const char *: at most max bytes */
	PARAM_ID        /* struct message_id */
};

#define METHODS_KIND_BIT(kind) (1U << (kind))

struct param_spec {
	const char *name;
	enum param_type type;
	bool required;
	bool choice;              /* of those so marked, exactly one is to be given */
	size_t offset;            /* in struct method_params */
	int min, max;             /* PARAM_INTEGER, PARAM_SLOTS: value; PARAM_STRING: bytes */
	unsigned kinds;           /* PARAM_KIND: the allowed ones, METHODS_KIND_BIT() each */
	const char *const *words; /* PARAM_WORD, PARAM_KIND: all there are; ends with NULL */
};

/* Requests that wait by design do not count as being answered. */
enum method_wait {
	METHOD_ANSWERS,       /* does not wait */
	METHOD_WAITS,         /* waits (timeout) */
	METHOD_WAITS_IF_TOLD, /* waits when `wait` says so */
};

struct method_spec {
	const char *name;
	const struct param_spec *params; /* ends with a NULL name */
	enum method_wait wait;
};

/* The row of a method; NULL when there is no such method. Static. */
const struct method_spec *method_find(const char *name);
/* All rows, ending with a NULL name. */
const struct method_spec *method_all(void);
/* Whether a request with these params waits by design. */
bool method_waits(const struct method_spec *method, const struct method_params *params);
/*
 * Checks and decodes. False: *ret_error says what and which (REASON_INVALID_PARAMS with the
 * parameter), *ret is untouched. Unknown members are refused by name.
 */
bool method_params_parse(const struct method_spec *method, const struct cJSON *params,
    struct method_params *ret, struct message_error *ret_error) __attribute__((warn_unused_result));

/* The OpenRPC description of all this (protocol/openrpc.json), NUL-terminated. Static. */
extern const char openrpc_json[];

#endif
