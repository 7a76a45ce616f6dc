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
/* The highest priority, and with a minus the lowest (PROTOCOL.md, "priority"). */
#define METHODS_PRIORITY_MOST 100
/* Bytes of the peer's own words: who, why, command. */
#define METHODS_WORDS_MAX 256
/* Bytes of a lock id ("lock"). */
#define METHODS_LOCK_MAX 64

/*
 * Decoded parameters: a method uses the members its row names, and has the rest at the defaults
 * given here. Strings are borrowed from the request's tree.
 */
struct method_params {
	const char *name;                /* valid lock name */
	enum lock_kind kind;             /* LOCK_KIND_SEMAPHORE */
	int64_t timeout;                 /* ns; DURATION_FOREVER; 0 = try */
	int64_t wait;                    /* ns; 0 (do not wait); DURATION_FOREVER for null */
	int priority;                    /* -100..100, higher first; 0 */
	int slots;                       /* 0..METHODS_SLOTS_MAX; 1 */
	bool exist_ok;                   /* false */
	bool progress;                   /* false */
	bool lease;                      /* false */
	bool broker;                     /* ping: false */
	const char *lock;                /* the id that a grant carried */
	struct message_id id;            /* cancel: the request meant */
	const char *who, *why, *command; /* NULL */
};

enum param_type {
	PARAM_NAME,     /* const char *: lock name */
	PARAM_KIND,     /* enum lock_kind */
	PARAM_DURATION, /* int64_t ns: a number of seconds, or null = for ever */
	PARAM_INTEGER,  /* int, between min and max */
	PARAM_BOOL,     /* bool */
	PARAM_STRING,   /* const char *: at most max bytes */
	PARAM_ID        /* struct message_id */
};

#define METHODS_KIND_BIT(kind) (1U << (kind))

struct param_spec {
	const char *name;
	enum param_type type;
	bool required;
	size_t offset;  /* in struct method_params */
	int min, max;   /* PARAM_INTEGER: value; PARAM_STRING: bytes */
	unsigned kinds; /* PARAM_KIND: the allowed ones, METHODS_KIND_BIT() each */
};

struct method_spec {
	const char *name;
	const struct param_spec *params; /* ends with a NULL name */
	/* Waits by design (timeout, wait): does not count as a request being answered. */
	bool waits;
};

/* The row of a method; NULL when there is no such method. Static. */
const struct method_spec *method_find(const char *name);
/* All rows, ending with a NULL name. */
const struct method_spec *method_all(void);
/*
 * Checks and decodes. False: *ret_error says what and which (REASON_INVALID_PARAMS with the
 * parameter), *ret is untouched. Unknown members are refused by name.
 */
bool method_params_parse(const struct method_spec *method, const struct cJSON *params,
    struct method_params *ret, struct message_error *ret_error) __attribute__((warn_unused_result));

/* The OpenRPC description of all this (protocol/openrpc.json), NUL-terminated. Static. */
extern const char openrpc_json[];

#endif
