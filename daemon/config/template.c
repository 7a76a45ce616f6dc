#include "daemon/config/template.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "protocol/lockname.h"
#include "protocol/methods.h"

#define PLACEHOLDER_LEN (sizeof(TEMPLATE_NAME) - 1)
_Static_assert(sizeof(TEMPLATE_NAME) == sizeof(TEMPLATE_SLOT), "one length for both");
_Static_assert(METHODS_SLOTS_MAX <= 99999, "SLOT_DIGITS");
#define SLOT_DIGITS 5

/* A template that is being parsed, and the places of its placeholders. */
struct parsing {
	const char *text;
	const char *name, *slot; /* in text; NULL: not found yet */
	char *error;
};

static bool fail(const struct parsing *p, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* at: the place of the error; NULL: none. */
static bool
fail(const struct parsing *p, const char *at, const char *format, ...)
{
	size_t used = 0;
	va_list ap;

	if (at != NULL)
		used = (size_t)snprintf(
		    p->error, TEMPLATE_ERROR_MAX, "byte %zu: ", (size_t)(at - p->text) + 1);
	va_start(ap, format);
	vsnprintf(p->error + used, TEMPLATE_ERROR_MAX - used, format, ap);
	va_end(ap);
	return false;
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
take_placeholder(struct parsing *p, const char *at)
{
	bool name = strncmp(at, TEMPLATE_NAME, PLACEHOLDER_LEN) == 0;
	const char **place = name ? &p->name : &p->slot;

	if (!name && strncmp(at, TEMPLATE_SLOT, PLACEHOLDER_LEN) != 0)
		return fail(p, at, "'{' must begin {name} or {slot}");
	if (*place != NULL)
		return fail(p, at, "a second %s", name ? TEMPLATE_NAME : TEMPLATE_SLOT);
	*place = at;
	return true;
}

/* Finds the placeholders, and checks that a queue's name may contain the rest. */
static bool
scan(struct parsing *p)
{
	for (const char *at = p->text; *at != '\0'; at++) {
		if (*at == '{') {
			if (!take_placeholder(p, at))
				return false;
			at += PLACEHOLDER_LEN - 1;
		} else if (*at == '}') {
			return fail(p, at, "'}' must end {name} or {slot}");
		} else if (*at == '=') {
			return fail(p, at, "'=' is reserved for lockbroker's own queues");
		} else if (*at <= ' ' || *at > '~') {
			return fail(p, at, "contains a character that is not printable ASCII");
		}
	}
	if (p->name == NULL)
		return fail(p, NULL, "lacks {name}");
	if (p->slot == NULL)
		return fail(p, NULL, "lacks {slot}");
	return true;
}

static bool
check_slot(const struct parsing *p)
{
	const char *before = p->slot == p->text ? NULL : p->slot - 1;
	const char *after = p->slot + PLACEHOLDER_LEN;

	if (after == p->name || p->name + PLACEHOLDER_LEN == p->slot)
		return fail(p, p->slot,
		    "{name} and {slot} need a sign between them, or digits of a name could be "
		    "taken for a slot");
	if (before != NULL && is_digit(*before))
		return fail(
		    p, before, "a digit before {slot} could be taken for a digit of the slot");
	if (is_digit(*after))
		return fail(
		    p, after, "a digit after {slot} could be taken for a digit of the slot");
	return true;
}

bool
template_parse(const char *text, struct template *ret, char error[TEMPLATE_ERROR_MAX])
{
	struct parsing p = {.text = text, .error = error};
	size_t longest;

	if (!scan(&p) || !check_slot(&p))
		return false;
	if (strncmp(text, "amq.", 4) == 0)
		return fail(&p, text, "starts with amq., which RabbitMQ reserves");
	longest = strlen(text) - 2 * PLACEHOLDER_LEN + LOCKNAME_MAX + SLOT_DIGITS;
	if (longest > TEMPLATE_QUEUE_MAX)
		return fail(&p, NULL,
		    "a lock name of %d bytes and slot %d make %zu bytes; a queue name has at most "
		    "%d",
		    LOCKNAME_MAX, METHODS_SLOTS_MAX, longest, TEMPLATE_QUEUE_MAX);
	snprintf(ret->head, sizeof(ret->head), "%.*s", (int)(p.name - text), text);
	snprintf(ret->tail, sizeof(ret->tail), "%s", p.name + PLACEHOLDER_LEN);
	return true;
}

/*
 * Whether these two bytes cannot be at the same place of one name. The digits of a slot always end
 * at another byte. So {slot} differs from each byte that is not a digit.
 */
static bool
bytes_differ(char one, char other, char slot_begins)
{
	if (one == other)
		return false;
	return !(one == slot_begins && is_digit(other)) && !(other == slot_begins && is_digit(one));
}

/* At the first difference, {slot} may meet a digit. Then the templates may make the same name. */
static bool
heads_differ(const char *one, const char *other)
{
	while (*one != '\0' && *one == *other)
		one++, other++;
	return *one != '\0' && *other != '\0' && bytes_differ(*one, *other, '{');
}

static bool
tails_differ(const char *one, const char *other)
{
	size_t left = strlen(one), right = strlen(other);

	while (left > 0 && right > 0 && one[left - 1] == other[right - 1])
		left--, right--;
	return left > 0 && right > 0 && bytes_differ(one[left - 1], other[right - 1], '}');
}

bool
template_differ(const struct template *one, const struct template *other)
{
	return heads_differ(one->head, other->head) || tails_differ(one->tail, other->tail);
}
