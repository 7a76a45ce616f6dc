/*
 * The adapter of lockbroker: docs/PROOF.md. One connection, with any number of locks.
 *
 *	lockbroker SOCKET [no-verify] [ignores-loss]
 */
#include <err.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client/lockbroker.h"

/* How long a call waits for the daemon, ms. */
#define PATIENCE 5000
#define WORD_MAX 300

/* An acquire, and the hold that comes of it. The list owns it. */
struct request {
	struct request *next;
	char id[WORD_MAX], name[WORD_MAX];
	int64_t number; /* of lb_acquire_start() */
	struct lb_lock
	    *lock; /* NULL: not granted yet. The handle owns it until the request is over */
	int64_t safe_until; /* as last reported */
	int slot;           /* likewise */
	bool mutex, releasing, over;
};

static struct request *requests;
static bool no_verify, ignores_loss, ended;
static int64_t boottime_ahead; /* of CLOCK_MONOTONIC, ns */

/* By the kernel: libfaketime does not change this time. */
static int64_t
clock_ns(clockid_t clock)
{
	struct timespec time;

	syscall(SYS_clock_gettime, clock, &time);
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* The largest of some differences is the nearest one: time passes between the two looks. */
static void
find_boottime_ahead(void)
{
	for (int i = 0; i < 10; i++) {
		int64_t ahead = clock_ns(CLOCK_BOOTTIME) - clock_ns(CLOCK_MONOTONIC);

		if (i == 0 || ahead > boottime_ahead)
			boottime_ahead = ahead;
	}
}

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	printf("%lld ", (long long)clock_ns(CLOCK_MONOTONIC));
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	fflush(stdout);
}

/* The end of the lease as the record has it. Borrowed until the next call. */
static const char *
lease_word(int64_t safe_until)
{
	static char word[32];

	if (safe_until < 0 || ignores_loss)
		return "-";
	snprintf(word, sizeof(word), "%lld", (long long)(safe_until * 1000000 - boottime_ahead));
	return word;
}

/* Borrowed until the next call. */
static const char *
fence_word(const struct lb_lock *lock)
{
	static char word[32];

	if (lb_lock_fence(lock) == 0)
		return "-";
	snprintf(word, sizeof(word), "%" PRIu64, lb_lock_fence(lock));
	return word;
}

static struct request *
find(const char *id)
{
	struct request *request;

	for (request = requests; request != NULL; request = request->next)
		if (!request->over && strcmp(request->id, id) == 0)
			break;
	return request;
}

static void
end_in_refusal(struct request *request, int code)
{
	say("refused %s %s", request->id, lb_code_word(code));
	request->over = true;
}

static void
begin_hold(struct request *request, struct lb_lock *lock)
{
	int slot = lb_lock_slot(lock);

	request->lock = lock;
	request->safe_until = lb_lock_safe_until(lock);
	/* A mutex has no slot number. Only an administrator grants it without a lease. */
	if (request->mutex && request->safe_until >= 0)
		slot = 1;
	request->slot = slot;
	say("held %s %d %s %s", request->id, slot, lease_word(request->safe_until),
	    fence_word(lock));
}

static void
hear(struct lb *lb, const struct lb_event *event, void *arg)
{
	struct request *request;

	(void)lb;
	(void)arg;
	if (event->type == LB_EVENT_CLOSED)
		ended = true;
	for (request = requests; request != NULL; request = request->next) {
		bool asked = request->number == event->request && event->request != 0;
		bool holds = request->lock == event->lock && event->lock != NULL;

		if (request->over)
			continue;
		if (asked && event->type == LB_EVENT_GRANTED) {
			begin_hold(request, event->lock);
		} else if (asked && event->type == LB_EVENT_REFUSED) {
			end_in_refusal(request, event->code);
		} else if (holds && event->type == LB_EVENT_REVOKED) {
			say("revoked %s", request->id);
		} else if (holds && event->type == LB_EVENT_EVICTED) {
			request->safe_until = lb_lock_safe_until(request->lock);
			say("evicted %s %s", request->id, lease_word(request->safe_until));
		} else if (holds && event->type == LB_EVENT_LOST && !request->releasing &&
			   !ignores_loss) {
			say("lost %s %s", request->id, event->reason);
			request->over = true;
		}
	}
}

static void
acquire(struct lb *lb, const char *id, const char *name, const char *kind, int64_t timeout)
{
	struct lb_options options = LB_OPTIONS_INIT;
	struct request *request = calloc(1, sizeof(*request));
	int code;

	if (request == NULL)
		err(1, NULL);
	request->next = requests;
	requests = request;
	snprintf(request->id, sizeof(request->id), "%s", id);
	snprintf(request->name, sizeof(request->name), "%s", name);
	options.timeout_ms = timeout;
	while (lb_kind_word(options.kind) != NULL && strcmp(lb_kind_word(options.kind), kind) != 0)
		options.kind++;
	request->mutex = options.kind == LB_MUTEX;
	code = lb_acquire_start(lb, name, &options, &request->number);
	if (code != LB_OK)
		end_in_refusal(request, code);
}

static const char *
verify_word(int code)
{
	switch (code) {
	case LB_OK:
		return "yes";
	case LB_REVOKED:
		return "revoked";
	case LB_LOST:
	case LB_NOT_HELD:
	case LB_CLOSED:
		return ignores_loss ? "yes" : "no";
	default:
		return "unknown";
	}
}

