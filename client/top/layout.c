#include "client/top/layout.h"

/* ---- widths ---- */

/* The width of the columns that are not left out, with the gaps between them. */
static int
taken(const int *widths, size_t count)
{
	int sum = 0;

	for (size_t i = 0; i < count; i++)
		if (widths[i] > 0)
			sum += widths[i] + (sum > 0 ? TOP_COLUMNS_GAP : 0);
	return sum;
}

/* False: all that are left are needed. */
static bool
leave_one_out(const struct top_column *columns, size_t count, int *widths)
{
	size_t least = count;

	for (size_t i = 0; i < count; i++)
		if (widths[i] > 0 && columns[i].dispensable > 0 &&
		    (least == count || columns[i].dispensable > columns[least].dispensable))
			least = i;
	if (least == count)
		return false;
	widths[least] = 0;
	return true;
}

void
top_columns_fit(const struct top_column *columns, size_t count, int room, int *ret_widths)
{
	int left, weights = 0;

	for (size_t i = 0; i < count; i++)
		ret_widths[i] = columns[i].least;
	while (taken(ret_widths, count) > room && leave_one_out(columns, count, ret_widths))
		;
	left = room - taken(ret_widths, count);
	for (size_t i = 0; i < count; i++)
		weights += ret_widths[i] > 0 ? columns[i].weight : 0;
	/* The remainder of the rounding goes to the last columns. */
	for (size_t i = 0; i < count && left > 0 && weights > 0; i++) {
		int share;

		if (ret_widths[i] == 0 || columns[i].weight == 0)
			continue;
		share = left * columns[i].weight / weights;
		ret_widths[i] += share;
		left -= share;
		weights -= columns[i].weight;
	}
}

/* ---- help ---- */

static const struct {
	int state; /* -1 = none */
	const char *line;
} help[] = {
    {-1, "STATES"},
    {ROW_WAITING, "waiting    waits for a slot; the number is its place in the local queue"},
    {ROW_BUSY, "busy       holds the slot; no number: the semaphore is unlimited"},
    {ROW_GRANTED, "granted    holds without a slot, granted by an administrator"},
    {ROW_CANCELLED, "cancelled  was denied by an administrator, and fails"},
    {ROW_REVOKED, "revoked    holds a slot that was removed, until it releases it"},
    {ROW_EVICTED, "evicted    holds, until the deadline that an administrator has set"},
    {ROW_UNKNOWN, "unknown    a slot that is busy, whose holder no daemon knows"},
    {-1, "missing: the semaphore is listed, but does not exist (lockbroker fsck)"},
    {-1, "?: unknown. mutex: no slots. unlimited, or infinity: no client waits"},
    {-1, "KEYS"},
    {-1, "up down  k j  PgUp PgDn  Home End   select"},
    {-1, "Tab, Enter     go to the rows of the semaphore; Tab, Esc: back"},
    {-1, "+ -            add or remove one slot; - at 0 offers unlimited"},
    {-1, "=              enter the number of slots"},
    {-1, "g              gate: 0 slots, every client waits; holders continue"},
    {-1, "G, Enter       grant: the waiter starts at once, without a slot"},
    {-1, "d D            deny: the waiter fails with status 80; D: all waiters"},
    {-1, "e              evict: the holder has 30 s to stop, then its hold ends"},
    {-1, "/              filter this panel by a word; Esc: no filter"},
    {-1, "Ctrl-L         redraw"},
    {-1, "q              quit"},
};
#define LINES (sizeof(help) / sizeof(help[0]))

static const struct {
	const char *utf8, *ascii;
} icons[ROW_STATES] = {
    [ROW_WAITING] = {"\xe2\x97\x8b", "o"},
    [ROW_BUSY] = {"\xe2\x97\x8f", "*"},
    [ROW_GRANTED] = {"\xe2\x97\x86", "+"},
    [ROW_CANCELLED] = {"\xc3\x97", "x"},
    [ROW_REVOKED] = {"\xe2\x96\xb2", "!"},
    [ROW_EVICTED] = {"\xe2\x96\xbc", "v"},
    [ROW_UNKNOWN] = {"?", "?"},
};

const char *
top_help_line(size_t index)
{
	return index < LINES ? help[index].line : NULL;
}

const char *
top_help_icon(enum row_state state, bool utf8)
{
	return utf8 ? icons[state].utf8 : icons[state].ascii;
}

int
top_help_state(size_t index)
{
	return index < LINES ? help[index].state : -1;
}
