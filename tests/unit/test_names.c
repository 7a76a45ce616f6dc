/*
 * Names of queues: the refused templates and lock names. The other names never share a queue. This
 * is checked on whole pools of names. All possible queues of the names of a pool are sorted, and
 * neighbours are compared, which covers every pair.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/lock/names.h"
#include "protocol/lockname.h"
#include "tests/unit/unit.h"

/* ---- templates ---- */

static const struct {
	const char *text, *want; /* part of the error */
} bad_templates[] = {
    {"", "lacks {name}"},
    {"{slot}", "lacks {name}"},
    {"{name}", "lacks {slot}"},
    {"{name}-A", "lacks {slot}"},
    {"{name}-{slot}-{name}", "byte 15: a second {name}"},
    {"{slot}-{name}-{slot}", "byte 15: a second {slot}"},
    {"{name}{slot}", "byte 7: {name} and {slot} need a sign"},
    {"A{slot}{name}", "byte 2: {name} and {slot} need a sign"},
    {"{name}-1{slot}", "byte 8: a digit before {slot}"},
    {"{name}-{slot}0", "byte 14: a digit after {slot}"},
    {"9{slot}-{name}", "byte 1: a digit before {slot}"},
    {"{name}-{Slot}", "byte 8: '{' must begin"},
    {"{name-{slot}", "byte 1: '{' must begin"},
    {"{name}-{slot}}", "byte 14: '}' must end"},
    {"{name}={slot}", "byte 7: '=' is reserved"},
    {"{name} {slot}", "byte 7: contains a character"},
    {"{name}\t{slot}", "byte 7: contains a character"},
    {"{name}-\xc3\xa4{slot}", "byte 8: contains a character"},
    {"{name}-\x7f{slot}", "byte 8: contains a character"},
    {"amq.{name}-{slot}", "byte 1: starts with amq."},
    {"{name}-{slot}-0123456789012345678901234567890123456789012345678",
	"a lock name of 200 bytes and slot 10000 make 256 bytes; a queue name has at most 255"},
};

START_TEST(a_template_is_refused_with_place_and_reason)
{
	struct template template = {"untouched", ""};
	char error[TEMPLATE_ERROR_MAX];

	ck_assert(!template_parse(bad_templates[_i].text, &template, error));
	ck_assert_msg(strstr(error, bad_templates[_i].want) == error, "%s: %s",
	    bad_templates[_i].text, error);
	ck_assert_str_eq(template.head, "untouched");
}
END_TEST

static struct template parsed(const char *text)
{
	struct template template;
	char error[TEMPLATE_ERROR_MAX];

	ck_assert_msg(template_parse(text, &template, error), "%s: %s", text, error);
	return template;
}

static const struct {
	const char *one, *other;
	bool differ;
} template_pairs[] = {
    {"{name}-{slot}-A", "{name}-{slot}-B", true},
    {"{name}-A-{slot}", "{name}-B-{slot}", true},
    {"A/{name}/{slot}", "B/{name}/{slot}", true},
    {"{slot}.A.{name}", "{slot}.B.{name}", true},
    {"A{slot}-{name}", "B-{name}.{slot}", true},
    {"{name}-{slot}-A", "{name}-{slot}-A", false},
    {"{name}-{slot}", "{name}-{slot}-B", true},
    /* "a-1-2" is slot 2 of "a-1" in the one, and of "a" in the other. */
    {"{name}-{slot}", "{name}-1-{slot}", false},
    {"{name}-A-{slot}", "{name}-{slot}-A", true},
    {"{name}-{slot}-A", "A-{name}-{slot}-A", false},
    {"{slot}-{name}", "{name}-{slot}", false},
    {"{slot}-{name}-A", "{name}-{slot}-B", true},
    /* A literal number may be a slot. */
    {"{slot}-{name}", "7-{name}-{slot}", false},
    {"{name}-{slot}", "{slot}-{name}-7", false},
    {"{slot}-{name}", "x-{name}-{slot}", true},
    {"q{slot}-{name}", "q{slot}.{name}", true},
    {"q{slot}-{name}", "q{slot}-x{name}", false},
};

