/*
 * Totals over the tiles: the gradients of params (exec/passes.h has the output that all rows meet in). job_sums.c
 * says which kind of sum each param has.
 *
 *   SUM_ROWS, SUM_ONCE   a tile writes or adds to the total, which no other tile touches
 *   SUM_PLAIN, _SHARED   tiles add to the total, each after the tile before (ordered.h). An only tile may add in blocks
 *   SUM_APART            a tile makes a sum of its own, which is added to the total in the order of tiles
 *
 * So the result does not depend on the number of workers. The totals are the gradients themselves, in the computing
 * type: they stay where they are, some in the memory of their params (reuse_find). Where several
 * additions meet in an element, it is the head of a long sum. Gradients of params in files go to a file (stays.c).
 *
 * Invariant: totals cover all arrays of the stream so far. A streamed param's rows are added up, array after array, in
 * the computing type.
 *
 * A large param that one product alone reads, as the weights of a layer, is not needed once that product's derivatives are
 * made: the derivative by the value, which reads the param, is made first. So the gradient is written over the param, and
 * its own memory is neither allocated nor touched.
 *
 * Such a gradient is final: a thread may write it to its npz while the run
 * goes on (struct gradient_options, written). It is a whole param, written exactly once, and no array of the stream follows.
 * The plan does not know it: it counts memory for the gradient, as a stream of several arrays needs it.
 * Tests: tests/cases/grad.test, tests/scripts/check-param-sums
 */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "exec/run_state.h"
#include "ir/reads.h"

struct param_sums *totals_of(const struct run *run, size_t i)
{
	return &run->gradient->result->params[i].of[run->bound[i].dtype == DTYPE_F64];
}

enum status totals_open(struct run *run)
{
	struct gradient_result *result = run->gradient->result;
	const size_t count = run->chain->param_count;
	if (!result->params)
		result->params = arena_array(run->gradient->arena, count + 1, sizeof *result->params);
	TRY_ALLOC(result->params, run->context.diags);
	result->param_count = count;
	for (size_t i = 0; i < count; i++) {
		struct param_gradient *g = &result->params[i];
		const struct param *param = &run->chain->params[i];
		if (!param->differentiated || (result->arrays > 0 && !param->arrives))
			continue;
		g->type = bound_type(&run->bound[i]);
		g->written = param->weak ? run->gradient->job->input.dtype : param->type->dtype;
		if (dtype_is_integer(g->written) ||
		    dtype_compute(g->written) != g->type.dtype) /* the param has met wider arrays */
			g->written = g->type.dtype;
		g->size = (size_t)type_bytes(&g->type);
		g->of[0] = g->of[1] = (struct param_sums){.heads = NULL}; /* an input has another type than before */
	}
	return STATUS_OK;
}

static bool in_order(const struct run *run, size_t i)
{
	const enum sum_kind kind = run->gradient->job->sums.kinds[i];
	return kind == SUM_PLAIN || kind == SUM_SHARED || kind == SUM_APART;
}

int64_t totals_shareable(const struct run *run)
{
	const struct job *job = run->gradient->job;
	int64_t bytes = 0;
	bool may = job->sums.any;
	for (size_t i = 0; i < run->params->count && may; i++) {
		const struct param_sums *sums = in_order(run, i) ? totals_of(run, i) : NULL;
		may = !sums || !sums->heads || sums->shared;
		if (sums && !sums->heads)
			bytes = saturated_add(bytes, round_up(job_long_bytes(job, i), ARRAY_ALIGN));
	}
	return may ? bytes : -1;
}

struct ordered_value totals_value(const struct run *run, size_t i)
{
	const struct sums *sums = &run->gradient->job->sums;
	const struct type type = bound_type(&run->bound[i]);
	const bool added = (sums->kinds[i] == SUM_PLAIN || sums->kinds[i] == SUM_SHARED) && sums->ordered;
	return (struct ordered_value){.unit = sums->kinds[i] == SUM_APART ? ORDERED_WHOLE
	                                      : !added                    ? ORDERED_NEVER
	                                      : sums->once[i]             ? ORDERED_PIECES
	                                                                  : ORDERED_ADDITIONS,
	                              .bytes = (size_t)type_bytes(&type),
	                              .element = dtype_size(type.dtype),
	                              .in_shared = in_order(run, i)};
}

