#include "tests/unit/unit.h"

#include "tests/unit/test_protocol.h"

int
main(void)
{
	static Suite *(*const makers[])(void) = {
	    words_suite, line_suite, json_suite, message_suite, methods_suite, openrpc_suite};

	return unit_run(makers, sizeof(makers) / sizeof(makers[0]));
}
