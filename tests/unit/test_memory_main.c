#include "tests/unit/test_memory.h"
#include "tests/unit/unit.h"

int
main(void)
{
	Suite *(*const makers[])(void) = {suite_memory_broker, suite_memory_directory,
	    suite_memory_ends, suite_memory_exclusion, suite_memory_holders, suite_memory_mailbox,
	    suite_memory_nodes, suite_memory_quorum, suite_memory_records, suite_memory_wait_queues,
	    suite_memory_links, suite_memory_watches};

	return unit_run(makers, sizeof(makers) / sizeof(makers[0]));
}
