/*
 * Gradients in the memory of their params. A large param that one product alone reads, as the weights of a layer, is
 * not needed once that product's derivatives are made: the derivative by the value, which reads the param, is made
 * first. So the gradient is written over the param, and its own memory is neither allocated nor touched. Such a
 * gradient is final: a thread may write it to its npz while the run goes on (struct gradient_options, written).
 *
 * Invariant: such a gradient is a whole param, written exactly once, and no array of the stream follows. The plan does
 * not know it: it counts memory for the gradient, as a stream of several arrays needs it.
 * Tests: tests/cases/grad.test, tests/cases/folds.test
 */
#include "exec/run_parts.h"
#include "ir/reads.h"

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

enum status reuse_find(const struct run *run, const bool **reused)
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
		         type_bytes(&type) >= LEAST_BYTES;
		any |= may[i];
	}
	return any ? look_at_steps(run, may) : STATUS_OK;
}
