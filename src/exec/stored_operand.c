/*
 * Params that a forward run leaves in their files. A large param that one product alone reads, once, as the weights of a
 * layer, need not be in memory: the product reads its rows in blocks (product_from_rows).
 *
 * Invariant: such a param is read once in a run, from its first byte to its last. So its array is one tile, and the first
 * of the stream. Another array that follows finds all params in memory.
 */
#include <string.h>

#include "base/checked.h"
#include "exec/run_parts.h"

struct stored_operand {
	struct stored_read read;
	struct operand_rows rows;
	int64_t columns, size; /* of the matrix; bytes of an element */
};

/* An operand_rows.read. */
static bool read_rows(void *context, const struct operand_part *part, void *to)
{
	struct stored_operand *operand = context;
	const int64_t size = operand->size, stride = operand->columns * size;
	return stored_read_part(&operand->read,
	                        &(struct stored_part){part->row * stride + part->column * size, part->count,
	                                              part->length * size, stride, part->pitch * size},
	                        to);
}

enum status stored_multiply(struct stored_operand *operand, const struct op_call *call, void *y, const void *v,
                            struct diags *diags)
{
	product_from_rows(call, false, y, v, &operand->rows); /* stored_read_end says what has failed */
	return stored_read_end(&operand->read, diags);
}

enum { NOT_READ = UINT32_MAX, READ_OTHERWISE = UINT32_MAX - 1 };

/* Notes in READERS that BY reads VALUE, if that is a param or a part of one. */
static void note_reader(const struct body *body, uint32_t *readers, uint32_t value, uint32_t by)
{
	const struct value *of = &body->values[value];
	if (of->from != FROM_PARAM)
		return;
	uint32_t *const reader = &readers[of->param.param];
	*reader = *reader == NOT_READ && of->param.count == 0 ? by : READ_OTHERWISE;
}

/* Sets READERS, by param: the instruction of BODY that alone reads it, whole, as its operand and once. */
static void find_readers(const struct body *body, uint32_t *readers)
{
	int loops = 0;
	for (uint32_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		uint32_t reads[INSTR_READS];
		const size_t count = instr_reads(instr, reads);
		loops += (instr->kind == INSTR_LOOP) - (instr->kind == INSTR_END);
		for (size_t k = 0; k < count; k++) {
			const bool operand = instr->kind == INSTR_OP && reads[k] == instr->a && instr->v != instr->a && !loops;
			note_reader(body, readers, reads[k], operand ? i : READ_OTHERWISE);
		}
		for (uint32_t c = 0; instr->kind == INSTR_LOOP && c < instr->loop.carry_count; c++) {
			note_reader(body, readers, instr->loop.carries[c].init, READ_OTHERWISE);
			note_reader(body, readers, instr->loop.carries[c].result, READ_OTHERWISE);
		}
	}
	for (size_t i = 0; i < body->out_count; i++)
		note_reader(body, readers, body->outs[i].value, READ_OTHERWISE);
}

/* Lets param INDEX stay in its file if INSTR, which reads it, can. Sets *BYTES to a thread's memory for its blocks, or 0. */
static enum status open_operand(struct run *run, size_t index, const struct instr *instr, int64_t *bytes)
{
	struct bound_param *bound = &run->params->bound[index];
	const struct type type = bound_type(bound);
	const int lanes = (int)greater(run->options->job.threads, 1);
	*bytes = product_rows_bytes(instr->op, false, instr->of.v, &type, lanes);
	if (!*bytes)
		return STATUS_OK;
	struct stored_operand *operand = arena_alloc(run->context.arena, sizeof *operand);
	TRY_ALLOC(operand, run->context.diags);
	TRY(stored_read_open(&operand->read, run->params->stored[index], &run->context));
	operand->rows = (struct operand_rows){.read = read_rows, .context = operand, .lanes = lanes};
	operand->columns = type.shape.dim[type.shape.ndim - 1];
	operand->size = (int64_t)dtype_size(type.dtype);
	bound->stored = operand;
	return STATUS_OK;
}

/* Loads all params that are left in their files, but those of READERS whose products read them there. */
static enum status load_others(struct run *run, const struct body *body, const uint32_t *readers)
{
	struct params *params = run->params;
	struct team *team;
	int64_t most = 0, bytes = 0;
	TRY(team_open(&team, run->options->job.threads, 0, run->context.allocator, run->context.diags));
	enum status status = STATUS_OK;
	for (size_t i = 0; i < params->count && !status; i++) {
		params->bound[i].stored = NULL;
		if (params->stored[i] && readers && readers[i] < READ_OTHERWISE)
			status = open_operand(run, i, &body->instrs[readers[i]], &bytes);
		if (params->stored[i] && !params->bound[i].stored && !status)
			status = params_load(&run->context, params, run->chain, i, team);
		if (params->bound[i].stored)
			run->forward->bytes -= params->stored[i]->bytes;
		most = params->bound[i].stored ? greater(most, bytes) : most;
	}
	team_close(team);
	TRY(status);
	most *= greater(run->options->job.threads, 1);
	if (most)
		TRY(slab_get(&run->forward->blocks, most, run->context.allocator, run->context.diags));
	for (size_t i = 0; i < params->count; i++)
		if (params->bound[i].stored)
			params->bound[i].stored->rows.blocks = run->forward->blocks.base;
	run->forward->bytes += most;
	return STATUS_OK;
}

enum status stored_operands_open(struct run *run, const struct body *body)
{
	const struct params *params = run->params;
	bool any = false;
	for (size_t i = 0; i < params->count; i++)
		any |= params->stored[i] != NULL;
	if (!any)
		return STATUS_OK;
	if (run->gradient || run->ranks || run->programs || run->forward->counters->arrays > 0 || run->tiles->block ||
	    run->tiles->windows || run->tiles->folds || run->tiles->rows > run->tiles->tile)
		return load_others(run, NULL, NULL);
	uint32_t *readers = arena_array(run->context.arena, params->count, sizeof *readers);
	TRY_ALLOC(readers, run->context.diags);
	memset(readers, 0xff, params->count * sizeof *readers); /* NOT_READ */
	find_readers(body, readers);
	TRY(blas_load(run->options->job.threads, run->context.diags));
	return load_others(run, body, readers);
}
