/* "Did you mean": the known word that is nearest to a wrong one. */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

/*
 * Returns the candidate with the least distance to NAME, by Damerau and Levenshtein. Of two at the same distance it
 * returns the one with the longer common beginning. The distance may be at most a third of NAME's length (1 for up to 3
 * letters, 2 for up to 6). A change of a letter's case counts a quarter of an edit. If no candidate is near enough,
 * returns one of which NAME is a longer or shorter form, as "multiply" is of "mul"; else NULL.
 */
const char *suggest_nearest(const char *name, const char *const *candidates, size_t count);

#endif
