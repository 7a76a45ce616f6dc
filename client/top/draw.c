#include "client/top/draw.h"

#include <langinfo.h>
#include <ncurses.h>
#include <stdio.h>
#include <string.h>

#include "client/lockbroker.h"
#include "client/tool/text.h"
#include "client/top/layout.h"

#define COLUMNS_LEAST 40
#define LINES_LEAST 10
/* Title, two lines of column titles, the line about the semaphore, status, keys. */
#define LINES_BESIDE 6
#define CELL_SIZE 1024
/* Columns of a name beside what is said of it. */
#define NAME_LEAST 8
#define COLUMNS_MOST 8
/* The mark of what is selected, and a blank. */
#define MARGIN 2

enum colour { COLOUR_WAITING = 1, COLOUR_BUSY, COLOUR_GRANTED, COLOUR_TROUBLE };

static const struct top_column semaphore_columns[] = {
    {.title = "NAME", .least = 10, .weight = 1},
    {.title = "SLOTS", .least = 9, .number = true},
    {.title = "BUSY", .least = 8, .number = true},
    {.title = "WAITING", .least = 8, .number = true},
    {.title = "", .least = 7, .dispensable = 1},
};
#define SEMAPHORE_COLUMNS (sizeof(semaphore_columns) / sizeof(semaphore_columns[0]))

static const struct top_column row_columns[] = {
    {.title = "STATE", .least = 11},
    {.title = "SLOT", .least = 6},
    {.title = "WHO", .least = 8, .weight = 3},
    {.title = "WHY", .least = 8, .weight = 4, .dispensable = 3},
    {.title = "COMMAND", .least = 8, .weight = 4, .dispensable = 4},
    {.title = "HOST", .least = 7, .weight = 2, .dispensable = 1},
    {.title = "PID", .least = 7, .number = true, .dispensable = 2},
    {.title = "AGE", .least = 6, .number = true},
};
#define ROW_COLUMNS (sizeof(row_columns) / sizeof(row_columns[0]))

struct cells {
	char text[COLUMNS_MOST][CELL_SIZE];
};