START_TEST(templates_that_could_make_one_name_do_not_differ)
{
	struct template one = parsed(template_pairs[_i].one);
	struct template other = parsed(template_pairs[_i].other);

	ck_assert_msg(template_differ(&one, &other) == template_pairs[_i].differ, "%s %s",
	    template_pairs[_i].one, template_pairs[_i].other);
	ck_assert(template_differ(&other, &one) == template_pairs[_i].differ);
}
END_TEST

/* ---- namings ---- */

static const struct queue_naming *
naming_of(const char *slot_queue, const char *holder_queue)
{
	struct template a = parsed(slot_queue), b = parsed(holder_queue);

	ck_assert_msg(template_differ(&a, &b), "%s %s", slot_queue, holder_queue);
	return queue_naming_new(&a, &b);
}

START_TEST(the_presets_name_queues_as_the_scheme_does)
{
	const struct queue_naming *seed = &queue_naming_amqp_locks;
	const struct queue_naming *python = &queue_naming_amqp_locks_python;

	ck_assert_str_eq(queue_name_a(seed, "n", 12).text, "n-12-A");
	ck_assert_str_eq(queue_name_b(seed, "n", 12).text, "n-12-B");
	ck_assert_str_eq(queue_name_admin(seed, "n").text, "n");
	ck_assert_str_eq(queue_name_mutex(seed, "n").text, "n-M");
	ck_assert_str_eq(queue_name_a(python, "n", 12).text, "n-A-12");
	ck_assert_str_eq(queue_name_b(python, "n", 12).text, "n-B-12");
	ck_assert_str_eq(queue_name_admin(python, "n").text, "n");
	ck_assert_str_eq(queue_name_mutex(python, "n").text, "n");
	ck_assert_str_eq(queue_name_gate(python, "n").text, "n-G");
	ck_assert_str_eq(queue_name_unlimited(seed, "n").text, "n-U");
}
END_TEST

START_TEST(templates_name_queues)
{
	const struct queue_naming *naming = naming_of("slots/{slot}!{name}", "held~{slot}!{name}");

	ck_assert_str_eq(queue_name_a(naming, "db", 10000).text, "slots/10000!db");
	ck_assert_str_eq(queue_name_b(naming, "db", 1).text, "held~1!db");
	ck_assert_str_eq(queue_name_admin(naming, "db").text, "db");
	ck_assert_str_eq(queue_name_mutex(naming, "db").text, "db-M");
	ck_assert_str_eq(queue_name_gate(naming, "db").text, "db-G");
	queue_naming_free(naming);
}
END_TEST

START_TEST(the_longest_names_fit)
{
	const char *filler = "012345678901234567890123456789012345678901234567";
	char name[LOCKNAME_MAX + 1], slot_queue[80], holder_queue[80];
	const struct queue_naming *naming;

	memset(name, 'x', LOCKNAME_MAX);
	name[LOCKNAME_MAX] = '\0';
	ck_assert_ptr_null(lockname_error(name, LOCKNAME_MAX));
	snprintf(slot_queue, sizeof(slot_queue), "{name}A{slot}.%s", filler);
	snprintf(holder_queue, sizeof(holder_queue), "{name}B{slot}.%s", filler);
	naming = naming_of(slot_queue, holder_queue);
	ck_assert_uint_eq(strlen(queue_name_a(naming, name, 10000).text), TEMPLATE_QUEUE_MAX);
	ck_assert_uint_eq(strlen(queue_name_b(naming, name, 10000).text), TEMPLATE_QUEUE_MAX);
	ck_assert_uint_le(strlen(queue_name_directory_mutex(naming).text), TEMPLATE_QUEUE_MAX);
	queue_naming_free(naming);
}
END_TEST

