/*
 * Neighbours along axes: laplacian and stencil, row by row. Both read rows through pointers, so that a caller which holds
 * only some rows of an array can compute with them.
 */
#ifndef OPS_STENCIL_H
#define OPS_STENCIL_H

#include "ops/lines.h"

enum {
	LAPLACIAN_WIDTH = 4,     /* the most neighbours on a side: order 8 */
	STENCIL_COLUMNS = 16384, /* the most elements of a row that are computed before the next row's */
	STENCIL_GATHERED = 32,   /* the most weights of a stencil that is a gather */
};

/* Returns the index of element I along an axis of N >= 1, where I may lie outside; -1 if it is zero there. */
static inline int64_t neighbour_index(enum boundary boundary, int64_t i, int64_t n)
{
	if (i >= 0 && i < n)
		return i;
	if (boundary == BOUNDARY_ZERO)
		return -1;
	const int64_t period = boundary == BOUNDARY_PERIODIC ? n
	                       : n > 1                       ? 2 * (n - 1)
	                                                     : 1,
				  at = (i % period + period) % period;
	return at < n ? at : period - at;
}

/*
 * A laplacian. An array is slabs, one for each index of the leading axis. It is one slab if that axis is not one of
 * the axes, or is the last axis of the array. A slab has ROWS rows of N contiguous elements. The neighbours of an
 * element are elements of its row, if ALONG, and the elements at its place in other rows and slabs.
 */
struct laplacian {
	const struct loops *loops;
	size_t size;
	enum boundary boundary;
	bool mirrored; /* it is the adjoint of boundary=reflect */
	bool along;
	bool plain;    /* of two axes, order 2, one dx, and not mirrored */
	int width;     /* neighbours on a side */
	int count;     /* of AXES */
	int64_t slabs; /* if more than 1, or LEADING, the extent of AXES[0] */
	bool leading;  /* slabs lie along AXES[0] */
	int64_t rows, n;
	int64_t ends[2];             /* of a plain one: the indices in a row of the values beside its ends; -1: zero */
	double divisor;              /* of the sum */
	double own[LAPLACIAN_WIDTH]; /* coefficients along a row, by distance less 1 */
	struct laplacian_axis {
		int64_t n, stride; /* its extent; rows from one index to the next, in a slab */
		double coefficients[LAPLACIAN_WIDTH];
	} axes[MAX_DIMS];  /* those that are not along a row, the first of the array first */
	const void *zeros; /* laplacian_zeros() zeros; the caller sets it */
};
/* The slabs at distances -WIDTH .. WIDTH of a slab, which is at[WIDTH]. NULL: zeros. TWICE: doubled. */
struct laplacian_slabs {
	const void *at[2 * LAPLACIAN_WIDTH + 1];
	bool twice[2 * LAPLACIAN_WIDTH + 1];
};
/* Sets *L for arrays of SHAPE, with elements and at least one axis. ADJOINT: for the derivative. */
void laplacian_begin(struct laplacian *l, const struct attrs *attrs, const struct shape *shape,
                     const struct loops *loops, bool adjoint);
/* Returns the number of zeros that L reads. */
int64_t laplacian_zeros(const struct attrs *attrs, const struct shape *shape);
/* Stores the slabs around slab I of the array V. */
void laplacian_slabs(const struct laplacian *l, const void *v, int64_t i, struct laplacian_slabs *slabs);
/* Stores elements FIRST .. FIRST + COUNT - 1 of row ROW of a slab in OUT. COUNT is at most laplacian_zeros(). */
void laplacian_row(const struct laplacian *l, void *out, const struct laplacian_slabs *slabs, int64_t row,
                   int64_t first, int64_t count);
/* Returns the bytes of scratch of a stencil or its derivative. */
int64_t stencil_scratch(const struct attrs *attrs);

#endif
