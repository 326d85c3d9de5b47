/* The values of a param's init. */
#ifndef EXEC_INIT_H
#define EXEC_INIT_H

#include "language/syntax.h"

/* True if INIT has no shape of its own and so needs a declared type. */
bool init_needs_type(enum init_kind kind);
/*
 * Writes COUNT elements, from element FIRST on, of an array of SHAPE, as doubles. FIRST
 * is even. KIND is neither LOAD nor NONE; the values of a LIST fit SHAPE.
 *
 * normal(std, seed) and uniform(lo, hi, seed) depend on the seed and the element's
 * index alone. Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
 * 1, 2, 3", SC 2011) makes two doubles u of 53 bits in [0, 1) for each pair of
 * elements. Its key is the seed, its counter the index of the pair. uniform is
 * lo + (hi - lo) u; normal is the Box-Muller transform of the pair.
 */
void init_fill(const struct init *init, const struct shape *shape, int64_t first, int64_t count, double *values);

#endif
