#include "protocol/json_scan.h"

#include <assert.h>
#include <string.h>

struct json_scan {
	const char *text;
	size_t len;
	size_t at;
	size_t keys;     /* seen so far */
	size_t want_key; /* the key whose place is asked for; SIZE_MAX = none */
	size_t key_at;
	const char *what; /* first error; NULL = none */
};

static bool scan_value(struct json_scan *s, int depth);

static bool
fail(struct json_scan *s, size_t at, const char *what)
{
	s->at = at;
	s->what = what;
	return false;
}

/* The byte at the cursor, -1 at the end. */
static int
peek(const struct json_scan *s)
{
	return s->at < s->len ? (unsigned char)s->text[s->at] : -1;
}

static bool
is_digit(int c)
{
	return c >= '0' && c <= '9';
}

static void
skip_space(struct json_scan *s)
{
	int c;

	while ((c = peek(s)) == ' ' || c == '\t' || c == '\r' || c == '\n')
		s->at++;
}

size_t
json_scan_utf8(const char *bytes, size_t len)
{
	const unsigned char *b = (const unsigned char *)bytes;
	unsigned char low = 0x80, high = 0xbf; /* range of the second byte: Unicode 15, table 3-7 */
	size_t need;

	assert(len >= 1);
	if (b[0] < 0x80)
		return 1;
	if (b[0] < 0xc2 || b[0] > 0xf4)
		return 0;
	need = b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : 4;
	if (len < need)
		return 0;
	if (b[0] == 0xe0)
		low = 0xa0;
	else if (b[0] == 0xed)
		high = 0x9f;
	else if (b[0] == 0xf0)
		low = 0x90;
	else if (b[0] == 0xf4)
		high = 0x8f;
	if (b[1] < low || b[1] > high)
		return 0;
	for (size_t i = 2; i < need; i++)
		if ((b[i] & 0xc0) != 0x80)
			return 0;
	return need;
}

