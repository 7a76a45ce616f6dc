#include "client/table.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "client/lockbroker.h"

#define GAP 2

struct table {
	const char *array;
	const struct table_column *columns; /* borrowed */
	size_t count, rows;
	size_t last;  /* what the daemon calls the last row */
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

/*
 * "ARRAY.ROW.MEMBER"; anything else in the result is no cell. Rows are counted here: their numbers are the
 * daemon's, and how much memory they take is not its to say.
 */
static int
take(const char *path, const char *value, void *arg)
{
	struct table *table = arg;
	size_t len = strlen(table->array), row, column = 0;
	char *end, **cell;

	if (strncmp(path, table->array, len) != 0 || path[len] != '.')
		return 0;
	row = strtoul(path + len + 1, &end, 10);
	if (*end != '.')
		return 0;
	if ((table->rows == 0 || row != table->last) && !grow(table))
		return LB_NO_MEMORY;
	table->last = row;
	while (column < table->count && strcmp(table->columns[column].member, end + 1) != 0)
		column++;
	if (column == table->count)
		return 0;
	if (table->columns[column].show != NULL)
		value = table->columns[column].show(value);
	cell = &table->cells[(table->rows - 1) * table->count + column];
	free(*cell);
	*cell = strdup(value);
	return *cell != NULL ? 0 : LB_NO_MEMORY;
}

/* ---- to the terminal ---- */

static const char *
cell(const struct table *table, size_t row, size_t column)
{
	const char *text = table->cells[row * table->count + column];

	return text != NULL ? text : "";
}

/*
 * Writes it with what is no printable character replaced; returns how many columns it takes. to NULL only
 * counts.
 */
static int
put(const char *text, FILE *to)
{
	mbstate_t state = {0};
	int columns = 0;

	while (*text != '\0') {
		wchar_t character;
		size_t len = mbrtowc(&character, text, strlen(text), &state);
		bool whole = len != (size_t)-1 && len != (size_t)-2;
		int width = whole ? wcwidth(character) : -1;

		if (!whole) {
			memset(&state, 0, sizeof(state));
			len = 1;
		}
		if (to != NULL && width < 0)
			fputc('?', to);
		else if (to != NULL)
			fwrite(text, 1, len, to);
		columns += width < 0 ? 1 : width;
		text += len;
	}
	return columns;
}

static int
column_width(const struct table *table, size_t column)
{
	int widest = put(table->columns[column].title, NULL);

	for (size_t row = 0; row < table->rows; row++) {
		int width = put(cell(table, row, column), NULL);

		if (width > widest)
			widest = width;
	}
	return widest;
}

static void
put_aligned(const struct table *table, size_t column, int width, const char *text)
{
	int pad = width - put(text, NULL);
	bool number = table->columns[column].number, last = column + 1 == table->count;

	printf("%*s", number ? pad : 0, "");
	put(text, stdout);
	if (last)
		putchar('\n');
	else
		printf("%*s", (number ? 0 : pad) + GAP, "");
}

static void
print_aligned(const struct table *table, const int *widths)
{
	for (size_t column = 0; column < table->count; column++)
		put_aligned(table, column, widths[column], table->columns[column].title);
	for (size_t row = 0; row < table->rows; row++)
		for (size_t column = 0; column < table->count; column++)
			put_aligned(table, column, widths[column], cell(table, row, column));
}

static void
print_tabbed(const struct table *table)
{
	for (size_t row = 0; row < table->rows; row++) {
		for (size_t column = 0; column < table->count; column++) {
			put(cell(table, row, column), stdout);
			putchar(column + 1 == table->count ? '\n' : '\t');
		}
	}
}

static void
free_table(struct table *table)
{
	for (size_t i = 0; i < table->rows * table->count; i++)
		free(table->cells[i]);
	free(table->cells);
}

bool
table_print(const char *json, const char *array, const struct table_column *columns, size_t count,
    size_t *ret_rows)
{
	struct table table = {.array = array, .columns = columns, .count = count};
	bool terminal = isatty(STDOUT_FILENO) == 1;
	int *widths = calloc(count, sizeof(*widths));
	bool ok = widths != NULL && lb_json_each(json, take, &table) == LB_OK;

	if (ok) {
		/* What the daemon says is UTF-8, whatever the user's locale is. */
		setlocale(LC_CTYPE, "C.UTF-8");
		for (size_t column = 0; column < count; column++)
			widths[column] = column_width(&table, column);
		if (terminal && table.rows > 0)
			print_aligned(&table, widths);
		else if (!terminal)
			print_tabbed(&table);
		*ret_rows = table.rows;
	}
	free_table(&table);
	free(widths);
	return ok;
}
