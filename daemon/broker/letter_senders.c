#include "daemon/broker/letter_senders.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/broker/broker.h"

struct sender {
	uint64_t id;  /* 0: nobody */
	char *inbox;  /* owned */
	char *number; /* owned */
	int64_t until;
};

struct letter_senders {
	uint64_t last;
	struct sender ring[LETTER_SENDERS_MAX]; /* by id */
};

struct letter_senders *
letter_senders_new(void)
{
	return mem_alloc(sizeof(struct letter_senders));
}

static void
sender_done(struct sender *sender)
{
	free(sender->inbox);
	free(sender->number);
	*sender = (struct sender){0};
}

void
letter_senders_free(struct letter_senders *senders)
{
	if (senders == NULL)
		return;
	for (size_t i = 0; i < LETTER_SENDERS_MAX; i++)
		sender_done(&senders->ring[i]);
	free(senders);
}

uint64_t
letter_senders_add(
    struct letter_senders *senders, const char *inbox, const char *number, int64_t now)
{
	struct sender *sender;

	if (strncmp(inbox, LETTER_INBOX, strlen(LETTER_INBOX)) != 0 || broker_number(number) == 0)
		return 0;
	sender = &senders->ring[++senders->last % LETTER_SENDERS_MAX];
	sender_done(sender);
	sender->id = senders->last;
	sender->inbox = mem_strdup(inbox);
	sender->number = mem_strdup(number);
	sender->until = now + BROKER_LETTER_TTL;
	return sender->id;
}

bool
letter_senders_find(
    struct letter_senders *senders, uint64_t from, int64_t now, struct letter_sender *ret)
{
	const struct sender *sender = &senders->ring[from % LETTER_SENDERS_MAX];

	if (from == 0 || sender->id != from || sender->until <= now)
		return false;
	*ret = (struct letter_sender){.inbox = sender->inbox, .number = sender->number};
	return true;
}