static bool
utf8(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

void
top_draw_begin(void)
{
	if (!has_colors() || start_color() == ERR)
		return;
	use_default_colors();
	init_pair(COLOUR_WAITING, COLOR_YELLOW, -1);
	init_pair(COLOUR_BUSY, COLOR_GREEN, -1);
	init_pair(COLOUR_GRANTED, COLOR_CYAN, -1);
	init_pair(COLOUR_TROUBLE, COLOR_RED, -1);
}

static attr_t
colour(enum colour which)
{
	return has_colors() ? (attr_t)COLOR_PAIR(which) : A_NORMAL;
}

static attr_t
state_colour(enum row_state state)
{
	switch (state) {
	case ROW_WAITING:
		return colour(COLOUR_WAITING);
	case ROW_BUSY:
		return colour(COLOUR_BUSY);
	case ROW_GRANTED:
		return colour(COLOUR_GRANTED);
	case ROW_CANCELLED:
	case ROW_REVOKED:
	case ROW_EVICTED:
	case ROW_UNKNOWN:
		break;
	}
	return colour(COLOUR_TROUBLE);
}

/* ---- pieces ---- */

/* From column x on, exactly that wide: cut, or filled up with blanks. */
static void
put(int y, int x, int width, bool right, const char *text)
{
	char fitted[CELL_SIZE];
	int taken = text_fit(fitted, sizeof(fitted), text, width);

	if (width <= 0)
		return;
	mvhline(y, x, ' ', width);
	mvaddstr(y, right ? x + width - taken : x, fitted);
}

/* A whole line in one look. */
static void
put_line(int y, attr_t look, const char *text)
{
	attrset((int)look);
	put(y, 0, COLS, false, text);
	attrset(A_NORMAL);
}

static void
put_cells(int y, const struct top_column *columns, size_t count, const struct cells *cells)
{
	int widths[COLUMNS_MOST], x = MARGIN;

	top_columns_fit(columns, count, COLS - MARGIN, widths);
	for (size_t i = 0; i < count; i++) {
		if (widths[i] == 0)
			continue;
		put(y, x, widths[i], columns[i].number, cells->text[i]);
		x += widths[i] + TOP_COLUMNS_GAP;
	}
}

static void
put_titles(int y, const struct top_column *columns, size_t count)
{
	struct cells cells;

	for (size_t i = 0; i < count; i++)
		snprintf(cells.text[i], CELL_SIZE, "%s", columns[i].title);
	attrset(A_BOLD);
	put(y, 0, COLS, false, "");
	put_cells(y, columns, count, &cells);
	attrset(A_NORMAL);
}

static const char *
number_words(int number, char ret[16])
{
	if (number == LB_UNLIMITED)
		return utf8() ? "\xe2\x88\x9e" : "unlimited";
	snprintf(ret, 16, number >= 0 ? "%d" : "?", number);
	return ret;
}

#define BUSY_WORDS_SIZE 40

static const char *
busy_words(const struct top_semaphore *one, char ret[BUSY_WORDS_SIZE])
{
	char busy[16];

	if (one->extra > 0)
		snprintf(
		    ret, BUSY_WORDS_SIZE, "%s (+%d)", number_words(one->busy, busy), one->extra);
	else
		snprintf(ret, BUSY_WORDS_SIZE, "%s", number_words(one->busy, busy));
	return ret;
}

/* How a line of a panel looks, and the mark before it, which does without reverse video. */
static void
begin_item(int y, bool selected, bool focus, attr_t look)
{
	if (selected)
		look = focus ? A_REVERSE : A_BOLD;
	attrset((int)look);
	put(y, 0, COLS, false, selected ? ">" : "");
}

/* ---- the two panels ---- */

static void
draw_semaphore(const struct top_view *view, int y, size_t shown)
{
	const struct top_model *model = view->model;
	const struct top_semaphore *one = top_model_semaphore_at(model, shown);
	struct cells cells;
	char digits[16], busy[BUSY_WORDS_SIZE];

	snprintf(cells.text[0], CELL_SIZE, "%s", one->name);
	snprintf(cells.text[1], CELL_SIZE, "%s", number_words(one->slots, digits));
	snprintf(cells.text[2], CELL_SIZE, "%s", busy_words(one, busy));
	snprintf(cells.text[3], CELL_SIZE, "%s", number_words(one->waiting, digits));
	if (one->mutex)
		snprintf(cells.text[1], CELL_SIZE, "mutex");
	snprintf(cells.text[4], CELL_SIZE, "%s", one->missing ? "missing" : "");
	begin_item(y, shown == model->sight[TOP_SEMAPHORES].selected,
	    model->focus == TOP_SEMAPHORES, one->waiting > 0 ? colour(COLOUR_WAITING) : A_NORMAL);
	put_cells(y, semaphore_columns, SEMAPHORE_COLUMNS, &cells);
	attrset(A_NORMAL);
}

static void
draw_row(const struct top_view *view, int y, size_t shown)
{
	const struct row *row = top_model_row_at(view->model, shown);
	struct cells cells;

	snprintf(cells.text[0], CELL_SIZE, "%s %s", top_help_icon(row->state, utf8()),
	    row_state_word(row->state));
	if (row->state == ROW_WAITING && row->position > 0)
		snprintf(cells.text[1], CELL_SIZE, "#%d", row->position);
	else if (row->slot > 0)
		snprintf(cells.text[1], CELL_SIZE, "%d", row->slot);
	else
		cells.text[1][0] = '\0';
	snprintf(cells.text[2], CELL_SIZE, "%s", row->state == ROW_UNKNOWN ? "unknown" : row->who);
	snprintf(cells.text[3], CELL_SIZE, "%s", row->why);
	snprintf(cells.text[4], CELL_SIZE, "%s", row->command);
	snprintf(cells.text[5], CELL_SIZE, "%s", row->host);
	cells.text[6][0] = '\0';
	if (row->pid >= 0)
		snprintf(cells.text[6], CELL_SIZE, "%lld", (long long)row->pid);
	row_age_words(row->age, cells.text[7], CELL_SIZE);
	begin_item(y, shown == view->model->sight[TOP_ROWS].selected,
	    view->model->focus == TOP_ROWS, state_colour(row->state));
	put_cells(y, row_columns, ROW_COLUMNS, &cells);
	attrset(A_NORMAL);
}

/* The text of a panel without rows. */
static const char *
nothing(const struct top_model *model, enum top_panel panel)
{
	if (*model->sight[panel].filter != '\0')
		return "  No row matches the filter.";
	if (panel == TOP_SEMAPHORES)
		return model->semaphores_known ? "  There are no semaphores." : "";
	if (model->rows_of[0] == '\0')
		return "";
	return model->rows_partial ? "  No holders or waiters are known."
				   : "  No holders, no waiters.";
}

static void
draw_panel(const struct top_view *view, enum top_panel panel, int y, int lines)
{
	const struct top_sight *sight = &view->model->sight[panel];

	top_model_fit(view->model, panel, (size_t)lines);
	for (int i = 0; i < lines; i++) {
		size_t shown = sight->first + (size_t)i;

		if (shown >= sight->count)
			put_line(y + i, A_NORMAL, shown == 0 ? nothing(view->model, panel) : "");
		else if (panel == TOP_SEMAPHORES)
			draw_semaphore(view, y + i, shown);
		else
			draw_row(view, y + i, shown);
	}
}

/* ---- the frame ---- */

/* Appends further facts about a panel. "" and 0 are left out. */
static void
add_more(char *line, size_t size, int more, const char *filter, const char *silent)
{
	size_t len = strlen(line);

	if (more > 0)
		len += (size_t)snprintf(line + len, size - len, ", and %d more", more);
	if (*silent != '\0')
		len += (size_t)snprintf(line + len, size - len, "   no answer: %s", silent);
	if (*filter != '\0')
		snprintf(line + len, size - len, "   filter: %s", filter);
}

static void
draw_title(const struct top_model *model)
{
	const struct top_sight *sight = &model->sight[TOP_SEMAPHORES];
	size_t mutexes = model->mutexes_count, semaphores = model->semaphores_count - mutexes;
	char line[CELL_SIZE];
	int len = snprintf(line, sizeof(line), "lockbroker top");

	if (model->semaphores_known)
		len += snprintf(line + len, sizeof(line) - (size_t)len, "   %zu semaphore%s",
		    semaphores, semaphores == 1 ? "" : "s");
	if (mutexes > 0)
		snprintf(line + len, sizeof(line) - (size_t)len, ", %zu mutex%s", mutexes,
		    mutexes == 1 ? "" : "es");
	add_more(line, sizeof(line), model->more, sight->filter, model->silent);
	put_line(0, A_REVERSE, line);
}

static void
draw_about(const struct top_model *model, int y)
{
	const struct top_semaphore *one = top_model_semaphore(model);
	char line[CELL_SIZE] = "", numbers[96] = "", name[ROW_NAME_SIZE] = "";
	char slots[16], busy[BUSY_WORDS_SIZE], waiting[16];
	int room;

	if (one != NULL)
		snprintf(numbers, sizeof(numbers), "   %s%s, busy %s, waiting %s",
		    one->mutex ? "mutex" : "slots ",
		    one->mutex ? "" : number_words(one->slots, slots), busy_words(one, busy),
		    number_words(one->waiting, waiting));
	room = COLS - text_columns(numbers);
	if (one != NULL)
		text_fit(name, sizeof(name), one->name, room > NAME_LEAST ? room : NAME_LEAST);
	snprintf(line, sizeof(line), "%s%s", name, numbers);
	add_more(line, sizeof(line), model->rows_more, model->sight[TOP_ROWS].filter, "");
	put_line(y, A_REVERSE, line);
}

static void
draw_status(const struct top_view *view, int y)
{
	char question[CELL_SIZE];

	if (view->ask->question != ASK_NOTHING) {
		top_ask_words(view->ask, COLS, question, sizeof(question));
		put_line(y, A_BOLD, question);
	} else if (*view->said != '\0') {
		put_line(
		    y, view->said_error ? A_BOLD | colour(COLOUR_TROUBLE) : A_NORMAL, view->said);
	} else {
		put_line(y, A_BOLD | colour(COLOUR_TROUBLE), view->trouble);
	}
}

static void
draw_keys(const struct top_model *model, int y)
{
	put_line(y, A_REVERSE,
	    model->focus == TOP_SEMAPHORES
		? "?:help q:quit Tab:rows +-:slots =:set g:gate D:deny all /:filter"
		: "?:help q:quit Tab:back G:grant d:deny D:deny all e:evict +-:slots /:filter");
}

static void
draw_help(const struct top_view *view)
{
	put_line(0, A_REVERSE, "lockbroker top   help");
	for (int y = 1; y < LINES - 1; y++) {
		size_t index = view->help_line + (size_t)y - 1;
		const char *text = top_help_line(index);
		int state = top_help_state(index);
		char line[CELL_SIZE] = "";

		if (text != NULL && state >= 0)
			snprintf(line, sizeof(line), "  %s %s",
			    top_help_icon((enum row_state)state, utf8()), text);
		else if (text != NULL)
			snprintf(line, sizeof(line), "  %s", text);
		put_line(y, state >= 0 ? state_colour((enum row_state)state) : A_NORMAL, line);
	}
	put_line(LINES - 1, A_REVERSE, "up and down scroll; any other key goes back");
}

/* ---- the whole ---- */

static int
semaphore_lines(const struct top_model *model)
{
	int room = LINES - LINES_BESIDE, most = room * 2 / 5, wanted;

	/* Lines that no row needs are for semaphores. */
	if (model->rows_count < (size_t)(room - most))
		most = room - (model->rows_count > 0 ? (int)model->rows_count : 1);
	wanted = model->semaphores_count < (size_t)most ? (int)model->semaphores_count : most;
	return wanted > 0 ? wanted : 1;
}

size_t
top_draw_page(const struct top_model *model, enum top_panel panel)
{
	int above, lines;

	if (LINES < LINES_LEAST)
		return 1;
	above = semaphore_lines(model);
	lines = panel == TOP_SEMAPHORES ? above : LINES - LINES_BESIDE - above;
	return (size_t)lines;
}

bool
top_draw_possible(void)
{
	return COLS >= COLUMNS_LEAST && LINES >= LINES_LEAST;
}

void
top_draw(const struct top_view *view)
{
	int above, y = 1;

	erase();
	if (!top_draw_possible()) {
		put_line(0, A_NORMAL, "needs 40x10, q:quit");
		refresh();
		return;
	}
	if (view->help) {
		draw_help(view);
		refresh();
		return;
	}
	above = semaphore_lines(view->model);
	draw_title(view->model);
	put_titles(y++, semaphore_columns, SEMAPHORE_COLUMNS);
	draw_panel(view, TOP_SEMAPHORES, y, above);
	y += above;
	draw_about(view->model, y++);
	put_titles(y++, row_columns, ROW_COLUMNS);
	draw_panel(view, TOP_ROWS, y, LINES - 2 - y);
	draw_status(view, LINES - 2);
	draw_keys(view->model, LINES - 1);
	refresh();
}
