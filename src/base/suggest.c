/*
 * The optimal string alignment distance (Damerau 1964 with adjacent
 * transpositions, Wagner and Fischer 1974), over a band that is as wide as the
 * largest distance that still means anything.
 */
#include "base/diag.h"

#include <string.h>

enum { LONGEST = 64 };

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static size_t distance(const char *a, size_t na, const char *b, size_t nb)
{
	size_t rows[3][LONGEST + 1];
	for (size_t j = 0; j <= nb; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= na; i++) {
		size_t *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
		now[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			now[j] = least(least(last[j], now[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				now[j] = least(now[j], before[j - 2] + 1);
		}
	}
	return rows[na % 3][nb];
}

const char *suggest_nearest(const char *name, const char *const *candidates, size_t count)
{
	size_t length = strlen(name);
	if (length > LONGEST)
		return NULL;
	size_t limit = length < 4 ? 1 : length < 7 ? 2 : length / 3;
	const char *best = NULL;
	size_t nearest = limit + 1;
	for (size_t i = 0; i < count; i++) {
		size_t other = strlen(candidates[i]);
		if (other > LONGEST || (other > length ? other - length : length - other) > limit)
			continue;
		size_t d = distance(name, length, candidates[i], other);
		if (d < nearest && d < (other > length ? other : length)) {
			nearest = d;
			best = candidates[i];
		}
	}
	return best;
}
