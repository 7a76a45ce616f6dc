#include "client/top/model.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "client/lockbroker.h"

void
top_model_init(struct top_model *model)
{
	*model = (struct top_model){.focus = TOP_SEMAPHORES};
}

void
top_model_done(struct top_model *model)
{
	free(model->semaphores);
	free(model->rows);
	for (int panel = 0; panel < TOP_PANELS; panel++)
		free(model->sight[panel].shown);
}

/*
 * ---- the filter ----
 */

static bool
row_passes(const struct row *row, const char *filter)
{
	const char *const words[] = {
	    row->who, row->why, row->command, row->host, row_state_word(row->state)};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcasestr(words[i], filter) != NULL)
			return true;
	return false;
}

static size_t
total(const struct top_model *model, enum top_panel panel)
{
	return panel == TOP_SEMAPHORES ? model->semaphores_count : model->rows_count;
}

static bool
passes(const struct top_model *model, enum top_panel panel, size_t i)
{
	const char *filter = model->sight[panel].filter;

	if (panel == TOP_SEMAPHORES)
		return strcasestr(model->semaphores[i].name, filter) != NULL;
	return row_passes(&model->rows[i], filter);
}

/* Room for every one, so that finding out what is shown cannot fail. */
static bool
make_room(struct top_sight *sight, size_t count)
{
	size_t *grown;

	if (count <= sight->size)
		return true;
	grown = realloc(sight->shown, count * sizeof(*grown));
	if (grown == NULL)
		return false;
	sight->shown = grown;
	sight->size = count;
	return true;
}

static void
see(struct top_model *model, enum top_panel panel)
{
	struct top_sight *sight = &model->sight[panel];

	sight->count = 0;
	for (size_t i = 0; i < total(model, panel); i++)
		if (passes(model, panel, i))
			sight->shown[sight->count++] = i;
	if (sight->selected >= sight->count)
		sight->selected = sight->count > 0 ? sight->count - 1 : 0;
}

const struct top_semaphore *
top_model_semaphore_at(const struct top_model *model, size_t shown)
{
	const struct top_sight *sight = &model->sight[TOP_SEMAPHORES];

	return shown < sight->count ? &model->semaphores[sight->shown[shown]] : NULL;
}

const struct row *
top_model_row_at(const struct top_model *model, size_t shown)
{
	const struct top_sight *sight = &model->sight[TOP_ROWS];

	return shown < sight->count ? &model->rows[sight->shown[shown]] : NULL;
}

const struct top_semaphore *
top_model_semaphore(const struct top_model *model)
{
	return top_model_semaphore_at(model, model->sight[TOP_SEMAPHORES].selected);
}

const struct row *
top_model_row(const struct top_model *model)
{
	return top_model_row_at(model, model->sight[TOP_ROWS].selected);
}

/* ---- list ---- */

struct names_read {
	struct top_semaphore *items;
	size_t count;
};

struct list_read {
	struct names_read semaphores, mutexes;
	int more; /* -1 = it is no answer to list */
	char silent[TOP_SILENT_SIZE];
};

/* Room for one more, in steps that double: none when there is no memory. */
static bool
grow(void **items, size_t count, size_t size)
{
	void *grown;

	if ((count & (count - 1)) != 0)
		return true;
	grown = realloc(*items, (count > 0 ? 2 * count : 1) * size);
	if (grown == NULL)
		return false;
	*items = grown;
	return true;
}

/* "ARRAY.N.MEMBER": grows *items when N is a new one. The member, or NULL. */
static const char *
element(const char *path, const char *array, size_t size, void **items, size_t *count,
    bool *ret_no_memory)
{
	size_t len = strlen(array);
	unsigned long index;
	char *member;

	if (strncmp(path, array, len) != 0 || path[len] != '.')
		return NULL;
	index = strtoul(path + len + 1, &member, 10);
	if (*member != '.' || index > *count || index + 1 < *count)
		return NULL;
	if (index < *count)
		return member + 1;
	if (!grow(items, *count, size)) {
		*ret_no_memory = true;
		return NULL;
	}
	memset((char *)*items + *count * size, 0, size);
	++*count;
	return member + 1;
}

static int
number(const char *value)
{
	return *value == '\0' ? -1 : strcmp(value, "unlimited") == 0 ? LB_UNLIMITED : atoi(value);
}

static void
add_word(char *words, size_t size, const char *word)
{
	size_t len = strlen(words);

	snprintf(words + len, size - len, "%s%s", len > 0 ? ", " : "", word);
}

