#include "daemon/view/scrape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "config.h"
#include "daemon/base/mem.h"
#include "daemon/view/queries.h"
#include "daemon/view/row.h"
#include "protocol/json.h"
#include "protocol/line.h"

/*
 * Contents:
 *	Counts: what happened to each name since the start.
 *	Places: which names have counts of their own.
 *	Events: acquires, losses, ends of holds.
 *	The metrics: families[] is the table of all metrics.
 *	Text: write_*() write values, histograms and heads.
 *	The request: view_metrics() copies the counts. A job writes the text.
 */

/* ---- counts ---- */

const enum reason metrics_reasons[METRICS_REASONS] = {REASON_WOULD_BLOCK, REASON_TIMEOUT,
    REASON_CONTENDED, REASON_CANCELLED, REASON_NO_SUCH_LOCK, REASON_ALREADY_EXISTS,
    REASON_PERMISSION_DENIED, REASON_TOO_MANY_LOCKS, REASON_TOO_MANY_WAITERS, REASON_DRAINING,
    REASON_BROKER_UNAVAILABLE, REASON_BROKER_BLOCKED, REASON_BROKER_REFUSED, REASON_INVALID_PARAMS,
    REASON_INTERNAL};

struct metrics_entry {
	struct metrics_place place;
	UT_hash_handle hh; /* by place.name */
};

struct metrics {
	const struct lock_engine *engine; /* borrowed */
	struct metrics_entry entries[METRICS_NAMES + 1];
	struct metrics_entry *by_name; /* entries with a name; borrowed */
	size_t used;                   /* the first of `entries` have names */
	int64_t full_until;            /* clock time before which no name gives up its place */
};

struct metrics *
metrics_new(const struct lock_engine *engine)
{
	struct metrics *metrics = mem_alloc(sizeof(*metrics));

	metrics->engine = engine;
	metrics->full_until = INT64_MIN;
	return metrics;
}

void
metrics_free(struct metrics *metrics)
{
	HASH_CLEAR(hh, metrics->by_name);
	free(metrics);
}

/* ---- places ---- */

static struct metrics_entry *
metrics_entry_find(const struct metrics *metrics, const char *name)
{
	struct metrics_entry *entry = NULL;

	if (name != NULL)
		HASH_FIND(hh, metrics->by_name, name, strlen(name), entry);
	return entry;
}

size_t
metrics_find(const struct metrics *metrics, const char *name)
{
	const struct metrics_entry *entry = metrics_entry_find(metrics, name);

	return entry == NULL ? METRICS_OTHERS : (size_t)(entry - metrics->entries);
}

const struct metrics_place *
metrics_at(const struct metrics *metrics, size_t place)
{
	return &metrics->entries[place].place;
}

static void
metrics_note_row(void *ctx, const struct lock_row *row)
{
	(void)row;
	*(bool *)ctx = true;
}

/* The place that a name gives up. NULL: none does. */
static struct metrics_entry *
metrics_give_up(struct metrics *metrics, int64_t now)
{
	struct metrics_entry *oldest = metrics->entries;
	bool in_use = false;

	if (now < metrics->full_until)
		return NULL;
	for (size_t i = 1; i < METRICS_NAMES; i++) {
		if (metrics->entries[i].place.used < oldest->place.used)
			oldest = &metrics->entries[i];
	}
	metrics->full_until = oldest->place.used + METRICS_IDLE;
	if (now < metrics->full_until)
		return NULL;
	lock_each(metrics->engine, oldest->place.name, metrics_note_row, &in_use);
	if (in_use) {
		oldest->place.used = now;
		return NULL;
	}
	HASH_DEL(metrics->by_name, oldest);
	*oldest = (struct metrics_entry){.place.used = now};
	return oldest;
}