START_TEST(every_naming_has_a_directory_of_its_own)
{
	/* The templates of the second pair are the first's, cut elsewhere. */
	const struct queue_naming *namings[] = {
	    &queue_naming_amqp_locks,
	    &queue_naming_amqp_locks_python,
	    naming_of("{name}-{slot}-A", "{name}-{slot}-B"),
	    naming_of("{name}-A-{slot}", "{name}-B-{slot}"),
	    naming_of("{name}.{slot}", "A{name}.{slot}B"),
	    naming_of("{name}.{slot}A", "{name}.{slot}B"),
	};
	size_t count = sizeof(namings) / sizeof(namings[0]);

	for (size_t i = 0; i < count; i++) {
		struct queue_name mutex = queue_name_directory_mutex(namings[i]);

		for (size_t j = 0; j < count; j++) {
			struct queue_name other = queue_name_directory(namings[j]);

			ck_assert(i == j ||
				  strcmp(queue_name_directory(namings[i]).text, other.text) != 0);
			ck_assert_str_ne(mutex.text, other.text);
		}
	}
	ck_assert_str_eq(queue_name_directory(namings[0]).text, "lockbroker=amqp-locks");
	for (size_t i = 0; i < count; i++)
		queue_naming_free(namings[i]);
}
END_TEST

static const struct {
	const char *slot_queue, *holder_queue, *name;
	bool refused;
} named[] = {
    {"{name}.{slot}", "{name}.{slot}.held", "x", false},
    {"{name}.{slot}", "{name}.{slot}.held", "x.1", true},
    {"{name}.{slot}", "{name}.{slot}.held", "x.10001",
	true}, /* where uncounted slots are searched */
    {"{name}.{slot}", "{name}.{slot}.held", "x.1.y", false},
    {"{name}.{slot}", "{name}.{slot}.held", ".1", false}, /* no lock has an empty name */
    {"{name}.{slot}", "{name}.{slot}.held", "x.1.held", true},
    {"{name}.{slot}", "{name}.{slot}.held", "amq", true}, /* amq.1 */
    {"{name}-{slot}", "{name}-{slot}-held", "amq", false},
    {"{slot}.{name}", "B{slot}.{name}", "1.x", true},
    {"{slot}.{name}", "B{slot}.{name}", "B12.x", true},
    {"{slot}.{name}", "B{slot}.{name}", "C12.x", false},
    {"a{name}/{slot}", "b{name}/{slot}", "mq.x", true},  /* amq.x/1 */
    {"{name}/{slot}-G", "{name}/{slot}-H", "x/1", true}, /* its gate would be a slot of x */
    {"{name}/{slot}-G", "{name}/{slot}-H", "x/1-H", true},
    {"{name}/{slot}!", "{name}/{slot}?", "x/1", false}, /* no lock name has ! or ? */
};

START_TEST(names_that_would_share_a_queue_are_refused)
{
	const struct queue_naming *naming = naming_of(named[_i].slot_queue, named[_i].holder_queue);

	ck_assert_msg((queue_name_refusal(naming, named[_i].name) != NULL) == named[_i].refused,
	    "%s under %s", named[_i].name, named[_i].slot_queue);
	queue_naming_free(naming);
}
END_TEST

/* ---- the property ---- */

/* A queue, and whose: "A 3 of x". */
struct queue {
	char text[QUEUE_NAME_SIZE], owner[LOCKNAME_MAX + 32];
};

struct pool {
	char (*names)[LOCKNAME_MAX + 1];
	size_t count;
	struct queue *queues;
	size_t queue_count;
};

#define POOL_NAMES 150
static const int slots[] = {
    1, 2, 9, 10, 11, 12, 21, 99, 100, 101, 110, 111, 112, 1000, 9999, 10000};
#define SLOTS (sizeof(slots) / sizeof(slots[0]))
#define QUEUES_PER_NAME (2 * SLOTS + 5)

static uint64_t dice_state = 20261120;

/* splitmix64: the same pools in every run. */
static unsigned
dice(unsigned sides)
{
	uint64_t z = (dice_state += 0x9e3779b97f4a7c15U);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
	return (unsigned)((z ^ (z >> 31)) % sides);
}

