/*
 * The iterations of a chain's `repeat while`s. Schedules of a gradient need the number of steps. So a forward pass over
 * the array counts the iterations first. The gradient equals the gradient of the chain with `repeat N` in place of each loop.
 * Tests: tests/cases/while.test
 */
#include <string.h>

#include "base/checked.h"
#include "base/system.h"
#include "base/team.h"
#include "exec/run_state.h"
#include "external/learn.h"

enum { MOST_COUNTS = 10000000 };

/* One forward pass: the chain as a program, and its memory: | workspace | output | */
struct counting {
	struct lowered lowered;
	struct program program;
	struct slab slab;
	struct team *team;
	uint64_t *skipped; /* of struct evaluation */
	struct counts {
		const struct context *context;
		struct counted *runs; /* in the order in which the `repeat while`s begin, as a lowering meets them */
		size_t count, capacity;
		size_t running[MAX_LOOPS]; /* by level: the element of the loop that runs */
	} counts;
};

static enum status open_counting(struct run *run, const struct context *context, const struct type *type,
                                 struct counting *c)
{
	const int threads = run->options->job.threads;
	c->skipped = arena_array(context->arena, 1 + run->chain->program_count, sizeof *c->skipped);
	TRY_ALLOC(c->skipped, context->diags);
	TRY(external_learn(context, run->chain, &run->options->job.portion, type, true, run->programs));
	TRY(lower(context, &c->lowered, run->chain, &run->options->job.portion, type, LOWER_RUN));
	TRY(params_check(run->params, c->lowered.whole, NULL, run->chain, context->diags));
	TRY(program_compile(context, &c->program, c->lowered.whole, NULL, NULL));
	TRY(blas_load(c->program.libraries, threads, context->diags));
	const int64_t member = round_up(c->program.member, ARRAY_ALIGN);
	TRY(slab_get(&c->slab, round_up(c->program.workspace, ARRAY_ALIGN) + type_bytes(&c->lowered.output),
	             context->allocator, context->diags));
	return team_open(&c->team, team_members(threads, c->program.widest, member), member, context->allocator,
	                 context->diags);
}

/*
 * Records that DONE iterations have run, of the `repeat while` at LEVEL. Fails with STATUS_LIMIT beyond MOST_COUNTS runs:
 * counts without a limit could fill the memory.
 */
static enum status add_count(void *context, const struct loop_part *of, int32_t level, int64_t done)
{
	struct counts *counts = context;
	if (done > 0) {
		counts->runs[counts->running[level]].iterations = done;
		return STATUS_OK;
	}
	if (counts->count >= MOST_COUNTS)
		return diag_file(counts->context->diags, STATUS_LIMIT, NULL, -1,
		                 "loops run the `repeat while`s of the chain more than 10^7 times");
	counts->running[level] = counts->count;
	struct counted *counted =
		arena_append(counts->context->arena, &counts->runs, &counts->count, &counts->capacity, sizeof *counted);
	TRY_ALLOC(counted, counts->context->diags);
	*counted = (struct counted){.outermost = of->condition};
	return STATUS_OK;
}

static enum status count_iterations(struct run *run, struct counting *c)
{
	const void *ins[2] = {run->conditions.input.base, run->conditions.input.base};
	void *outs[1] = {c->slab.base + round_up(c->program.workspace, ARRAY_ALIGN)};
	const unsigned before = flush_begin(run->options->flush_denormals);
	const enum status status = evaluate(&(struct evaluation){.program = &c->program,
	                                                         .ins = ins,
	                                                         .outs = outs,
	                                                         .params = run->bound,
	                                                         .workspace = c->slab.base,
	                                                         .skipped = c->skipped,
	                                                         .count = add_count,
	                                                         .count_context = &c->counts,
	                                                         .unfinished = &run->unfinished,
	                                                         .programs = run->programs,
	                                                         .diags = run->context.diags,
	                                                         .chain = run->chain,
	                                                         .team = c->team});
	flush_end(before);
	conditions_warn(run);
	return status;
}

