/*
 * Makes LeakSanitizer fast in the programs that tests start. At their end it searches all global
 * variables for pointers. Nearly all of them are 12 MB of libasan and libubsan, which point to
 * nothing of ours and cost 3,000 page faults. Here it is told to search all but these.
 */
#include <link.h>
#include <string.h>

#include <sanitizer/lsan_interface.h>

static unsigned long long roots; /* the loaded objects that are registered */

static int
add_roots(struct dl_phdr_info *info, size_t size, void *number)
{
	(void)size;
	if ((*(unsigned long long *)number)++ < roots)
		return 0;
	if (strstr(info->dlpi_name, "/libasan.") != NULL ||
	    strstr(info->dlpi_name, "/libubsan.") != NULL)
		return 0;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type == PT_LOAD && (segment->p_flags & PF_W) != 0)
			__lsan_register_root_region(
			    (const void *)(info->dlpi_addr + segment->p_vaddr), segment->p_memsz);
	}
	return 0;
}

/* Once when the program starts, and once for what was loaded since, before LeakSanitizer searches. */
void register_leak_roots(void);
__attribute__((constructor, destructor)) void
register_leak_roots(void)
{
	unsigned long long number = 0;

	dl_iterate_phdr(add_roots, &number);
	roots = number;
}

/* LeakSanitizer asks for it. */
const char *__lsan_default_options(void);
__attribute__((visibility("default"))) const char *
__lsan_default_options(void)
{
	return "use_globals=0";
}
