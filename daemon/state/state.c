#include "daemon/state/state.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "daemon/base/mem.h"
#include "protocol/json.h"

#define FIRST "lockbrokerd"
#define LAST "end"
#define ERROR_MAX 256

struct header {
	int state;
	const char *version;
};

static const struct state_field header_fields[] = {
    STATE_RANGE(header, state, 0, INT32_MAX), STATE_FIELD(header, version, STATE_TEXT), {0}};

struct footer {
	int records;
};

static const struct state_field footer_fields[] = {STATE_RANGE(footer, records, 0, INT32_MAX), {0}};

/* ---- writing ---- */

struct state_writer {
	struct state_text out;
	size_t room;
	int records; /* without the first and the last one */
};

static void
append(struct state_writer *writer, const char *text)
{
	struct state_text *out = &writer->out;
	size_t len = strlen(text);

	while (writer->room - out->len < len + 2) {
		writer->room = writer->room == 0 ? 4096 : 2 * writer->room;
		out->text = mem_grow(out->text, writer->room, 1);
	}
	memcpy(out->text + out->len, text, len);
	out->len += len;
	out->text[out->len++] = '\n';
	out->text[out->len] = '\0';
}

static void
put_bytes(struct cJSON *object, const char *name, const struct state_bytes *value)
{
	static const char digits[] = "0123456789abcdef";
	char *hex = mem_alloc(2 * value->len + 1);

	for (size_t i = 0; i < value->len; i++) {
		hex[2 * i] = digits[value->bytes[i] >> 4];
		hex[2 * i + 1] = digits[value->bytes[i] & 15];
	}
	json_add_string(object, name, hex);
	free(hex);
}

/* The inode tells the successor whether its descriptor is that socket. */
static void
put_socket(struct state_writer *writer, struct cJSON *object, const char *name, int fd)
{
	struct state_text *out = &writer->out;
	char text[48] = "-1";
	struct stat is;

	if (fd >= 0 && fstat(fd, &is) == 0) {
		snprintf(text, sizeof(text), "%d:%ju", fd, (uintmax_t)is.st_ino);
		out->sockets = mem_grow(out->sockets, out->socket_count + 1, sizeof(*out->sockets));
		out->sockets[out->socket_count++] = fd;
	}
	json_add_string(object, name, text);
}

static void
put_field(struct state_writer *writer, struct cJSON *object, const struct state_field *field,
    const void *from)
{
	const void *at = (const char *)from + field->offset;
	char digits[24];

	switch (field->type) {
	case STATE_NUMBER:
		snprintf(digits, sizeof(digits), "%" PRIu64, *(const uint64_t *)at);
		json_add_string(object, field->name, digits);
		break;
	case STATE_SIGNED:
		snprintf(digits, sizeof(digits), "%" PRId64, *(const int64_t *)at);
		json_add_string(object, field->name, digits);
		break;
	case STATE_INT:
		json_add_integer(object, field->name, *(const int *)at);
		break;
	case STATE_BOOL:
		json_add_bool(object, field->name, *(const bool *)at);
		break;
	case STATE_TEXT:
		json_add_string(object, field->name, *(const char *const *)at);
		break;
	case STATE_BYTES:
		put_bytes(object, field->name, at);
		break;
	case STATE_SOCKET:
		put_socket(writer, object, field->name, *(const int *)at);
		break;
	}
}

static void
put(struct state_writer *writer, const char *record, const struct state_field *fields,
    const void *from)
{
	struct cJSON *object = json_new_object();
	char *line;

	json_add_string(object, "record", record);
	for (const struct state_field *field = fields; field->name != NULL; field++)
		put_field(writer, object, field, from);
	line = json_print(object);
	append(writer, line != NULL ? line : mem_grow(NULL, SIZE_MAX, 1)); /* out of memory: ends */
	free(line);
	json_free(object);
}

struct state_writer *
state_writer_new(int version)
{
	struct state_writer *writer = mem_alloc(sizeof(*writer));

	assert(version >= 1 && version <= STATE_VERSION);
	put(writer, FIRST, header_fields,
	    &(struct header){.state = version, .version = PACKAGE_VERSION});
	return writer;
}

void
state_put(struct state_writer *writer, const char *record, const struct state_field *fields,
    const void *object)
{
	put(writer, record, fields, object);
	writer->records++;
}

struct state_text
state_finish(struct state_writer *writer)
{
	struct state_text text;

	put(writer, LAST, footer_fields, &(struct footer){.records = writer->records});
	text = writer->out;
	free(writer);
	return text;
}

void
state_text_done(struct state_text *text)
{
	free(text->text);
	free(text->sockets);
	*text = (struct state_text){.text = NULL};
}

/* ---- reading ---- */

