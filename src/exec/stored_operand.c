/*
 * Params that a run leaves in their files. A large param that one product alone reads, once, as the weights of a layer,
 * need not be in memory: the product reads its rows in blocks (product_from_rows). So does the product's derivative by the
 * value. The derivative by the param is the whole gradient: its rows go to where they stay (struct gradient_options).
 *
 * Invariant: such a param is read from its first byte to its last by each product. So its array is one tile, and the first
 * of the stream. Another array that follows finds all params in memory. The plan does not know of params in files: it
 * counts the gradients' memory, of which blocks take less.
 */
#include <string.h>

#include "base/checked.h"
#include "exec/run_parts.h"

struct stored_operand {
	struct stored_read read;
	struct operand_rows rows;
	int64_t columns, size; /* of the matrix; bytes of an element */
	size_t param;
	const struct gradient_options *gradient; /* gets the rows of the gradient; NULL: it is not wanted */
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

/* An operand_rows.write. */
static bool write_rows(void *context, const struct operand_part *part, const void *from)
{
	const struct stored_operand *operand = context;
	const int64_t stride = operand->columns * operand->size;
	return operand->gradient->put_rows(operand->gradient->rows_context, operand->param, part->row * stride, from,
	                                   (size_t)(part->count * stride));
}

enum status stored_multiply(struct stored_operand *operand, const struct op_call *call, void *y, const void *v,
                            struct diags *diags)
{
	product_from_rows(call, y, v, &operand->rows); /* stored_read_end says what has failed */
	return stored_read_end(&operand->read, diags);
}

enum status stored_multiply_back(struct stored_operand *operand, const struct op_call *call, void *dv,
                                 const struct derivative_arrays *of, struct diags *diags)
{
	const bool good = product_back_by_rows(call, dv, of->v, of->g, &operand->rows);
	if (dv)
		TRY(stored_read_end(&operand->read, diags));
	return good ? STATUS_OK : operand->gradient->end_rows(operand->gradient->rows_context, operand->param, diags);
}

/* What reads a param: the product READER as its operand, whole. MADE: a product's derivative is its gradient. */
struct reading {
	const struct instr *reader;
	bool made, otherwise;
};

/* READINGS by param, of a forward run's body, or (STEP) of the bodies of a gradient's steps. */
struct readings {
	const struct step *step;
	const struct body *body;
	struct reading *of;
};

/* Returns what reads the param that VALUE is or is a part of; NULL if it is none. */
static struct reading *reading_of(const struct readings *r, uint32_t value, bool *whole)
{
	const struct value *of = value == NO_VALUE ? NULL : &r->body->values[value];
	if (!of || of->from != FROM_PARAM)
		return NULL;
	const struct param_ref *ref = r->step ? step_param(r->step, &of->param) : &of->param;
	*whole = ref->count == 0;
	return &r->of[ref->param];
}

/* Notes a reader of VALUE: the product BY, or, if BY is NULL, something else. Steps may run a product again, or backward. */
static void note_reader(const struct readings *r, uint32_t value, const struct instr *by)
{
	bool whole;
	struct reading *reading = reading_of(r, value, &whole);
	if (!reading)
		return;
	const struct instr *before = reading->reader;
	const bool same = before && by && r->step && before->op == by->op && type_equal(before->of.v, by->of.v);
	reading->otherwise |= !by || !whole || (before && !same);
	reading->reader = before ? before : by;
}

/* Notes what an ACCUMULATE adds to a gradient: a derivative that a product makes may go to its file. */
static void note_addition(const struct readings *r, const struct instr *instr)
{
	const struct param_ref *ref = r->step ? step_param(r->step, &instr->param) : &instr->param;
	const struct value *from = &r->body->values[instr->v];
	const struct instr *maker = from->from == FROM_INSTR ? &r->body->instrs[from->instr] : NULL;
	struct reading *reading = &r->of[ref->param];
	const bool product = maker && maker->kind == INSTR_VJP && maker->out_a == instr->v && ref->count == 0 &&
	                     product_in_pieces(maker->op, maker->of.v, maker->of.a);
	reading->otherwise |= !product || reading->made;
	reading->made = true;
}

static void find_readers(const struct readings *r)
{
	int loops = 0;
	for (uint32_t i = 0; i < r->body->instr_count; i++) {
		const struct instr *instr = &r->body->instrs[i];
		uint32_t reads[INSTR_READS];
		const size_t count = instr_reads(instr, reads);
		loops += (instr->kind == INSTR_LOOP) - (instr->kind == INSTR_END);
		const bool product = (instr->kind == INSTR_OP || instr->kind == INSTR_VJP) && !loops && instr->v != instr->a;
		for (size_t k = 0; k < count; k++)
			note_reader(r, reads[k], product && reads[k] == instr->a ? instr : NULL);
		for (uint32_t c = 0; instr->kind == INSTR_LOOP && c < instr->loop.carry_count; c++) {
			note_reader(r, instr->loop.carries[c].init, NULL);
			note_reader(r, instr->loop.carries[c].result, NULL);
		}
		if (instr->kind == INSTR_ACCUMULATE)
			note_addition(r, instr);
	}
	for (size_t i = 0; i < r->body->out_count; i++)
		note_reader(r, r->body->outs[i].value, NULL);
}

/* Returns a thread's memory for blocks of param INDEX if its reader can read it in its file; else 0. */
static int64_t block_bytes(const struct run *run, size_t index, const struct reading *reading)
{
	const struct type type = bound_type(&run->params->bound[index]);
	const int lanes = (int)greater(run->options->job.threads, 1);
	const struct instr *by = reading->reader;
	if (!by || reading->otherwise)
		return 0;
	const int64_t bytes = product_rows_bytes(by->op, PART_RESULT, by->of.v, &type, lanes);
	const int64_t back = run->gradient ? product_rows_bytes(by->op, PART_LEFT, by->of.v, &type, lanes) : bytes;
	return bytes && back ? greater(bytes, back) : 0;
}

/* Lets param INDEX stay in its file. If MADE, its gradient goes to where it stays. */
static enum status open_operand(struct run *run, size_t index, bool made)
{
	struct bound_param *bound = &run->params->bound[index];
	const struct type type = bound_type(bound);
	struct stored_operand *operand = arena_alloc(run->context.arena, sizeof *operand);
	TRY_ALLOC(operand, run->context.diags);
	*operand = (struct stored_operand){.param = index, .gradient = made ? run->gradient->options : NULL};
	TRY(stored_read_open(&operand->read, run->params->stored[index], &run->context));
	operand->rows = (struct operand_rows){.read = read_rows,
	                                      .write = made ? write_rows : NULL,
	                                      .context = operand,
	                                      .lanes = (int)greater(run->options->job.threads, 1)};
	operand->columns = type.shape.dim[type.shape.ndim - 1];
	operand->size = (int64_t)dtype_size(type.dtype);
	bound->stored = operand;
	return STATUS_OK;
}

/* True if the gradient of param INDEX, if it has one, can go to where it stays. */
static bool may_leave(const struct run *run, size_t index, const struct reading *reading)
{
	if (!run->gradient)
		return true;
	const struct gradient_options *options = run->gradient->options;
	const struct sums *sums = &run->gradient->job->sums;
	if (sums->kinds[index] == SUM_NONE)
		return sums->once[index];
	return sums->kinds[index] == SUM_ONCE && reading->made && options->begin_rows &&
	       options->begin_rows(options->rows_context, index);
}

/* Loads all params that are left in their files, but those of READINGS, if not NULL, whose products read them there. */
static enum status load_others(struct run *run, const struct reading *readings)
{
	struct params *params = run->params;
	struct team *team;
	int64_t most = 0;
	TRY(team_open(&team, run->options->job.threads, 0, run->context.allocator, run->context.diags));
	enum status status = STATUS_OK;
	for (size_t i = 0; i < params->count && !status; i++) {
		params->bound[i].stored = NULL;
		const int64_t bytes = params->stored[i] && readings ? block_bytes(run, i, &readings[i]) : 0;
		if (bytes && may_leave(run, i, &readings[i]))
			status = open_operand(run, i, readings[i].made);
		else if (params->stored[i])
			status = params_load(&run->context, params, run->chain, i, team);
		if (params->bound[i].stored && run->forward)
			run->forward->bytes -= params->stored[i]->bytes;
		most = params->bound[i].stored ? greater(most, bytes) : most;
	}
	team_close(team);
	TRY(status);
	const int64_t all = most * greater(run->options->job.threads, 1);
	if (all)
		TRY(slab_get(&run->blocks, all, run->context.allocator, run->context.diags));
	for (size_t i = 0; i < params->count; i++)
		if (params->bound[i].stored) {
			params->bound[i].stored->rows.blocks = run->blocks.base;
			params->bound[i].stored->rows.bytes = most;
		}
	if (run->forward)
		run->forward->bytes += all;
	return STATUS_OK;
}

/* True if nothing but products of whole arrays reads params, and they are read for this array alone. */
static bool may_stay(const struct run *run)
{
	const struct tiles *tiles = run->tiles;
	if (run->ranks || run->programs || tiles->block || tiles->windows || tiles->folds || tiles->rows > tiles->tile)
		return false;
	if (!run->gradient)
		return run->forward->counters->arrays == 0;
	const struct gradient_options *options = run->gradient->options;
	return !options->journal && !options->compare && !run->chain->has_conditions && !run->gradient->job->passes &&
	       run->gradient->result->arrays == 0 && reader_is_last(run->reader);
}

enum status stored_operands_open(struct run *run, const struct body *body)
{
	const struct params *params = run->params;
	bool any = false;
	for (size_t i = 0; i < params->count; i++)
		any |= params->stored[i] != NULL;
	if (!any)
		return STATUS_OK;
	if (!may_stay(run))
		return load_others(run, NULL);
	struct readings readings = {.body = body,
	                            .of = arena_array(run->context.arena, params->count, sizeof *readings.of)};
	TRY_ALLOC(readings.of, run->context.diags);
	TRY(blas_load(run->options->job.threads, run->context.diags));
	if (body)
		find_readers(&readings);
	const struct compiled_chain *compiled = body ? NULL : &run->gradient->job->tile.compiled;
	for (size_t i = 0; compiled && i < compiled->lowered->distinct_count; i++) {
		readings.step = compiled->lowered->distinct[i];
		const struct body *const bodies[] = {readings.step->body,
		                                     compiled_step_of(compiled, readings.step)->linear.backward};
		for (int k = 0; k < 2; k++) {
			readings.body = bodies[k];
			find_readers(&readings);
		}
	}
	return load_others(run, readings.of);
}
