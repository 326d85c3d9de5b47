/*
 * Params that a run leaves in their files. A large param that one product alone reads, once, as the weights of a layer,
 * need not be in memory. There are two ways to read it.
 *
 *     in blocks   The array is one tile. The product reads the rows of the matrix in blocks (product_from_rows). So does
 *                 the product's derivative by the value. The derivative by the param is the whole gradient: its rows go
 *                 to where they stay (struct gradient_options).
 *     in parts    A forward run has few tiles. The product reads the matrix to memory that all products of a worker use,
 *                 one after another. In a `for`, the matrix is one part of a stacked param. The copy from the page cache
 *                 costs less than the first touch of as much memory, so a few tiles may each read the file again.
 *
 * Invariant: in each tile such a param is read from its first byte to its last, each byte once, so that its checksum is
 * known. So a param is loaded if a product by it is left out, because nobody needs its result. The array is the first of
 * the stream: another array that follows finds all params in memory. The plan does not know of params in files: it counts
 * the gradients' memory, of which blocks take less.
 */
#include <string.h>

#include "base/checked.h"
#include "exec/run_parts.h"

struct stored_operand {
	struct stored_read read;
	struct operand_rows rows;
	int64_t columns, size; /* of the matrix; bytes of an element */
	void *part;            /* memory for a part, of the worker that has this struct; NULL: blocks are read */
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

struct stored_operand *stored_operand_of(struct stored_operand *operand, int worker)
{
	return operand && operand->part ? operand + worker : operand;
}

bool stored_in_parts(const struct stored_operand *operand) { return operand->part; }

enum status stored_read_operand(struct stored_operand *operand, int64_t at, int64_t bytes, struct team *team,
                                const void **part, struct diags *diags)
{
	*part = operand->part;
	if (stored_read_bytes(&operand->read, at, bytes, operand->part, team) && at + bytes < operand->read.array->bytes)
		return STATUS_OK;
	return stored_read_end(&operand->read, diags);
}

/*
 * What reads a param: live products, as their operand, READER the first. WHOLE: it reads the param at once; else PARTS have
 * been read, in their order. MADE: a product's derivative is the param's gradient.
 */
struct reading {
	const struct instr *reader;
	int64_t parts;
	bool whole, made, otherwise;
};

/* READINGS by param, of a forward run's body, or (STEP) of the bodies of a gradient's steps. */
struct readings {
	const struct step *step;
	const struct body *body;
	bool counted; /* loops run all their iterations */
	struct reading *of;
};

/* The loops around an instruction: their number, and the iterations of the outermost. */
struct loops_around {
	uint32_t count;
	int64_t iterations;
};

/* Returns the part of a param that VALUE is; NULL if it is none. */
static const struct param_ref *part_of(const struct readings *r, uint32_t value)
{
	const struct value *of = value == NO_VALUE ? NULL : &r->body->values[value];
	if (!of || of->from != FROM_PARAM)
		return NULL;
	return r->step ? step_param(r->step, &of->param) : &of->param;
}

/*
 * Returns how many parts of a param the product BY in LOOPS reads, of which REF is the first or the only one, each once. 0 if
 * they are none, or not parts from FIRST on.
 */
static int64_t parts_read(const struct readings *r, const struct param_ref *ref, const struct instr *by,
                          const struct loops_around *loops, int64_t first)
{
	const bool looped = loops->count > 0;
	if (ref->count != 1 || loops->count > 1 || (looped && !r->counted) || ref->index->value != first ||
	    ref->index->loop != (looped ? 0 : -1) || product_rows(by->op, by->of.v, by->of.a) == 0)
		return 0;
	return looped ? loops->iterations : 1;
}

/*
 * Notes a reader of VALUE in LOOPS: the product BY, or, if BY is NULL, something else. Steps may run a product again, or
 * backward.
 */
static void note_reader(const struct readings *r, uint32_t value, const struct instr *by,
                        const struct loops_around *loops)
{
	const struct param_ref *ref = part_of(r, value);
	if (!ref)
		return;
	struct reading *reading = &r->of[ref->param];
	const struct instr *before = reading->reader;
	const bool same = before && by && r->step && before->op == by->op && type_equal(before->of.v, by->of.v);
	const bool whole = by && ref->count == 0 && loops->count == 0 && (!before || same);
	const int64_t parts = by && !r->step ? parts_read(r, ref, by, loops, reading->parts) : 0;
	reading->otherwise |= (!whole && parts == 0) || (before && whole != reading->whole);
	reading->whole = whole;
	reading->parts += parts;
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

static enum status find_readers(const struct readings *r, const struct context *context)
{
	const bool *live = body_find_live(r->body, context->arena);
	TRY_ALLOC(live, context->diags);
	struct loops_around loops = {0, 0};
	for (uint32_t i = 0; i < r->body->instr_count; i++) {
		const struct instr *instr = &r->body->instrs[i];
		uint32_t reads[INSTR_READS];
		const size_t count = instr_reads(instr, reads);
		if (instr->kind == INSTR_LOOP && loops.count++ == 0)
			loops.iterations = instr->loop.iterations;
		loops.count -= instr->kind == INSTR_END;
		const bool product = (instr->kind == INSTR_OP || instr->kind == INSTR_VJP) && instr->v != instr->a && live[i];
		for (size_t k = 0; k < count; k++)
			note_reader(r, reads[k], product && reads[k] == instr->a ? instr : NULL, &loops);
		for (uint32_t c = 0; instr->kind == INSTR_LOOP && c < instr->loop.carry_count; c++) {
			note_reader(r, instr->loop.carries[c].init, NULL, &loops);
			note_reader(r, instr->loop.carries[c].result, NULL, &loops);
		}
		if (instr->kind == INSTR_ACCUMULATE)
			note_addition(r, instr);
	}
	for (size_t i = 0; i < r->body->out_count; i++)
		note_reader(r, r->body->outs[i].value, NULL, &loops);
	return STATUS_OK;
}

static bool is_one_tile(const struct tiles *tiles) { return tiles->rows <= tiles->tile; }

/* Returns a thread's memory for blocks of param INDEX if its reader can read it in its file by blocks; else 0. */
static int64_t block_bytes(const struct run *run, size_t index, const struct reading *reading)
{
	enum { LEAST_BYTES = 4 << 20 }; /* of the param */
	const struct type type = bound_type(&run->params->bound[index]);
	const int lanes = (int)greater(run->options->job.threads, 1);
	const struct instr *by = reading->reader;
	if (!by || reading->otherwise || !reading->whole || !is_one_tile(run->tiles) || type_bytes(&type) < LEAST_BYTES)
		return 0;
	const int64_t bytes = product_rows_bytes(by->op, PART_RESULT, by->of.v, &type, lanes);
	const int64_t back = run->gradient ? product_rows_bytes(by->op, PART_LEFT, by->of.v, &type, lanes) : bytes;
	return bytes && back ? greater(bytes, back) : 0;
}

/* Returns a worker's memory for a part of param INDEX if its reader can read it in its file by parts; else 0. */
static int64_t part_bytes(const struct run *run, size_t index, const struct reading *reading)
{
	const struct instr *by = reading->reader;
	if (run->gradient || !run->params->stored[index] || !by || reading->otherwise ||
	    (run->tiles->tiled && run->forward->whole.streamed_params[index]))
		return 0;
	if (reading->whole)
		return product_rows(by->op, by->of.v, by->of.a) > 0 ? type_bytes(by->of.a) : 0;
	return reading->parts == run->params->bound[index].shape->dim[0] ? type_bytes(by->of.a) : 0;
}

/* Returns a worker's memory for parts of params; 0: no param is read by parts, since that saves too little. */
static int64_t parts_memory(const struct run *run, const struct reading *readings)
{
	int64_t all = 0, most = 0;
	for (size_t i = 0; i < run->params->count; i++) {
		const int64_t bytes = part_bytes(run, i, &readings[i]);
		if (bytes == 0 || block_bytes(run, i, &readings[i]))
			continue;
		all += run->params->stored[i]->bytes;
		most = greater(most, round_up(bytes, ARRAY_ALIGN));
	}
	return all / 2 >= most * run->tiles->workers ? most : 0;
}

/* Lets param INDEX stay in its file, to be read by blocks. If MADE, its gradient goes to where it stays. */
static enum status open_blocks(struct run *run, size_t index, bool made)
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

/* Lets param INDEX stay in its file, to be read by parts. Each worker has a struct of its own. */
static enum status open_parts(struct run *run, size_t index)
{
	const struct stored_array *stored = run->params->stored[index];
	struct stored_operand *operands = arena_array(run->context.arena, (size_t)run->tiles->workers, sizeof *operands);
	TRY_ALLOC(operands, run->context.diags);
	for (int i = 0; i < run->tiles->workers; i++)
		TRY(stored_read_open(&operands[i].read, stored, &run->context));
	run->params->bound[index].stored = operands;
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

/* Gives the params that stay in their files memory: PART bytes for each worker, and BLOCK for each thread. */
static enum status get_memory(struct run *run, const bool *in_parts, int64_t part, int64_t block)
{
	const struct params *params = run->params;
	const int64_t parts = part * run->tiles->workers, all = parts + block * greater(run->options->job.threads, 1);
	if (all)
		TRY(slab_get(&run->blocks, all, run->context.allocator, run->context.diags));
	for (size_t i = 0; i < params->count; i++) {
		struct stored_operand *const operand = params->bound[i].stored;
		for (int k = 0; operand && in_parts[i] && k < run->tiles->workers; k++)
			operand[k].part = run->blocks.base + k * part;
		if (operand && !in_parts[i]) {
			operand->rows.blocks = run->blocks.base + parts;
			operand->rows.bytes = block;
		}
	}
	if (run->forward)
		run->forward->bytes += all;
	return STATUS_OK;
}

/* Loads all params that are left in their files, but those of READINGS, if not NULL, whose products read them there. */
static enum status load_others(struct run *run, const struct reading *readings)
{
	struct params *params = run->params;
	struct team *team;
	bool *const in_parts = arena_array(run->context.arena, params->count, sizeof *in_parts);
	TRY_ALLOC(in_parts, run->context.diags);
	const int64_t part = readings ? parts_memory(run, readings) : 0;
	int64_t block = 0;
	bool any = false;
	TRY(team_open(&team, run->options->job.threads, 0, run->context.allocator, run->context.diags));
	enum status status = STATUS_OK;
	for (size_t i = 0; i < params->count && !status; i++) {
		params->bound[i].stored = NULL;
		const int64_t bytes = params->stored[i] && readings ? block_bytes(run, i, &readings[i]) : 0;
		in_parts[i] = part && !bytes && part_bytes(run, i, &readings[i]);
		any |= in_parts[i];
		if (in_parts[i])
			status = open_parts(run, i);
		else if (bytes && may_leave(run, i, &readings[i]))
			status = open_blocks(run, i, readings[i].made);
		else if (params->stored[i])
			status = params_load(&run->context, params, run->chain, i, team);
		if (params->bound[i].stored && run->forward)
			run->forward->bytes -= params->stored[i]->bytes;
		if (params->bound[i].stored && !in_parts[i])
			block = greater(block, bytes);
	}
	team_close(team);
	TRY(status);
	return get_memory(run, in_parts, any ? part : 0, block);
}

/* True if this array alone reads the params, in few tiles, and nothing but the products of a tile need have them. */
static bool may_stay(const struct run *run)
{
	enum { MOST_TILES = 4 }; /* more reads of the file cost as much as memory for it */
	const struct tiles *tiles = run->tiles;
	if (run->ranks || run->programs || tiles->block || tiles->windows || tiles->folds ||
	    ceil_div(tiles->rows, tiles->tile) > MOST_TILES)
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
	                            .counted = !run->chain->has_conditions,
	                            .of = arena_array(run->context.arena, params->count, sizeof *readings.of)};
	TRY_ALLOC(readings.of, run->context.diags);
	TRY(blas_load(run->options->job.threads, run->context.diags));
	if (body)
		TRY(find_readers(&readings, &run->context));
	const struct compiled_chain *compiled = body ? NULL : &run->gradient->job->tile.compiled;
	for (size_t i = 0; compiled && i < compiled->lowered->distinct_count; i++) {
		readings.step = compiled->lowered->distinct[i];
		const struct body *const bodies[] = {readings.step->body,
		                                     compiled_step_of(compiled, readings.step)->linear.backward};
		for (int k = 0; k < 2; k++) {
			readings.body = bodies[k];
			TRY(find_readers(&readings, &run->context));
		}
	}
	return load_others(run, readings.of);
}
