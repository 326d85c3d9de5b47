/* "Did you mean": the known word that is nearest to a wrong one. */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

/*
 * Returns a candidate with NAME's meaning, as "mul" has that of "times"; else the one at the least distance in edits,
 * of two the one with the longer common beginning. That may be at most a third of NAME's length (1 for up to 3 letters,
 * 2 for 4 to 6). A change of case is a quarter of an edit, an exchange of neighbours three quarters. Else returns one
 * that differs from NAME in its ending alone, as "max" does from "maximum"; else, or if NAME exceeds 64 bytes, NULL.
 */
const char *suggest_nearest(const char *name, const char *const *candidates, size_t count);

#endif
