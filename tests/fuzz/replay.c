/*
 * Gives each file of a seed folder to a fuzz target, as `make check` does it: one TAP point a file.
 * The target fails by ending the process. The folder is the argument, or tests/fuzz/seeds/NAME for
 * a program fuzz_NAME.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

#define SEED_MAX (1 << 20)

static void
bail_out(const char *what)
{
	printf("Bail out! %s cannot be read\n", what);
	exit(EXIT_FAILURE);
}

static void
replay(const char *path)
{
	static uint8_t buffer[SEED_MAX];
	FILE *file = fopen(path, "rb");
	uint8_t *data;
	size_t size;

	if (file == NULL)
		bail_out(path);
	size = fread(buffer, 1, sizeof(buffer), file);
	fclose(file);
	/* From a copy of just the right size: the sanitizer sees a byte read too far. */
	data = malloc(size > 0 ? size : 1);
	if (data == NULL)
		bail_out(path);
	memcpy(data, buffer, size);
	LLVMFuzzerTestOneInput(data, size);
	free(data);
}

static const char *
default_folder(const char *program)
{
	static char folder[1024];
	const char *name = strstr(program, "fuzz_"), *source = getenv("top_srcdir");

	snprintf(folder, sizeof(folder), "%s/tests/fuzz/seeds/%s", source != NULL ? source : ".",
	    name != NULL ? name + strlen("fuzz_") : "");
	return folder;
}

int
main(int argc, char **argv)
{
	const char *folder = argc > 1 ? argv[1] : default_folder(argv[0]);
	struct dirent **seeds;
	int count, points = 0;

	count = scandir(folder, &seeds, NULL, alphasort);
	if (count < 0)
		bail_out(folder);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; i < count; i++) {
		char path[2048];

		if (seeds[i]->d_name[0] != '.') {
			snprintf(path, sizeof(path), "%s/%s", folder, seeds[i]->d_name);
			replay(path);
			printf("ok %d - %s\n", ++points, seeds[i]->d_name);
		}
		free(seeds[i]);
	}
	free(seeds);
	if (points == 0)
		bail_out(folder);
	printf("1..%d\n", points);
	return EXIT_SUCCESS;
}
