#include "client/top_columns.h"

/* What those take that are not left out, with what is between them. */
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
	/* What rounding leaves goes to the last ones, as the weights do. */
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
