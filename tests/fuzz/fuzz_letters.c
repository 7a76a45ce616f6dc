/*
 * Bytes as a letter of another daemon. Besides not crashing: of what is read the parts are what they are
 * said to be, and a row that passes for sane still does when it was copied, and has a waiter and a name.
 *
 *	./configure --enable-fuzzing --enable-sanitizers CC=clang && make tests/fuzz/fuzz_letters
 *	tests/fuzz/fuzz_letters -max_total_time=60 CORPUS "$top_srcdir"/tests/fuzz/seeds/letters
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/view/letter.h"
#include "daemon/view/row.h"
#include "protocol/json.h"
#include "protocol/lockname.h"
#include "tests/fuzz/fuzz.h"

static void
must(bool fine, const char *what)
{
	if (fine)
		return;
	fprintf(stderr, "fuzz_letters: %s\n", what);
	abort();
}

static void
check_row(const struct cJSON *row, const struct letter *letter)
{
	struct cJSON *copy;

	if (!row_is_sane(row, letter->run, letter->host))
		return;
	copy = json_copy(row);
	must(row_is_sane(copy, letter->run, letter->host), "the copy is another");
	must(row_same(row, copy), "it is not itself");
	must(row_waiter(row)[0] != '\0', "nobody's");
	must(lockname_error(row_name(row), strlen(row_name(row))) == NULL, "nothing's");
	must(!row_waits(row) || row_slot(row) == 0, "it waits, and holds");
	json_free(copy);
}

static void
check_letter(const struct letter *letter)
{
	must(letter->host[0] != '\0' && strlen(letter->host) <= LETTER_HOST_MAX, "the host");
	must(letter->name == NULL || lockname_error(letter->name, strlen(letter->name)) == NULL,
	    "the name");
	must(letter->rows == NULL || json_is_array(letter->rows), "the rows");
	must(letter->answer || letter->op != LETTER_GRANT || letter->waiter != 0, "whom");
	for (const struct cJSON *row = json_first(letter->rows); row != NULL; row = json_next(row))
		check_row(row, letter);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct letter letter;
	const char *what = NULL;

	switch (letter_parse((const char *)data, size, "amqp-locks", &letter, &what)) {
	case LETTER_READ:
		check_letter(&letter);
		letter_done(&letter);
		break;
	case LETTER_FOREIGN:
		must(what == NULL, "foreign, and garbled");
		break;
	case LETTER_GARBLED:
		must(what != NULL, "garbled, and nobody knows why");
		break;
	}
	return 0;
}
