#include "protocol/lockname.h"

#include <stdbool.h>
#include <string.h>

#define MESSAGES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

/* -A and -B cover -<digits>-A and -<digits>-B. */
static bool
ends_like_a_queue(const char *name, size_t len)
{
	size_t n = len;

	if (n >= 2 && name[n - 2] == '-' && memchr("ABWGUM", name[n - 1], 6) != NULL)
		return true;
	while (n > 0 && memchr(DIGITS, name[n - 1], 10) != NULL)
		n--;
	return n < len && n >= 3 && name[n - 1] == '-' && name[n - 3] == '-' &&
	       (name[n - 2] == 'A' || name[n - 2] == 'B');
}

const char *
lockname_error(const char *name, size_t len)
{
	static const char allowed[] = MESSAGES DIGITS "._:/-";

	if (len == 0)
		return "a lock name must not be empty";
	if (len > LOCKNAME_MAX)
		return "a lock name has at most 200 bytes";
	for (size_t i = 0; i < len; i++)
		if (memchr(allowed, name[i], sizeof(allowed) - 1) == NULL)
			return "a lock name is made of letters, digits and . _ : / -";
	if (len >= 4 && memcmp(name, "amq.", 4) == 0)
		return "a lock name must not start with amq.";
	if (ends_like_a_queue(name, len))
		return "a lock name must not end in -A, -B, -W, -G, -U, -M, -A-<digits> or "
		       "-B-<digits>";
	return NULL;
}

const char *const lock_kind_words[] = {"semaphore", "mutex", "persistent-mutex", NULL};

const char *
lock_kind_word(enum lock_kind kind)
{
	return lock_kind_words[kind];
}
