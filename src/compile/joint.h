/*
 * The joint body of a gradient: the recording body of an unrolled chain and its backward body, one after another. Sums
 * of cotangents over rows are folds of it, as those of the forward pass are, so passes run it (ir/levels.h). Nothing is
 * recomputed: what a checkpoint region recomputes is the value that the recording part made.
 *
 * The gradient of a param has two kinds of parts. A sum over rows is a fold, and is added once. The part that a
 * product makes is added tile by tile in the last pass.
 *
 *     ins     the input; the cotangent of the output, if anything reads it
 *     outs    the value, if it is wanted; the gradient of the input
 */
#ifndef COMPILE_JOINT_H
#define COMPILE_JOINT_H

#include "base/diag.h"
#include "ir/lower.h"

struct joint {
	struct body *body;
	const struct particulars *own;      /* of its step; its arrays live as long as what it was made of */
	uint32_t cotangent;                 /* the in that is the cotangent of the output, or NO_VALUE */
	uint32_t value, gradient;           /* the outs; VALUE may be NO_VALUE */
	double forward_cost, backward_cost; /* in additions; what only the value needs counts if that is wanted */
	int64_t unread;                     /* 1 if the value of the last step is not computed */
};

/* Makes the joint body of LOWERED, by LOWER_UNROLLED. WANT_VALUE: the value is an out. STATUS_LIMIT if out of memory. */
enum status joint_make(const struct context *context, struct joint *joint, const struct lowered *lowered,
                       bool want_value);
/*
 * Sets *BECAUSE if passes cannot run JOINT, that of a whole array. Some operations sum the rows of a tile, as a product
 * does in its derivative by a matrix. Nothing but the gradient of a param may follow from such a sum. STATUS_LIMIT if out
 * of memory.
 */
enum status joint_refuses(const struct context *context, const struct joint *joint, struct because *because);

#endif
