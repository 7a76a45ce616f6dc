/*
 * The pure parts of lockbroker top, show and run: rows, text on a terminal, widths, questions, and
 * the model with its selections and filters.
 */
#include <locale.h>
#include <ncurses.h>
#include <stdio.h>
#include <string.h>

#include "client/lockbroker.h"
#include "client/tool/json_text.h"
#include "client/tool/row.h"
#include "client/tool/text.h"
#include "client/top/ask.h"
#include "client/top/layout.h"
#include "client/top/model.h"
#include "tests/unit/unit.h"

/* ---- text ---- */

static const char *
fit(const char *text, int columns)
{
	static char buf[256];

	ck_assert_int_le(text_fit(buf, sizeof(buf), text, columns), columns > 0 ? columns : 0);
	return buf;
}

START_TEST(text_fits_by_columns)
{
	setlocale(LC_CTYPE, "C.UTF-8");
	ck_assert_str_eq(fit("abc", 3), "abc");
	ck_assert_str_eq(fit("abcd", 3), "ab\xe2\x80\xa6");
	ck_assert_str_eq(fit("abcd", 1), "\xe2\x80\xa6");
	ck_assert_str_eq(fit("abcd", 0), "");
	ck_assert_str_eq(fit("abcd", -7), "");
	/* Two columns each: half a character is none. */
	ck_assert_str_eq(fit("\xe6\xbc\xa2\xe5\xad\x97", 3), "\xe6\xbc\xa2\xe2\x80\xa6");
	ck_assert_int_eq(text_columns("\xe6\xbc\xa2\xe5\xad\x97"), 4);
	/* None: combined with what is before. */
	ck_assert_str_eq(fit("e\xcc\x81", 1), "e\xcc\x81");
	ck_assert_int_eq(text_columns("e\xcc\x81"), 1);
}
END_TEST

START_TEST(text_that_could_confuse_is_replaced)
{
	const char *evil[] = {"\x1b[2J", "\t", "\n", "\x7f", "\xc2\x9b", "\xe2\x80\xae",
	    "\xe2\x80\x8b", "\xff", "\xc3", "\xe6\xbc", "\xf8\x88\x80\x80\x80", "\x80"};
	char buf[64];

	setlocale(LC_CTYPE, "C.UTF-8");
	for (size_t i = 0; i < sizeof(evil) / sizeof(evil[0]); i++) {
		int columns = text_fit(buf, sizeof(buf), evil[i], TEXT_WHOLE);

		ck_assert_int_eq(columns, text_columns(evil[i]));
		ck_assert_int_eq(buf[0], '?');
		for (const char *c = buf; *c != '\0'; c++)
			ck_assert_msg(*c >= ' ' && *c < 127, "%zu: %s", i, buf);
	}
	/* Where the locale knows ASCII alone, that is all that is shown. */
	setlocale(LC_CTYPE, "C");
	ck_assert_str_eq(fit("na\xc3\xafve", 10), "na?ve");
	ck_assert_str_eq(fit("abcdef", 4), "abc~");
}
END_TEST

START_TEST(text_fits_its_buffer)
{
	char buf[8];

	setlocale(LC_CTYPE, "C.UTF-8");
	memset(buf, 'x', sizeof(buf));
	ck_assert_int_eq(text_fit(buf, 5, "abcdefgh", 100), 2);
	ck_assert_str_eq(buf, "a\xe2\x80\xa6");
	ck_assert_int_eq(buf[5], 'x');
	ck_assert_int_eq(text_fit(buf, 1, "abc", 100), 0);
	ck_assert_str_eq(buf, "");
	ck_assert_int_eq(text_fit(buf, 3, "abc", 100), 2);
	ck_assert_str_eq(buf, "ab");
}
END_TEST

/* ---- rows ---- */

START_TEST(ages_in_words)
{
	const struct {
		double seconds;
		const char *words;
	} ages[] = {{-1, ""}, {0, "0s"}, {59.9, "59s"}, {60, "1m00s"}, {3599, "59m59s"},
	    {3600, "1h00m"}, {86399, "23h59m"}, {86400, "1d00h"}, {90000, "1d01h"}, {1e300, "0s"}};
	char words[24];

	for (size_t i = 0; i < sizeof(ages) / sizeof(ages[0]); i++) {
		row_age_words(ages[i].seconds, words, sizeof(words));
		ck_assert_str_eq(words, ages[i].words);
	}
}
END_TEST

