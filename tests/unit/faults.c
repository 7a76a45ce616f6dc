/*
 * A part of the programs that `make unit-faults` runs. It activates the planted fault that the
 * variable FAULT names.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/fault.h"

/* The exit status if there is no such fault: it is not that of a failed test. */
#define UNKNOWN_FAULT 99

enum fault fault_active = FAULT_NONE;

__attribute__((constructor)) static void
activate(void)
{
#define FAULT_ROW(name, ...) #name,
	static const char *const unit_faults[] = {UNIT_FAULTS(FAULT_ROW)};
#undef FAULT_ROW
	const char *wanted = getenv("FAULT");

	if (wanted == NULL)
		return;
	for (size_t i = 0; i < sizeof(unit_faults) / sizeof(unit_faults[0]); i++) {
		if (strcmp(unit_faults[i], wanted) == 0) {
			fault_active = (enum fault)(FAULT_NONE + 1 + i);
			return;
		}
	}
	_exit(UNKNOWN_FAULT);
}
