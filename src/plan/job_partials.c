/*
 * A tile's part of the gradient of each param:
 *
 *   streamed                            none: the tile writes its own rows
 *   read whole, some element twice      sums, one or two doubles an element
 *   read whole, no element twice        its elements: the same bits in fewer bytes
 *
 * Sums and elements are added to the gradient's sums in the order of tiles.
 */
#include "base/checked.h"
#include "plan/job_parts.h"

bool job_has_rows(const struct job *job, size_t i) { return job->tiles.tiled && job->whole.streamed_params[i]; }

int64_t job_sum_bytes(const struct job *job, size_t i)
{
	const struct type type = param_type(&job->chain->params[i], &job->input);
	return shape_count(&type.shape) * (int64_t)sizeof(double) * (dtype_compute(type.dtype) == DTYPE_F64 ? 2 : 1);
}

int64_t job_partial_bytes(const struct job *job, size_t i)
{
	const struct param *param = &job->chain->params[i];
	if (!param->differentiated || job->whole.streamed_params[i])
		return 0;
	if (!job->partials.once[i])
		return job_sum_bytes(job, i);
	const struct type type = param_type(param, &job->input);
	return round_up(type_bytes(&type), sizeof(double));
}

/* The reads of params in a forward body. */
struct reads {
	const struct body *body;
	int32_t levels[MAX_LOOPS]; /* of the open loops */
	int depth;
	bool *seen, *once; /* by param: it is read so far; none of its elements is read twice */
};

/* True if each iteration of each open loop reads another part of REF's param: REF is indexed by each loop's counter. */
static bool varies(const struct reads *reads, const struct param_ref *ref)
{
	for (int d = 0; d < reads->depth; d++) {
		uint32_t k = 0;
		while (k < ref->count && ref->index[k].loop != reads->levels[d])
			k++;
		if (k == ref->count)
			return false;
	}
	return true;
}

static void note_read(struct reads *reads, uint32_t index)
{
	const struct value *value = index == NO_VALUE ? NULL : &reads->body->values[index];
	if (!value || value->from != FROM_PARAM)
		return;
	const uint32_t p = value->param.param;
	reads->once[p] = !reads->seen[p] && varies(reads, &value->param);
	reads->seen[p] = true;
}

static void note_instr(struct reads *reads, const struct instr *instr)
{
	if (instr->kind == INSTR_LOOP) {
		reads->levels[reads->depth++] = instr->level;
		for (uint32_t c = 0; c < instr->loop.carry_count; c++) {
			note_read(reads, instr->loop.carries[c].init); /* counts as a read in every iteration */
			note_read(reads, instr->loop.carries[c].result);
		}
	} else if (instr->kind == INSTR_END) {
		reads->depth--;
	} else {
		note_read(reads, instr->v);
		note_read(reads, instr->a);
		if (instr->op == OP_identity) /* the copy that `use` makes: it may have several readers, so it counts twice */
			note_read(reads, instr->v);
	}
}

enum status job_find_partials(struct job *job, const struct body *forward)
{
	const size_t count = job->chain->param_count;
	struct reads reads = {.body = forward,
	                      .seen = arena_array(job->context.arena, count + 1, sizeof *reads.seen),
	                      .once = arena_array(job->context.arena, count + 1, sizeof *reads.once)};
	TRY_ALLOC(reads.seen && reads.once, job->context.diags);
	for (size_t i = 0; i < forward->instr_count; i++)
		note_instr(&reads, &forward->instrs[i]);
	for (size_t i = 0; i < forward->out_count; i++)
		note_read(&reads, forward->outs[i].value);
	job->partials.once = reads.once;
	for (size_t i = 0; i < count; i++)
		job->partials.bytes = saturated_add(job->partials.bytes, job_partial_bytes(job, i));
	return STATUS_OK;
}