/* The place of a name that a client uses now. */
static struct metrics_place *
metrics_use(struct metrics *metrics, int64_t now, const char *name)
{
	struct metrics_entry *entry = metrics_entry_find(metrics, name);

	if (entry == NULL) {
		entry = metrics->used < METRICS_NAMES ? &metrics->entries[metrics->used++]
						      : metrics_give_up(metrics, now);
		if (entry == NULL)
			return &metrics->entries[METRICS_OTHERS].place;
		snprintf(entry->place.name, sizeof(entry->place.name), "%s", name);
		HASH_ADD_KEYPTR(
		    hh, metrics->by_name, entry->place.name, strlen(entry->place.name), entry);
	}
	entry->place.used = now;
	return &entry->place;
}

/* Adds all counts of `from`. */
static void
metrics_place_merge(struct metrics_place *place, const struct metrics_place *from)
{
	place->granted += from->granted;
	place->lost += from->lost;
	place->revoked += from->revoked;
	for (size_t i = 0; i < METRICS_REASONS; i++)
		place->refused[i] += from->refused[i];
	histogram_merge(&place->waits, &from->waits);
	histogram_merge(&place->holds, &from->holds);
}

/* ---- events ---- */

void
metrics_acquired(
    struct metrics *metrics, int64_t now, const char *name, const struct lock_answer *answer)
{
	struct metrics_place *place;
	size_t i = 0;

	if (answer->reason == REASON_NONE) {
		place = metrics_use(metrics, now, name);
		place->granted++;
		histogram_add(&place->waits, &histogram_clients, answer->waited);
		return;
	}
	while (i < METRICS_REASONS - 1 && metrics_reasons[i] != answer->reason)
		i++;
	metrics->entries[metrics_find(metrics, name)].place.refused[i]++;
}

void
metrics_noticed(struct metrics *metrics, int64_t now, const struct lock_notice *notice)
{
	if (notice->kind == LOCK_NOTICE_LOST)
		metrics_use(metrics, now, notice->name)->lost++;
	else if (notice->kind == LOCK_NOTICE_REVOKED)
		metrics_use(metrics, now, notice->name)->revoked++;
}

void
metrics_hold_ended(struct metrics *metrics, int64_t now, const struct lock_row *hold)
{
	histogram_add(
	    &metrics_use(metrics, now, hold->name)->holds, &histogram_clients, now - hold->since);
}

/*
 * metrics: the counts and the present state of this daemon as text for Prometheus. One table has
 * the name, the type, the help and the value of each metric. The daemon writes the text, so that
 * the command needs no second table. Writing is a job (queries.h), because there may be many names
 * and rows. The counts are those of its beginning.
 */

/* A connection to the broker. */
struct scraped_connection {
	enum broker_state state;
	struct broker_traffic traffic;
	uint64_t quorum_holds;
};

struct scraped_daemon {
	int64_t started, time; /* ns since 1970 */
	uint64_t takeovers, draining, clients;
	uint64_t blocked, channels, channels_limit, in_flight, holder_queues_lost, graces,
	    reclaimed;
};

struct scraped_name {
	struct metrics_place counts;
	bool is_shown; /* the place has a name that the client may see; always for METRICS_OTHERS */
	uint64_t holds, extra_holds, waiters;
	int64_t oldest_hold, longest_wait; /* ns */
};

struct scrape {
	struct view_request request;
	struct view_job job;
	struct walk walk;
	bool openmetrics;
	int64_t now;
	struct scraped_daemon daemon;
	struct scraped_connection connections[BROKER_LINKS]; /* by enum broker_link */
	size_t connection_count;
	struct scraped_name names[METRICS_NAMES + 1];
	FILE *to; /* owned, as `text`; NULL: the walk is not over */
	char *text;
	size_t size;
	size_t family, member; /* the next to write */
};

/* ---- the metrics ---- */

enum metric_type { METRIC_GAUGE, METRIC_COUNTER, METRIC_HISTOGRAM };

/* The members of a family: one sample, or one histogram, each. */
enum metric_group { GROUP_DAEMON, GROUP_CONNECTION, GROUP_NAME };

