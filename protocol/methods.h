/*
 * The methods of the protocol and their parameters. One table row for each method describes how to check and
 * decode its params. The daemon adds handlers and access rights.
 */
#ifndef PROTOCOL_METHODS_H
#define PROTOCOL_METHODS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/duration.h"
#include "protocol/lockname.h"
#include "protocol/message.h"

/* Maximum size of a semaphore (PROTOCOL.md, "Values"). */
#define METHODS_SLOTS_MAX 10000
/* The size "unlimited". */
#define METHODS_UNLIMITED (-2)
/* The highest priority; its negative is the lowest. */
#define METHODS_PRIORITY_MOST 100
/* Maximum bytes of who, why and command. */
#define METHODS_WORDS_MAX 256
/* Seconds from an eviction to its deadline: the most, and the default. */
#define METHODS_GRACE_MOST 86400
#define METHODS_GRACE_DEFAULT 30
/* Maximum bytes of the ids "lock" and "waiter". */
#define METHODS_LOCK_MAX 64

/* Values of PARAM_WORD: places in the list of words. */
enum method_order { METHOD_ORDER_DESCENDING, METHOD_ORDER_ASCENDING };
enum method_slot_state { METHOD_SLOT_FREE, METHOD_SLOT_BUSY };
enum method_format { METHOD_FORMAT_PROMETHEUS, METHOD_FORMAT_OPENMETRICS };
enum method_claim { METHOD_CLAIM_BY_QUEUE, METHOD_CLAIM_BY_CONSUMER, METHOD_CLAIM_BY_QUORUM };
/* No word. */
#define METHOD_CLAIM_ABSENT (-1)
/* In the order of enum method_claim; ends with NULL. */
extern const char *const method_claim_words[];

/*
 * Decoded parameters. A method uses the members that its row names; the others have the default that the
 * comment gives last. Strings are borrowed from the tree of the request.
 */
struct method_params {
	const char *name;       /* valid lock name; NULL */
	enum lock_kind kind;    /* LOCK_KIND_SEMAPHORE */
	int64_t timeout;        /* ns; 0: try once; DURATION_FOREVER */
	int64_t wait;           /* ns; DURATION_FOREVER: null; 0: do not wait */
	int64_t takeover_grace; /* ns; DURATION_FOREVER: null; 0: absent */
	int64_t grace;          /* evict: ns; METHODS_GRACE_DEFAULT seconds */
	int priority;           /* -100..100, higher is served first; 0 */
	int slots;              /* 0..METHODS_SLOTS_MAX, METHODS_UNLIMITED; 1 */
	int add, remove;        /* resize, instead of slots: 1..METHODS_SLOTS_MAX; 0: absent */
	int create;             /* acquire: size of a missing semaphore; 0: do not create it */
	int slot;               /* await: from 1 */
	int overshoot;          /* 0..METHODS_SLOTS_MAX; 0 */
	int order;              /* enum method_order; METHOD_ORDER_DESCENDING */
	int state;              /* enum method_slot_state */
	int format;             /* enum method_format; METHOD_FORMAT_PROMETHEUS */
	int claim;              /* enum method_claim; METHOD_CLAIM_ABSENT */
	int convert;            /* fsck: the same */
	bool exist_ok;          /* false */
	bool force;             /* false */
	bool repair;            /* false */
	bool progress;          /* false */
	bool lease;             /* false */
	bool broker;            /* ping: false */
	bool all;               /* deny, evict: all waiters or holders of name; false */
	const char *lock;       /* id of a hold; NULL */
	const char *waiter;     /* id of a row; NULL */
	const char *holder;     /* evict: the same */
	struct message_id id;   /* cancel: the waiting request; null */
	const char *who, *why, *command; /* NULL */
};

enum param_type {
	PARAM_NAME,     /* const char *: lock name */
	PARAM_KIND,     /* enum lock_kind */
	PARAM_DURATION, /* int64_t ns: seconds, up to max; max 0: or null, DURATION_FOREVER */
	PARAM_INTEGER,  /* int, from min to max */
	PARAM_SLOTS,    /* int, from min to max, or METHODS_UNLIMITED for "unlimited" */
	PARAM_WORD,     /* int: the place of the word in words */
	PARAM_BOOL,     /* bool */
	PARAM_STRING,   /* const char *: min to max bytes */
	PARAM_ID        /* struct message_id */
};

#define METHODS_KIND_BIT(kind) (1U << (kind))

struct param_spec {
	const char *name;
	enum param_type type;
	bool required;
	bool choice;              /* exactly one of the parameters with this mark is required */
	size_t offset;            /* in struct method_params */
	int min, max;             /* the value; PARAM_STRING: bytes; PARAM_DURATION: s */
	unsigned kinds;           /* PARAM_KIND: METHODS_KIND_BIT() of each allowed kind */
	const char *const *words; /* PARAM_WORD, PARAM_KIND: all words; ends with NULL */
};

/* Whether a request is a waiting request (PROTOCOL.md, "Requests"). */
enum method_wait {
	METHOD_ANSWERS,       /* never */
	METHOD_WAITS,         /* always */
	METHOD_WAITS_IF_TOLD, /* if `wait` is not 0 */
};

struct method_spec {
	const char *name;
	const struct param_spec *params; /* ends with a NULL name */
	enum method_wait wait;
};

/* The row of a method. NULL: the method does not exist. Static. */
const struct method_spec *method_find(const char *name);
/* All rows; the last has a NULL name. Static. */
const struct method_spec *method_all(void);
/* True: a request with these params is a waiting request, or tries. */
bool method_waits(const struct method_spec *method, const struct method_params *params);
/* True: acquire or await, which ends at once (`timeout` 0). */
bool method_tries(const struct method_spec *method, const struct method_params *params);
/*
 * Checks and decodes params. False: *ret_error is REASON_INVALID_PARAMS and names the parameter, and *ret is
 * unchanged. Unknown parameters are refused.
 */
bool method_params_parse(const struct method_spec *method, const struct cJSON *params,
    struct method_params *ret, struct message_error *ret_error) __attribute__((warn_unused_result));

/* The text of protocol/openrpc.json. Static. */
extern const char openrpc_json[];

#endif