static struct row
row_of(const char *const *members)
{
	struct row row;

	row_init(&row);
	for (; members[0] != NULL; members += 2)
		row_take(&row, members[0], members[1]);
	return row;
}

START_TEST(the_name_of_a_row)
{
	const char *named[] = {
	    "state", "busy", "who", "alice", "command", "make", "pid", "7", NULL};
	const char *command[] = {"state", "waiting", "command", "make", "pid", "7", NULL};
	const char *process[] = {"state", "granted", "pid", "7", NULL};
	const char *revoked[] = {"state", "busy", "revoked", "true", "unknown", "false", NULL};
	const char *evicted[] = {"state", "granted", "evicted", "true", "unknown", "false", NULL};
	const char *unknown[] = {"state", "busy", "slot", "2", "unknown", "true", NULL};
	const char *later[] = {"state", "dancing", "slot", "", "pid", "", NULL};
	const struct {
		const char *const *members;
		enum row_state state;
		const char *whom;
	} rows[] = {{named, ROW_BUSY, "alice"}, {command, ROW_WAITING, "make"},
	    {process, ROW_GRANTED, "pid 7"}, {evicted, ROW_EVICTED, "somebody"},
	    {revoked, ROW_REVOKED, "somebody"}, {unknown, ROW_UNKNOWN, "unknown"},
	    {later, ROW_UNKNOWN, "unknown"}};
	char whom[ROW_WORDS_SIZE];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct row row = row_of(rows[i].members);

		ck_assert_int_eq(row.state, rows[i].state);
		row_whom(&row, whom, sizeof(whom));
		ck_assert_str_eq(whom, rows[i].whom);
	}
}
END_TEST

#define HELD(state, waiter, slot, age, more)                                                       \
	"{\"waiter\":\"" waiter "\",\"state\":\"" state "\",\"slot\":" slot ",\"age\":" age more "}"

START_TEST(the_longest_holder)
{
	const struct {
		const char *holders, *semaphore, *mutex;
	} cases[] = {
	    {"", "", ""},
	    {HELD("busy", "1", "1", "5", ""), "1", ""},
	    {HELD("busy", "1", "1", "5", "") "," HELD("busy", "2", "2", "7", "") "," HELD(
		 "busy", "3", "3", "6", ""),
		"2", ""},
	    {HELD("granted", "1", "null", "9", "") "," HELD("busy", "2", "null", "8", "") "," HELD(
		 "busy", "3", "1", "7", ",\"revoked\":true") "," HELD("busy", "4", "2", "1", ""),
		"4", ""},
	    {HELD("busy", "1", "1", "9", ",\"evicted\":true") "," HELD("busy", "2", "2", "1", ""),
		"2", ""},
	    {HELD("busy", "1", "1", "9", ",\"evicted\":true") "," HELD(
		 "busy", "2", "2", "8", ",\"evicted\":true"),
		"1", ""},
	    {HELD("busy", "1", "null", "9", ",\"kind\":\"mutex\"") "," HELD(
		 "busy", "2", "1", "8", ",\"kind\":\"semaphore\""),
		"2", "1"},
	    {"{\"state\":\"busy\",\"slot\":1,\"waiter\":null,\"unknown\":true}", "", ""},
	};
	struct row row;
	char json[1024];
	int busy;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(json, sizeof(json), "{\"holders\":[%s],\"waiters\":[%s]}",
		    cases[i].holders, HELD("waiting", "w", "null", "99", ""));
		ck_assert(
		    holders_longest(json, false, &row, &busy) == (*cases[i].semaphore != '\0'));
		ck_assert_str_eq(row.waiter, cases[i].semaphore);
		ck_assert(holders_longest(json, true, &row, &busy) == (*cases[i].mutex != '\0'));
		ck_assert_str_eq(row.waiter, cases[i].mutex);
	}
	ck_assert(!holders_longest("{", false, &row, &busy));
}
END_TEST

