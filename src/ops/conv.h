/*
 * What the three ways of computing convolutions share: by columns (conv.c), by products that read the input in place
 * (conv_direct.c), and by weighted sums of rows where each channel has kernels of its own (conv_depthwise.c).
 */
#ifndef OPS_CONV_H
#define OPS_CONV_H

#include "base/checked.h"
#include "ops/lines.h"

/*
 * GROUPS convolutions beside each other. The channels of the input, those of the result (outs), and the kernels of a group
 * follow those of the group before. All counts are of one group.
 */
struct conv {
	enum dtype dtype;
	size_t size;
	const struct loops *loops; /* NULL if only sizes are asked for */
	int64_t samples, groups, channels, height, width, outs, kernel_h, kernel_w, out_h, out_w;
	int64_t stride_h, stride_w, pad_h, pad_w; /* the padding is that before an axis */
	int64_t gap_h, gap_w;                     /* from an element of the kernel to the next */
	int64_t depth;                            /* elements of the kernel of one output channel */
	int64_t chunk;                            /* the most elements of the depth that are computed at a time */
	int64_t places;                           /* elements of a result's channel: out_h * out_w */
	int64_t in_sample, out_sample;            /* elements of all groups in a sample of the input and of the result */
	int64_t most_rows, most_columns; /* the most of a piece, which has whole rows of the result or a part of one row */
	bool bundled;                    /* a piece is BUNDLE whole samples; the last may have fewer */
	int64_t bundle;                  /* the most samples of a piece; 1 unless bundled */
	int64_t pieces;                  /* the pieces of all samples, of one group */
	bool pointwise;                  /* the columns are the sample itself */
	bool turned;                     /* made by conv_turned */
};

/* The arrays of a convolution: input, kernels and result, or what has their shapes. */
struct conv_arrays {
	char *v, *kernel, *y;
};
/* Returns BYTES rounded up to where a part of scratch may begin. */
static inline int64_t conv_aligned(int64_t bytes) { return round_up(bytes, ARRAY_ALIGN); }

/* Returns ARRAYS from the first element of GROUP on. */
static inline struct conv_arrays conv_group(const struct conv *c, const struct conv_arrays *arrays, int64_t group)
{
	const int64_t kernels = group * c->channels * c->outs * c->kernel_h * c->kernel_w, size = (int64_t)c->size;
	return (struct conv_arrays){arrays->v + group * c->channels * c->height * c->width * size,
	                            arrays->kernel + kernels * size, arrays->y + group * c->outs * c->places * size};
}

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
 * Computes Y, [samples, outs, out_h, out_w], from V, [samples, channels, height, width], and KERNEL, [outs, channels,
 * kernel_h, kernel_w]. If C is turned, KERNEL is that of the other: [channels, outs, kernel_h, kernel_w].
 */
void direct_convolve(const struct conv *c, struct team *team, void *scratch, const struct conv_arrays *arrays);
/* Computes the derivative by the kernel, from the input and the cotangent of the result. */
void direct_kernel(const struct conv *c, struct team *team, void *scratch, const struct conv_arrays *arrays);

/* True if each group of C has one channel, and the functions below compute it. */
bool depthwise_fits(const struct conv *c);
/* Returns the bytes of scratch, the caller's and of each further member of a team, that these need. */
int64_t depthwise_scratch(const struct conv *c);
/* Compute the result; the derivative by the input, from the cotangent Y; and that by the kernel, likewise. */
void depthwise_convolve(const struct conv *c, struct team *team, void *scratch, const struct conv_arrays *arrays);
void depthwise_input(const struct conv *c, struct team *team, void *scratch, const struct conv_arrays *arrays);
void depthwise_kernel(const struct conv *c, struct team *team, void *scratch, const struct conv_arrays *arrays);

#endif
