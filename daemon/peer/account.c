#include "daemon/peer/account.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/log.h"
#include "daemon/base/mem.h"

struct account *
account_open(struct accounts *all, uid_t uid)
{
	struct account *account;

	HASH_FIND(hh, all->by_uid, &uid, sizeof(uid), account);
	if (account == NULL) {
		account = mem_alloc(sizeof(*account));
		account->uid = uid;
		account->all = all;
		TAILQ_INIT(&account->due);
		TAILQ_INIT(&account->halted);
		TAILQ_INIT(&account->parked);
		HASH_ADD(hh, all->by_uid, uid, sizeof(uid), account);
	}
	account_add(account, ACCOUNT_PEERS, 1);
	return account;
}

void
account_close(struct account *account)
{
	struct accounts *all = account->all;

	account_remove(account, ACCOUNT_PEERS, 1);
	if (account->used[ACCOUNT_PEERS] > 0)
		return;
	for (int thing = 0; thing < ACCOUNT_THINGS; thing++)
		assert(account->used[thing] == 0);
	assert(TAILQ_EMPTY(&account->due));
	assert(TAILQ_EMPTY(&account->halted) && TAILQ_EMPTY(&account->parked));
	HASH_DELETE(hh, all->by_uid, account);
	free(account);
}

void
account_add(struct account *account, enum account_thing thing, size_t count)
{
	account->used[thing] += count;
	if (thing == ACCOUNT_BYTES)
		account->all->bytes += count;
}

void
account_remove(struct account *account, enum account_thing thing, size_t count)
{
	assert(account->used[thing] >= count);
	account->used[thing] -= count;
	if (thing == ACCOUNT_BYTES)
		account->all->bytes -= count;
}

bool
account_has_room(const struct account *account, enum account_thing thing)
{
	const struct accounts *all = account->all;

	if (account->used[thing] >= all->limits.most[thing])
		return false;
	return thing != ACCOUNT_BYTES || all->bytes < all->limits.all_bytes ||
	       account->used[thing] < ACCOUNT_LITTLE;
}

void
account_complain(struct account *account)
{
	if (!account->full)
		log_warning("uid %u: the daemon pauses reading; its connections use %zu KiB, all "
			    "connections %zu KiB",
		    (unsigned)account->uid, account->used[ACCOUNT_BYTES] / 1024,
		    account->all->bytes / 1024);
	account->full = true;
}

void
account_relax(struct account *account)
{
	const struct account_limits *limits = &account->all->limits;

	if (account->used[ACCOUNT_BYTES] < limits->most[ACCOUNT_BYTES] / 2 &&
	    account->all->bytes < limits->all_bytes / 2)
		account->full = false;
}

size_t
account_room(const struct account *account)
{
	const struct accounts *all = account->all;
	size_t used = account->used[ACCOUNT_BYTES], most = all->limits.most[ACCOUNT_BYTES] / 2;

	if (all->bytes >= all->limits.all_bytes && most > ACCOUNT_LITTLE)
		most = ACCOUNT_LITTLE;
	return used < most ? most - used : 0;
}
