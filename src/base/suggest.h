/* "Did you mean": the known word that is nearest to a wrong one. */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

/*
 * Returns a candidate with NAME's meaning, as "mul" has that of "times"; else the one at the least distance, by Damerau
 * and Levenshtein, and of two the one with the longer common beginning. The distance may be at most a third of NAME's
 * length (1 for up to 3 letters, 2 for up to 6). A change of a letter's case counts a quarter of an edit. If none is
 * near enough, returns one of which NAME is a longer or shorter form, as "maximum" is of "max"; else NULL.
 */
const char *suggest_nearest(const char *name, const char *const *candidates, size_t count);

#endif
