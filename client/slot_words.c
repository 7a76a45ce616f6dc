#include "client/slot_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lockbroker.h"

/* "slots ", and what may follow the last run: ", 10000-10000 and 10000 more". */
#define HEAD_SIZE 8
#define TAIL_SIZE 32

static void
write_run(struct slot_words *words)
{
	int added = words->last - words->first + 1;
	const char *comma = words->len > 0 ? ", " : "";
	size_t room = sizeof(words->text) - HEAD_SIZE;

	if (words->first == 0)
		return;
	if (words->len + TAIL_SIZE > room)
		words->left_out += added;
	else if (added == 1)
		words->len += (size_t)snprintf(
		    words->text + words->len, TAIL_SIZE, "%s%d", comma, words->first);
	else
		words->len += (size_t)snprintf(words->text + words->len, TAIL_SIZE, "%s%d-%d",
		    comma, words->first, words->last);
	words->first = 0;
}

void
slot_words_add(struct slot_words *words, int slot)
{
	words->count++;
	if (words->first != 0 && slot == words->last + 1) {
		words->last = slot;
	} else if (words->first != 0 && slot == words->first - 1) {
		words->first = slot;
	} else {
		write_run(words);
		words->first = words->last = slot;
	}
}

struct reading {
	struct slot_words *words;
	const char *member;
};

/* "held.0", "holders.0.slot" */
static int
read_one(const char *path, const char *value, void *arg)
{
	struct reading *reading = arg;
	size_t len = strlen(reading->member);
	long slot = strtol(value, NULL, 10);

	if (strncmp(path, reading->member, len) != 0 || path[len] != '.')
		return 0;
	path += len + 1;
	path += strspn(path, "0123456789");
	if ((*path == '\0' || strcmp(path, ".slot") == 0) && slot > 0 && slot < LB_UNLIMITED)
		slot_words_add(reading->words, (int)slot);
	return 0;
}

void
slot_words_read(struct slot_words *words, const char *json, const char *member)
{
	struct reading reading = {.words = words, .member = member};

	(void)lb_json_each(json, read_one, &reading);
}

const char *
slot_words_end(struct slot_words *words, int total)
{
	const char *head = words->count == 1 && total <= 1 ? "slot " : "slots ";
	size_t len = strlen(head);

	if (words->count == 0)
		return "";
	write_run(words);
	if (total > words->count)
		words->left_out += total - words->count;
	memmove(words->text + len, words->text, words->len + 1);
	memcpy(words->text, head, len);
	if (words->left_out > 0)
		snprintf(
		    words->text + len + words->len, TAIL_SIZE, " and %d more", words->left_out);
	return words->text;
}