START_TEST(holders_in_one_line)
{
	char words[64];

	holders_words(
	    "{\"holders\":[{\"who\":\"a\",\"state\":\"busy\"},{\"unknown\":true}],\"waiters\":"
	    "[{\"who\":\"w\"}]}",
	    words, sizeof(words));
	ck_assert_str_eq(words, "a, unknown");
	holders_words(
	    "{\"holders\":[{\"state\":\"busy\",\"who\":\"a\",\"why\":\"x\"},{\"state\":\"busy\","
	    "\"pid\":3},"
	    "{\"state\":\"busy\",\"who\":\"c\"},{\"state\":\"busy\"},{\"state\":\"busy\"}]}",
	    words, sizeof(words));
	ck_assert_str_eq(words, "a (x), pid 3, c, and 2 more");
	holders_words(
	    "{\"holders\":[{\"state\":\"busy\",\"who\":\"a\"},{\"state\":\"busy\",\"who\":\"b\"}]}",
	    words, 4);
	ck_assert_str_eq(words, "a, ");
	holders_words("{\"holders\":[]}", words, sizeof(words));
	ck_assert_str_eq(words, "");
	holders_words("{\"holders\":{\"x\":{\"who\":\"a\"}},\"more\":0}", words, sizeof(words));
	ck_assert_str_eq(words, "");
	holders_words("no JSON", words, sizeof(words));
	ck_assert_str_eq(words, "");
}
END_TEST

START_TEST(params_are_escaped)
{
	char params[JSON_PARAMS_SIZE], *most = NULL;

	json_params(params, "waiter", "a\"b\\c", ",\"all\":true");
	ck_assert_str_eq(params, "{\"waiter\":\"a\\\"b\\\\c\",\"all\":true}");
	ck_assert_int_gt(asprintf(&most, "%0200d", 0), 0);
	json_params(params, "name", most, ",\"slots\":\"unlimited\"");
	ck_assert_str_eq(strchr(params, ','), ",\"slots\":\"unlimited\"}");
	free(most);
}
END_TEST

/* ---- widths ---- */

START_TEST(columns_share_what_is_left)
{
	const struct top_column columns[] = {{.least = 5},
	    {.least = 5, .weight = 1, .dispensable = 2},
	    {.least = 5, .weight = 3, .dispensable = 1}};
	const struct {
		int room, widths[3];
	} cases[] = {{17, {5, 5, 5}}, {25, {5, 7, 11}}, {16, {5, 0, 10}}, {11, {5, 0, 5}},
	    {10, {5, 0, 0}}, {3, {5, 0, 0}}, {0, {5, 0, 0}}, {-9, {5, 0, 0}}};
	int widths[3];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		top_columns_fit(columns, 3, cases[i].room, widths);
		for (int column = 0; column < 3; column++)
			ck_assert_msg(widths[column] == cases[i].widths[column],
			    "%d: column %d is %d", cases[i].room, column, widths[column]);
	}
}
END_TEST

/* ---- the model ---- */

static struct top_model model;

static void
model_up(void)
{
	setlocale(LC_CTYPE, "C");
	top_model_init(&model);
}

static void
model_down(void)
{
	top_model_done(&model);
}

#define SEMAPHORE(name, slots, busy, waiting)                                                      \
	"{\"name\":\"" name "\",\"slots\":" slots ",\"busy\":" busy ",\"waiting\":" waiting        \
	",\"exists\":true}"
#define LIST(rows) "{\"semaphores\":[" rows "],\"more\":0,\"silent_hosts\":[]}"
#define ROW(state, waiter, who)                                                                    \
	"{\"waiter\":\"" waiter "\",\"state\":\"" state "\",\"name\":\"b\",\"who\":\"" who         \
	"\",\"slot\":null,\"position\":null}"
#define SHOW(holders, waiters)                                                                     \
	"{\"name\":\"b\",\"holders\":[" holders "],\"waiters\":[" waiters "],\"more\":0}"

static const char three[] = LIST(SEMAPHORE("c", "\"unlimited\"", "0", "0") "," SEMAPHORE(
    "a", "null", "null", "3") "," SEMAPHORE("b", "2", "1", "1"));