struct state_reader {
	const char *at, *end; /* borrowed: the text behind the next record */
	const int *fds;       /* borrowed: the sockets of the rest; NULL: their numbers are kept */
	size_t fd_count;
	int line;           /* of the next record, from 1 */
	struct cJSON *next; /* owned; NULL: there is none */
	struct cJSON *last; /* owned; the record that was taken last, whose texts are lent */
	uint8_t **lent;     /* owned; bytes of that record */
	size_t lent_count;
	char *version; /* owned; NULL: not known */
	bool failed, over;
	char error[ERROR_MAX];
};

static bool fail(struct state_reader *reader, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool
fail(struct state_reader *reader, int line, const char *format, ...)
{
	int used;
	va_list args;

	if (reader->failed)
		return false;
	reader->failed = true;
	used = snprintf(reader->error, sizeof(reader->error), "line %d: ", line);
	va_start(args, format);
	vsnprintf(reader->error + used, sizeof(reader->error) - (size_t)used, format, args);
	va_end(args);
	return false;
}

bool
state_spoil(struct state_reader *reader, const char *why)
{
	return fail(reader, reader->line - 1, "%s", why);
}

const char *
state_error(const struct state_reader *reader)
{
	return reader->failed ? reader->error : NULL;
}

const char *
state_writer_version(const struct state_reader *reader)
{
	return reader->version;
}

static void
give_back(struct state_reader *reader)
{
	for (size_t i = 0; i < reader->lent_count; i++)
		free(reader->lent[i]);
	free(reader->lent);
	reader->lent = NULL;
	reader->lent_count = 0;
	json_free(reader->last);
	reader->last = NULL;
}

/* Parses the next line. */
static void
advance(struct state_reader *reader)
{
	const char *end = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));
	struct json_error error;

	reader->line++;
	if (reader->at == reader->end) {
		fail(reader, reader->line, "the last record is missing");
		return;
	}
	if (end == NULL) {
		fail(reader, reader->line, "the line has no end");
		return;
	}
	reader->next = json_parse(reader->at, (size_t)(end - reader->at), &error);
	if (reader->next == NULL)
		fail(reader, reader->line, "byte %zu: %s", error.at + 1, error.what);
	else if (!json_is_object(reader->next))
		fail(reader, reader->line, "a record is no object");
	reader->at = end + 1;
}

/* Digits, and a sign before them if it is_signed. */
static bool
parse_digits(const char *text, bool is_signed, uint64_t *ret)
{
	char *end;

	if (text[0] == '\0' || strspn(text + (is_signed && text[0] == '-'), "0123456789") !=
				   strlen(text + (is_signed && text[0] == '-')))
		return false;
	errno = 0;
	*ret = is_signed ? (uint64_t)strtoll(text, &end, 10) : strtoull(text, &end, 10);
	return errno == 0 && *end == '\0' && end != text;
}

static bool
get_digits(const struct cJSON *value, bool is_signed, void *ret)
{
	const char *text;
	uint64_t number;

	if (!json_string(value, &text) || !parse_digits(text, is_signed, &number))
		return false;
	memcpy(ret, &number, sizeof(number));
	return true;
}

static bool
get_int(const struct cJSON *value, const struct state_field *field, int *ret)
{
	int64_t number;

	if (!json_integer(value, &number) || number < field->least || number > field->most)
		return false;
	*ret = (int)number;
	return true;
}