static bool
allowed(const struct queue_naming *naming, const char *name)
{
	return lockname_error(name, strlen(name)) == NULL &&
	       queue_name_refusal(naming, name) == NULL;
}

static void
pool_init(struct pool *pool)
{
	*pool = (struct pool){
	    .names = mem_grow(NULL, POOL_NAMES, sizeof(pool->names[0])),
	    .queues = mem_grow(NULL, POOL_NAMES * QUEUES_PER_NAME, sizeof(pool->queues[0])),
	};
}

static void
pool_done(struct pool *pool)
{
	free(pool->names);
	free(pool->queues);
}

/* No name twice: it would share its queues with itself. */
static void
pool_add_name(struct pool *pool, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < pool->count; i++) {
		if (strcmp(pool->names[i], name) == 0)
			return;
	}
	if (pool->count < POOL_NAMES && len > 0 && len <= LOCKNAME_MAX)
		memcpy(pool->names[pool->count++], name, len + 1);
}

static void
pool_add_queue(struct pool *pool, const char *text, const char *role, int slot, const char *name)
{
	struct queue *queue = &pool->queues[pool->queue_count++];

	snprintf(queue->text, sizeof(queue->text), "%s", text);
	snprintf(queue->owner, sizeof(queue->owner), "%s %d of %s", role, slot, name);
}

/* All queues that a lock of this name could have: slots, holders, markers, mutexes, wait queues. */
static void
pool_add_queues(struct pool *pool, const struct queue_naming *naming, const char *name)
{
	char line[QUEUE_NAME_SIZE];

	for (size_t i = 0; i < SLOTS; i++) {
		pool_add_queue(
		    pool, queue_name_a(naming, name, slots[i]).text, "A", slots[i], name);
		pool_add_queue(
		    pool, queue_name_b(naming, name, slots[i]).text, "B", slots[i], name);
	}
	pool_add_queue(pool, queue_name_admin(naming, name).text, "admin", 0, name);
	pool_add_queue(pool, queue_name_gate(naming, name).text, "gate", 0, name);
	pool_add_queue(pool, queue_name_unlimited(naming, name).text, "unlimited", 0, name);
	snprintf(line, sizeof(line), "%s-W", name);
	pool_add_queue(pool, line, "line", 0, name);
	/* In amqp-locks-python the mutex is the admin mutex on purpose. */
	if (naming != &queue_naming_amqp_locks_python)
		pool_add_queue(pool, queue_name_mutex(naming, name).text, "mutex", 0, name);
}

static int
by_text(const void *a, const void *b)
{
	return strcmp(((const struct queue *)a)->text, ((const struct queue *)b)->text);
}

/* Two queues of one name; NULL: there are none. */
static const struct queue *
pool_find_shared(struct pool *pool, const struct queue_naming *naming)
{
	pool->queue_count = 0;
	for (size_t i = 0; i < pool->count; i++)
		pool_add_queues(pool, naming, pool->names[i]);
	qsort(pool->queues, pool->queue_count, sizeof(pool->queues[0]), by_text);
	for (size_t i = 1; i < pool->queue_count; i++) {
		if (strcmp(pool->queues[i - 1].text, pool->queues[i].text) == 0)
			return &pool->queues[i - 1];
	}
	return NULL;
}

/* Short, of the bytes that matter, so that names begin and end in one another. */
static void
draw_name(char name[LOCKNAME_MAX + 1])
{
	static const char *const pieces[] = {"a", "x", "-", "-", "1", "2", "10", "A", "B", "-A",
	    "-B", "-A-", "-B-", "-1-", "-M", "-G", "-U", "-W", ".", "/", ":", "_", "amq", "0",
	    "held", "s"};
	unsigned count = 1 + dice(5);

	*name = '\0';
	while (count-- > 0)
		strcat(name, pieces[dice(sizeof(pieces) / sizeof(pieces[0]))]);
}