struct metric_family {
	const char *name; /* of a counter, without _total */
	enum metric_type type;
	enum metric_group group;
	const char *help;
	size_t at;    /* of its value in the struct of its group: uint64_t, or struct histogram */
	bool seconds; /* the value is int64_t in ns */
	const struct histogram_bounds *bounds;
	/* Writes samples with other labels, or other values. */
	void (*write)(struct scrape *scrape, const struct metric_family *family, size_t member);
};

static void write_version(struct scrape *scrape, const struct metric_family *family, size_t member);
static void write_state(struct scrape *scrape, const struct metric_family *family, size_t member);
static void write_round_trips(
    struct scrape *scrape, const struct metric_family *family, size_t member);
static void write_quorum_holds(
    struct scrape *scrape, const struct metric_family *family, size_t member);
static void write_refused(struct scrape *scrape, const struct metric_family *family, size_t member);

#define OF_DAEMON(member) .group = GROUP_DAEMON, .at = offsetof(struct scraped_daemon, member)
#define OF_CONNECTION(member)                                                                      \
	.group = GROUP_CONNECTION, .at = offsetof(struct scraped_connection, member)
#define OF_NAME(member) .group = GROUP_NAME, .at = offsetof(struct scraped_name, member)
#define GAUGE .type = METRIC_GAUGE
#define COUNTER .type = METRIC_COUNTER
#define HISTOGRAM(of) .type = METRIC_HISTOGRAM, .bounds = &(of), .seconds = true

static const struct metric_family families[] = {
    {"lockbroker_build_info", GAUGE, .group = GROUP_DAEMON, .write = write_version,
	.help = "The version of the daemon, as a label. Always 1."},
    {"lockbroker_start_time_seconds", GAUGE, OF_DAEMON(started), .seconds = true,
	.help = "Start of the daemon, in seconds since 1970. A successor does not change it."},
    {"lockbroker_takeovers", COUNTER, OF_DAEMON(takeovers),
	.help = "How often a successor has taken over since the start."},
    {"lockbroker_time_seconds", GAUGE, OF_DAEMON(time), .seconds = true,
	.help = "Time of these metrics, in seconds since 1970."},
    {"lockbroker_draining", GAUGE, OF_DAEMON(draining),
	.help = "1 if the daemon stops and waits for its holders, else 0."},
    {"lockbroker_clients", GAUGE, OF_DAEMON(clients),
	.help = "Connections of clients to the socket."},
    {"lockbroker_broker_connection_state", GAUGE, .group = GROUP_CONNECTION, .write = write_state,
	.help = "1 for the state of a connection to the broker, 0 for other states. The auxiliary "
		"connection is down while it is not needed."},
    {"lockbroker_broker_reconnects", COUNTER, OF_CONNECTION(traffic.reconnects),
	.help = "How often a connection to the broker was made again after it had ended "
		"unexpectedly."},
    {"lockbroker_broker_round_trip_seconds", HISTOGRAM(histogram_round_trips),
	OF_CONNECTION(traffic.round_trips), .write = write_round_trips,
	.help = "Time from a request or probe to the answer of the broker."},
    {"lockbroker_broker_blocked", GAUGE, OF_DAEMON(blocked),
	.help = "1 during a resource alarm of the broker, else 0."},
    {"lockbroker_broker_channels", GAUGE, OF_DAEMON(channels),
	.help = "Open channels of the lock connection."},
    {"lockbroker_broker_channels_limit", GAUGE, OF_DAEMON(channels_limit),
	.help = "Maximum of lockbroker_broker_channels. 0 while there is no connection."},
    {"lockbroker_broker_requests_in_flight", GAUGE, OF_DAEMON(in_flight),
	.help = "Claims and drops that the broker has not answered."},
    {"lockbroker_holder_queues_lost", COUNTER, OF_DAEMON(holder_queues_lost),
	.help = "Holder queues that were deleted at the broker while their slot was held."},
    {"lockbroker_quorum_holds", GAUGE, OF_CONNECTION(quorum_holds), .write = write_quorum_holds,
	.help = "Locks that are held by quorum over this connection."},
    {"lockbroker_quorum_graces", GAUGE, OF_DAEMON(graces),
	.help =
	    "Slots by quorum whose last hold did not end cleanly, and that the daemon makes free "
	    "after their grace."},
    {"lockbroker_quorum_reclaims", COUNTER, OF_DAEMON(reclaimed),
	.help = "Unclean ends of holds by quorum after which nobody had to wait for a grace."},
    {"lockbroker_holds", GAUGE, OF_NAME(holds), .help = "Locks that clients hold now."},
    {"lockbroker_extra_holds", GAUGE, OF_NAME(extra_holds),
	.help = "Of lockbroker_holds: holds whose slot was removed, or that take none."},
    {"lockbroker_waiters", GAUGE, OF_NAME(waiters), .help = "Clients that wait now."},
    {"lockbroker_oldest_hold_seconds", GAUGE, OF_NAME(oldest_hold), .seconds = true,
	.help = "Age of the oldest hold. 0 if there is none."},
    {"lockbroker_longest_wait_seconds", GAUGE, OF_NAME(longest_wait), .seconds = true,
	.help = "Time for which the first of the present waiters has waited. 0 if there is none."},
    {"lockbroker_grants", COUNTER, OF_NAME(counts.granted), .help = "Acquires that got the lock."},
    {"lockbroker_refusals", COUNTER, .group = GROUP_NAME, .write = write_refused,
	.help = "Acquires that were refused, or ended without the lock, by the error's reason."},
    {"lockbroker_losses", COUNTER, OF_NAME(counts.lost),
	.help = "Holds that ended without a release."},
    {"lockbroker_revocations", COUNTER, OF_NAME(counts.revoked),
	.help = "Holds whose slot was removed. They continue."},
    {"lockbroker_wait_seconds", HISTOGRAM(histogram_clients), OF_NAME(counts.waits),
	.help = "Time from an acquire to its grant."},
    {"lockbroker_hold_seconds", HISTOGRAM(histogram_clients), OF_NAME(counts.holds),
	.help = "Duration of the holds that have ended."},
};
#define FAMILIES (sizeof(families) / sizeof(families[0]))

