/*
 * How many rows of the streamed axis make a tile. One rule for forward runs and
 * gradients, so that both add a sum up from the same blocks.
 */
#ifndef PLAN_TILE_H
#define PLAN_TILE_H

#include "ir/lower.h"

/* What a row of the streamed axis costs. */
struct tile_row {
	double bytes;        /* of all the values that are made from it, loops unrolled, and of the input twice */
	double weights;      /* bytes of what every tile reads whole: params and consts that are not cut with it */
	int64_t matrix_rows; /* of matrices that one product of a tile multiplies, the least; 0: there is none */
	bool products;       /* a matrix product or a convolution is among the operations */
	bool flat;           /* the rows are elements */
};

/* Whether BODY multiplies matrices: the bits of a row of a product depend on how many rows are multiplied at once. */
bool tile_multiplies(const struct body *body);
/* Adds what the values of BODY take to ROW->bytes: of all its rows; the caller divides. A loop's count by its iterations. */
void tile_measure(struct tile_row *row, const struct body *body);
/* Rows of a tile that are at least ROWS of each matrix that it multiplies; 0: it multiplies none as a whole. */
int64_t tile_rows_of_products(const struct tile_row *row, int64_t rows);
/* Rows of a block of sums of a chain lowered for a forward run, on an input of ROWS rows (elements where it is flat). */
int64_t tile_block_of(const struct lowered *whole, int64_t rows);

#endif