static const char *
selected(void)
{
	const struct top_semaphore *one = top_model_semaphore(&model);

	return one != NULL ? one->name : "";
}

static const char *
selected_row(void)
{
	const struct row *row = top_model_row(&model);

	return row != NULL ? row->waiter : "";
}

START_TEST(semaphores_are_sorted_and_selected_by_name)
{
	ck_assert_ptr_null(top_model_semaphore(&model));
	top_model_move(&model, TOP_SEMAPHORES, 1);
	ck_assert(top_model_list(&model, three));
	ck_assert_str_eq(selected(), "a");
	ck_assert_int_eq(top_model_semaphore(&model)->slots, -1);
	ck_assert_int_eq(top_model_semaphore(&model)->waiting, 3);
	top_model_move(&model, TOP_SEMAPHORES, 2);
	ck_assert_str_eq(selected(), "c");
	ck_assert_int_eq(top_model_semaphore(&model)->slots, LB_UNLIMITED);
	/* One more before it: it stays selected. When it is gone the last one is. */
	ck_assert(top_model_list(&model,
	    LIST(SEMAPHORE("bb", "1", "0", "0") "," SEMAPHORE("c", "1", "0", "0") "," SEMAPHORE(
		"a", "1", "0", "0") "," SEMAPHORE("d", "1", "0", "0"))));
	ck_assert_str_eq(selected(), "c");
	ck_assert(top_model_list(&model, LIST(SEMAPHORE("a", "1", "0", "0"))));
	ck_assert_str_eq(selected(), "a");
	ck_assert(top_model_list(&model, LIST("")));
	ck_assert_ptr_null(top_model_semaphore(&model));
}
END_TEST

#define MUTEXES(rows, mutexes)                                                                     \
	"{\"semaphores\":[" rows "],\"mutexes\":[" mutexes "],\"more\":0,\"silent_hosts\":[]}"
#define MUTEX(name, busy, waiting)                                                                 \
	"{\"name\":\"" name "\",\"kind\":\"mutex\",\"busy\":" busy ",\"waiting\":" waiting "}"

START_TEST(mutexes_are_among_the_semaphores)
{
	const char *why = "";
	struct top_ask ask;

	ck_assert(top_model_list(
	    &model, MUTEXES(SEMAPHORE("b", "2", "1", "1") "," SEMAPHORE("c", "1", "0", "0"),
			MUTEX("b", "1", "4") "," MUTEX("a", "0", "2"))));
	ck_assert_uint_eq(model.semaphores_count, 4);
	ck_assert_uint_eq(model.mutexes_count, 2);
	ck_assert_str_eq(selected(), "a");
	top_model_move(&model, TOP_SEMAPHORES, 1);
	ck_assert_str_eq(selected(), "b");
	ck_assert(!top_model_semaphore(&model)->mutex);
	top_model_move(&model, TOP_SEMAPHORES, 1);
	ck_assert_str_eq(selected(), "b");
	ck_assert(top_model_semaphore(&model)->mutex);
	ck_assert_int_eq(top_model_semaphore(&model)->busy, 1);
	ck_assert_int_eq(top_model_semaphore(&model)->waiting, 4);
	ck_assert(!top_ask_begin(&ask, ASK_SLOTS, &model, &why));
	ck_assert_str_eq(why, "a mutex has no slots");
	/* By its name: those for the semaphore, too. */
	ck_assert(top_ask_begin(&ask, ASK_DENY_ALL, &model, &why));
	ck_assert_int_eq(ask.waiting, 5);
	/* The selection stays with its kind. */
	ck_assert(
	    top_model_list(&model, MUTEXES(SEMAPHORE("b", "2", "1", "1"), MUTEX("b", "1", "3"))));
	ck_assert(top_model_semaphore(&model)->mutex);
	top_model_move(&model, TOP_SEMAPHORES, -1);
	ck_assert(
	    top_model_list(&model, MUTEXES(SEMAPHORE("b", "2", "1", "1"), MUTEX("b", "1", "3"))));
	ck_assert(!top_model_semaphore(&model)->mutex);
	ck_assert(top_model_list(&model, LIST(SEMAPHORE("b", "2", "1", "1"))));
	ck_assert(!top_model_semaphore(&model)->mutex);
	ck_assert_uint_eq(model.mutexes_count, 0);
}
END_TEST