/* ---- text ---- */

static const char *
connection_word(size_t member)
{
	static const char *const words[BROKER_LINKS] = {"lock", "auxiliary", "quorum-1", "quorum-2",
	    "quorum-3", "quorum-4", "quorum-5", "quorum-6", "quorum-7", "quorum-8"};

	return words[member];
}

/* Has room for a name or a version, and its label. */
#define LABELS_MAX (LOCKNAME_MAX + 32)

static void
write_count(const struct scrape *scrape, const struct metric_family *family, const char *suffix,
    const char *labels, uint64_t value)
{
	bool bare = labels[0] == '\0';

	fprintf(scrape->to, "%s%s%s%s%s %" PRIu64 "\n", family->name, suffix, bare ? "" : "{",
	    labels, bare ? "" : "}", value);
}

static void
write_seconds(const struct scrape *scrape, const struct metric_family *family, const char *suffix,
    const char *labels, int64_t ns)
{
	bool bare = labels[0] == '\0';

	fprintf(scrape->to, "%s%s%s%s%s %" PRId64 ".%09" PRId64 "\n", family->name, suffix,
	    bare ? "" : "{", labels, bare ? "" : "}", ns / NSEC_PER_SEC, ns % NSEC_PER_SEC);
}

/* OpenMetrics wants a point in each bound. */
static void
write_bucket(const struct scrape *scrape, const struct metric_family *family, const char *labels,
    int64_t bound, uint64_t count)
{
	char seconds[32];

	snprintf(seconds, sizeof(seconds), "%.10g", (double)bound / NSEC_PER_SEC);
	fprintf(scrape->to, "%s_bucket{%s,le=\"%s%s\"} %" PRIu64 "\n", family->name, labels,
	    seconds, strchr(seconds, '.') == NULL ? ".0" : "", count);
}

