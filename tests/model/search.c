#include "tests/model/search.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = (sizeof(struct world) + 7) / 8, PACKED_MAX = 8 + WORDS * 9 };
_Static_assert(WORDS <= 64, "a word of a world has a bit");

#define NOWHERE UINT32_MAX

/* The worlds in the order in which they were found, packed one behind the other. */
static struct {
	uint8_t *packed;
	size_t n_packed, packed_max;
	/* Where each begins, and from which one it was reached. */
	size_t *begins;
	uint32_t *from;
	uint32_t n, max;
	/* Numbers of worlds + 1, by their hash. */
	uint32_t *table;
	size_t mask;
	/* The steps that are no faults, of each world, if they are kept. */
	uint32_t *edges;
	size_t n_edges, edges_max;
	size_t *first_edge;
	uint8_t *good;
} kept;

static void *
grow(void *old, size_t bytes)
{
	void *new = realloc(old, bytes);
	if (new == NULL) {
		fprintf(stderr, "the model has no memory\n");
		exit(1);
	}
	return new;
}

/* A bit for each word that is not 0; of each of these a bit for each byte that is not 0, and these bytes. */
static size_t
pack(const struct world *world, uint8_t packed[PACKED_MAX])
{
	uint64_t words[WORDS] = {0}, mask = 0;
	size_t n = sizeof mask;
	memcpy(words, world, sizeof *world);
	for (unsigned at = 0; at < WORDS; at++) {
		if (words[at] == 0)
			continue;
		mask |= (uint64_t)1 << at;
		uint8_t *bits = &packed[n++];
		*bits = 0;
		for (unsigned byte = 0; byte < 8; byte++) {
			uint8_t value = (uint8_t)(words[at] >> (8 * byte));
			*bits |= (uint8_t)((value != 0) << byte);
			packed[n] = value;
			n += value != 0;
		}
	}
	memcpy(packed, &mask, sizeof mask);
	return n;
}

static void
unpack(uint32_t number, struct world *ret_world)
{
	const uint8_t *packed = &kept.packed[kept.begins[number]];
	uint64_t words[WORDS] = {0}, mask;
	memcpy(&mask, packed, sizeof mask);
	packed += sizeof mask;
	for (unsigned at = 0; at < WORDS; at++) {
		if (!(mask >> at & 1))
			continue;
		uint8_t bits = *packed++;
		for (unsigned byte = 0; byte < 8; byte++)
			if (bits >> byte & 1)
				words[at] |= (uint64_t)*packed++ << (8 * byte);
	}
	memcpy(ret_world, words, sizeof *ret_world);
}

static uint64_t
hash(const uint8_t *packed, size_t n)
{
	uint64_t h = n;
	for (; n >= 8; packed += 8, n -= 8) {
		uint64_t word;
		memcpy(&word, packed, 8);
		h = (h ^ word) * 0x9e3779b97f4a7c15u;
		h ^= h >> 29;
	}
	uint64_t rest = 0;
	memcpy(&rest, packed, n);
	h = (h ^ rest) * 0xbf58476d1ce4e5b9u;
	return h ^ h >> 31;
}

static void
make_table(size_t size)
{
	free(kept.table);
	kept.table = NULL;
	kept.table = grow(NULL, size * sizeof *kept.table);
	memset(kept.table, 0, size * sizeof *kept.table);
	kept.mask = size - 1;
	for (uint32_t number = 0; number < kept.n; number++) {
		size_t begin = kept.begins[number];
		size_t at = hash(&kept.packed[begin], kept.begins[number + 1] - begin) & kept.mask;
		while (kept.table[at] != 0)
			at = (at + 1) & kept.mask;
		kept.table[at] = number + 1;
	}
}

/* The number of a world. It is kept if it is new. */
static uint32_t
keep(const struct world *world, uint32_t from, bool *ret_new)
{
	uint8_t packed[PACKED_MAX];
	size_t length = pack(world, packed);
	size_t at = hash(packed, length) & kept.mask;
	*ret_new = false;
	for (; kept.table[at] != 0; at = (at + 1) & kept.mask) {
		uint32_t number = kept.table[at] - 1;
		size_t begin = kept.begins[number];
		if (kept.begins[number + 1] - begin == length &&
		    memcmp(&kept.packed[begin], packed, length) == 0)
			return number;
	}
	if (kept.n + 2 > kept.max) {
		kept.max = kept.max == 0 ? 1 << 16 : kept.max + kept.max / 2;
		kept.begins = grow(kept.begins, kept.max * sizeof *kept.begins);
		kept.from = grow(kept.from, kept.max * sizeof *kept.from);
	}
	if (kept.n_packed + length > kept.packed_max) {
		kept.packed_max = kept.packed_max + kept.packed_max / 2 + (1 << 22);
		kept.packed = grow(kept.packed, kept.packed_max);
	}
	memcpy(&kept.packed[kept.n_packed], packed, length);
	kept.begins[kept.n] = kept.n_packed;
	kept.n_packed += length;
	kept.begins[kept.n + 1] = kept.n_packed;
	kept.from[kept.n] = from;
	kept.table[at] = ++kept.n;
	*ret_new = true;
	if (kept.n > kept.mask / 3 * 2)
		make_table((kept.mask + 1) * 2);
	return kept.n - 1;
}