/* The four digits of \uXXXX at `at`; -1 when they are none. */
static int
hex4(const struct json_scan *s, size_t at)
{
	int value = 0;

	if (s->len - at < 4)
		return -1;
	for (size_t i = at; i < at + 4; i++) {
		char c = s->text[i];

		if (is_digit(c))
			value = value * 16 + (c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value * 16 + (c - 'a' + 10);
		else if (c >= 'A' && c <= 'F')
			value = value * 16 + (c - 'A' + 10);
		else
			return -1;
	}
	return value;
}

/* Cursor on the backslash. */
static bool
scan_escape(struct json_scan *s)
{
	size_t start = s->at;
	int unit;

	s->at++;
	switch (peek(s)) {
	case '"':
	case '\\':
	case '/':
	case 'b':
	case 'f':
	case 'n':
	case 'r':
	case 't':
		s->at++;
		return true;
	case 'u':
		s->at++;
		break;
	default:
		return fail(s, start, "unknown escape in a string");
	}
	unit = hex4(s, s->at);
	if (unit < 0)
		return fail(s, start, "\\u without four hexadecimal digits");
	if (unit == 0)
		return fail(s, start, "\\u0000 is refused");
	s->at += 4;
	if (unit < 0xd800 || unit > 0xdfff)
		return true;
	if (unit > 0xdbff || s->len - s->at < 6 || s->text[s->at] != '\\' ||
	    s->text[s->at + 1] != 'u')
		return fail(s, start, "lone surrogate in a string");
	unit = hex4(s, s->at + 2);
	if (unit < 0xdc00 || unit > 0xdfff)
		return fail(s, start, "lone surrogate in a string");
	s->at += 6;
	return true;
}

/* Cursor on the opening quote. */
static bool
scan_string(struct json_scan *s)
{
	s->at++;
	for (;;) {
		int c = peek(s);
		size_t n;

		if (c < 0)
			return fail(s, s->at, "string without end");
		if (c == '"') {
			s->at++;
			return true;
		}
		if (c == '\\') {
			if (!scan_escape(s))
				return false;
			continue;
		}
		if (c == 0)
			return fail(s, s->at, "NUL byte");
		if (c < 0x20)
			return fail(s, s->at, "control byte in a string");
		n = json_scan_utf8(s->text + s->at, s->len - s->at);
		if (n == 0)
			return fail(s, s->at, "invalid UTF-8");
		s->at += n;
	}
}

static size_t
scan_digits(struct json_scan *s)
{
	size_t start = s->at;

	while (is_digit(peek(s)))
		s->at++;
	return s->at - start;
}

/*
 * int [frac] [exp]. Refuses by the number of digits, coarsely, a number that might not fit a double: strtod()
 * inside cJSON would make it infinite.
 */
static bool
scan_number(struct json_scan *s)
{
	size_t start = s->at, whole;
	int exponent = 0;
	bool negative = false;

	if (peek(s) == '-')
		s->at++;
	if (peek(s) == '0' && s->at + 1 < s->len && is_digit(s->text[s->at + 1]))
		return fail(s, s->at, "number with a leading zero");
	whole = scan_digits(s);
	if (whole == 0)
		return fail(s, s->at, "number without digits");
	if (peek(s) == '.') {
		s->at++;
		if (scan_digits(s) == 0)
			return fail(s, s->at, "number without digits after the point");
	}
	if (peek(s) == 'e' || peek(s) == 'E') {
		size_t digits;

		s->at++;
		if (peek(s) == '+' || peek(s) == '-')
			negative = s->text[s->at++] == '-';
		digits = s->at;
		if (scan_digits(s) == 0)
			return fail(s, s->at, "number without digits in its exponent");
		for (; digits < s->at && exponent < 1000; digits++)
			exponent = exponent * 10 + (s->text[digits] - '0');
	}
	if (s->at - start > JSON_NUMBER_MAX)
		return fail(s, start, "number too long");
	if (!negative && whole + (size_t)exponent > 308)
		return fail(s, start, "number too large");
	return true;
}

static bool
scan_word(struct json_scan *s, const char *word)
{
	size_t n = strlen(word);

	if (s->len - s->at < n || memcmp(s->text + s->at, word, n) != 0)
		return fail(s, s->at, "not a JSON value");
	s->at += n;
	return true;
}

static bool
scan_key(struct json_scan *s)
{
	if (peek(s) != '"')
		return fail(s, s->at, "member name expected");
	if (s->keys++ == s->want_key)
		s->key_at = s->at;
	if (!scan_string(s))
		return false;
	skip_space(s);
	if (peek(s) != ':')
		return fail(s, s->at, "':' expected");
	s->at++;
	return true;
}

/* Cursor on the opening bracket; both kinds of container. */
static bool
scan_container(struct json_scan *s, int depth, char close)
{
	size_t members = 0;

	if (depth > JSON_DEPTH_MAX)
		return fail(s, s->at, "nested too deep");
	s->at++;
	skip_space(s);
	if (peek(s) == close) {
		s->at++;
		return true;
	}
	for (;;) {
		skip_space(s);
		if (close == '}') {
			if (++members > JSON_MEMBERS_MAX)
				return fail(s, s->at, "too many members in an object");
			if (!scan_key(s))
				return false;
		}
		if (!scan_value(s, depth))
			return false;
		skip_space(s);
		if (peek(s) == close) {
			s->at++;
			return true;
		}
		if (peek(s) != ',')
			return fail(
			    s, s->at, close == '}' ? "',' or '}' expected" : "',' or ']' expected");
		s->at++;
	}
}

/* depth: containers around the value. */
static bool
scan_value(struct json_scan *s, int depth)
{
	int c;

	skip_space(s);
	c = peek(s);
	switch (c) {
	case -1:
		return fail(s, s->at, "value expected, but the text ends");
	case 0:
		return fail(s, s->at, "NUL byte");
	case '{':
		return scan_container(s, depth + 1, '}');
	case '[':
		return scan_container(s, depth + 1, ']');
	case '"':
		return scan_string(s);
	case 't':
		return scan_word(s, "true");
	case 'f':
		return scan_word(s, "false");
	case 'n':
		return scan_word(s, "null");
	default:
		if (c == '-' || is_digit(c))
			return scan_number(s);
		return fail(s, s->at, "not a JSON value");
	}
}

bool
json_scan(const char *text, size_t len, struct json_error *ret_error)
{
	struct json_scan s = {.text = text, .len = len, .want_key = SIZE_MAX};

	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		fail(&s, 0, "byte order mark");
	} else if (scan_value(&s, 0)) {
		skip_space(&s);
		if (s.at == len)
			return true;
		fail(&s, s.at, "more text after the value");
	}
	*ret_error = (struct json_error){.at = s.at, .what = s.what};
	return false;
}

size_t
json_scan_key(const char *text, size_t len, size_t n)
{
	struct json_scan s = {.text = text, .len = len, .want_key = n};
	bool valid = scan_value(&s, 0);

	assert(valid && s.keys > n);
	return s.key_at;
}
