#include "tests/sim/book.h"

#include <assert.h>

bool
book_is_believed(const struct belief *belief, int64_t now)
{
	return !belief->heeds || (!belief->over && now < belief->safe_until);
}

bool
book_waits(const struct ask *ask)
{
	return ask->what == ASK_ACQUIRE || ask->what == ASK_AWAIT || ask->order.wait != 0;
}

bool
book_is_full(const struct book *book)
{
	return book->ask_count == REQUESTS_MAX ||
	       book->belief_count + book->ask_count >= BELIEFS_MAX;
}

struct ask *
book_ask(struct book *book, const struct ask *ask)
{
	assert(book->ask_count < REQUESTS_MAX);
	if (ask->due < book->next_due)
		book->next_due = ask->due;
	book->asks[book->ask_count] = *ask;
	return &book->asks[book->ask_count++];
}

struct ask *
book_find_ask(struct book *book, int daemon, uint64_t peer, uint64_t request)
{
	for (size_t i = 0; i < book->ask_count; i++) {
		struct ask *ask = &book->asks[i];

		if (ask->daemon == daemon && ask->peer == peer && ask->request == request)
			return ask;
	}
	return NULL;
}

void
book_end_ask(struct book *book, struct ask *ask)
{
	*ask = book->asks[--book->ask_count];
}

void
book_believe(struct book *book, const struct belief *belief)
{
	assert(book->belief_count < BELIEFS_MAX);
	book->beliefs[book->belief_count++] = *belief;
}

struct belief *
book_find_belief(struct book *book, int daemon, uint64_t lock)
{
	for (size_t i = 0; i < book->belief_count; i++) {
		if (book->beliefs[i].daemon == daemon && book->beliefs[i].lock == lock)
			return &book->beliefs[i];
	}
	return NULL;
}

void
book_end_belief(struct book *book, struct belief *belief)
{
	*belief = book->beliefs[--book->belief_count];
}

void
book_peer_gone(struct book *book, int daemon, uint64_t peer)
{
	/* Backwards: the last one takes the place of the one that goes. */
	for (size_t i = book->belief_count; i-- > 0;) {
		struct belief *belief = &book->beliefs[i];

		if (belief->daemon == daemon && (peer == 0 || belief->peer == peer))
			book_end_belief(book, belief);
	}
	for (size_t i = book->ask_count; i-- > 0;) {
		struct ask *ask = &book->asks[i];

		if (ask->daemon != daemon || (peer != 0 && ask->peer != peer))
			continue;
		/*
		 * A waiting request ends unanswered. The other requests of the client are still
		 * answered.
		 */
		if (peer == 0 || ask->what == ASK_ACQUIRE || ask->what == ASK_AWAIT) {
			book_end_ask(book, ask);
		} else if (book_waits(ask)) {
			ask->gone = true; /* whether it waits already is the daemon's knowledge */
			ask->due = INT64_MAX;
		}
	}
}
