#include "daemon/base/nearest.h"

#include <string.h>

/* A mistyped word differs by so much; transposed characters are two changes. */
#define CHANGES_MOST 2
#define WORD_MAX 32

/* The changes of one character that make one word of the other; a large number for long words. */
static int
distance(const char *word, size_t len, const char *other)
{
	int above[WORD_MAX + 1], left, corner;
	int columns = (int)strnlen(other, WORD_MAX + 1);

	if (columns > WORD_MAX || len > WORD_MAX)
		return WORD_MAX;
	for (int column = 0; column <= columns; column++)
		above[column] = column;
	for (int row = 1; row <= (int)len; row++) {
		corner = above[0];
		left = above[0] = row;
		for (int column = 1; column <= columns; column++) {
			int least = corner + (word[row - 1] != other[column - 1]);

			corner = above[column];
			if (corner + 1 < least)
				least = corner + 1;
			if (left + 1 < least)
				least = left + 1;
			left = above[column] = least;
		}
	}
	return above[columns];
}

void
nearest_try(struct nearest *nearest, const char *existing)
{
	int changes = distance(nearest->word, nearest->len, existing);

	/* Of a short word little would be left. */
	if (changes > CHANGES_MOST || 2 * changes > (int)strlen(existing))
		return;
	if (nearest->found != NULL && changes >= nearest->changes)
		return;
	nearest->found = existing;
	nearest->changes = changes;
}
