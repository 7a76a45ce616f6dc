#include "tests/unit/test_view.h"
#include "tests/unit/unit.h"

int
main(void)
{
	Suite *(*const makers[])(void) = {suite_view_show, suite_view_grant_deny,
	    suite_view_round_robin, suite_view_feed, suite_view_metrics};

	return unit_run(makers, sizeof(makers) / sizeof(makers[0]));
}
