/*
 * Params that a run leaves in their files. A large param that is read once need not be in memory. There are two ways
 * to read it.
 *
 *     in blocks   The array is one tile, and one product alone reads the param, as the weights of a layer. The product
 *                 reads the rows of the matrix in blocks (product_from_rows). So does the product's derivative by the
 *                 value. The derivative by the param is the whole gradient: its rows go to where they stay (struct
 *                 gradient_options).
 *     in parts    A part is one index of the param's leading axis, as a row of a `for`. Before a launch, the evaluator
 *                 reads the part to a buffer, which the next part gets too. Products of a worker share one buffer,
 *                 since they run one after another. Of other operations, several may need their parts at once, so
 *                 each param has a buffer.
 *
 * A forward run may have a few tiles, and each of them reads the parts again. A copy from the page cache costs less than the
 * first touch of as much memory. A gradient leaves consts in their files if no derivative reads them and the schedule
 * executes each step once.
 *
 * Invariant: each tile reads such a param from its first byte to its last, each byte once, so that its checksum is
 * known. So a param is loaded if an operation that reads it is left out, because nobody needs its result. The array is
 * the first of the stream: another array that follows finds all params in memory. The plan does not know of params in
 * files: it counts the gradients' memory, of which blocks take less.
 * Tests: tests/cases/stored.test
 */
#include <string.h>

#include "base/checked.h"
#include "evaluate/stored.h"
#include "exec/run_state.h"
#include "ir/reads.h"

void stored_operands_aim(struct worker *worker)
{
	for (size_t i = 0; i < worker->run->params->count; i++) {
		struct stored_operand *const first = worker->run->bound[i].stored;
		worker->params[i].stored = first && first->buffer ? first + worker->index : first;
	}
}

/*
 * What reads a param. Either products have it WHOLE as their operand, READER the first. Or operations read parts of it,
 * the first PARTS so far, in their order.
 */
struct reading {
	const struct instr *reader;
	int64_t parts, latest;       /* LATEST: the first of the parts that the last operation reads */
	const void *loop;            /* that the operation is in; NULL: it reads one part */
	size_t body;                 /* that has the operation: its number */
	bool several;                /* a body reads several parts, without a loop over them */
	bool apart;                  /* a part must stay while another param's is read: not one product alone reads it */
	bool whole, made, otherwise; /* MADE: a product's derivative is the param's gradient */
};

/* Which parts the operations of a body may read: those that follow, those that have just been noted, or none. */
enum may_read { READ_NEXT_PARTS, READ_SAME_PARTS, READ_NO_PARTS };

/* READINGS by param, of a forward run's body, or of the bodies of a gradient's steps. */
struct readings {
	struct reads reads;
	size_t body; /* the number of the body that is read */
	enum may_read may;
	bool steps; /* may run a product again, or backward */
	bool skips; /* operations that are left out */
	struct reading *of;
};

/*
 * Notes that the operation of READ reads the part REF, or part after part if a loop's counter is the index of REF.
 * ALONE: it is a product by the part. Returns false if these parts neither follow those of READING nor are the last of
 * them.
 */
static bool note_parts(const struct readings *r, struct reading *reading, const struct param_read *read, bool alone)
{
	const struct loop_around *loop = r->reads.depth > 0 ? r->reads.loops : NULL;
	const struct param_ref *ref = read->ref;
	const bool checked = op_has_classes(read->by->op); /* params_check reads the classes */
	if (r->may == READ_NO_PARTS || read->by->kind != INSTR_OP || instr_use(read->by) || checked || ref->count != 1 ||
	    r->reads.depth > 1 || ref->index->loop != (loop ? loop->level : -1))
		return false;
	const int64_t first = ref->index->value + (loop ? loop->first : 0);
	const bool again = reading->parts > 0 && first == reading->latest && (loop ? loop->loop : NULL) == reading->loop;
	if (!again && (r->may == READ_SAME_PARTS || first != reading->parts))
		return false;
	reading->several |= !again && reading->parts > 0 && reading->body == r->body;
	reading->apart |= again || !alone;
	reading->parts += again ? 0 : loop ? loop->iterations : 1;
	reading->latest = first;
	reading->loop = loop ? loop->loop : NULL;
	reading->body = r->body;
	return true;
}

