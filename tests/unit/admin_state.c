#include "tests/unit/admin_state.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_SEEN 400

static struct queue_name
slot(const char *name, int number)
{
	return queue_name_a(world_settings.naming, name, number);
}

static bool
has(const struct lock_world *world, struct queue_name queue)
{
	return memory_world_has(world->memory, queue.text, NULL);
}

struct search {
	const char *name;
	int times;
};

static void
count_entry(void *ctx, const char *body)
{
	struct search *search = ctx;

	search->times += strcmp(body, search->name) == 0;
}

static int
times_listed(const struct lock_world *world, const char *name)
{
	struct search search = {name, 0};
	struct queue_name directory = queue_name_directory(world_settings.naming);

	memory_world_each_message(world->memory, directory.text, count_entry, &search);
	return search.times;
}

const char *
admin_state(const struct lock_world *world, const char *name)
{
	static char text[4096];
	int slots = 0;
	size_t len;

	while (has(world, slot(name, slots + 1)))
		slots++;
	len = (size_t)snprintf(text, sizeof(text), "%d", slots);
	for (int i = slots + 1; i <= SLOTS_SEEN; i++) {
		if (has(world, slot(name, i)))
			len += (size_t)snprintf(text + len, sizeof(text) - len, " %d", i);
	}
	snprintf(text + len, sizeof(text) - len, "%s%s%s",
	    has(world, queue_name_unlimited(world_settings.naming, name)) ? " U" : "",
	    has(world, queue_name_gate(world_settings.naming, name)) ? " G" : "",
	    times_listed(world, name) == 0   ? ""
	    : times_listed(world, name) == 1 ? " listed"
					     : " listed twice");
	return text;
}

static void
make(struct lock_world *world, struct queue_name queue)
{
	ck_assert(memory_world_put(world->memory, queue.text, false));
}

void
admin_make(struct lock_world *world, const char *name, const char *state)
{
	const struct queue_naming *naming = world_settings.naming;
	char *text = strdup(state), *rest = text;
	const char *word = strtok_r(rest, " ", &rest);

	world_make(world, name, atoi(word));
	while ((word = strtok_r(rest, " ", &rest)) != NULL) {
		if (strcmp(word, "U") == 0)
			make(world, queue_name_unlimited(naming, name));
		else if (strcmp(word, "G") == 0)
			make(world, queue_name_gate(naming, name));
		else if (strcmp(word, "listed") == 0)
			memory_world_publish(
			    world->memory, queue_name_directory(naming).text, name);
		else
			make(world, slot(name, atoi(word)));
	}
	free(text);
	ck_assert_str_eq(admin_state(world, name), state);
}