static void
write_histogram(const struct scrape *scrape, const struct metric_family *family, const char *labels,
    const struct histogram *histogram)
{
	uint64_t count = 0;

	for (size_t i = 0; i < family->bounds->count; i++) {
		count += histogram->counts[i];
		write_bucket(scrape, family, labels, family->bounds->bound[i], count);
	}
	count += histogram->counts[family->bounds->count];
	fprintf(scrape->to, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", family->name, labels, count);
	write_seconds(scrape, family, "_sum", labels, histogram->sum);
	write_count(scrape, family, "_count", labels, count);
}

static void
write_version(struct scrape *scrape, const struct metric_family *family, size_t member)
{
	(void)member;
	write_count(scrape, family, "", "version=\"" PACKAGE_VERSION "\"", 1);
}

static void
write_state(struct scrape *scrape, const struct metric_family *family, size_t member)
{
	static const enum broker_state states[] = {BROKER_UP, BROKER_DOWN, BROKER_LOGIN_REFUSED};
	char labels[LABELS_MAX];

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		snprintf(labels, sizeof(labels), "connection=\"%s\",state=\"%s\"",
		    connection_word(member), broker_state_word(states[i]));
		write_count(
		    scrape, family, "", labels, scrape->connections[member].state == states[i]);
	}
}

/* Of the connections that carry requests. Holds by quorum have others. */
static void
write_round_trips(struct scrape *scrape, const struct metric_family *family, size_t member)
{
	char labels[LABELS_MAX];

	if (member >= BROKER_QUORUM)
		return;
	snprintf(labels, sizeof(labels), "connection=\"%s\"", connection_word(member));
	write_histogram(scrape, family, labels, &scrape->connections[member].traffic.round_trips);
}

static void
write_quorum_holds(struct scrape *scrape, const struct metric_family *family, size_t member)
{
	char labels[LABELS_MAX];

	if (member < BROKER_QUORUM)
		return;
	snprintf(labels, sizeof(labels), "connection=\"%s\"", connection_word(member));
	write_count(scrape, family, "", labels, scrape->connections[member].quorum_holds);
}

/* The name of a place, as a label. METRICS_OTHERS has one that no lock can have. */
static const char *
scrape_name(const struct scrape *scrape, size_t member)
{
	return member == METRICS_OTHERS ? "(other)" : scrape->names[member].counts.name;
}

/* Reasons that never occurred are left out. The place of all other names has all reasons. */
static void
write_refused(struct scrape *scrape, const struct metric_family *family, size_t member)
{
	const struct metrics_place *counts = &scrape->names[member].counts;
	char labels[LABELS_MAX + 32];

	for (size_t i = 0; i < METRICS_REASONS; i++) {
		if (counts->refused[i] == 0 && member != METRICS_OTHERS)
			continue;
		snprintf(labels, sizeof(labels), "name=\"%s\",reason=\"%s\"",
		    scrape_name(scrape, member), reason_word(metrics_reasons[i]));
		write_count(scrape, family, "_total", labels, counts->refused[i]);
	}
}

static size_t
member_count(const struct scrape *scrape, enum metric_group group)
{
	const size_t counts[] = {[GROUP_DAEMON] = 1,
	    [GROUP_CONNECTION] = scrape->connection_count,
	    [GROUP_NAME] = METRICS_NAMES + 1};

	return counts[group];
}