/* Notes READ. RUNS: an operation reads, and may run. */
static void note_read(const struct readings *r, const struct param_read *read, bool runs)
{
	struct reading *reading = &r->of[read->ref->param];
	const struct instr *by = read->by, *before = reading->reader;
	const bool product = runs && read_is_operand(read);
	const bool alone = product && product_rows(by->op, by->of.v, by->of.a) > 0;
	const bool same = before && product && r->steps && before->op == by->op && type_equal(before->of.v, by->of.v);
	const bool whole = product && read->ref->count == 0 && r->reads.depth == 0 && (!before || same);
	const bool part = runs && !whole && note_parts(r, reading, read, alone);
	reading->otherwise |= (!whole && !part) || (whole ? reading->parts > 0 : reading->whole);
	reading->whole |= whole;
	reading->reader = before ? before : product ? by : NULL;
}

/* Notes an addition to a gradient: a derivative that a product makes may go to its file. */
static void note_addition(const struct readings *r, const struct param_read *read)
{
	const struct body *body = r->reads.body;
	const struct value *from = &body->values[read->by->v];
	const struct instr *maker = from->from == FROM_INSTR ? &body->instrs[from->instr] : NULL;
	struct reading *reading = &r->of[read->ref->param];
	const bool product = maker && maker->kind == INSTR_VJP && maker->out_a == read->by->v && read->ref->count == 0 &&
	                     product_in_pieces(maker->op, maker->of.v, maker->of.a);
	reading->otherwise |= !product || reading->made;
	reading->made = true;
}

/* Notes what reads params in BODY, whose step has the particulars OWN. */
static enum status note_body(struct readings *r, const struct body *body, const struct particulars *own,
                             const struct context *context)
{
	const bool *live = body_find_live(body, context->arena);
	struct param_read read;
	TRY_ALLOC(live, context->diags);
	r->body++;
	for (reads_begin(&r->reads, body, own); reads_next(&r->reads, &read);) {
		const bool runs = read.by && live[read.by - body->instrs];
		if (read.adds)
			note_addition(r, &read);
		else if (runs || !read.by || !r->skips)
			note_read(r, &read, runs);
	}
	return STATUS_OK;
}

/* Notes what STEP reads. UNWANTED: one execution makes only what the derivative needs, and must read the same parts. */
static enum status note_step(struct readings *r, const struct run *run, const struct step *step, bool unwanted)
{
	const struct job *job = run->gradient->job;
	const struct linear *linear = &compiled_step_of(&job->tile.compiled, step)->linear;
	const bool once = job->predicted.evaluations == job->predicted.steps;
	r->may = once ? READ_NEXT_PARTS : READ_NO_PARTS;
	r->skips = true;
	if (unwanted)
		TRY(note_body(r, linear->record_only, &step->own, &run->context));
	r->skips = false;
	if (once && unwanted)
		r->may = READ_SAME_PARTS;
	TRY(note_body(r, linear->record, &step->own, &run->context));
	r->may = READ_NO_PARTS;
	return note_body(r, linear->backward, &step->own, &run->context);
}

/* Notes what the steps of COUNT ITEMS read. LAST: nobody needs the result of the last of them. */
static enum status note_items(struct readings *r, const struct run *run, const struct item *items, size_t count,
                              bool last)
{
	for (size_t i = 0; i < count; i++) {
		const struct item *item = &items[i];
		const bool unwanted = last && i + 1 == count;
		if (item->step) {
			TRY(note_step(r, run, item->step, unwanted));
			continue;
		}
		reads_enter(&r->reads, item, item->level, item->first, item->iterations);
		TRY(note_items(r, run, item->items, item->count, unwanted));
		r->reads.depth--;
	}
	return STATUS_OK;
}

static bool is_one_tile(const struct tiles *tiles) { return tiles->rows <= tiles->tile; }

/* Returns a thread's memory for blocks of param INDEX if its reader can read it in its file by blocks; else 0. */
static int64_t block_bytes(const struct run *run, size_t index, const struct reading *reading)
{
	enum { LEAST_BYTES = 4 << 20 }; /* of the param */
	const struct type type = bound_type(&run->bound[index]);
	const int threads = (int)greater(run->options->job.threads, 1);
	const struct instr *by = reading->reader;
	if (!by || reading->otherwise || !reading->whole || !is_one_tile(run->tiles) || type_bytes(&type) < LEAST_BYTES)
		return 0;
	const int64_t bytes = product_rows_bytes(by->op, PART_RESULT, by->of.v, &type, threads);
	const int64_t back = run->gradient ? product_rows_bytes(by->op, PART_LEFT, by->of.v, &type, threads) : bytes;
	return bytes && back ? greater(bytes, back) : 0;
}

