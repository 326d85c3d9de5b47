/*
 * Checkpoint blocks that reduce nothing: what their backward pass keeps takes as many bytes as what it would keep
 * without the block, and it recomputes besides.
 *
 * Blocks within blocks are left out: they save memory while the outer one is recomputed, which is not counted here.
 *
 * The chain is linearised as one region, as the residual report of a policy by value is, once as it stands and once
 * without each block. So a block is judged with what others keep. A long chain is judged by the first iterations of its
 * loops.
 * Tests: tests/cases/policies.test
 */
#include "plan/job.h"

#include <string.h>

enum { MOST_INSTRS = 4096, MOST_BLOCKS = 64 };

/* What the backward pass of a body keeps, params left out, and what it recomputes. */
struct keeping {
	int64_t bytes;
	double recomputed;
};

static enum status keeping_of(const struct context *context, const struct step *step, struct keeping *keeping)
{
	struct linear linear;
	TRY(linearise(context, &linear, step, NULL));
	*keeping = (struct keeping){.recomputed = linear.recompute_cost};
	for (size_t i = 0; i < linear.residual_count; i++)
		keeping->bytes += type_bytes(linear.residuals[i].type);
	return STATUS_OK;
}

/* Returns the innermost region around REGION, itself included, that is not of the block at BEGIN. */
static uint32_t region_without(const struct body *body, uint32_t region, uint32_t begin)
{
	while (region && body->regions[region].span.begin == begin)
		region = body->regions[region].parent;
	return region;
}

/* Sets WITHOUT to BODY with the regions of the block at byte BEGIN dissolved. False where memory is short. */
static bool dissolve(const struct body *body, uint32_t begin, struct body *without, struct arena *arena)
{
	*without = *body;
	without->arena = arena;
	without->instrs = arena_array(arena, body->instr_count + 1, sizeof *without->instrs);
	without->regions = arena_array(arena, body->region_count, sizeof *without->regions);
	if (!without->instrs || !without->regions)
		return false;
	if (body->instr_count > 0)
		memcpy(without->instrs, body->instrs, body->instr_count * sizeof *without->instrs);
	memcpy(without->regions, body->regions, body->region_count * sizeof *without->regions);
	for (size_t i = 0; i < body->instr_count; i++)
		without->instrs[i].region = region_without(body, body->instrs[i].region, begin);
	for (uint32_t i = 1; i < body->region_count; i++) {
		struct region *region = &without->regions[i];
		region->parent = region_without(body, region->parent, begin);
		if (region->span.begin == begin)
			region->end = region->first;
	}
	return true;
}

/* Returns the share of each loop's iterations that has about MOST_INSTRS instructions; 0: the chain is too long. */
static double share_of(const struct lowered *lowered)
{
	double all = 0, longest = 0;
	for (size_t i = 0; i < lowered->distinct_count; i++) {
		const double count = (double)lowered->distinct[i]->body->instr_count + 1;
		all += count;
		longest = count > longest ? count : longest;
	}
	const double most = longest * (double)lowered->steps;
	return all > MOST_INSTRS ? 0 : most > MOST_INSTRS ? MOST_INSTRS / most : 1;
}

static enum status find_useless(const struct job *job, const struct context *context, struct span_list *list)
{
	struct lowered lowered;
	const struct portion portion = {.iterations = share_of(&job->whole)};
	if (portion.iterations == 0)
		return STATUS_OK;
	TRY(lower(context, &lowered, job->chain, &portion, &job->input, LOWER_UNROLLED));
	const struct body *body = lowered.distinct[0]->body;
	struct keeping with, other;
	if (body->instr_count > 4 * MOST_INSTRS || body->region_count < 2)
		return STATUS_OK;
	TRY(keeping_of(context, lowered.distinct[0], &with));
	for (uint32_t i = 1, blocks = 0; i < body->region_count && blocks < MOST_BLOCKS; i++) {
		const struct span span = body->regions[i].span;
		uint32_t first = 1;
		while (body->regions[first].span.begin != span.begin)
			first++;
		if (first < i ||
		    body->regions[i].parent) /* the block again, or a block that helps while another is recomputed */
			continue;
		struct body without;
		struct step step = *lowered.distinct[0];
		TRY_ALLOC(dissolve(body, span.begin, &without, context->arena), context->diags);
		step.body = &without;
		TRY(keeping_of(context, &step, &other));
		if (with.bytes >= other.bytes && with.recomputed > other.recomputed)
			list->spans[list->count++] = span;
		blocks++;
	}
	return STATUS_OK;
}

enum status job_useless_blocks(const struct job *job, struct span_list *list)
{
	struct arena arena; /* of the trial alone */
	struct diags diags;
	arena_init(&arena, job->context.allocator);
	diags_init(&diags, &arena);
	const struct context context = {job->context.allocator, &arena, &diags};
	list->count = 0;
	list->spans = arena_array(job->context.arena, MOST_BLOCKS, sizeof *list->spans);
	TRY_ALLOC(list->spans, job->context.diags);
	if (job->chain->has_checkpoints && find_useless(job, &context, list)) /* what fails here warns of nothing */
		list->count = 0;
	arena_free(&arena);
	return STATUS_OK;
}
