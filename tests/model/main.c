/*
 * Searches with the rules of the protocol, and with each mistake that must be found.
 *
 *	model [large] [trace] [NAME]
 *
 * large: the bounds that take long. trace: prints how a mistake is found. NAME: only rows whose names contain it.
 */
#include <stdio.h>
#include <string.h>
#include "tests/model/mutations.h"
#include "tests/model/search.h"

static bool
is_chosen(const struct mutation *row, bool large, const char *name)
{
	return row->large == large && (name == NULL || strstr(row->name, name) != NULL);
}

static bool
run(const struct mutation *row, bool trace, unsigned number)
{
	struct found found =
	    search(&row->setup, row->large ? 100000000 : 5000000, trace || row->broken == NULL);
	bool complete = found.broken != NULL || (!found.incomplete && found.dropped == 0);
	/* Without a grant nothing was judged. */
	bool judged = found.broken != NULL || found.grants != 0;
	bool ok = found.broken == row->broken && complete && judged;
	printf("%sok %u - %s\n", ok ? "" : "not ", number, row->name);
	printf("# %s: %lu worlds, %lu steps, %lu grants, depth %lu, %zu MiB%s%s\n",
	    found.broken != NULL ? found.broken : "no violation", found.worlds, found.steps,
	    found.grants, found.depth, found.bytes >> 20,
	    found.incomplete ? ", too many worlds" : "",
	    found.dropped != 0 ? ", steps dropped" : "");
	fflush(stdout);
	return ok;
}

int
main(int argc, char **argv)
{
	bool large = false, trace = false, ok = true;
	const char *name = NULL;
	for (int at = 1; at < argc; at++) {
		if (strcmp(argv[at], "large") == 0)
			large = true;
		else if (strcmp(argv[at], "trace") == 0)
			trace = true;
		else
			name = argv[at];
	}
	unsigned n = 0, number = 0;
	for (const struct mutation *row = mutations; row->name != NULL; row++)
		n += is_chosen(row, large, name);
	printf("1..%u\n", n);
	for (const struct mutation *row = mutations; row->name != NULL; row++)
		if (is_chosen(row, large, name))
			ok = run(row, trace, ++number) && ok;
	return ok && n != 0 ? 0 : 1;
}