/* Plain sums have memory for tails here too, which later arrays need. */
void totals_share(const struct run *run, char *memory)
{
	for (size_t i = 0; i < run->params->count; i++) {
		const struct type type = bound_type(&run->bound[i]);
		if (!in_order(run, i) || totals_of(run, i)->heads)
			continue;
		*totals_of(run, i) = (struct param_sums){memory, memory + type_bytes(&type), true, NULL};
		memory += round_up(job_long_bytes(run->gradient->job, i), ARRAY_ALIGN);
	}
}

/*
 * Sets REUSED of params to false if a backward body reads them otherwise than by a product's derivative, or does not
 * write their whole gradient. A forward body reads a param of SUM_ONCE once. So its product's derivative is one, and no
 * other step reads it.
 */
static enum status look_at_steps(const struct run *run, bool *reused)
{
	const struct compiled_chain *compiled = &run->gradient->job->tile.compiled;
	bool *const written = arena_array(run->context.arena, run->chain->param_count + 1, sizeof *written);
	struct reads reads = {.depth = 0};
	struct param_read read;
	TRY_ALLOC(written, run->context.diags);
	for (size_t i = 0; i < compiled->lowered->distinct_count; i++) {
		const struct step *step = compiled->lowered->distinct[i];
		for (reads_begin(&reads, compiled_step_of(compiled, step)->linear.backward, &step->own);
		     reads_next(&reads, &read);) {
			if (read.adds)
				written[read.ref->param] |= read.ref->count == 0;
			else if (!read_is_operand(&read) || read.by->kind != INSTR_VJP || !op_is_dot(read.by->op))
				reused[read.ref->param] = false;
		}
	}
	for (size_t i = 0; i < run->chain->param_count; i++)
		reused[i] &= written[i];
	return STATUS_OK;
}

/* True if the run may destroy params: their values are read by nothing else, and by no later array. */
static bool may_reuse(const struct run *run)
{
	const struct gradient_options *options = run->gradient->options;
	return options->reuse_params && !options->journal && !options->compare && !run->ranks && !run->programs &&
	       !run->chain->has_conditions && !run->gradient->job->passes && !run->tiles->windows &&
	       run->gradient->result->arrays == 0 && reader_is_last(run->reader);
}

static enum status reuse_find(const struct run *run, const bool **reused)
{
	enum { LEAST_BYTES = 1 << 20 };
	const size_t count = run->chain->param_count;
	bool *const may = arena_array(run->context.arena, count + 1, sizeof *may);
	bool any = false;
	TRY_ALLOC(may, run->context.diags);
	*reused = may;
	for (size_t i = 0; i < count && may_reuse(run); i++) {
		const struct type type = bound_type(&run->bound[i]);
		may[i] = run->gradient->job->sums.kinds[i] == SUM_ONCE && !run->chain->params[i].weak &&
		         !run->chain->params[i].arrives && type_bytes(&type) >= LEAST_BYTES;
		any |= may[i];
	}
	return any ? look_at_steps(run, may) : STATUS_OK;
}

/* Returns true if the gradient of param I begins anew with the current array: an input has one for each. */
static bool begins_anew(const struct run *run, size_t i)
{
	return run->gradient->result->arrays == 0 || run->chain->params[i].arrives;
}

/* Clears SUMS of BYTES. */
static void clear_sums(const struct param_sums *sums, size_t bytes)
{
	memset(sums->heads, 0, bytes);
	if (sums->tails)
		memset(sums->tails, 0, bytes / 2);
	if (sums->block)
		sums->block->rows = 0;
}

/*
 * The gradient of a first array has no tails if it is written once, or a plain sum. A later array is added to it. So it
 * needs tails, and memory for the largest gradient that a program makes whole. A plan covers the first array, and here
 * they are added to it.
 */
