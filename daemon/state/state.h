/*
 * The state that a daemon leaves to its successor, as text. It is one JSON object a line, a record.
 * docs/STATE.md has the format. A table of fields describes a record, and serves for both
 * directions. Knows no locks, no queues and no clients.
 *
 *	{"record":"lockbrokerd","state":1,"version":"0.1.0"}
 *	{"record":"hold","id":"17","name":"db-slots","slot":1, ...}
 *	{"record":"end","records":1}
 *
 * The writer aborts if memory runs out (daemon/base/mem.h). The reader takes each version since 1. It
 * ignores members that it does not know. A member that is missing is 0, false, NULL, or no socket.
 */
#ifndef STATE_STATE_H
#define STATE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The newest version, which a reader before it refuses. It changes with each new record. A new member does not
 * need it, if the default is right.
 */
#define STATE_VERSION 2

enum state_type {
	STATE_NUMBER, /* uint64_t */
	STATE_SIGNED, /* int64_t, such as a clock time */
	STATE_INT,    /* int, within `least` and `most` */
	STATE_BOOL,   /* bool */
	STATE_TEXT,   /* const char *; NULL: none */
	STATE_BYTES,  /* struct state_bytes */
	STATE_SOCKET  /* int: a descriptor; -1: none, or it did not arrive */
};

struct state_bytes {
	const uint8_t *bytes;
	size_t len;
};

/* A member of a record, and its place in a struct. Tables end with name NULL. */
struct state_field {
	const char *name;
	enum state_type type;
	size_t offset;
	int least, most; /* of STATE_INT */
};

#define STATE_FIELD(type, member, kind)                                                            \
	{                                                                                          \
#member, kind, offsetof(struct type, member), 0, 0                                 \
	}
#define STATE_RANGE(type, member, least, most)                                                     \
	{                                                                                          \
#member, STATE_INT, offsetof(struct type, member), least, most                     \
	}

/* ---- writing ---- */

struct state_writer;

/* version: 1 to STATE_VERSION. The oldest one that has all records is read by most programs. */
struct state_writer *state_writer_new(int version);
/* Appends a record. fields, and the name of the record, are static. */
void state_put(struct state_writer *writer, const char *record, const struct state_field *fields,
    const void *object);
/* A text, and the sockets that have to arrive with it. */
struct state_text {
	char *text; /* owned */
	size_t len;
	int *sockets; /* owned */
	size_t socket_count;
};

/* Appends the last record. Frees the writer. */
struct state_text state_finish(struct state_writer *writer);
void state_text_done(struct state_text *text);

/* ---- reading ---- */

struct state_reader;

/*
 * text: borrowed for the life of the reader. fds: the sockets that came with it, in the order of
 * state_text, borrowed. NULL: a socket has the number that it had in the writer's process. The first
 * record is taken already.
 */
struct state_reader *state_reader_new(
    const char *text, size_t len, const int *fds, size_t fd_count);
void state_reader_free(struct state_reader *reader); /* NULL is fine */
/* Whether the next record has that name. False after an error. */
bool state_is(const struct state_reader *reader, const char *record);
/*
 * Takes the next record, which must have that name. Texts and bytes are borrowed until the next
 * call. False: an error, which remains.
 */
bool state_take(struct state_reader *reader, const char *record, const struct state_field *fields,
    void *ret) __attribute__((warn_unused_result));
/* Takes the last record. False: an error, or more follows. */
bool state_end(struct state_reader *reader) __attribute__((warn_unused_result));
/* The record that was taken last is wrong. Returns false. why: static. */
bool state_spoil(struct state_reader *reader, const char *why);
/* Why the text cannot be used: "line 3: ..."; NULL: no error so far. */
const char *state_error(const struct state_reader *reader);
/* The version of the daemon that wrote it, for the log. NULL: not known. Borrowed. */
const char *state_writer_version(const struct state_reader *reader);

#endif