START_TEST(invalid_answers_change_nothing)
{
	const char *answers[] = {"", "{", "[]", "{}", "{\"semaphores\":7}", "null", "{\"more\":\""};

	ck_assert(top_model_list(&model, three));
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		ck_assert(!top_model_list(&model, answers[i]));
		ck_assert_uint_eq(model.semaphores_count, 3);
		ck_assert(!top_model_show(&model, "a", answers[i], 0));
		ck_assert_uint_eq(model.rows_count, 0);
	}
	/* Unknown members are ignored. */
	ck_assert(top_model_list(&model, "{\"semaphores\":{\"x\":{\"name\":\"q\"},\"7\":{\"name\":"
					 "\"r\"},\"0\":{\"name\":\"s\"}},\"more\":0}"));
	ck_assert_uint_eq(model.semaphores_count, 1);
	ck_assert_str_eq(selected(), "s");
}
END_TEST

START_TEST(rows_are_those_of_the_selected_semaphore)
{
	ck_assert(top_model_list(&model, three));
	top_model_move(&model, TOP_SEMAPHORES, 1);
	ck_assert(
	    top_model_show(&model, "b", SHOW(ROW("busy", "1", "x"), ROW("waiting", "2", "y")), 0));
	ck_assert_uint_eq(model.rows_count, 2);
	ck_assert_str_eq(selected_row(), "1");
	top_model_move(&model, TOP_ROWS, 1);
	/* It moves up, and stays selected though it holds now. */
	ck_assert(top_model_show(
	    &model, "b", SHOW(ROW("granted", "2", "y") "," ROW("busy", "1", "x"), ""), 0));
	ck_assert_str_eq(selected_row(), "2");
	ck_assert_int_eq(top_model_row(&model)->state, ROW_GRANTED);
	/* The answer about another one comes too late. */
	ck_assert(top_model_show(&model, "a", SHOW("", ""), 0));
	ck_assert_uint_eq(model.rows_count, 2);
	top_model_forget_rows(&model);
	ck_assert_ptr_null(top_model_row(&model));
	ck_assert_str_eq(model.rows_of, "");
}
END_TEST

START_TEST(unknown_holders_are_told_apart_by_their_slots)
{
	static const char unknown[] = "{\"name\":\"b\",\"holders\":[{\"slot\":1,\"unknown\":true},{"
				      "\"slot\":2,\"unknown\":true},"
				      "{\"slot\":3,\"unknown\":true}],\"waiters\":[],\"more\":0}";

	ck_assert(top_model_list(&model, LIST(SEMAPHORE("b", "3", "3", "0"))));
	ck_assert(top_model_show(&model, "b", unknown, 0));
	top_model_move(&model, TOP_ROWS, 1);
	ck_assert(top_model_show(&model, "b", unknown, 0));
	ck_assert_int_eq(top_model_row(&model)->slot, 2);
}
END_TEST

START_TEST(a_denied_waiter_is_shown_for_a_while)
{
	static const char before[] =
	    SHOW("", ROW("waiting", "1", "x") "," ROW("waiting", "2", "y"));
	static const char after[] = SHOW("", ROW("waiting", "2", "y"));

	ck_assert(top_model_list(&model, LIST(SEMAPHORE("b", "3", "3", "0"))));
	ck_assert(top_model_show(&model, "b", before, 0));
	top_model_denied(&model, "1", 0);
	top_model_denied(&model, "nobody", 0);
	/* As long as it still waits that is shown. */
	ck_assert(top_model_show(&model, "b", before, 10));
	ck_assert_uint_eq(model.rows_count, 2);
	ck_assert(top_model_show(&model, "b", after, 20));
	ck_assert_uint_eq(model.rows_count, 2);
	ck_assert_str_eq(selected_row(), "1");
	ck_assert_int_eq(top_model_row(&model)->state, ROW_CANCELLED);
	ck_assert(top_model_show(&model, "b", after, TOP_CANCELLED_MS));
	ck_assert_uint_eq(model.rows_count, 1);
	/* Not more than there is room for. */
	for (int i = 0; i < 2 * TOP_CANCELLED_MOST; i++)
		top_model_denied(&model, "2", 0);
	ck_assert_uint_eq(model.cancelled_count, TOP_CANCELLED_MOST);
}
END_TEST

