/*
 * A survey: what policies by value would keep and recompute in one step, the whole chain as one region. A figure takes
 * a small part of the time of a compiled program, and no memory. So a budget looks at many policies and compiles few.
 */
#ifndef COMPILE_SURVEY_H
#define COMPILE_SURVEY_H

#include "base/diag.h"
#include "ir/lower.h"
#include "schedule/policy.h"

struct survey;

/* What a policy makes of the step. Two policies with one `mark` keep and recompute the same values. */
struct survey_figures {
	/* As in struct linear, by the costs of the op table. */
	double forward_cost, record_cost, once_cost, recompute_cost;
	int64_t kept_bytes; /* of arrays that the first sweep makes and holds until its end: those of the slab */
	uint64_t mark[2];
};

/*
 * Makes *SURVEY, in the context's arena, of STEP, of LOWER_UNROLLED, which must outlive it. The caller calls survey_end if
 * that succeeds. STATUS_LIMIT if out of memory.
 */
enum status survey_begin(const struct context *context, struct survey **survey, const struct step *step);
void survey_end(struct survey *survey);
/* Sets FIGURES to those of POLICY, which is by value. STATUS_LIMIT if out of memory. */
enum status survey_policy(struct survey *survey, const struct policy *policy, struct survey_figures *figures);
/*
 * Between the two passes of a policy by value, all values that derivatives of the whole body read are in memory: those
 * that it does not keep have been recomputed. A value is an array, unless one launch of the backward pass both makes it
 * and reads it. Then it is a register of the launch, which has at least 256 elements, or all. At most SURVEY_UNPLACED
 * values are in neither, but in registers of the processor.
 */
enum { SURVEY_UNPLACED = 16 };
/* Returns the bytes of a slab there under any policy, at least. What checkpoint blocks need themselves is left out. */
int64_t survey_between(struct survey *survey);
/* True if the derivative of INSTR is no part of a launch with others: its launch works on whole arrays. */
bool survey_is_whole(const struct instr *instr);
/* Returns the bytes of a value of TYPE there, at least. WHOLE: the backward pass has such a launch before it reads the value. */
int64_t survey_bytes_between(const struct type *type, bool whole);
/*
 * Sets the elements of RELEVANT, which are false, for those of COUNT NAMES that a value has which `nothing` looks at. No
 * other name changes what a policy by value does. STATUS_LIMIT if out of memory.
 */
enum status survey_names(struct survey *survey, const char *const *names, size_t count, bool *relevant);

#endif