/* Into those of that array, if it is one of its elements. */
static int
read_name(struct names_read *names, const char *array, const char *path, const char *value)
{
	bool no_memory = false;
	void *items = names->items;
	const char *member =
	    element(path, array, sizeof(*names->items), &items, &names->count, &no_memory);
	struct top_semaphore *one;

	names->items = items;
	if (member == NULL)
		return no_memory ? LB_NO_MEMORY : 0;
	one = &names->items[names->count - 1];
	if (strcmp(member, "name") == 0)
		snprintf(one->name, sizeof(one->name), "%s", value);
	else if (strcmp(member, "slots") == 0)
		one->slots = number(value);
	else if (strcmp(member, "busy") == 0)
		one->busy = number(value);
	else if (strcmp(member, "extra") == 0)
		one->extra = *value == '\0' ? 0 : number(value);
	else if (strcmp(member, "waiting") == 0)
		one->waiting = number(value);
	else if (strcmp(member, "exists") == 0)
		one->missing = strcmp(value, "false") == 0;
	return 0;
}

static int
read_list(const char *path, const char *value, void *arg)
{
	struct list_read *read = arg;
	int code = read_name(&read->semaphores, "semaphores", path, value);

	if (strcmp(path, "more") == 0)
		read->more = atoi(value);
	else if (strncmp(path, "silent_hosts.", 13) == 0)
		add_word(read->silent, sizeof(read->silent), value);
	return code != 0 ? code : read_name(&read->mutexes, "mutexes", path, value);
}

/* A mutex comes behind the semaphore of its name. */
static int
compare_names(const void *a, const void *b)
{
	const struct top_semaphore *one = a, *other = b;
	int order = strcmp(one->name, other->name);

	return order != 0 ? order : one->mutex - other->mutex;
}

/* All of them by name, and room to show them. Frees `read`. NULL: out of memory. */
static struct top_semaphore *
join_names(struct top_sight *sight, struct list_read *read)
{
	size_t slots = read->semaphores.count, count = slots + read->mutexes.count;
	struct top_semaphore *all = calloc(count + 1, sizeof(*all));

	if (all != NULL && slots > 0)
		memcpy(all, read->semaphores.items, slots * sizeof(*all));
	for (size_t i = slots; all != NULL && i < count; i++) {
		all[i] = read->mutexes.items[i - slots];
		all[i].mutex = true;
		all[i].slots = -1;
	}
	free(read->semaphores.items);
	free(read->mutexes.items);
	if (all != NULL && !make_room(sight, count)) {
		free(all);
		return NULL;
	}
	if (all != NULL)
		qsort(all, count, sizeof(*all), compare_names);
	return all;
}

bool
top_model_list(struct top_model *model, const char *json)
{
	struct top_sight *sight = &model->sight[TOP_SEMAPHORES];
	const struct top_semaphore *before = top_model_semaphore(model);
	struct list_read read = {.more = -1};
	struct top_semaphore selected = {.name = ""}, *all;
	bool ok = lb_json_each(json, read_list, &read) == LB_OK && read.more >= 0;

	all = join_names(sight, &read);
	if (!ok || all == NULL) {
		free(all);
		return false;
	}
	if (before != NULL)
		selected = *before;
	free(model->semaphores);
	model->semaphores = all;
	model->semaphores_count = read.semaphores.count + read.mutexes.count;
	model->mutexes_count = read.mutexes.count;
	model->semaphores_known = true;
	model->more = read.more;
	snprintf(model->silent, sizeof(model->silent), "%s", read.silent);
	see(model, TOP_SEMAPHORES);
	for (size_t i = 0; i < sight->count; i++)
		if (compare_names(top_model_semaphore_at(model, i), &selected) == 0)
			sight->selected = i;
	return true;
}

/* ---- show ---- */

struct rows_read {
	struct row *items;
	size_t count;
};

struct show_read {
	struct rows_read holders, waiters;
	int more; /* -1 = it is no answer to show */
	bool partial;
};

/* Into those of that array, if it is one of its rows. */
static int
read_row(struct rows_read *rows, const char *array, const char *path, const char *value)
{
	bool no_memory = false;
	size_t before = rows->count;
	void *items = rows->items;
	const char *member =
	    element(path, array, sizeof(*rows->items), &items, &rows->count, &no_memory);

	rows->items = items;
	if (member == NULL)
		return no_memory ? LB_NO_MEMORY : 0;
	if (rows->count > before)
		row_init(&rows->items[before]);
	row_take(&rows->items[rows->count - 1], member, value);
	return 0;
}

static int
read_show(const char *path, const char *value, void *arg)
{
	struct show_read *read = arg;
	int code = read_row(&read->holders, "holders", path, value);

	if (strcmp(path, "more") == 0)
		read->more = atoi(value);
	else if (strncmp(path, "silent_hosts.", 13) == 0 ||
		 (strcmp(path, "busy") == 0 && *value == '\0'))
		read->partial = true;
	return code != 0 ? code : read_row(&read->waiters, "waiters", path, value);
}

static bool
is_listed(const struct rows_read *rows, const char *waiter)
{
	for (size_t i = 0; i < rows->count; i++)
		if (strcmp(rows->items[i].waiter, waiter) == 0)
			return true;
	return false;
}

