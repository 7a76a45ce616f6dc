#include "daemon/broker/broker.h"

#include <string.h>

const char *
broker_state_word(enum broker_state state)
{
	switch (state) {
	case BROKER_DOWN:
		return "down";
	case BROKER_UP:
		return "up";
	case BROKER_LOGIN_REFUSED:
		return "refused";
	}
	return "?";
}

bool
broker_is_name(const void *body, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (((const char *)body)[i] < ' ' || ((const char *)body)[i] > '~')
			return false;
	}
	return len > 0 && len <= BROKER_NAME_MAX;
}

uint64_t
broker_number(const char *text)
{
	uint64_t number = 0;

	if (strlen(text) > 19 || strspn(text, "0123456789") != strlen(text))
		return 0;
	for (; *text != '\0'; text++)
		number = 10 * number + (uint64_t)(*text - '0');
	return number;
}

char *
broker_number_text(char room[BROKER_NUMBER_TEXT], uint64_t number)
{
	char *at = room + BROKER_NUMBER_TEXT - 1;

	*at = '\0';
	do {
		*--at = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	return at;
}

int
broker_hint_slot(const char *text)
{
	int slot = 0;

	for (; *text != '\0'; text++) {
		if (*text < '0' || *text > '9' || slot > 10 * 1000)
			return 0;
		slot = 10 * slot + (*text - '0');
	}
	return slot;
}
