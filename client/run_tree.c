#include "client/run_tree.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/exit_status.h"
#include "client/process.h"
#include "client/tool/output.h"
#include "client/tool/text.h"

/* Bytes of a process's name (comm in proc(5)), and of it with its number. */
#define NAME_SIZE 32
#define NAMED_SIZE 64

/* ---- starting ---- */

bool
tree_adopt(void)
{
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) == 0)
		return true;
	say("prctl: %m");
	return false;
}

/*
 * Whether there is such a program, if one that cannot be executed. execvp(3) says EACCES also when
 * a folder of $PATH cannot be searched, where a shell goes on and says "not found".
 */
static bool
exists(const char *name)
{
	const char *path = getenv("PATH");
	char file[PATH_MAX];

	if (path == NULL || strchr(name, '/') != NULL)
		return true;
	for (const char *end; *path != '\0'; path = *end == ':' ? end + 1 : end) {
		end = strchrnul(path, ':');
		snprintf(file, sizeof(file), "%.*s/%s", (int)(end - path), path, name);
		if (access(file, F_OK) == 0)
			return true;
	}
	return false;
}

/* In the child: never returns. */
static _Noreturn void
become(char *argv[], pid_t parent, const struct signals *signals)
{
	int error;

	/* A parent that died before the prctl would be missed: then somebody else is the parent. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
		_exit(EXIT_STATUS_INTERNAL);
	signals_restore(signals);
	execvp(argv[0], argv);
	error = errno;
	if (error == EACCES && !exists(argv[0]))
		error = ENOENT;
	say("%s: %s", argv[0], strerror(error));
	_exit(error == ENOENT ? EXIT_STATUS_NOT_FOUND : EXIT_STATUS_NOT_EXECUTABLE);
}

pid_t
tree_start(char *argv[], const struct signals *signals)
{
	pid_t parent = getpid(), child = fork();

	if (child == 0)
		become(argv, parent, signals);
	if (child < 0)
		say_in_passing("fork: %m");
	return child;
}

/* ---- the list of descendants ---- */

struct pids {
	pid_t *at; /* owned */
	size_t count, room;
};

/* Without memory the rest is left for the next list. */
static void
pids_add(struct pids *pids, pid_t pid)
{
	if (pids->count == pids->room) {
		size_t room = pids->room == 0 ? 64 : 2 * pids->room;
		pid_t *at = reallocarray(pids->at, room, sizeof(*at));

		if (at == NULL)
			return;
		pids->at = at;
		pids->room = room;
	}
	pids->at[pids->count++] = pid;
}

/* Each thread of a process has its own list of children. */
static void
add_children(struct pids *pids, pid_t parent)
{
	char path[64];
	const struct dirent *thread;
	DIR *threads;
	int pid;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)parent);
	threads = opendir(path);
	while (threads != NULL && (thread = readdir(threads)) != NULL) {
		FILE *file;

		snprintf(path, sizeof(path), "/proc/%d/task/%.16s/children", (int)parent,
		    thread->d_name);
		file = fopen(path, "re");
		while (file != NULL && fscanf(file, "%d", &pid) == 1)
			pids_add(pids, pid);
		if (file != NULL)
			fclose(file);
	}
	if (threads != NULL)
		closedir(threads);
}

/* COMM of a process (proc(5)). "?": it has ended. */
static void
read_name(pid_t pid, char name[NAME_SIZE])
{
	if (process_read(pid, "comm", name, NAME_SIZE) < 0)
		strcpy(name, "?");
	name[strcspn(name, "\n")] = '\0';
}

/*
 * All descendants but `left_out` and its own, parents first. kill: each is stopped before its
 * children are listed. A stopped process starts no other one and reaps none. So the number of a
 * child stays its own, unless the parent ignores SIGCHLD. Otherwise the descendants of
 * the guard of another `run` are left out. The caller frees the list.
 */
static struct pids
list(pid_t left_out, bool kill_them)
{
	struct pids pids = {.at = NULL};
	char name[NAME_SIZE];

	add_children(&pids, getpid());
	for (size_t i = 0; i < pids.count; i++) {
		if (pids.at[i] == left_out) {
			pids.at[i--] = pids.at[--pids.count];
			continue;
		}
		if (kill_them)
			kill(pids.at[i], SIGSTOP);
		else
			read_name(pids.at[i], name);
		if (kill_them || strcmp(name, GUARD_PROCESS_NAME) != 0)
			add_children(&pids, pids.at[i]);
	}
	return pids;
}

size_t
tree_names(char *ret, size_t size)
{
	struct pids pids = list(0, false);
	size_t len = 0, i;

	*ret = '\0';
	for (i = 0; i < pids.count && len + NAMED_SIZE < size; i++) {
		char comm[NAME_SIZE], name[NAME_SIZE];

		read_name(pids.at[i], comm);
		/* Its text is that process's own. */
		text_clean(name, sizeof(name), comm);
		len += (size_t)snprintf(
		    ret + len, size - len, "%s%s (%d)", i > 0 ? ", " : "", name, (int)pids.at[i]);
	}
	if (i < pids.count)
		snprintf(ret + len, size - len, " and %zu more", pids.count - i);
	i = pids.count;
	free(pids.at);
	return i;
}

/* ---- signals ---- */

void
tree_signal(pid_t command, int signo, pid_t group, pid_t had)
{
	struct pids pids = list(0, false);
	bool listed = command == 0;

	for (size_t i = 0; i < pids.count; i++) {
		pid_t its = getpgid(pids.at[i]);

		listed |= pids.at[i] == command;
		if ((group == 0 || its == group) && (had == 0 || its != had))
			kill(pids.at[i], signo);
	}
	if (!listed)
		kill(command, signo);
	free(pids.at);
}

pid_t
tree_kill(pid_t command, pid_t left_out)
{
	struct pids pids = list(left_out, true);
	pid_t foreign = 0;

	if (command != 0)
		kill(command, SIGKILL);
	for (size_t i = 0; i < pids.count; i++)
		if (kill(pids.at[i], SIGKILL) != 0 && errno == EPERM)
			foreign = pids.at[i];
	free(pids.at);
	return foreign;
}

/* Whether there is a child besides left_out, as far as /proc shows. */
static bool
has_children(pid_t left_out)
{
	struct pids pids = {.at = NULL};
	bool any;

	add_children(&pids, getpid());
	any = pids.count > 1 || (pids.count == 1 && pids.at[0] != left_out);
	free(pids.at);
	return any;
}

void
tree_end(pid_t command, pid_t *left_out, const struct signals *signals)
{
	struct pollfd child = {.fd = signals->fd, .events = POLLIN};
	bool terminal;

	for (;;) {
		pid_t pid;

		/* Read before they are reaped, or the last SIGCHLD would go unnoticed. */
		while (signals_next(signals, &terminal) != 0)
			continue;
		while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
			if (pid == command)
				command = 0;
			if (pid == *left_out)
				*left_out = 0;
		}
		if (pid < 0 || (*left_out != 0 && !has_children(*left_out)))
			return;
		(void)tree_kill(command, *left_out);
		(void)poll(&child, 1, -1);
	}
}