START_TEST(a_filter_keeps_the_selection_if_it_can)
{
	ck_assert(top_model_list(&model, three));
	top_model_move(&model, TOP_SEMAPHORES, 1);
	top_model_filter(&model, TOP_SEMAPHORES, "B");
	ck_assert_str_eq(selected(), "b");
	ck_assert_uint_eq(model.sight[TOP_SEMAPHORES].count, 1);
	top_model_filter(&model, TOP_SEMAPHORES, "bx");
	ck_assert_ptr_null(top_model_semaphore(&model));
	ck_assert(top_model_list(&model, three));
	ck_assert_ptr_null(top_model_semaphore(&model));
	top_model_filter(&model, TOP_SEMAPHORES, "");
	ck_assert_uint_eq(model.sight[TOP_SEMAPHORES].count, 3);
	ck_assert(top_model_show(
	    &model, "a", SHOW(ROW("busy", "1", "Anna"), ROW("waiting", "2", "y")), 0));
	top_model_filter(&model, TOP_ROWS, "anna");
	ck_assert_str_eq(selected_row(), "1");
	top_model_filter(&model, TOP_ROWS, "WAIT");
	ck_assert_str_eq(selected_row(), "2");
}
END_TEST

START_TEST(moving_and_scrolling_stay_within)
{
	struct top_sight *sight = &model.sight[TOP_SEMAPHORES];

	ck_assert(top_model_list(&model, three));
	top_model_move(&model, TOP_SEMAPHORES, 1000000);
	ck_assert_uint_eq(sight->selected, 2);
	top_model_fit(&model, TOP_SEMAPHORES, 2);
	ck_assert_uint_eq(sight->first, 1);
	top_model_move(&model, TOP_SEMAPHORES, -1);
	top_model_fit(&model, TOP_SEMAPHORES, 2);
	ck_assert_uint_eq(sight->first, 1);
	top_model_move(&model, TOP_SEMAPHORES, -1000000);
	top_model_fit(&model, TOP_SEMAPHORES, 2);
	ck_assert_uint_eq(sight->first, 0);
	top_model_move(&model, TOP_SEMAPHORES, 2);
	top_model_fit(&model, TOP_SEMAPHORES, 1);
	ck_assert_uint_eq(sight->first, 2);
	/* More room: the rows above become visible again. */
	top_model_fit(&model, TOP_SEMAPHORES, 10);
	ck_assert_uint_eq(sight->first, 0);
	ck_assert(top_model_list(&model, LIST("")));
	top_model_fit(&model, TOP_SEMAPHORES, 2);
	ck_assert_uint_eq(sight->first, 0);
}
END_TEST

/* ---- questions ---- */

static struct top_ask asked;
static char words[512];

static const char *
question(enum top_question about)
{
	const char *why = "";

	words[0] = '\0';
	if (!top_ask_begin(&asked, about, &model, &why))
		return why;
	top_ask_words(&asked, 80, words, sizeof(words));
	return words;
}

/* The same in so many columns. */
static const char *
in_columns(int columns)
{
	top_ask_words(&asked, columns, words, sizeof(words));
	return words;
}