/* Forgets the rows whose time is over. */
static void
expire_cancelled(struct top_model *model, int64_t now)
{
	size_t kept = 0;

	for (size_t i = 0; i < model->cancelled_count; i++)
		if (model->cancelled[i].until > now)
			model->cancelled[kept++] = model->cancelled[i];
	model->cancelled_count = kept;
}

/* Joins holders, waiters, and rows denied here a moment ago. Frees `read`. NULL: out of memory. */
static struct row *
join(const struct top_model *model, struct show_read *read, size_t *ret_count)
{
	size_t count = read->holders.count + read->waiters.count;
	struct row *rows = calloc(count + model->cancelled_count + 1, sizeof(*rows));

	if (rows != NULL && read->holders.count > 0)
		memcpy(rows, read->holders.items, read->holders.count * sizeof(*rows));
	if (rows != NULL && read->waiters.count > 0)
		memcpy(rows + read->holders.count, read->waiters.items,
		    read->waiters.count * sizeof(*rows));
	for (size_t i = 0; rows != NULL && i < model->cancelled_count; i++) {
		const struct row *one = &model->cancelled[i].row;

		if (strcmp(one->name, model->rows_of) == 0 &&
		    !is_listed(&read->waiters, one->waiter))
			rows[count++] = *one;
	}
	*ret_count = count;
	return rows;
}

/* A row is the same when its waiter is, and one that nobody explains when its slot is. */
static bool
same_row(const struct row *a, const struct row *b)
{
	return strcmp(a->waiter, b->waiter) == 0 && (*a->waiter != '\0' || a->slot == b->slot);
}

bool
top_model_show(struct top_model *model, const char *name, const char *json, int64_t now)
{
	const struct top_semaphore *wanted = top_model_semaphore(model);
	struct top_sight *sight = &model->sight[TOP_ROWS];
	const struct row *before = top_model_row(model);
	struct show_read read = {.more = -1};
	struct row selected, *rows = NULL;
	size_t count;

	if (wanted == NULL || strcmp(wanted->name, name) != 0)
		return true;
	row_init(&selected);
	if (strcmp(model->rows_of, name) != 0)
		sight->selected = sight->first = 0;
	else if (before != NULL)
		selected = *before;
	snprintf(model->rows_of, sizeof(model->rows_of), "%s", name);
	expire_cancelled(model, now);
	if (lb_json_each(json, read_show, &read) == LB_OK && read.more >= 0)
		rows = join(model, &read, &count);
	free(read.holders.items);
	free(read.waiters.items);
	if (rows == NULL || !make_room(sight, count)) {
		free(rows);
		return false;
	}
	free(model->rows);
	model->rows = rows;
	model->rows_count = count;
	model->rows_more = read.more;
	model->rows_partial = read.partial;
	see(model, TOP_ROWS);
	for (size_t i = 0; i < sight->count; i++)
		if (same_row(top_model_row_at(model, i), &selected))
			sight->selected = i;
	return true;
}

void
top_model_forget_rows(struct top_model *model)
{
	model->rows_count = 0;
	model->rows_more = 0;
	model->rows_of[0] = '\0';
	model->sight[TOP_ROWS].first = 0;
	see(model, TOP_ROWS);
}

void
top_model_denied(struct top_model *model, const char *waiter, int64_t now)
{
	for (size_t i = 0; i < model->rows_count; i++) {
		struct top_cancelled *one = &model->cancelled[model->cancelled_count];

		if (strcmp(model->rows[i].waiter, waiter) != 0 ||
		    model->cancelled_count == TOP_CANCELLED_MOST)
			continue;
		one->row = model->rows[i];
		one->row.state = ROW_CANCELLED;
		one->row.position = 0;
		one->until = now + TOP_CANCELLED_MS;
		model->cancelled_count++;
		return;
	}
}

/* ---- selecting ---- */

void
top_model_move(struct top_model *model, enum top_panel panel, long by)
{
	struct top_sight *sight = &model->sight[panel];
	long last = (long)sight->count - 1, to = (long)sight->selected;

	if (last < 0)
		return;
	to = by > last - to ? last : by < -to ? 0 : to + by;
	sight->selected = (size_t)to;
}

void
top_model_filter(struct top_model *model, enum top_panel panel, const char *text)
{
	struct top_sight *sight = &model->sight[panel];
	size_t item = sight->count > 0 ? sight->shown[sight->selected] : SIZE_MAX;

	snprintf(sight->filter, sizeof(sight->filter), "%s", text);
	see(model, panel);
	for (size_t i = 0; i < sight->count; i++)
		if (sight->shown[i] == item)
			sight->selected = i;
}

void
top_model_fit(struct top_model *model, enum top_panel panel, size_t lines)
{
	struct top_sight *sight = &model->sight[panel];

	if (sight->first + lines > sight->count)
		sight->first = sight->count > lines ? sight->count - lines : 0;
	if (sight->selected < sight->first)
		sight->first = sight->selected;
	else if (lines > 0 && sight->selected >= sight->first + lines)
		sight->first = sight->selected - lines + 1;
}