/* A pool of names, each with the queues that it has which could be names themselves. */
static void
pool_fill(struct pool *pool, const struct queue_naming *naming)
{
	char name[LOCKNAME_MAX + 1];

	while (pool->count < POOL_NAMES) {
		size_t before = pool->queue_count;

		draw_name(name);
		if (!allowed(naming, name))
			continue;
		pool_add_name(pool, name);
		pool_add_queues(pool, naming, name);
		for (size_t i = before; i < pool->queue_count; i++) {
			if (allowed(naming, pool->queues[i].text))
				pool_add_name(pool, pool->queues[i].text);
		}
		pool->queue_count = before;
	}
}

static void
assert_nothing_shared(const struct queue_naming *naming)
{
	struct pool pool;
	const struct queue *shared;

	pool_init(&pool);
	pool_fill(&pool, naming);
	shared = pool_find_shared(&pool, naming);
	ck_assert_msg(shared == NULL, "%s: %s and %s (%s)", shared[0].text, shared[0].owner,
	    shared[1].owner, queue_name_directory(naming).text);
	for (size_t i = 0; i < pool.queue_count; i++) {
		ck_assert_uint_le(strlen(pool.queues[i].text), TEMPLATE_QUEUE_MAX);
		ck_assert_msg(strncmp(pool.queues[i].text, "amq.", 4) != 0 &&
				  strchr(pool.queues[i].text, '=') == NULL,
		    "%s", pool.queues[i].owner);
	}
	pool_done(&pool);
}

START_TEST(presets_share_no_queue)
{
	for (int i = 0; i < 10; i++) {
		assert_nothing_shared(&queue_naming_amqp_locks);
		assert_nothing_shared(&queue_naming_amqp_locks_python);
	}
}
END_TEST

/* The refused endings (protocol/lockname.c) are all that the presets need. */
START_TEST(presets_refuse_no_other_name)
{
	char name[LOCKNAME_MAX + 1];

	for (int i = 0; i < 50000; i++) {
		draw_name(name);
		if (lockname_error(name, strlen(name)) != NULL)
			continue;
		ck_assert_msg(
		    queue_name_refusal(&queue_naming_amqp_locks, name) == NULL, "%s", name);
		ck_assert_msg(
		    queue_name_refusal(&queue_naming_amqp_locks_python, name) == NULL, "%s", name);
	}
}
END_TEST

/* A template in its parts. */
struct drawn {
	bool name_first;
	const char *literals[3];
};

static const char *
draw_literal(void)
{
	static const char *const literals[] = {"", "", "-", ".", "/", "-A", "-B", "A", "B", "-A-",
	    "-B-", "1", "-1-", "!", "-G", "-M", "-U", "-W", "x", "a", "amq", "q."};

	return literals[dice(sizeof(literals) / sizeof(literals[0]))];
}

static void
draw_template(struct drawn *drawn)
{
	drawn->name_first = dice(4) != 0;
	for (int i = 0; i < 3; i++)
		drawn->literals[i] = draw_literal();
}

static void
write_template(char text[80], const struct drawn *drawn)
{
	snprintf(text, 80, "%s%s%s%s%s", drawn->literals[0],
	    drawn->name_first ? TEMPLATE_NAME : TEMPLATE_SLOT, drawn->literals[1],
	    drawn->name_first ? TEMPLATE_SLOT : TEMPLATE_NAME, drawn->literals[2]);
}

START_TEST(templates_that_are_let_share_no_queue)
{
	int used = 0, refused = 0, alike = 0;

	while (used < 60) {
		char slot_queue[80], holder_queue[80], error[TEMPLATE_ERROR_MAX];
		const struct queue_naming *naming;
		struct template a, b;
		struct drawn drawn;

		draw_template(&drawn);
		write_template(slot_queue, &drawn);
		/* A near relation, or one drawn anew. */
		if (dice(3) == 0)
			draw_template(&drawn);
		drawn.literals[dice(3)] = draw_literal();
		write_template(holder_queue, &drawn);
		if (!template_parse(slot_queue, &a, error) ||
		    !template_parse(holder_queue, &b, error)) {
			refused++;
			continue;
		}
		if (!template_differ(&a, &b)) {
			alike++;
			continue;
		}
		naming = queue_naming_new(&a, &b);
		assert_nothing_shared(naming);
		queue_naming_free(naming);
		used++;
	}
	ck_assert_int_gt(refused, 0);
	ck_assert_int_gt(alike, 0);
}
END_TEST