static void
write_member(struct scrape *scrape, const struct metric_family *family, size_t member)
{
	const void *value = NULL;
	char labels[LABELS_MAX] = "";

	switch (family->group) {
	case GROUP_DAEMON:
		value = (const char *)&scrape->daemon + family->at;
		break;
	case GROUP_CONNECTION:
		value = (const char *)&scrape->connections[member] + family->at;
		snprintf(labels, sizeof(labels), "connection=\"%s\"", connection_word(member));
		break;
	case GROUP_NAME:
		if (!scrape->names[member].is_shown)
			return;
		value = (const char *)&scrape->names[member] + family->at;
		snprintf(labels, sizeof(labels), "name=\"%s\"", scrape_name(scrape, member));
		break;
	}
	if (family->write != NULL)
		family->write(scrape, family, member);
	else if (family->type == METRIC_HISTOGRAM)
		write_histogram(scrape, family, labels, value);
	else if (family->seconds)
		write_seconds(scrape, family, "", labels, *(const int64_t *)value);
	else
		write_count(scrape, family, family->type == METRIC_COUNTER ? "_total" : "", labels,
		    *(const uint64_t *)value);
}

/*
 * The formats differ in the head of a counter alone. OpenMetrics names it without _total, the
 * Prometheus text format with it. In the latter, other lines with # are comments.
 */
static void
write_head(const struct scrape *scrape, const struct metric_family *family)
{
	static const char *const types[] = {"gauge", "counter", "histogram"};
	const char *suffix = family->type == METRIC_COUNTER && !scrape->openmetrics ? "_total" : "";

	fprintf(scrape->to, "# HELP %s%s %s\n# TYPE %s%s %s\n", family->name, suffix, family->help,
	    family->name, suffix, types[family->type]);
	if (family->seconds)
		fprintf(scrape->to, "# UNIT %s seconds\n", family->name);
}

/* False: the time is over. */
static bool
write_all(const struct view *view, struct scrape *scrape, int64_t end)
{
	const struct metric_family *family;

	for (; scrape->family < FAMILIES; scrape->family++, scrape->member = 0) {
		family = &families[scrape->family];
		if (scrape->member == 0)
			write_head(scrape, family);
		while (scrape->member < member_count(scrape, family->group)) {
			write_member(scrape, family, scrape->member++);
			if (view_is_over(view, end))
				return false;
		}
	}
	fprintf(scrape->to, "# EOF\n");
	return true;
}

/* ---- the request ---- */

static void
scrape_free(struct view *view, struct view_request *request)
{
	struct scrape *scrape = (struct scrape *)request;

	view_request_end(view, request);
	view_job_end(view, &scrape->job);
	walk_end(&scrape->walk);
	if (scrape->to != NULL)
		fclose(scrape->to);
	free(scrape->text);
	free(scrape);
}

static void
scrape_add_row(const struct view *view, struct scrape *scrape, const struct lock_row *row)
{
	size_t place = metrics_find(view->metrics, row->name);
	struct scraped_name *name = &scrape->names[place];
	int64_t age = scrape->now - row->since;

	/* The place may have changed hands since the scrape began. */
	if (!name->is_shown || strcmp(name->counts.name, row->name) != 0)
		name = &scrape->names[METRICS_OTHERS];
	if (row->lock == 0) {
		name->waiters++;
		name->longest_wait = age > name->longest_wait ? age : name->longest_wait;
	} else {
		name->holds++;
		name->extra_holds +=
		    row->revoked || (row->slot == 0 && (row->kind != LOCK_KIND_MUTEX ||
							   row->state == LOCK_ROW_ADMITTED));
		name->oldest_hold = age > name->oldest_hold ? age : name->oldest_hold;
	}
}

static void
scrape_finish(struct view *view, struct scrape *scrape)
{
	uint64_t peer = scrape->request.peer, number = scrape->request.number;
	struct view_peer state = view_peer(view, peer);
	struct cJSON *result;

	fclose(scrape->to);
	scrape->to = NULL;
	if (scrape->size > state.room || state.unread + scrape->size > LINE_MAX_OUT / 4 * 3) {
		view_refuse(view, peer, number, REASON_TOO_MANY_REQUESTS,
		    "the client has not read its earlier answers");
	} else {
		result = json_new_object();
		json_add_string(result, "text", scrape->text);
		view_done(view, peer, number, result);
	}
	scrape_free(view, &scrape->request);
}

