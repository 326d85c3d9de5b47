/* "Did you mean": the known word that is nearest to a wrong one. */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

/*
 * Returns the candidate nearest to NAME by Damerau-Levenshtein distance, of two as near the
 * one with the longer common beginning. A candidate is near enough if its edits are at most a
 * third of NAME's length (1 for up to 3 letters, 2 for up to 6). A change of a letter's case is
 * a quarter of an edit. If none is near enough, returns one that NAME is a longer or shorter form of,
 * as "multiply" of "mul"; or NULL.
 */
const char *suggest_nearest(const char *name, const char *const *candidates, size_t count);

#endif