static int
nibble(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

static bool
get_bytes(struct state_reader *reader, const struct cJSON *value, struct state_bytes *ret)
{
	const char *hex;
	uint8_t *bytes;
	size_t len;

	if (!json_string(value, &hex) || strlen(hex) % 2 != 0)
		return false;
	len = strlen(hex) / 2;
	bytes = mem_alloc(len + 1);
	reader->lent = mem_grow(reader->lent, reader->lent_count + 1, sizeof(*reader->lent));
	reader->lent[reader->lent_count++] = bytes;
	for (size_t i = 0; i < len; i++) {
		int high = nibble(hex[2 * i]), low = nibble(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		bytes[i] = (uint8_t)(high << 4 | low);
	}
	*ret = (struct state_bytes){.bytes = bytes, .len = len};
	return true;
}

/* Whether the descriptor is that socket. It is then closed in programs that this one starts. */
static bool
take_socket(int fd, uint64_t inode)
{
	struct stat is;

	return fstat(fd, &is) == 0 && S_ISSOCK(is.st_mode) && is.st_ino == inode &&
	       fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

/* A socket that did not arrive is no error: its other end may be gone. */
static bool
get_socket(struct state_reader *reader, const struct cJSON *value, int *ret)
{
	const char *text, *colon;
	char number[16];
	uint64_t fd, inode;

	*ret = -1;
	if (!json_string(value, &text))
		return false;
	if (strcmp(text, "-1") == 0)
		return true;
	colon = strchr(text, ':');
	if (colon == NULL || (size_t)(colon - text) >= sizeof(number))
		return false;
	snprintf(number, sizeof(number), "%.*s", (int)(colon - text), text);
	if (!parse_digits(number, false, &fd) || fd > INT32_MAX ||
	    !parse_digits(colon + 1, false, &inode))
		return false;
	if (reader->fds != NULL) {
		if (reader->fd_count == 0)
			return true;
		fd = (uint64_t)*reader->fds++;
		reader->fd_count--;
	}
	if (take_socket((int)fd, inode))
		*ret = (int)fd;
	else if (reader->fds != NULL)
		close((int)fd); /* it came for this record */
	return true;
}

static bool
get_text(const struct cJSON *value, const char **ret)
{
	*ret = NULL;
	return json_is_null(value) || json_string(value, ret);
}

/* An earlier version did not write the member. False: its writer must. */
static bool
set_default(const struct state_field *field, void *to)
{
	void *at = (char *)to + field->offset;

	switch (field->type) {
	case STATE_NUMBER:
	case STATE_SIGNED:
		*(uint64_t *)at = 0;
		break;
	case STATE_INT:
		*(int *)at = 0;
		return field->least <= 0 && field->most >= 0;
	case STATE_BOOL:
		*(bool *)at = false;
		break;
	case STATE_TEXT:
		*(const char **)at = NULL;
		break;
	case STATE_BYTES:
		*(struct state_bytes *)at = (struct state_bytes){.bytes = NULL};
		break;
	case STATE_SOCKET:
		*(int *)at = -1;
		break;
	}
	return true;
}

static bool
get_field(struct state_reader *reader, const struct cJSON *value, const struct state_field *field,
    void *to)
{
	void *at = (char *)to + field->offset;

	switch (field->type) {
	case STATE_NUMBER:
		return get_digits(value, false, at);
	case STATE_SIGNED:
		return get_digits(value, true, at);
	case STATE_INT:
		return get_int(value, field, at);
	case STATE_BOOL:
		return json_bool(value, at);
	case STATE_TEXT:
		return get_text(value, at);
	case STATE_BYTES:
		return get_bytes(reader, value, at);
	case STATE_SOCKET:
		return get_socket(reader, value, at);
	}
	return false;
}

bool
state_is(const struct state_reader *reader, const char *record)
{
	const char *name;

	return !reader->failed && reader->next != NULL &&
	       json_string(json_get(reader->next, "record"), &name) && strcmp(name, record) == 0;
}

bool
state_take(
    struct state_reader *reader, const char *record, const struct state_field *fields, void *ret)
{
	const struct cJSON *value;

	give_back(reader);
	if (!state_is(reader, record))
		return fail(reader, reader->line, "expected the record \"%s\"", record);
	reader->last = reader->next;
	reader->next = NULL;
	/* Members that are not in the table are of a later program. */
	for (const struct state_field *field = fields; field->name != NULL; field++) {
		value = json_get(reader->last, field->name);
		if (value == NULL && !set_default(field, ret))
			return fail(reader, reader->line, "%s: expected the member \"%s\"", record,
			    field->name);
		if (value != NULL && !get_field(reader, value, field, ret))
			return fail(
			    reader, reader->line, "%s: invalid value of %s", record, field->name);
	}
	if (strcmp(record, LAST) != 0)
		advance(reader);
	return true;
}

struct state_reader *
state_reader_new(const char *text, size_t len, const int *fds, size_t fd_count)
{
	struct state_reader *reader = mem_alloc(sizeof(*reader));
	struct header header = {0};

	reader->at = text;
	reader->end = text + len;
	reader->fds = fds;
	reader->fd_count = fd_count;
	advance(reader);
	if (!state_take(reader, FIRST, header_fields, &header))
		return reader;
	if (header.version != NULL)
		reader->version = mem_strdup(header.version);
	if (header.state < 1 || header.state > STATE_VERSION)
		fail(reader, 1, "the state has version %d, and this program reads versions 1 to %d",
		    header.state, STATE_VERSION);
	return reader;
}

bool
state_end(struct state_reader *reader)
{
	struct footer footer;
	int records = reader->line - 2;

	if (!state_take(reader, LAST, footer_fields, &footer))
		return false;
	if (footer.records != records || reader->at != reader->end)
		return fail(reader, reader->line, "the number of records is wrong");
	return true;
}

void
state_reader_free(struct state_reader *reader)
{
	if (reader == NULL)
		return;
	give_back(reader);
	json_free(reader->next);
	free(reader->version);
	free(reader);
}
