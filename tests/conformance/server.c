#include "tests/conformance/server.h"

#include "tests/conformance/client.h"

void
server_setup(void)
{
	rig_setup();
}

void
server_teardown(void)
{
	client_end_all();
	rig_teardown();
}

TCase *
server_tcase(Suite *suite, const char *name)
{
	TCase *tcase = tcase_create(name);

	tcase_add_checked_fixture(tcase, server_setup, server_teardown);
	tcase_set_timeout(tcase, 120);
	suite_add_tcase(suite, tcase);
	return tcase;
}