enum status totals_begin_array(struct run *run)
{
	struct job *job = run->gradient->job;
	struct arena *arena = run->gradient->arena;
	int64_t most = 0, more = 0;
	const bool *reused;
	TRY(reuse_find(run, &reused));
	for (size_t i = 0; i < run->chain->param_count; i++) {
		const enum sum_kind kind = job->sums.kinds[i];
		struct param_sums *sums = kind == SUM_NONE ? NULL : totals_of(run, i);
		const struct type type = bound_type(&run->bound[i]);
		const size_t bytes = sums ? (size_t)type_bytes(&type) : 0;
		const bool first = begins_anew(run, i), once = !first && job_sums_once(job, i);
		const bool later = once || (!first && job_sums_plain(job, i));
		if (run->bound[i].stored || job_row_bytes(job, i))
			continue;
		/* That of the first array begins as 0, and another rank may have added to it. */
		if (sums && sums->heads && first && run->gradient->result->arrays > 0)
			clear_sums(sums, bytes);
		if (sums && reused[i])
			sums->heads = run->params->arrays[i];
		if (sums && !sums->heads)
			TRY_ALLOC(sums->heads = arena_alloc(arena, bytes), run->context.diags);
		if (sums && !sums->block && job->sums.blocks[i]) {
			TRY_ALLOC(sums->block = arena_alloc(arena, sizeof *sums->block), run->context.diags);
			TRY_ALLOC(sums->block->sum = arena_alloc(arena, bytes), run->context.diags);
		}
		most = greater(most, once ? (int64_t)bytes : 0);
		if (!sums || sums->tails || !(later || job_sums_long(job, i)))
			continue;
		TRY_ALLOC(sums->tails = arena_alloc(arena, bytes / 2), run->context.diags);
		more += later ? (int64_t)bytes / 2 : 0;
	}
	if (most > run->gradient->spare_bytes) {
		TRY_ALLOC(run->gradient->spare = arena_alloc(arena, (size_t)most), run->context.diags);
		more += most - run->gradient->spare_bytes;
		run->gradient->spare_bytes = most;
	}
	job->predicted.peak_bytes += more;
	for (size_t i = 0; i < run->params->count; i++) {
		run->ordered.values[i].heads = totals_of(run, i)->heads;
		run->ordered.values[i].tails = totals_of(run, i)->tails;
	}
	return STATUS_OK;
}

/* Returns the worker's sums of TILE that are made apart; NULL without tiles. */
static char *apart_of(const struct worker *worker, int64_t tile)
{
	return worker->apart ? worker->apart + tile * worker->run->gradient->job->sums.apart : NULL;
}

static void aim(const struct run *run, struct bound_param *params)
{
	const struct job *job = run->gradient->job;
	for (size_t i = 0; i < run->params->count; i++) {
		const bool first = begins_anew(run, i);
		struct bound_param *bound = &params[i];
		const enum sum_kind kind = job->sums.kinds[i];
		*bound = run->bound[i]; /* its gradient is directed nowhere yet */
		bound->streamed = kind == SUM_ROWS || (job->tiles.tiled && job->whole.streamed_params[i]);
		if (kind == SUM_NONE)
			continue;
		bound->gradient = totals_of(run, i)->heads;
		bound->tails = first && job_sums_plain(job, i) ? NULL : totals_of(run, i)->tails;
		bound->block = job->sums.blocks[i] ? totals_of(run, i)->block : NULL;
		bound->once = first && job_sums_once(job, i);
		bound->final = bound->gradient && bound->gradient == run->params->arrays[i]; /* as reuse_find says */
	}
}

void totals_aim_all(const struct run *run, struct bound_param *params)
{
	aim(run, params);
	for (size_t i = 0; run->ordered.shared && ranks_index(run->ranks) > 0 && i < run->params->count; i++)
		params[i].gradient = in_order(run, i) ? NULL : params[i].gradient;
}

bool totals_adds(const struct run *run, size_t i)
{
	const bool last = ranks_index(run->ranks) == ranks_count(run->ranks) - 1;
	return !run->tiles->exchanged || last || run->gradient->job->sums.kinds[i] == SUM_ROWS;
}

void totals_aim(struct worker *worker)
{
	const struct run *run = worker->run;
	const struct job *job = run->gradient->job;
	char *next = apart_of(worker, worker->tile);
	aim(run, worker->params);
	rows_out_aim_others(worker);
	for (size_t i = 0; i < run->params->count; i++) {
		struct bound_param *bound = &worker->params[i];
		if (!totals_adds(run, i))
			bound->gradient = NULL;
		if (job->sums.kinds[i] != SUM_APART)
			continue;
		const int64_t bytes = job_apart_bytes(job, i);
		const struct type type = bound_type(bound);
		bound->gradient = memset(next, 0, (size_t)bytes);
		bound->tails = next + type_bytes(&type);
		next += bytes;
	}
}

