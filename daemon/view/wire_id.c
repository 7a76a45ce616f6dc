#include "daemon/view/wire_id.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *
wire_id_write(char buf[WIRE_ID_SIZE], uint32_t run, uint64_t number)
{
	snprintf(buf, WIRE_ID_SIZE, "%08" PRIx32 "-%" PRIu64, run, number);
	return buf;
}

bool
wire_id_parse(const char *text, uint32_t *ret_run, uint64_t *ret_number)
{
	char again[WIRE_ID_SIZE];
	const char *dash = strchr(text, '-');
	uint64_t number;
	uint32_t run;

	if (dash == NULL)
		return false;
	run = (uint32_t)strtoul(text, NULL, 16);
	number = strtoull(dash + 1, NULL, 10);
	/* Written again it must be the same text: so there is no second spelling of an id. */
	if (strcmp(wire_id_write(again, run, number), text) != 0)
		return false;
	*ret_run = run;
	*ret_number = number;
	return true;
}

const char *
wire_id_run(char buf[WIRE_ID_SIZE], uint32_t run)
{
	snprintf(buf, WIRE_ID_SIZE, "%08" PRIx32, run);
	return buf;
}

bool
wire_id_parse_run(const char *text, uint32_t *ret_run)
{
	char again[WIRE_ID_SIZE];
	uint32_t run = (uint32_t)strtoul(text, NULL, 16);

	if (strcmp(wire_id_run(again, run), text) != 0)
		return false;
	*ret_run = run;
	return true;
}