/* Returns a worker's memory for parts of param INDEX if its readers can read it in its file by parts; else 0. */
static int64_t buffer_bytes(const struct run *run, size_t index, const struct reading *reading)
{
	/* A smaller part costs more time than the memory that it saves. Of small parts, so many bytes are read at once. */
	enum { LEAST_PART = 1 << 10, MANY_BYTES = 64 << 10 };
	const struct type type = bound_type(&run->bound[index]);
	if (!run->params->stored[index] || reading->otherwise ||
	    (run->tiles->tiled && run->whole->streamed_params[index]) ||
	    (run->gradient && (reading->whole || run->gradient->job->sums.kinds[index] != SUM_NONE)))
		return 0;
	if (reading->whole)
		return product_rows(reading->reader->op, reading->reader->of.v, reading->reader->of.a) ? type_bytes(&type) : 0;
	if (reading->parts == 0 || reading->parts != type.shape.dim[0] || (reading->apart && reading->several))
		return 0;
	const int64_t part = type_bytes(&type) / reading->parts;
	return part < LEAST_PART ? 0 : reading->apart ? greater(part, MANY_BYTES / part * part) : part;
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
	return sums->kinds[index] == SUM_ONCE && reading->made && options->rows.begin &&
	       options->rows.begin(options->rows.context, index);
}

/* How params are read in their files. A worker has MEMORY for parts, whose first SHARED bytes params share. */
struct stays {
	struct reading *readings; /* by param */
	int64_t *parts;           /* by param: bytes of a buffer for parts; 0: it is not read by parts */
	int64_t *blocks;          /* by param: bytes of a thread's memory for blocks; 0: it is not read by blocks */
	int64_t memory, shared;
	int64_t block; /* the most of BLOCKS */
};

/* Chooses the params that are read by parts, unless that saves too little. */
static void choose_parts(const struct run *run, struct stays *stays)
{
	int64_t all = 0;
	for (size_t i = 0; i < run->params->count; i++) {
		const bool own = stays->readings[i].apart;
		const int64_t bytes = stays->blocks[i] ? 0 : buffer_bytes(run, i, &stays->readings[i]);
		const int64_t memory = round_up(bytes, ARRAY_ALIGN);
		stays->parts[i] = bytes;
		all += bytes ? run->params->stored[i]->bytes : 0;
		stays->memory += own ? memory : 0;
		stays->shared = own ? stays->shared : greater(stays->shared, memory);
	}
	stays->memory += stays->shared;
	if (all / 2 < stays->memory * run->tiles->workers) {
		stays->memory = 0;
		memset(stays->parts, 0, run->params->count * sizeof *stays->parts);
	}
}

/* Lets param INDEX stay in its file, to be read by blocks. If MADE, its gradient goes to where it stays. */
static enum status leave_in_file(struct run *run, size_t index, bool made)
{
	struct bound_param *bound = &run->bound[index];
	const struct type type = bound_type(bound);
	struct stored_operand *operand = arena_alloc(run->context.arena, sizeof *operand);
	TRY_ALLOC(operand, run->context.diags);
	*operand = (struct stored_operand){.param = index, .gradient = made ? &run->gradient->options->rows : NULL};
	TRY(stored_read_open(&operand->read, run->params->stored[index], &run->context));
	stored_set_blocks(operand, &type, (int)greater(run->options->job.threads, 1));
	bound->stored = operand;
	return STATUS_OK;
}

/* Lets param INDEX stay in its file, to be read by parts. Each worker has a struct of its own. */
static enum status open_parts(struct run *run, size_t index, int64_t buffer)
{
	const struct stored_array *stored = run->params->stored[index];
	struct stored_operand *operands = arena_array(run->context.arena, (size_t)run->tiles->workers, sizeof *operands);
	TRY_ALLOC(operands, run->context.diags);
	for (int i = 0; i < run->tiles->workers; i++) {
		operands[i] = (struct stored_operand){.param = index, .most = buffer, .buffer = &operands[i].own};
		TRY(stored_read_open(&operands[i].read, stored, &run->context));
	}
	run->bound[index].stored = operands;
	return STATUS_OK;
}

/* Gives worker INDEX the buffers that MEMORY has. */
static enum status place_buffers(const struct run *run, int index, char *memory)
{
	const struct stays *stays = run->stays;
	struct part_buffer *const shared = arena_alloc(run->context.arena, sizeof *shared);
	TRY_ALLOC(shared, run->context.diags);
	shared->memory = memory;
	memory += stays->shared;
	for (size_t i = 0; i < run->params->count; i++) {
		if (!stays->parts[i])
			continue;
		struct stored_operand *const operand = run->bound[i].stored + index;
		if (!stays->readings[i].apart) {
			operand->buffer = shared;
			continue;
		}
		operand->own.memory = memory;
		memory += round_up(stays->parts[i], ARRAY_ALIGN);
	}
	return STATUS_OK;
}

