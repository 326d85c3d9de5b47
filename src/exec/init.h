/* The values that a param's init stands for. */
#ifndef EXEC_INIT_H
#define EXEC_INIT_H

#include "language/syntax.h"

/* Whether INIT needs a declared type, having no shape of its own. */
bool init_needs_type(enum init_kind kind);
/*
 * Writes COUNT elements from FIRST, an even one, on of an array of SHAPE as doubles,
 * for every kind but LOAD and NONE. A LIST has been found to fit.
 *
 * normal(std, seed) and uniform(lo, hi, seed) are functions of the seed and an
 * element's place alone: Philox4x32-10 (Salmon et al., "Parallel random numbers: as
 * easy as 1, 2, 3", SC 2011) with the seed as its key and the place of a pair of
 * elements as its counter gives two doubles of 53 bits in [0, 1). uniform is
 * lo + (hi - lo) u; normal is Box and Muller's transform of the pair.
 */
void init_fill(const struct init *init, const struct shape *shape, int64_t first, int64_t count, double *values);

#endif