void totals_end_blocks(const struct worker *worker)
{
	const struct run *run = worker->run;
	for (size_t i = 0; i < run->params->count; i++) {
		const struct bound_param *param = &worker->params[i];
		const struct type type = bound_type(param);
		if (!param->block || param->block->rows == 0)
			continue;
		run->kernels[type.dtype == DTYPE_F64]->loops->accumulate_long(param->gradient, param->tails, param->block->sum,
		                                                              NULL, (size_t)shape_count(&type.shape));
		param->block->rows = 0;
	}
}

enum status totals_add(struct worker *worker)
{
	const struct run *run = worker->run;
	int64_t at = 0;
	for (uint32_t i = 0; run->gradient && worker->apart && i < run->params->count; i++) {
		const struct type type = bound_type(&run->bound[i]);
		const struct param_sums *total = totals_of(run, i);
		if (run->gradient->job->sums.kinds[i] != SUM_APART)
			continue;
		TRY(ordered_begin(&worker->turn, i, NULL));
		for (int64_t tile = 0; tile < tiles_of(run->tiles, worker->chunk); tile++) {
			const char *sum = apart_of(worker, tile) + at;
			run->kernels[type.dtype == DTYPE_F64]->loops->accumulate_long(
				total->heads, total->tails, sum, sum + type_bytes(&type), (size_t)shape_count(&type.shape));
		}
		TRY(ordered_end(&worker->turn, i, NULL));
		at += job_apart_bytes(run->gradient->job, i);
	}
	return STATUS_OK;
}

/* Adds what program INDEX has summed of OPERAND to the param's total. */
static enum status add_program_sum(const struct run *run, uint32_t index, uint32_t operand)
{
	const uint32_t param = run->chain->programs[index].params[operand];
	const struct type type = bound_type(&run->bound[param]);
	const struct param_sums *total = totals_of(run, param);
	const struct loops *loops = run->kernels[type.dtype == DTYPE_F64]->loops;
	const size_t count = (size_t)shape_count(&type.shape), bytes = (size_t)type_bytes(&type);
	void *sum = allocator_get(run->context.allocator, bytes + 1, 1);
	TRY_ALLOC(sum, run->context.diags);
	const enum status status = external_sum(run->programs, index, operand, sum, run->context.diags);
	if (!status && total->tails)
		loops->accumulate_long(total->heads, total->tails, sum, NULL, count);
	else if (!status)
		loops->accumulate(total->heads, sum, count);
	allocator_put(run->context.allocator, sum, bytes + 1);
	return status;
}

enum status totals_add_programs(const struct run *run)
{
	for (uint32_t i = 0; i < run->chain->program_count; i++)
		for (uint32_t k = 0; k < run->chain->programs[i].operand_count; k++)
			if (run->chain->programs[i].traits.sums >> k & 1)
				TRY(add_program_sum(run, i, k));
	return STATUS_OK;
}

/* Returns element K of the gradient over the arrays of one type, which is double if WIDE. */
static double sum_at(const struct param_sums *sums, bool wide, int64_t k)
{
	if (wide)
		return ((const double *)sums->heads)[k];
	const double head = (double)((const float *)sums->heads)[k];
	/* a tail counts 2^-15 of the last of 24 bits; of zeros, infinities and NaNs it is 0 */
	const int tail = sums->tails ? ((const int16_t *)sums->tails)[k] : 0;
	return tail ? head + ldexp(tail, ilogb(head) - 38) : head;
}

/* The gradients are the sums of the first array's type. Adds those of the other type, if the stream had both. */
void totals_finish(struct gradient_result *result, bool finishes)
{
	for (size_t i = 0; i < result->param_count; i++) {
		struct param_gradient *g = &result->params[i];
		const bool wide = g->type.dtype == DTYPE_F64;
		const struct param_sums *first = &g->of[wide], *other = &g->of[!wide];
		const int64_t count = finishes && other->heads ? shape_count(&g->type.shape) : 0;
		g->data = first->heads;
		for (int64_t k = 0; k < count; k++) {
			const double sum = sum_at(first, wide, k) + sum_at(other, !wide, k);
			convert_to_file((char *)g->data + k * (wide ? 8 : 4), g->type.dtype, &sum, DTYPE_F64, 1);
		}
	}
}