/* Gives the params that stay in their files memory: buffers to each worker, and blocks to each thread. */
static enum status get_memory(struct run *run)
{
	const struct stays *stays = run->stays;
	const int64_t parts = stays->memory * run->tiles->workers, all = stored_bytes(run);
	if (all)
		TRY(slab_get(&run->blocks, all, run->context.allocator, run->context.diags));
	for (int k = 0; stays->memory && k < run->tiles->workers; k++)
		TRY(place_buffers(run, k, run->blocks.base + k * stays->memory));
	for (size_t i = 0; i < run->params->count; i++) {
		if (stays->blocks[i]) {
			run->bound[i].stored->rows.blocks = run->blocks.base + parts;
			run->bound[i].stored->rows.bytes = stays->block;
		}
	}
	return STATUS_OK;
}

static enum status load_param(struct run *run, size_t index, struct team *team)
{
	TRY(params_load(&run->context, run->params, run->chain, index, team));
	run->bound[index].data = run->params->bound[index].data;
	return STATUS_OK;
}

enum status stored_operands_open(struct run *run)
{
	const struct stays *stays = run->stays;
	struct team *team;
	if (!stays)
		return STATUS_OK;
	TRY(team_open(&team, run->options->job.threads, 0, run->context.allocator, run->context.diags));
	enum status status = STATUS_OK;
	for (size_t i = 0; i < run->params->count && !status; i++) {
		run->bound[i].stored = NULL;
		if (stays->parts[i])
			status = open_parts(run, i, stays->parts[i]);
		else if (stays->blocks[i])
			status = leave_in_file(run, i, stays->readings[i].made);
		else if (run->params->stored[i])
			status = load_param(run, i, team);
	}
	team_close(team);
	TRY(status);
	return get_memory(run);
}

/* True if this array alone reads the params, in few tiles, and nothing but the programs of a tile need have them. */
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

/* Chooses how params are read in their files, by READINGS. */
static void choose_stays(const struct run *run, struct stays *stays)
{
	for (size_t i = 0; i < run->params->count; i++) {
		const struct reading *reading = &stays->readings[i];
		const int64_t bytes = run->params->stored[i] ? block_bytes(run, i, reading) : 0;
		stays->blocks[i] = bytes && may_leave(run, i, reading) ? bytes : 0;
		stays->block = greater(stays->block, stays->blocks[i]);
	}
	choose_parts(run, stays);
}

/* Finds what reads the params of RUN: instructions of BODY or, if that is NULL, of a gradient's steps. */
static enum status find_readings(const struct run *run, const struct body *body, struct reading *readings)
{
	struct readings found = {.may = run->chain->has_conditions ? READ_NO_PARTS : READ_NEXT_PARTS, .of = readings};
	if (body)
		return note_body(&found, body, NULL, &run->context);
	const struct lowered *lowered = run->gradient->job->tile.compiled.lowered;
	found.steps = true;
	return note_items(&found, run, lowered->items, lowered->item_count, run->options->value == NULL);
}

enum status stored_operands_plan(struct run *run, const struct body *body)
{
	const struct params *params = run->params;
	struct arena *arena = run->context.arena;
	bool any = false;
	run->stays = NULL;
	for (size_t i = 0; i < params->count; i++)
		any |= params->stored[i] != NULL;
	if (!any)
		return STATUS_OK;
	struct stays *stays = arena_alloc(arena, sizeof *stays);
	TRY_ALLOC(stays, run->context.diags);
	*stays = (struct stays){.readings = arena_array(arena, params->count, sizeof *stays->readings),
	                        .parts = arena_array(arena, params->count, sizeof *stays->parts),
	                        .blocks = arena_array(arena, params->count, sizeof *stays->blocks)};
	TRY_ALLOC(stays->readings && stays->parts && stays->blocks, run->context.diags);
	run->stays = stays;
	if (!may_stay(run))
		return STATUS_OK;
	TRY(blas_load(LIBRARY_PRODUCTS, run->options->job.threads, run->context.diags));
	TRY(find_readings(run, body, stays->readings));
	choose_stays(run, stays);
	return STATUS_OK;
}

int64_t stored_bytes(const struct run *run)
{
	const struct stays *stays = run->stays;
	return stays ? stays->memory * run->tiles->workers + stays->block * greater(run->options->job.threads, 1) : 0;
}

int64_t stored_left(const struct run *run)
{
	int64_t bytes = 0;
	for (size_t i = 0; run->stays && i < run->params->count; i++)
		if (run->stays->parts[i] || run->stays->blocks[i])
			bytes += run->params->stored[i]->bytes;
	return bytes;
}
