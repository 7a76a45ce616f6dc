#include "client/tool/text.h"

#include <locale.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <wchar.h>

#define ELLIPSIS 0x2026

/* One character of UTF-8; its length, and *ret negative when the bytes are none. */
static size_t
decode(const char *text, int32_t *ret)
{
	const unsigned char *byte = (const unsigned char *)text;
	size_t len = *byte < 0x80    ? 1
		     : *byte < 0xc0  ? 0
		     : *byte < 0xe0  ? 2
		     : *byte < 0xf0  ? 3
		     : *byte <= 0xf4 ? 4
				     : 0;

	*ret = -1;
	if (len <= 1) {
		if (len == 1)
			*ret = *byte;
		return 1;
	}
	*ret = *byte & (0xff >> (len + 1));
	for (size_t i = 1; i < len; i++) {
		if ((byte[i] & 0xc0) != 0x80) {
			*ret = -1;
			return 1;
		}
		*ret = *ret << 6 | (byte[i] & 0x3f);
	}
	return len;
}

/*
 * Such have no width, and change how what is beside them looks (Unicode 15, 23.2: layout controls).
 */
static bool
is_layout_control(int32_t c)
{
	return (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || c == 0x061c;
}

/* Columns, or -1 for what is not shown as it is. */
static int
width_of(int32_t character)
{
	if (character < 0 || is_layout_control(character))
		return -1;
	return wcwidth((wchar_t)character);
}

int
text_columns(const char *text)
{
	int32_t character;
	int columns = 0;

	for (; *text != '\0'; text += decode(text, &character)) {
		int width = (decode(text, &character), width_of(character));

		columns += width < 0 ? 1 : width;
	}
	return columns;
}

static const char *
mark(void)
{
	return width_of(ELLIPSIS) == 1 ? "\xe2\x80\xa6" : "~";
}

/* As much as fits, without a mark. *ret_rest is what is left. */
static int
copy(char *ret, size_t size, const char *text, int columns, const char **ret_rest)
{
	int taken = 0;

	while (*text != '\0') {
		int32_t character;
		size_t len = decode(text, &character);
		int width = width_of(character);
		bool shown = width >= 0;
		size_t bytes = shown ? len : 1;

		width = shown ? width : 1;
		if (taken + width > columns || bytes >= size)
			break;
		memcpy(ret, shown ? text : "?", bytes);
		ret += bytes;
		size -= bytes;
		taken += width;
		text += len;
	}
	*ret = '\0';
	*ret_rest = text;
	return taken;
}

int
text_fit(char *ret, size_t size, const char *text, int columns)
{
	size_t mark_len = strlen(mark());
	const char *rest;
	int taken;

	if (columns <= 0 || size == 0) {
		if (size > 0)
			*ret = '\0';
		return 0;
	}
	taken = copy(ret, size, text, columns, &rest);
	if (*rest == '\0' || size <= mark_len)
		return taken;
	taken = copy(ret, size - mark_len, text, columns - 1, &rest);
	strcat(ret, mark());
	return taken + 1;
}

void
text_clean(char *ret, size_t size, const char *text)
{
	setlocale(LC_CTYPE, "C.UTF-8");
	(void)text_fit(ret, size, text, TEXT_WHOLE);
}
