/*
 * Fuzz target: bytes as a daemon message. It must not crash. The members of a parsed message have
 * their types. A sane row remains sane when it is copied, and has a waiter and a name.
 *
 *	make fuzz FUZZ=messages
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/view/wire.h"
#include "daemon/view/row.h"
#include "protocol/json.h"
#include "protocol/lockname.h"
#include "tests/fuzz/fuzz.h"

static void
check_row(const struct cJSON *row, const struct daemon_message *message)
{
	struct cJSON *copy;

	if (!row_is_sane(row, message->run, message->host))
		return;
	copy = json_copy(row);
	must(row_is_sane(copy, message->run, message->host), "the copy is another");
	must(row_same(row, copy), "it is not itself");
	must(row_waiter(row)[0] != '\0', "nobody's");
	must(lockname_error(row_name(row), strlen(row_name(row))) == NULL, "nothing's");
	must(!row_waits(row) || row_slot(row) == 0, "it waits, and holds");
	json_free(copy);
}

static void
check_message(const struct daemon_message *message)
{
	must(message->host[0] != '\0' && strlen(message->host) <= DAEMON_MESSAGE_HOST_MAX,
	    "the host");
	must(message->name == NULL || lockname_error(message->name, strlen(message->name)) == NULL,
	    "the name");
	must(message->rows == NULL || json_is_array(message->rows), "the rows");
	for (const struct cJSON *one = json_first(message->mutexes); one != NULL;
	     one = json_next(one))
		must(json_next(json_next(json_next(json_first(one)))) == NULL &&
			 json_next(json_next(json_first(one))) != NULL,
		    "a mutex");
	must(
	    message->answer || message->op != DAEMON_MESSAGE_GRANT || message->waiter != 0, "whom");
	for (const struct cJSON *row = json_first(message->rows); row != NULL; row = json_next(row))
		check_row(row, message);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct daemon_message message;
	const char *what = NULL;

	switch (daemon_message_parse((const char *)data, size, "amqp-locks", &message, &what)) {
	case DAEMON_MESSAGE_READ:
		check_message(&message);
		daemon_message_done(&message);
		break;
	case DAEMON_MESSAGE_FOREIGN:
		must(what == NULL, "foreign, and garbled");
		break;
	case DAEMON_MESSAGE_GARBLED:
		must(what != NULL, "garbled, and nobody knows why");
		break;
	}
	return 0;
}
