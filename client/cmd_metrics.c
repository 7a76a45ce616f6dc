/*
 * The subcommand metrics: the daemon's text, to stdout or to a file.
 */
#include "client/commands.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/exit_status.h"
#include "client/tool/output.h"

static bool
check_metrics(const struct tool_options *options, char *operands[])
{
	(void)operands;
	if (options->format == NULL || strcmp(options->format, "prometheus") == 0 ||
	    strcmp(options->format, "openmetrics") == 0)
		return true;
	say("metrics: --format: '%s': expected prometheus or openmetrics", options->format);
	return false;
}

static int
write_text(const char *path, const char *value, void *arg)
{
	return strcmp(path, "text") == 0 && fputs(value, arg) == EOF;
}

/* Closes the file. False: errno says why the text is not in it. */
static bool
fill(int fd, const char *json)
{
	FILE *file = fdopen(fd, "w");
	bool written;

	if (file == NULL) {
		close(fd);
		return false;
	}
	/* Its reader is another user. */
	written = fchmod(fd, 0644) == 0 && lb_json_each(json, write_text, file) == 0;
	return fclose(file) == 0 && written;
}

/*
 * A reader sees the old file or the new one, and never a part. The name of the new one does not end
 * in .prom until it is whole, as node_exporter reads all files that do.
 */
static int
replace_file(const char *path, const char *json)
{
	size_t size = strlen(path) + sizeof(".XXXXXX");
	char *new = malloc(size);
	int fd, status = EXIT_STATUS_IO;

	if (new == NULL) {
		say("out of memory");
		return EXIT_STATUS_INTERNAL;
	}
	snprintf(new, size, "%s.XXXXXX", path);
	fd = mkostemp(new, O_CLOEXEC);
	if (fd < 0) {
		say("%s: %m", path);
	} else if (!fill(fd, json) || rename(new, path) != 0) {
		say("%s: %m", path);
		unlink(new);
	} else {
		status = EXIT_STATUS_OK;
	}
	free(new);
	return status;
}

static int
ask_metrics(struct asking *asking)
{
	const struct tool_options *options = asking->options;
	const char *format = options->format == NULL ? "prometheus" : options->format;
	int code = asking_call(asking, "metrics", "format", format, "", ASKING_ANSWER_MS);

	if (code != LB_OK)
		return code;
	if (options->output != NULL)
		asking->status = replace_file(options->output, lb_result_json(asking->lb));
	else if (!asking_printed_json(asking))
		(void)lb_json_each(lb_result_json(asking->lb), write_text, stdout);
	return LB_OK;
}

const struct question question_metrics = {.check = check_metrics, .ask = ask_metrics};
