#include "client/tool/table.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lockbroker.h"
#include "client/tool/text.h"

#define GAP 2
/* More bytes than any text of the wire has: a sentence, words of 256 bytes. */
#define CELL_SIZE 4096

struct table {
	const char *const *arrays;          /* borrowed */
	const struct table_column *columns; /* borrowed */
	size_t count, rows;
	const char *last_array; /* array and index of the last row, as the daemon names them */
	size_t last;
	char **cells; /* owned, each too; rows * count; NULL = the object has no such member */
};

/* ---- from JSON ---- */

static bool
grow(struct table *table)
{
	size_t size = (table->rows + 1) * table->count;
	char **cells = realloc(table->cells, size * sizeof(*cells));

	if (cells == NULL)
		return false;
	table->cells = cells;
	memset(cells + table->rows * table->count, 0, table->count * sizeof(*cells));
	table->rows++;
	return true;
}

/* The array of a path. *ret_rest is the part behind its name. NULL: no wanted array. */
static const char *
array_of(const struct table *table, const char *path, const char **ret_rest)
{
	for (const char *const *array = table->arrays; *array != NULL; array++) {
		size_t len = strlen(*array);

		if (strncmp(path, *array, len) != 0 || path[len] != '.')
			continue;
		*ret_rest = path + len + 1;
		return *array;
	}
	return NULL;
}

/*
 * Puts a value into its cell of the last row. A value that replaces that of another column has no
 * cell.
 */
/* Whether it is no column of its own. */
static bool
is_part(const struct table_column *column)
{
	return column->over || column->behind;
}

static int
fill(struct table *table, size_t column, const char *value)
{
	char **cell, *text;
	bool behind;

	if (table->columns[column].show != NULL)
		value = table->columns[column].show(value);
	if (is_part(&table->columns[column]) && *value == '\0')
		return 0;
	behind = table->columns[column].behind;
	while (is_part(&table->columns[column]))
		column--;
	cell = &table->cells[(table->rows - 1) * table->count + column];
	if (asprintf(&text, "%s%s", behind && *cell != NULL ? *cell : "", value) < 0)
		return LB_NO_MEMORY;
	free(*cell);
	*cell = text;
	return 0;
}

/*
 * "ARRAY.ROW.MEMBER"; anything else in the result is no cell. Rows are counted here: their numbers
 * are the daemon's, and how much memory they take is not its to say.
 */
static int
take(const char *path, const char *value, void *arg)
{
	const char *rest, *array = array_of(arg, path, &rest);
	struct table *table = arg;
	size_t row, column = 0;
	char *end;

	if (array == NULL)
		return 0;
	row = strtoul(rest, &end, 10);
	if (*end != '.')
		return 0;
	if (array != table->last_array || row != table->last) {
		if (!grow(table))
			return LB_NO_MEMORY;
		table->last_array = array;
		table->last = row;
	}
	while (column < table->count && strcmp(table->columns[column].member, end + 1) != 0)
		column++;
	return column < table->count ? fill(table, column, value) : 0;
}

/* ---- to the terminal ---- */

static const char *
cell(const struct table *table, size_t row, size_t column)
{
	const char *text = table->cells[row * table->count + column];

	return text != NULL ? text : "";
}

/* Cleaned; a cell is no longer than what the daemon's lines may have. */
static void
put(const char *text)
{
	char clean[CELL_SIZE];

	text_fit(clean, sizeof(clean), text, TEXT_WHOLE);
	fputs(clean, stdout);
}

static size_t
last_column(const struct table *table)
{
	size_t column = table->count - 1;

	while (is_part(&table->columns[column]))
		column--;
	return column;
}

static int
column_width(const struct table *table, size_t column)
{
	const struct table_column *shown = &table->columns[column];
	int widest = is_part(shown) ? 0 : text_columns(shown->title);

	for (size_t row = 0; row < table->rows; row++) {
		int width = text_columns(cell(table, row, column));

		if (width > widest)
			widest = width;
	}
	return widest;
}

static void
put_aligned(const struct table *table, size_t column, int width, const char *text)
{
	int pad = width - text_columns(text);
	bool number = table->columns[column].number;

	printf("%*s", number ? pad : 0, "");
	put(text);
	if (column == last_column(table))
		putchar('\n');
	else
		printf("%*s", (number ? 0 : pad) + GAP, "");
}

static void
print_aligned(const struct table *table, const int *widths, bool headers)
{
	for (size_t column = 0; headers && column < table->count; column++)
		if (!is_part(&table->columns[column]))
			put_aligned(table, column, widths[column], table->columns[column].title);
	for (size_t row = 0; row < table->rows; row++)
		for (size_t column = 0; column < table->count; column++)
			if (!is_part(&table->columns[column]))
				put_aligned(
				    table, column, widths[column], cell(table, row, column));
}

static void
put_tabbed(const struct table *table, size_t column, const char *text)
{
	if (is_part(&table->columns[column]))
		return;
	put(text);
	putchar(column == last_column(table) ? '\n' : '\t');
}

static void
print_tabbed(const struct table *table, bool headers)
{
	for (size_t column = 0; headers && column < table->count; column++)
		put_tabbed(table, column, table->columns[column].title);
	for (size_t row = 0; row < table->rows; row++)
		for (size_t column = 0; column < table->count; column++)
			put_tabbed(table, column, cell(table, row, column));
}

bool
table_print(const char *json, const char *const *arrays, const struct table_column *columns,
    size_t count, bool headers, size_t *ret_rows)
{
	struct table table = {.arrays = arrays, .columns = columns, .count = count};
	bool terminal = isatty(STDOUT_FILENO) == 1;
	int *widths = calloc(count, sizeof(*widths));
	bool ok = widths != NULL && lb_json_each(json, take, &table) == LB_OK;

	if (ok) {
		/* The daemon sends UTF-8, whatever the user's locale is. */
		setlocale(LC_CTYPE, "C.UTF-8");
		for (size_t column = 0; column < count; column++)
			widths[column] = column_width(&table, column);
		if (terminal && table.rows > 0)
			print_aligned(&table, widths, headers);
		else if (!terminal)
			print_tabbed(&table, headers);
		*ret_rows = table.rows;
	}
	for (size_t i = 0; i < table.rows * table.count; i++)
		free(table.cells[i]);
	free(table.cells);
	free(widths);
	return ok;
}
