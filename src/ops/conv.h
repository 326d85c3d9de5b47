/*
 * What the two ways of computing convolutions share: by columns (conv.c) and by products that read the input in place
 * (conv_direct.c).
 */
#ifndef OPS_CONV_H
#define OPS_CONV_H

#include "ops/lines.h"

struct conv {
	enum dtype dtype;
	size_t size;
	const struct loops *loops; /* NULL if only sizes are asked for */
	int64_t samples, channels, height, width, outs, kernel_h, kernel_w, out_h, out_w;
	int64_t stride_h, stride_w, pad_h, pad_w;
	int64_t depth;                   /* elements of the kernel of one output channel: channels * kernel_h * kernel_w */
	int64_t chunk;                   /* the most elements of the depth that are computed at a time */
	int64_t places;                  /* elements of a result's channel: out_h * out_w */
	int64_t most_rows, most_columns; /* the most of a piece, which has whole rows of the result or a part of one row */
	bool grouped;                    /* a piece is GROUP whole samples; the last may have fewer */
	int64_t group;                   /* the most samples of a piece; 1 unless grouped */
	int64_t pieces;                  /* the pieces of all samples */
	bool pointwise;                  /* the columns are the sample itself */
	bool turned;                     /* made by conv_turned */
};

/*
 * Returns the convolution that computes C's derivative by the input: of the cotangent, by the kernel with its axes turned
 * around. Its padding is negative if C's is wider than the kernel. Its pieces and chunks are C's, which say nothing of it.
 */
struct conv conv_turned(const struct conv *c);
/* True if direct_convolve computes C, and if direct_kernel computes its derivative by the kernel. */
bool direct_fits(const struct conv *c);
bool direct_kernel_fits(const struct conv *c);
/* Return the bytes of scratch, the caller's and of each further member of a team, that these two need. */
int64_t direct_scratch(const struct conv *c);
int64_t direct_kernel_scratch(const struct conv *c);
/*
 * Computes Y, [samples, outs, out_h, out_w], from V, [samples, channels, height, width], and WEIGHTS, [outs, channels,
 * kernel_h, kernel_w]. If C is turned, WEIGHTS are those of the other: [channels, outs, kernel_h, kernel_w].
 */
void direct_convolve(const struct conv *c, struct team *team, void *scratch, void *y, const void *v,
                     const void *weights);
/* Computes DK, the derivative by the kernel, from V and the cotangent G of the result. */
void direct_kernel(const struct conv *c, struct team *team, void *scratch, void *dk, const void *v, const void *g);

#endif
