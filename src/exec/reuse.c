/*
 * Gradients in the memory of their params. A large param that one product alone reads, as the weights of a layer, is
 * not needed once that product's derivatives are made: the derivative by the value, which reads the param, is made
 * first. So the gradient is written over the param, and its own memory is neither allocated nor touched. Such a
 * gradient is final: a thread may write it to its npz while the run goes on (struct gradient_options, written).
 *
 * Invariant: such a gradient is a whole param, written exactly once, and no array of the stream follows. The plan does
 * not know it: it counts memory for the gradient, as a stream of several arrays needs it.
 */
#include "exec/run_parts.h"

/* REUSED says of each param whether its memory is reused; at first, whether that may be so. */
struct reuse {
	const struct run *run;
	const struct step *step; /* whose backward body is looked at */
	const struct body *body;
	bool *reused, *written;
};

/* Returns the param that VALUE of the body is or is a part of; NULL if it is none. */
static const struct param_ref *param_of(const struct reuse *r, uint32_t value)
{
	const bool is = value != NO_VALUE && r->body->values[value].from == FROM_PARAM;
	return is ? step_param(r->step, &r->body->values[value].param) : NULL;
}

static void refuse_value(const struct reuse *r, uint32_t value)
{
	const struct param_ref *ref = param_of(r, value);
	if (ref)
		r->reused[ref->param] = false;
}

static void look_at_instr(const struct reuse *r, const struct instr *instr)
{
	uint32_t reads[INSTR_READS];
	const size_t count = instr_reads(instr, reads);
	const bool product = instr->kind == INSTR_VJP && op_is_dot(instr->op);
	const struct param_ref *ref = product ? param_of(r, instr->a) : NULL;
	for (size_t i = 0; i < count; i++)
		if (!ref || reads[i] != instr->a || instr->v == instr->a)
			refuse_value(r, reads[i]);
	for (uint32_t c = 0; instr->kind == INSTR_LOOP && c < instr->loop.carry_count; c++) {
		refuse_value(r, instr->loop.carries[c].init);
		refuse_value(r, instr->loop.carries[c].result);
	}
	if (instr->kind == INSTR_ACCUMULATE) {
		const struct param_ref *sum = step_param(r->step, &instr->param);
		r->written[sum->param] |= sum->count == 0;
	}
}

/* A forward body reads a param of SUM_ONCE once. So its product's derivative is one, and no other step reads it. */
static void look_at_steps(struct reuse *r)
{
	const struct compiled_chain *compiled = &r->run->gradient->job->tile.compiled;
	for (size_t i = 0; i < compiled->lowered->distinct_count; i++) {
		r->step = compiled->lowered->distinct[i];
		r->body = compiled_step_of(compiled, r->step)->linear.backward;
		for (size_t k = 0; k < r->body->instr_count; k++)
			look_at_instr(r, &r->body->instrs[k]);
		for (size_t k = 0; k < r->body->out_count; k++)
			refuse_value(r, r->body->outs[k].value);
	}
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
	struct arena *arena = run->context.arena;
	const size_t count = run->chain->param_count;
	struct reuse r = {.run = run,
	                  .reused = arena_array(arena, count + 1, sizeof *r.reused),
	                  .written = arena_array(arena, count + 1, sizeof *r.written)};
	TRY_ALLOC(r.reused && r.written, run->context.diags);
	*reused = r.reused;
	bool any = false;
	for (size_t i = 0; i < count && may_reuse(run); i++) {
		const struct type type = bound_type(&run->bound[i]);
		r.reused[i] = run->gradient->job->sums.kinds[i] == SUM_ONCE && !run->chain->params[i].weak &&
		              type_bytes(&type) >= LEAST_BYTES;
		any |= r.reused[i];
	}
	if (any)
		look_at_steps(&r);
	for (size_t i = 0; i < count; i++)
		r.reused[i] &= r.written[i];
	return STATUS_OK;
}