static void
clear(void)
{
	free(kept.packed);
	free(kept.begins);
	free(kept.from);
	free(kept.table);
	free(kept.edges);
	free(kept.first_edge);
	free(kept.good);
	memset(&kept, 0, sizeof kept);
}

/* Prints the steps to a world, and then what broke. */
static void
print_trace(const struct setup *setup, uint32_t to, const char *broken)
{
	uint32_t path[4096];
	unsigned n = 0;
	for (uint32_t at = to; at != NOWHERE && n < 4096; at = kept.from[at])
		path[n++] = at;
	struct world world, next;
	unpack(path[n - 1], &world);
	quorum_print(setup, &world);
	const struct step *steps;
	for (unsigned at = n - 1; at-- > 0; world = next) {
		unpack(path[at], &next);
		size_t n_steps = quorum_steps(setup, &world, true, &steps);
		for (size_t s = 0; s < n_steps; s++)
			if (memcmp(&steps[s].after, &next, sizeof next) == 0) {
				printf("#   %2u  %s\n", n - 1 - at, steps[s].text);
				break;
			}
		quorum_print(setup, &next);
	}
	size_t n_steps = quorum_steps(setup, &world, true, &steps);
	for (size_t s = 0; s < n_steps; s++)
		if (steps[s].broken == broken)
			printf("#   %2u  %s\n", n, steps[s].text);
	printf("#       not so: %s\n", broken);
}

static void
keep_edge(uint32_t to)
{
	if (kept.n_edges == kept.edges_max) {
		kept.edges_max = kept.edges_max + kept.edges_max / 2 + (1 << 16);
		kept.edges = grow(kept.edges, kept.edges_max * sizeof *kept.edges);
	}
	kept.edges[kept.n_edges++] = to;
}

/* From which worlds no grant can be reached without another fault? Returns the first one, or NOWHERE. */
static uint32_t
first_dead(const struct setup *setup)
{
	for (bool changed = true; changed;) {
		changed = false;
		for (uint32_t at = kept.n; at-- > 0;)
			for (size_t e = kept.first_edge[at];
			     e < kept.first_edge[at + 1] && !kept.good[at]; e++)
				if (kept.good[kept.edges[e]])
					kept.good[at] = changed = 1;
	}
	for (uint32_t at = 0; at < kept.n; at++) {
		struct world world;
		unpack(at, &world);
		if (!kept.good[at] && quorum_claims_left(&world) >= setup->live)
			return at;
	}
	return NOWHERE;
}

/* The steps out of one world. Returns the property that one of them violates. */
static const char *
visit(const struct setup *setup, uint32_t number, struct found *found, uint32_t *ret_bad)
{
	struct world world;
	unpack(number, &world);
	const struct step *steps;
	size_t n = quorum_steps(setup, &world, false, &steps);
	*ret_bad = number;
	for (size_t s = 0; s < n; s++) {
		bool is_new;
		if (steps[s].broken != NULL)
			return steps[s].broken;
		found->steps++;
		found->grants += steps[s].is_grant;
		if (steps[s].is_grant)
			found->granted_sets |= 1u << steps[s].after.fence_set;
		uint32_t to = keep(&steps[s].after, number, &is_new);
		const char *broken = is_new ? quorum_judge(&steps[s].after) : NULL;
		if (broken != NULL) {
			*ret_bad = to;
			return broken;
		}
		if (setup->live != 0 && !steps[s].is_fault) {
			keep_edge(to);
			if (steps[s].is_grant)
				kept.good[number] = 1;
		}
	}
	return NULL;
}

struct found
search(const struct setup *setup, unsigned long worlds_max, bool tell)
{
	struct found found = {0};
	struct world start;
	bool is_new;
	uint32_t bad = NOWHERE, level_end = 1;
	quorum_dropped_steps = 0;
	make_table(1 << 17);
	quorum_start(setup, &start);
	keep(&start, NOWHERE, &is_new);
	for (uint32_t at = 0; at < kept.n && found.broken == NULL; at++) {
		if (kept.n > worlds_max) {
			found.incomplete = true;
			break;
		}
		if (at == level_end) {
			found.depth++;
			level_end = kept.n;
		}
		if (setup->live != 0) {
			kept.first_edge = at % 65536 ? kept.first_edge
						     : grow(kept.first_edge,
							   (at + 65538) * sizeof *kept.first_edge);
			kept.good = at % 65536 ? kept.good : grow(kept.good, at + 65538);
			kept.first_edge[at] = kept.n_edges;
			kept.good[at] = 0;
		}
		found.broken = visit(setup, at, &found, &bad);
		if (setup->live != 0)
			kept.first_edge[at + 1] = kept.n_edges;
	}
	if (setup->live != 0 && found.broken == NULL && !found.incomplete) {
		bad = first_dead(setup);
		found.broken = bad != NOWHERE ? property_live : NULL;
	}
	if (setup->grants_set != 0 && found.broken == NULL && !found.incomplete &&
	    !(found.granted_sets >> setup->grants_set & 1)) {
		bad = 0;
		found.broken = property_live;
	}
	found.worlds = kept.n;
	found.dropped = quorum_dropped_steps;
	found.bytes = kept.n_packed + kept.n * (sizeof *kept.begins + sizeof *kept.from) +
		      (kept.mask + 1) * sizeof *kept.table + kept.n_edges * sizeof *kept.edges;
	if (tell && found.broken != NULL)
		print_trace(setup, bad, found.broken);
	clear();
	return found;
}
