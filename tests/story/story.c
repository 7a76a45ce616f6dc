/*
 * Runs each story of docs/ARCHITECTURE.md ("Stories") once: clients over socketpairs, a daemon, and
 * the server in memory. The compiler makes each function of the daemon report its entry
 * (-finstrument-functions), and its exit. Prints the name of each story, a line for each entry, and "-"
 * for each exit. An entry is the address of the function, from the start of the program. stories.py
 * makes files of them.
 */
#include "tests/lock_settings.h"
#include "tests/virtual_time.h"
#include "tests/whole_daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"

#define ENTRIES_MAX 10000000
/* A story that takes longer has failed. */
#define STEPS_MAX 10000

extern const char __executable_start[];
void __cyg_profile_func_enter(void *function, void *site);
void __cyg_profile_func_exit(void *function, void *site);

static struct {
	bool recording;
	size_t count;
	const char
	    *entries[ENTRIES_MAX]; /* NULL: the exit from the function that was entered last */
} trace;

static void
record(const char *entry)
{
	if (trace.recording && trace.count < ENTRIES_MAX)
		trace.entries[trace.count++] = entry;
}

void
__cyg_profile_func_enter(void *function, void *site)
{
	(void)site;
	record(function);
}

void
__cyg_profile_func_exit(void *function, void *site)
{
	(void)function;
	(void)site;
	record(NULL);
}

static int64_t
delay_of(void *ctx)
{
	(void)ctx;
	return NSEC_PER_MSEC;
}

static const struct memory_behaviour behaviour = {.delay = delay_of};
static struct whole_daemon its;

static void
must(bool right, const char *what)
{
	if (right)
		return;
	fprintf(stderr, "story: %s\n", what);
	exit(1);
}

static void
settle(void)
{
	must(whole_daemon_settle(&its), "the loop does not come to rest");
}

static int
client(void)
{
	int ends[2];

	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0, "no socketpair");
	peers_add(its.peers, ends[0]);
	settle();
	return ends[1];
}

/* Milliseconds pass until the client has read `what`. Returns all that it has read. Static. */
static const char *
until(int fd, const char *what)
{
	static char text[1024 * 1024];
	size_t len = 0;

	text[0] = '\0';
	for (int i = 0; i < STEPS_MAX; i++) {
		ssize_t got = read(fd, text + len, sizeof(text) - 1 - len);

		if (got > 0)
			text[len += (size_t)got] = '\0';
		if (strstr(text, what) != NULL)
			return text;
		virtual_time_pass(its.timers, NSEC_PER_MSEC, settle);
	}
	fprintf(stderr, "story: no %s in: %s\n", what, text);
	exit(1);
}

static void
say(int fd, const char *method, const char *params)
{
	char line[512];
	int len = snprintf(
	    line, sizeof(line), "{\"id\":1,\"method\":\"%s\",\"params\":%s}\n", method, params);

	must(write(fd, line, (size_t)len) == len, "a client cannot write");
}

static void
ask(int fd, const char *method, const char *params)
{
	say(fd, method, params);
	until(fd, "\"result\"");
}

static void
begins(void)
{
	/* The work that an earlier request left is done. */
	virtual_time_pass(its.timers, 3 * NSEC_PER_SEC, settle);
	trace.count = 0;
	trace.recording = true;
}

static void
ends(const char *name)
{
	trace.recording = false;
	must(trace.count < ENTRIES_MAX, "a story is too long");
	printf("story %s\n", name);
	for (size_t i = 0; i < trace.count; i++) {
		if (trace.entries[i] == NULL)
			puts("-");
		else
			printf("%tx\n", trace.entries[i] - __executable_start);
	}
}

#define NAME "{\"name\":\"db\"}"

/* Acquire, a hand-off to the next waiter, and a loss. */
static void
holds(void)
{
	int holder = client(), waiter = client();
	char lock[64], *number;

	ask(holder, "create", "{\"name\":\"db\",\"slots\":1,\"claim\":\"consumer\"}");
	begins();
	say(holder, "acquire", NAME);
	number = strstr(until(holder, "\"result\""), "\"lock\":\"");
	ends("acquire");
	must(number != NULL, "an acquire without a number");
	snprintf(lock, sizeof(lock), "{%.*s}", (int)strcspn(number, ",}"), number);

	say(waiter, "acquire", NAME);
	begins();
	say(holder, "release", lock);
	until(holder, "\"result\"");
	until(waiter, "\"result\"");
	ends("release with hand-off");

	begins();
	must(memory_world_cancel(its.world, "db-1-B"), "no consumer of B");
	until(waiter, "\"lost\"");
	ends("loss");
	close(holder);
	close(waiter);
}

/* An administrator, and a client that watches. */
static void
administration(void)
{
	int admin = client(), watcher = client(), holder = client();

	ask(admin, "resize", "{\"name\":\"db\",\"slots\":3}");
	begins();
	ask(admin, "resize", "{\"name\":\"db\",\"remove\":1}");
	ends("resize -1");

	ask(admin, "resize", "{\"name\":\"db\",\"slots\":3}");
	must(memory_world_remove(its.world, "db-2-A"), "no slot 2");
	begins();
	ask(admin, "fsck", "{\"name\":\"db\",\"repair\":true}");
	ends("fsck --repair");

	begins();
	say(watcher, "watch", NAME);
	until(watcher, "\"synced\"");
	say(holder, "acquire", NAME);
	until(watcher, "\"busy\"");
	ends("watch");
	close(admin);
	close(watcher);
	close(holder);
}

int
main(void)
{
	char *args[] = {"lockbrokerd", "--config=/dev/null", "--broker=memory:", NULL};
	enum config_action action;
	struct config_errors errors;

	log_set_level(LOG_LEVEL_ERROR);
	now = 1000 * NSEC_PER_SEC;
	its = (struct whole_daemon){.clock = &virtual_clock,
	    .locks = {TEST_LOCK_SETTINGS, .max_locks_per_connection = 100,
		.max_waits_per_connection = 100},
	    .max_requests = 100,
	    .channels_max = 100};
	for (int thing = 0; thing < ACCOUNT_THINGS; thing++)
		its.limits.most[thing] = SIZE_MAX;
	its.limits.all_bytes = SIZE_MAX;
	its.config = config_load(3, args, &action, &errors);
	must(its.config != NULL, "no configuration");
	whole_daemon_begin(&its, &behaviour);
	holds();
	administration();
	whole_daemon_end(&its);
	config_free(its.config);
	return 0;
}