/* The property test can fail: names that are refused, and templates that are, do share queues. */
static const struct {
	const struct queue_naming *naming;
	const char *one, *other;
} sharing[] = {
    {&queue_naming_amqp_locks, "x", "x-1-A"},
    {&queue_naming_amqp_locks, "x", "x-10-B"},
    {&queue_naming_amqp_locks, "x", "x-M"},
    {&queue_naming_amqp_locks, "x", "x-W"},
    {&queue_naming_amqp_locks, "x", "x-G"},
    {&queue_naming_amqp_locks, "x", "x-U"},
    {&queue_naming_amqp_locks_python, "x", "x-A-1"},
    {&queue_naming_amqp_locks_python, "x", "x-B-10"},
    {&queue_naming_amqp_locks_python, "x", "x-G"},
};

START_TEST(refused_names_would_share_a_queue)
{
	struct pool pool;

	pool_init(&pool);
	pool_add_name(&pool, sharing[_i].one);
	ck_assert_ptr_null(pool_find_shared(&pool, sharing[_i].naming));
	pool_add_name(&pool, sharing[_i].other);
	ck_assert_ptr_nonnull(pool_find_shared(&pool, sharing[_i].naming));
	ck_assert(!allowed(sharing[_i].naming, sharing[_i].other));
	pool_done(&pool);
}
END_TEST

START_TEST(lengths_and_alphabet)
{
	char name[LOCKNAME_MAX + 2];

	memset(name, 'x', sizeof(name));
	ck_assert_ptr_nonnull(lockname_error(name, 0));
	ck_assert_ptr_null(lockname_error(name, 200));
	ck_assert_ptr_nonnull(lockname_error(name, 201));
	for (int c = 0; c < 256; c++) {
		bool message = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
			       (c >= 'a' && c <= 'z') || (c != 0 && strchr("._:/-", c) != NULL);

		name[1] = (char)c;
		ck_assert_msg((lockname_error(name, 3) == NULL) == message, "byte %d", c);
	}
}
END_TEST

#define COUNT(table) ((int)(sizeof(table) / sizeof((table)[0])))

static Suite *
names_suite(void)
{
	Suite *suite = suite_create("names");
	TCase *templates = tcase_create("templates"), *namings = tcase_create("namings");
	TCase *property = tcase_create("property");

	tcase_add_loop_test(
	    templates, a_template_is_refused_with_place_and_reason, 0, COUNT(bad_templates));
	tcase_add_loop_test(
	    templates, templates_that_could_make_one_name_do_not_differ, 0, COUNT(template_pairs));
	suite_add_tcase(suite, templates);
	tcase_add_test(namings, the_presets_name_queues_as_the_scheme_does);
	tcase_add_test(namings, templates_name_queues);
	tcase_add_test(namings, the_longest_names_fit);
	tcase_add_test(namings, every_naming_has_a_directory_of_its_own);
	tcase_add_loop_test(namings, names_that_would_share_a_queue_are_refused, 0, COUNT(named));
	tcase_add_test(namings, lengths_and_alphabet);
	suite_add_tcase(suite, namings);
	tcase_set_timeout(property, 120);
	tcase_add_test(property, presets_share_no_queue);
	tcase_add_test(property, presets_refuse_no_other_name);
	tcase_add_test(property, templates_that_are_let_share_no_queue);
	tcase_add_loop_test(property, refused_names_would_share_a_queue, 0, COUNT(sharing));
	suite_add_tcase(suite, property);
	return suite;
}

int
main(void)
{
	Suite *(*const makers[])(void) = {names_suite};

	return unit_run(makers, 1);
}
