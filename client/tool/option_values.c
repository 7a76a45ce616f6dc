#include "client/tool/option_values.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "client/lockbroker.h"
#include "protocol/duration.h"

const char *
option_number(const char *text, int least, int most, const char *wanted, int *ret)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (end == text || *end != '\0' || errno != 0 || value < least || value > most ||
	    *text == ' ')
		return wanted;
	*ret = (int)value;
	return NULL;
}

const char *
option_slots(const char *text, int *ret)
{
	static const char wanted[] = "a number of slots, 0 to 10000, or unlimited";

	if (strcmp(text, "unlimited") == 0) {
		*ret = LB_UNLIMITED;
		return NULL;
	}
	return *text < '0' || *text > '9' ? wanted : option_number(text, 0, 10000, wanted, ret);
}

const char *
option_duration(const char *text, int64_t *ret_ms)
{
	int64_t ns;

	if (duration_parse(text, &ns) != NULL)
		return "seconds, or a number followed by s, m, h or d, at most 3650d";
	*ret_ms = ns / 1000000 + (ns % 1000000 != 0);
	return NULL;
}

const char *
option_signal(const char *text, int *ret)
{
	const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;

	if (option_number(text, 1, SIGRTMAX, "", ret) == NULL)
		return NULL;
	for (int signo = 1; signo < SIGRTMIN; signo++) {
		const char *known = sigabbrev_np(signo);

		if (known != NULL && strcasecmp(known, name) == 0) {
			*ret = signo;
			return NULL;
		}
	}
	return "a signal name, such as TERM, or a number";
}

const char *
option_reaction(const char *text, bool may_run, struct reaction *ret)
{
	int signo;

	if (strcmp(text, "kill") == 0) {
		*ret = (struct reaction){.kind = REACTION_KILL};
	} else if (strcmp(text, "ignore") == 0) {
		*ret = (struct reaction){.kind = REACTION_IGNORE};
	} else if (strncmp(text, "signal:", 7) == 0 && option_signal(text + 7, &signo) == NULL) {
		*ret = (struct reaction){.kind = REACTION_SIGNAL, .signal = signo};
	} else if (may_run && strncmp(text, "run:", 4) == 0 && text[4] != '\0') {
		*ret = (struct reaction){.kind = REACTION_RUN, .command = text + 4};
	} else {
		return may_run ? "kill, ignore, signal:SIG or run:COMMAND"
			       : "kill, ignore or signal:SIG";
	}
	return NULL;
}

const char *
option_kind(const char *text, int *ret)
{
	const char *word;

	for (int kind = 0; (word = lb_kind_word(kind)) != NULL; kind++) {
		if (strcmp(word, text) == 0) {
			*ret = kind;
			return NULL;
		}
	}
	return "semaphore, mutex or persistent-mutex";
}

const char *
option_claim(const char *text, int *ret)
{
	const char *word;

	for (int claim = LB_CLAIM_EXCLUSIVE_QUEUE; (word = lb_claim_word(claim)) != NULL; claim++) {
		if (strcmp(word, text) == 0) {
			*ret = claim;
			return NULL;
		}
	}
	return "exclusive-queue, consumer or quorum";
}

const char *
option_descriptor(const char *text, int *ret)
{
	static const char wanted[] = "the number of a descriptor that is open for writing";
	int fd, flags;

	if (option_number(text, 1, 1 << 20, wanted, &fd) != NULL)
		return wanted;
	flags = fcntl(fd, F_GETFL);
	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
		return wanted;
	if (fd > 2 && fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
		return wanted;
	*ret = fd;
	return NULL;
}