START_TEST(questions_are_about_the_selected_row)
{
	ck_assert_str_eq(question(ASK_GATE), "no semaphore is selected");
	ck_assert(top_model_list(&model, LIST(SEMAPHORE("b", "1", "1", "2"))));
	ck_assert_str_eq(question(ASK_GATE), "Close b (0 slots: every client waits)? [y/N]");
	ck_assert_str_eq(question(ASK_UNLIMITED), "b has no slots. Make it unlimited? [y/N]");
	ck_assert_str_eq(question(ASK_DENY_ALL), "Deny b to 2 waiters? [y/N]");
	ck_assert_ptr_nonnull(strstr(question(ASK_GRANT), "not a waiter"));
	ck_assert(
	    top_model_show(&model, "b", SHOW(ROW("busy", "1", "x"), ROW("waiting", "2", "y")), 0));
	ck_assert_ptr_nonnull(strstr(question(ASK_DENY), "not a waiter"));
	ck_assert_str_eq(question(ASK_EVICT), "Evict x from b, with 30 s to stop? [y/N]");
	ck_assert_str_eq(asked.waiter, "1");
	top_model_move(&model, TOP_ROWS, 1);
	ck_assert_ptr_nonnull(strstr(question(ASK_EVICT), "not a holder"));
	ck_assert_str_eq(question(ASK_GRANT), "Grant b to y at once, without a slot? [y/N]");
	ck_assert_str_eq(question(ASK_DENY), "Deny b to y? [y/N]");
	top_model_forget_rows(&model);
	ck_assert_str_eq(asked.waiter, "2");
	ck_assert_int_eq(top_ask_key(&asked, 'y'), REPLY_YES);
}
END_TEST

START_TEST(only_y_is_a_yes)
{
	const int keys[] = {
	    'n', 'q', ' ', '\r', 27, 0, TOP_KEY(KEY_DOWN), TOP_KEY(KEY_ENTER), 0x6f22};

	ck_assert(top_model_list(&model, LIST(SEMAPHORE("b", "1", "1", "0"))));
	question(ASK_GATE);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		ck_assert_int_eq(top_ask_key(&asked, keys[i]), REPLY_NO);
	ck_assert_int_eq(top_ask_key(&asked, TOP_KEY(KEY_RESIZE)), REPLY_OPEN);
	ck_assert_int_eq(top_ask_key(&asked, 'Y'), REPLY_YES);
	ck_assert_str_eq(question(ASK_DENY_ALL), "no waiters");
}
END_TEST

static const char *
type(const char *keys)
{
	for (; *keys != '\0'; keys++)
		ck_assert_int_eq(top_ask_key(&asked, *keys), REPLY_OPEN);
	return asked.typed;
}

#define TEN "nnnnnnnnnn"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

START_TEST(a_question_fits_the_screen_with_the_longest_names)
{
	ck_assert(top_model_list(&model, LIST(SEMAPHORE(HUNDRED, "1", "1", "2"))));
	ck_assert_ptr_nonnull(strstr(question(ASK_DENY_ALL), "n~ to 2 waiters? [y/N]"));
	ck_assert_uint_eq(strlen(words), 80);
	ck_assert_str_eq(in_columns(40), "Deny nnnnnnnnnnnnnn~ to 2 waiters? [y/N]");
	ck_assert_ptr_nonnull(strstr(in_columns(400), HUNDRED));
	question(ASK_GATE);
	ck_assert_str_eq(in_columns(40), "Close nnnnnnn~ (0 slots: every cl~ [y/N]");
}
END_TEST

START_TEST(slots_are_typed)
{
	const struct {
		const char *keys;
		int slots; /* -1 = none */
	} cases[] = {{"12", 12}, {"0", 0}, {"10000", 10000}, {"unlimited", LB_UNLIMITED},
	    {"10001", -1}, {"", -1}, {"-1", -1}, {"1x", -1}, {"9\b8", 8},
	    {"7\x15"
	     "5",
		5},
	    {"\b\b3", 3}, {"3\x01", 3}};
	int slots;

	ck_assert(top_model_list(&model, LIST(SEMAPHORE("b", "1", "1", "0"))));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		question(ASK_SLOTS);
		type(cases[i].keys);
		ck_assert_int_eq(
		    top_ask_key(&asked, i % 2 == 0 ? '\r' : TOP_KEY(KEY_ENTER)), REPLY_YES);
		slots = -1;
		ck_assert_int_eq(top_ask_slots(&asked, &slots), cases[i].slots >= 0);
		ck_assert_int_eq(slots, cases[i].slots);
	}
	question(ASK_SLOTS);
	ck_assert_int_eq(top_ask_key(&asked, TOP_KEY_ESCAPE), REPLY_NO);
}
END_TEST

