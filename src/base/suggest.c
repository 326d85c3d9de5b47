/*
 * The optimal string alignment distance (Damerau 1964 with adjacent transpositions, Wagner and Fischer 1974), in
 * quarters of an edit. A change of case costs one, an exchange of two adjacent letters three, any other edit four.
 * Tests: tests/unit/test_base.c, tests/cases/errors.test
 */
#include "base/suggest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 64, CASE = 1, EXCHANGE = 3, EDIT = 4 };
/* The least common beginning of two forms of a word, in letters: BEGINNING if it is one of the forms, else STEM. */
enum { BEGINNING = 3, STEM = 5 };

/* Words of other languages for types and options, and ours. Those for operations are recipes (language/recipes.def). */
static const char synonyms[] =
	" average=mean avg=mean total=sum float=f32 double=f64 float16=f16 half=f16 float32=f32 float64=f64 bfloat16=bf16 "
	"dim=axis dims=axis keepdim=keepdims ";

static size_t least_of(size_t a, size_t b) { return a < b ? a : b; }

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static size_t replace(char a, char b) { return a == b ? 0 : lower(a) == lower(b) ? CASE : EDIT; }

static size_t distance(const char *a, size_t na, const char *b, size_t nb)
{
	size_t rows[3][LONGEST + 1];
	for (size_t j = 0; j <= nb; j++)
		rows[0][j] = EDIT * j;
	for (size_t i = 1; i <= na; i++) {
		size_t *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
		now[0] = EDIT * i;
		for (size_t j = 1; j <= nb; j++) {
			now[j] = least_of(least_of(last[j], now[j - 1]) + EDIT, last[j - 1] + replace(a[i - 1], b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				now[j] = least_of(now[j], before[j - 2] + EXCHANGE);
		}
	}
	return rows[na % 3][nb];
}

/* Returns the length of the common beginning of A and B. Upper and lower case differ only if EXACT. */
static size_t common_beginning(const char *a, const char *b, bool exact)
{
	size_t n = 0;
	while (a[n] && (exact ? a[n] == b[n] : lower(a[n]) == lower(b[n])))
		n++;
	return n;
}

/*
 * Returns the candidate that is a form of NAME and shares the longest beginning with it, the shortest of equals. NULL
 * if there is none, or if NAME is no word. Of two forms one begins the other, or they share two thirds of the shorter.
 */
static const char *nearest_form(const char *name, size_t length, const char *const *candidates, size_t count)
{
	static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
	const char *best = NULL;
	size_t most = 0;
	for (size_t i = 0; name[strspn(name, word)] == '\0' && i < count; i++) {
		const char *other = candidates[i];
		const size_t same = common_beginning(name, other, false), shorter = least_of(length, strlen(other));
		const bool form = same >= BEGINNING && (same == shorter || (same >= STEM && 3 * same >= 2 * shorter));
		if (!form || same < most || (same == most && strlen(other) >= strlen(best)))
			continue;
		most = same;
		best = other;
	}
	return best;
}

const char *suggest_nearest(const char *name, const char *const *candidates, size_t count)
{
	size_t length = strlen(name);
	if (length > LONGEST)
		return NULL;
	const size_t limit = length < 4 ? 1 : length < 7 ? 2 : length / 3; /* edits */
	const char *best = NULL;
	size_t nearest = EDIT * limit + 1, alike = 0;
	for (size_t i = 0; i < count; i++) {
		char pair[2 * LONGEST];
		snprintf(pair, sizeof pair, " %s=%s ", name, candidates[i]);
		if (strstr(synonyms, pair))
			return candidates[i];
		size_t other = strlen(candidates[i]);
		if (other > LONGEST || (other > length ? other - length : length - other) > limit)
			continue;
		const size_t d = distance(name, length, candidates[i], other), most = EDIT * (other > length ? other : length);
		const size_t same = common_beginning(name, candidates[i], true);
		/* Names of two letters are near to many others: they match by case, or with their letters exchanged. */
		const bool vague = other == 2 && length <= 2 && d >= EDIT;
		if (!vague && d < most && (d < nearest || (d == nearest && same > alike))) {
			nearest = d;
			alike = same;
			best = candidates[i];
		}
	}
	return best ? best : nearest_form(name, length, candidates, count);
}
