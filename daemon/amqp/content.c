#include "daemon/amqp/content.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"

void
amqp_content_init(struct amqp_content *content, size_t body_max)
{
	*content = (struct amqp_content){.body_max = body_max};
	if (body_max > 0)
		content->body = mem_alloc(body_max + 1);
}

void
amqp_content_done(struct amqp_content *content)
{
	free(content->body);
	content->body = NULL;
}

bool
amqp_content_announce(struct amqp_content *content)
{
	if (content->state != AMQP_CONTENT_IDLE)
		return false;
	content->state = AMQP_CONTENT_ANNOUNCED;
	return true;
}

static void
take_word(char ret[AMQP_CONTENT_WORD], bool given, amqp_bytes_t word)
{
	size_t len = !given ? 0 : word.len < AMQP_CONTENT_WORD ? word.len : AMQP_CONTENT_WORD - 1;

	if (len > 0)
		memcpy(ret, word.bytes, len);
	ret[len] = '\0';
}

/* Below 0, or not a number: 0. */
static uint64_t
number_of(const amqp_field_value_t *value)
{
	int64_t number = 0;

	switch (value->kind) {
	case AMQP_FIELD_KIND_U8:
		return value->value.u8;
	case AMQP_FIELD_KIND_U16:
		return value->value.u16;
	case AMQP_FIELD_KIND_U32:
		return value->value.u32;
	case AMQP_FIELD_KIND_I8:
		number = value->value.i8;
		break;
	case AMQP_FIELD_KIND_I16:
		number = value->value.i16;
		break;
	case AMQP_FIELD_KIND_I32:
		number = value->value.i32;
		break;
	case AMQP_FIELD_KIND_I64:
		number = value->value.i64;
		break;
	default:
		break;
	}
	return number > 0 ? (uint64_t)number : 0;
}

static bool
has_key(const amqp_table_entry_t *entry, const char *key)
{
	return entry->key.len == strlen(key) && memcmp(entry->key.bytes, key, entry->key.len) == 0;
}

static uint64_t
count_returns(const amqp_table_t *headers)
{
	uint64_t count = 0;

	for (int i = 0; i < headers->num_entries; i++) {
		const amqp_table_entry_t *entry = &headers->entries[i];

		if (has_key(entry, "x-acquired-count"))
			return number_of(&entry->value);
		if (has_key(entry, "x-delivery-count"))
			count = number_of(&entry->value);
	}
	return count;
}

static void
take_header(struct amqp_content *content, const struct amqp_frame *frame)
{
	const amqp_basic_properties_t *properties = frame->fields;
	amqp_flags_t flags = properties->_flags;

	content->size = frame->body_size;
	content->arrived = 0;
	take_word(content->correlation_id, flags & AMQP_BASIC_CORRELATION_ID_FLAG,
	    properties->correlation_id);
	take_word(content->reply_to, flags & AMQP_BASIC_REPLY_TO_FLAG, properties->reply_to);
	take_word(content->user_id, flags & AMQP_BASIC_USER_ID_FLAG, properties->user_id);
	content->returned =
	    flags & AMQP_BASIC_HEADERS_FLAG ? count_returns(&properties->headers) : 0;
}

static void
keep_body(struct amqp_content *content, amqp_bytes_t body)
{
	size_t room = 0;

	FAULT_IF(BODY_WRITTEN_OVER, content->body != NULL,
		 memmove(content->body, body.bytes, body.len < content->body_max ? body.len : 0);
		 content->arrived += body.len; return;);
	if (content->arrived < content->body_max)
		room = content->body_max - (size_t)content->arrived;
	if (room > body.len)
		room = body.len;
	if (room > 0)
		memcpy(content->body + content->arrived, body.bytes, room);
	content->arrived += body.len;
}

enum amqp_content_status
amqp_content_take(struct amqp_content *content, const struct amqp_frame *frame)
{
	size_t kept;

	if (frame->type == AMQP_FRAME_HEADER) {
		if (content->state != AMQP_CONTENT_ANNOUNCED)
			return AMQP_CONTENT_BAD;
		content->state = AMQP_CONTENT_BODY;
		take_header(content, frame);
	} else {
		if (content->state != AMQP_CONTENT_BODY || frame->body.len == 0 ||
		    frame->body.len > content->size - content->arrived)
			return AMQP_CONTENT_BAD;
		keep_body(content, frame->body);
	}
	if (content->arrived < content->size)
		return AMQP_CONTENT_MORE;
	content->state = AMQP_CONTENT_IDLE;
	kept = content->size < content->body_max ? (size_t)content->size : content->body_max;
	if (content->body != NULL)
		content->body[kept] = '\0';
	return AMQP_CONTENT_WHOLE;
}