START_TEST(a_filter_is_typed_in_whole_characters)
{
	setlocale(LC_CTYPE, "C.UTF-8");
	model.focus = TOP_ROWS;
	question(ASK_FILTER);
	ck_assert_int_eq(asked.panel, TOP_ROWS);
	ck_assert_int_eq(top_ask_key(&asked, 0x6f22), REPLY_OPEN);
	ck_assert_str_eq(asked.typed, "\xe6\xbc\xa2");
	ck_assert_str_eq(type("a"), "\xe6\xbc\xa2"
				    "a");
	type("\b");
	ck_assert_int_eq(top_ask_key(&asked, TOP_KEY(KEY_BACKSPACE)), REPLY_OPEN);
	ck_assert_str_eq(asked.typed, "");
	/* No longer than there is room. */
	for (int i = 0; i < 2 * TOP_FILTER_SIZE; i++)
		type("x");
	ck_assert_uint_eq(strlen(asked.typed), TOP_FILTER_SIZE - 1);
	ck_assert_int_eq(top_ask_key(&asked, 0x6f22), REPLY_OPEN);
	ck_assert_uint_eq(strlen(asked.typed), TOP_FILTER_SIZE - 1);
}
END_TEST

START_TEST(the_help_has_every_state_and_fits)
{
	bool told[ROW_STATES] = {false};
	const char *line;

	for (size_t i = 0; (line = top_help_line(i)) != NULL; i++) {
		int state = top_help_state(i);

		ck_assert_uint_le(strlen(line), 72);
		/* A terminal of 24 lines shows it whole. */
		ck_assert_uint_lt(i, 22);
		if (state < 0)
			continue;
		ck_assert_ptr_eq(strstr(line, row_state_word((enum row_state)state)), line);
		told[state] = true;
	}
	for (int state = 0; state < ROW_STATES; state++) {
		ck_assert(told[state]);
		ck_assert_ptr_nonnull(top_help_icon((enum row_state)state, false));
		ck_assert_ptr_nonnull(top_help_icon((enum row_state)state, true));
	}
}
END_TEST

static Suite *
top_suite(void)
{
	Suite *suite = suite_create("top");
	TCase *tcase = tcase_create("top");

	tcase_add_checked_fixture(tcase, model_up, model_down);
	tcase_add_test(tcase, text_fits_by_columns);
	tcase_add_test(tcase, text_that_could_confuse_is_replaced);
	tcase_add_test(tcase, text_fits_its_buffer);
	tcase_add_test(tcase, ages_in_words);
	tcase_add_test(tcase, the_name_of_a_row);
	tcase_add_test(tcase, the_longest_holder);
	tcase_add_test(tcase, holders_in_one_line);
	tcase_add_test(tcase, params_are_escaped);
	tcase_add_test(tcase, columns_share_what_is_left);
	tcase_add_test(tcase, semaphores_are_sorted_and_selected_by_name);
	tcase_add_test(tcase, mutexes_are_among_the_semaphores);
	tcase_add_test(tcase, invalid_answers_change_nothing);
	tcase_add_test(tcase, rows_are_those_of_the_selected_semaphore);
	tcase_add_test(tcase, unknown_holders_are_told_apart_by_their_slots);
	tcase_add_test(tcase, a_denied_waiter_is_shown_for_a_while);
	tcase_add_test(tcase, a_filter_keeps_the_selection_if_it_can);
	tcase_add_test(tcase, moving_and_scrolling_stay_within);
	tcase_add_test(tcase, questions_are_about_the_selected_row);
	tcase_add_test(tcase, a_question_fits_the_screen_with_the_longest_names);
	tcase_add_test(tcase, only_y_is_a_yes);
	tcase_add_test(tcase, slots_are_typed);
	tcase_add_test(tcase, a_filter_is_typed_in_whole_characters);
	tcase_add_test(tcase, the_help_has_every_state_and_fits);
	suite_add_tcase(suite, tcase);
	return suite;
}

int
main(void)
{
	Suite *(*const makers[])(void) = {top_suite};

	return unit_run(makers, 1);
}