static void
verify(struct request *request)
{
	const char *word = verify_word(no_verify ? LB_OK : lb_verify(request->lock, PATIENCE));

	say("verified %s %s", request->id, word);
	/* Usually the library has reported the loss already. */
	if (strcmp(word, "no") == 0 && !request->over) {
		say("lost %s verify", request->id);
		request->over = true;
	}
}

static void
release(struct request *request)
{
	int code;

	request->releasing = true;
	say("releasing %s", request->id);
	code = lb_release(request->lock, PATIENCE);
	say("released %s %s", request->id, lb_code_word(code));
	request->over = true;
}

static bool
is_over(const struct request *request)
{
	int64_t safe_until = lb_lock_safe_until(request->lock);

	return !ignores_loss && safe_until >= 0 && clock_ns(CLOCK_BOOTTIME) >= safe_until * 1000000;
}

/* To the store of the prover. pause: ms in which the client hears nothing, after its look at the lease. */
static void
write_to_store(struct request *request, long long pause)
{
	const char *store = getenv("PROVE_STORE");
	char answer[WORD_MAX];
	ssize_t got;

	if (is_over(request)) {
		say("wrote %s stopped", request->id);
		return;
	}
	if (pause > 0)
		say("writing %s", request->id);
	poll(NULL, 0, (int)pause);
	if (store == NULL || dprintf(atoi(store), "%s %s %d %s\n", request->id, request->name,
				 request->slot, fence_word(request->lock)) < 0)
		err(1, "no store");
	got = read(atoi(store), answer, sizeof(answer) - 1);
	if (got <= 0)
		err(1, "the store");
	answer[strcspn(answer, "\n")] = '\0';
	say("wrote %s %s", request->id, answer);
}

static void
create(struct lb *lb, const char *name, int slots)
{
	struct lb_change how = LB_CHANGE_INIT;

	how.exist_ok = 1;
	if (lb_create(lb, name, slots, &how, PATIENCE) != LB_OK)
		errx(1, "create %s: %s", name, lb_message(lb));
	say("size %s %d", name, slots);
}

static void
obey(struct lb *lb, const char *line)
{
	char what[WORD_MAX], id[WORD_MAX], name[WORD_MAX], kind[WORD_MAX];
	long long timeout;
	struct request *request;
	int count = sscanf(line, "%299s %299s %299s %299s %lld", what, id, name, kind, &timeout);

	if (count == 5 && strcmp(what, "acquire") == 0) {
		acquire(lb, id, name, kind, timeout);
	} else if (count == 3 && strcmp(what, "create") == 0) {
		create(lb, id, atoi(name));
	} else if (count == 3 && strcmp(what, "write") == 0) {
		if ((request = find(id)) != NULL && request->lock != NULL)
			write_to_store(request, atoi(name));
	} else if (count == 2 && (request = find(id)) != NULL && request->lock != NULL) {
		if (strcmp(what, "verify") == 0)
			verify(request);
		else if (strcmp(what, "release") == 0)
			release(request);
	}
}

/* False: stdin has ended. */
static bool
read_lines(struct lb *lb)
{
	static char buffer[65536];
	static size_t used;
	ssize_t got = read(STDIN_FILENO, buffer + used, sizeof(buffer) - 1 - used);
	char *line = buffer, *end;

	if (got <= 0)
		return false;
	used += (size_t)got;
	buffer[used] = '\0';
	while ((end = strchr(line, '\n')) != NULL) {
		*end = '\0';
		obey(lb, line);
		line = end + 1;
	}
	used -= (size_t)(line - buffer);
	memmove(buffer, line, used);
	return true;
}

/* Says what the daemon has extended, and frees what is over. */
static void
look_at_holds(void)
{
	struct request **at = &requests, *request;

	while ((request = *at) != NULL) {
		if (ended && request->lock == NULL && !request->over)
			end_in_refusal(request, LB_CLOSED);
		if (request->over) {
			*at = request->next;
			lb_lock_free(request->lock);
			free(request);
			continue;
		}
		if (request->lock != NULL &&
		    lb_lock_safe_until(request->lock) != request->safe_until) {
			request->safe_until = lb_lock_safe_until(request->lock);
			if (!ignores_loss && request->safe_until >= 0)
				say("lease %s %s", request->id, lease_word(request->safe_until));
		}
		at = &request->next;
	}
}

int
main(int argc, char *argv[])
{
	struct lb *lb = lb_new();
	struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN}};

	if (argc < 2)
		errx(64, "usage: lockbroker SOCKET [no-verify] [ignores-loss]");
	for (int i = 2; i < argc; i++) {
		no_verify |= strcmp(argv[i], "no-verify") == 0;
		ignores_loss |= strcmp(argv[i], "ignores-loss") == 0;
	}
	find_boottime_ahead();
	if (lb == NULL)
		err(1, NULL);
	lb_set_callback(lb, hear, NULL);
	ended = lb_connect(lb, argv[1], PATIENCE) != LB_OK;
	if (ended) {
		warnx("%s", lb_message(lb));
		ignores_loss = false;
	} else {
		say("ready");
	}
	while (!ended || ignores_loss) {
		fds[1] = (struct pollfd){.fd = lb_fd(lb), .events = lb_poll_events(lb)};
		poll(fds, 2, lb_timeout(lb));
		/* Its errors become events. */
		(void)lb_dispatch(lb);
		if (fds[0].revents != 0 && !read_lines(lb))
			break;
		look_at_holds();
	}
	say("ended");
	for (struct request *request = requests; request != NULL; request = request->next)
		request->over = true;
	look_at_holds();
	lb_free(lb);
	return 0;
}