static void
scrape_step(struct view *view, struct view_job *job, int64_t end)
{
	struct scrape *scrape = job->ctx;
	struct lock_row row;

	while (scrape->to == NULL && walk_next(&scrape->walk, view->engine, &row)) {
		scrape_add_row(view, scrape, &row);
		if (view_is_over(view, end))
			return;
	}
	if (scrape->to == NULL)
		scrape->to = open_memstream(&scrape->text, &scrape->size);
	if (scrape->to == NULL)
		abort(); /* as mem_alloc() without memory */
	if (write_all(view, scrape, end))
		scrape_finish(view, scrape);
}

/* Copies the counts. A name that the client may not see adds to all other names. */
static void
scrape_take_counts(const struct view *view, struct scrape *scrape)
{
	struct scraped_name *others = &scrape->names[METRICS_OTHERS];

	others->is_shown = true;
	others->counts = *metrics_at(view->metrics, METRICS_OTHERS);
	for (size_t i = 0; i < METRICS_NAMES; i++) {
		struct scraped_name *name = &scrape->names[i];

		name->counts = *metrics_at(view->metrics, i);
		name->is_shown = name->counts.name[0] != '\0' &&
				 view->events.sees(view->events.ctx, scrape->request.peer,
				     scrape->request.number, name->counts.name);
		if (!name->is_shown)
			metrics_place_merge(&others->counts, &name->counts);
	}
}

static void
scrape_take_broker(const struct view *view, struct scrape *scrape)
{
	struct broker_info info;
	struct broker_quorum_info quorum;
	struct lock_counts counts;

	broker_get_info(view->broker, &info);
	broker_get_quorum(view->broker, &quorum);
	lock_get_counts(view->engine, &counts);
	scrape->daemon.blocked = info.auxiliary_blocked;
	scrape->daemon.channels = info.channels;
	scrape->daemon.channels_limit = info.channels_max;
	scrape->daemon.in_flight = counts.in_flight;
	scrape->daemon.holder_queues_lost = counts.holder_queues_lost;
	scrape->connections[BROKER_LOCKS].state = info.locks;
	scrape->connections[BROKER_AUXILIARY].state = info.auxiliary;
	scrape->daemon.graces = quorum.graces;
	scrape->daemon.reclaimed = quorum.reclaimed;
	for (size_t i = 0; i < quorum.connections; i++) {
		scrape->connections[BROKER_QUORUM + i].state = quorum.connection[i].state;
		scrape->connections[BROKER_QUORUM + i].quorum_holds = quorum.connection[i].holds;
	}
	scrape->connection_count = BROKER_QUORUM + quorum.connections;
	for (size_t i = 0; i < scrape->connection_count; i++)
		broker_get_traffic(
		    view->broker, (enum broker_link)i, &scrape->connections[i].traffic);
}

void
view_metrics(struct view *view, uint64_t peer, uint64_t request, const struct view_scrape *wanted)
{
	struct scrape *scrape = mem_alloc(sizeof(*scrape));

	scrape->request.free = scrape_free;
	scrape->request.left = scrape_free;
	view_request_begin(view, &scrape->request, peer, request);
	scrape->openmetrics = wanted->openmetrics;
	scrape->now = view_now(view);
	scrape->daemon.started = wanted->started;
	scrape->daemon.takeovers = wanted->takeovers;
	scrape->daemon.time = clock_now(&clock_wall);
	scrape->daemon.draining = wanted->draining;
	scrape->daemon.clients = wanted->clients;
	scrape_take_broker(view, scrape);
	scrape_take_counts(view, scrape);
	walk_begin(&scrape->walk, view->engine, NULL);
	view->events.keep(
	    view->events.ctx, peer, request, sizeof(*scrape) + walk_size(&scrape->walk));
	scrape->job = (struct view_job){.step = scrape_step, .ctx = scrape};
	view_job_begin(view, &scrape->job, scrape->request.ask.user);
}
