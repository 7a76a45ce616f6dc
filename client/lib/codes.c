#include "client/lib/codes.h"

#include <stddef.h>

#include "client/lockbroker.h"
#include "protocol/reason.h"

/*
 * Codes of the library alone, which are not on the wire.
 */
static const struct own_code {
	enum lb_code code;
	const char *word, *sentence;
} own_codes[] = {
    {LB_OK, "ok", "it failed"},
    {LB_NO_MEMORY, "no-memory", "out of memory"},
    {LB_BAD_ARGUMENT, "bad-argument", "an argument is not valid"},
    {LB_NO_DAEMON, "no-daemon", "no daemon listens on the socket"},
    {LB_NO_ACCESS, "no-access", "no permission to open the socket"},
    {LB_DEADLINE, "deadline", "the daemon did not answer in time"},
    {LB_CLOSED, "closed", "the connection to the daemon is closed"},
    {LB_BAD_ANSWER, "bad-answer", "the daemon's answer is invalid"},
    {LB_FORKED, "forked", "the handle belongs to the process that made it"},
    {LB_BUSY, "busy", "called from within the callback"},
    {LB_SYSTEM, "system", "it failed"},
};
static const struct own_code unknown = {.word = "unknown", .sentence = "it failed"};

static const struct own_code *
find(int code)
{
	for (size_t i = 0; i < sizeof(own_codes) / sizeof(own_codes[0]); i++)
		if ((int)own_codes[i].code == code)
			return &own_codes[i];
	return &unknown;
}

const char *
lb_code_word(int code)
{
	enum reason reason = reason_from_code(code);

	return reason != REASON_NONE ? reason_word(reason) : find(code)->word;
}

const char *
code_sentence(int code)
{
	enum reason reason = reason_from_code(code);

	return reason != REASON_NONE ? reason_message(reason) : find(code)->sentence;
}