static bool same_counts(const struct conditions *known, const struct counts *counts)
{
	bool same = known->counted && known->count == counts->count;
	for (size_t i = 0; same && i < counts->count; i++)
		same = known->counted[i].iterations == counts->runs[i].iterations;
	return same;
}

/* Makes COUNTS those that schedules know. */
static enum status keep_counts(struct run *run, const struct counts *counts, bool *changed)
{
	struct conditions *to = &run->conditions;
	*changed = !same_counts(to, counts);
	if (!*changed)
		return STATUS_OK;
	to->counted = arena_array(run->gradient->arena, counts->count + 1, sizeof *to->counted); /* reports read it */
	TRY_ALLOC(to->counted, run->context.diags);
	if (counts->count)
		memcpy(to->counted, counts->runs, counts->count * sizeof *counts->runs);
	to->count = counts->count;
	return STATUS_OK;
}

static enum status run_counting(struct run *run, const struct context *context, const struct type *type,
                                struct counting *c, bool *changed)
{
	const struct type input = {dtype_compute(type->dtype), type->shape};
	TRY(open_counting(run, context, type, c));
	TRY(slab_get(&run->conditions.input, type_bytes(&input), context->allocator, context->diags));
	TRY(reader_read(run->reader, run->conditions.input.base, input.dtype, shape_count(&input.shape), context->diags));
	c->counts.context = context;
	TRY(count_iterations(run, c));
	return keep_counts(run, &c->counts, changed);
}

static enum status count_by_pass(struct run *run, const struct type *type, bool *changed)
{
	struct counting c = {.team = NULL};
	struct arena arena;
	arena_init(&arena, run->context.allocator);
	const struct context context = {run->context.allocator, &arena, run->context.diags};
	run_bind_params(run, chain_computing_type(run->chain, type->dtype));
	const enum status status = run_counting(run, &context, type, &c, changed);
	team_close(c.team);
	slab_put(&c.slab, context.allocator);
	arena_free(&arena);
	return status;
}

enum status conditions_find(struct run *run, const struct type *type, bool *changed)
{
	*changed = false;
	if (!run->chain->has_conditions || run->options->job.portion.counted)
		return STATUS_OK;
	TRY(watched_begin(run, type, changed));
	return *changed ? STATUS_OK : count_by_pass(run, type, changed);
}

void conditions_take_input(struct run *run, void *to, size_t size)
{
	memcpy(to, run->conditions.input.base, size);
	slab_put(&run->conditions.input, run->context.allocator);
	run->conditions.input = (struct slab){.block = NULL};
}

void conditions_warn(struct run *run)
{
	const struct instr *loop = run->unfinished.loop;
	const struct node *node = run->unmet;
	const struct diag *known = run->context.diags->first;
	run->unfinished.loop = NULL;
	run->unmet = NULL;
	if ((!loop && !node) || run->options->job.portion.counted) /* a portion of the loop was wanted */
		return;
	const struct span span = loop ? run->unfinished.span : node->span;
	const int64_t max = loop ? loop->loop.iterations : node->count;
	while (known && (known->status || known->source != run->chain->source || known->span.begin != span.begin))
		known = known->next;
	const bool solves = loop && (loop->op == OP_SOLUTION || loop->op == OP_IMPLICIT);
	if (!known && solves)
		(void)diag_at(run->context.diags, STATUS_OK, run->chain->source, span,
		              "%sfixed_point ended at max=%lld with changes still above its tolerance",
		              loop->op == OP_IMPLICIT ? "the gradient of " : "", (long long)max);
	else if (!known) /* else for an array before */
		(void)diag_at(run->context.diags, STATUS_OK, run->chain->source, span,
		              "`repeat while` ended at max=%lld with its condition still above 0", (long long)max);
}
