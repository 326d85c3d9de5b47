/*
 * The rows of the inputs. A file has them at their places. A stream is read once, in order. The rows of a chunk are read of
 * each input that tiles cut. Other inputs are loaded whole.
 *
 * A tile that reads neighbouring rows has a window (plan/tiles.h). Of a file, one that goes around the end of the array is
 * read in two parts. Of a stream, a window begins with the last rows of the one before, which still lies in its worker's
 * input block. If windows go around the end of the array, a stream is copied to an unnamed file first. If several passes
 * read the array (exec/passes.h), the first of them copies it.
 * Tests: tests/unit/test_windows.c, tests/cases/windows.test, tests/cases/inputs.test
 */
#include <string.h>

#include "base/checked.h"
#include "exec/run_state.h"

/* True if the rows that are read now are appended to a copy. */
static bool is_copying(const struct rows_in *in) { return in->copy.fd >= 0 && !in->copy.complete; }

/* Reads COUNT rows from row FIRST of the array of IN on to TO. */
static enum status read_consecutive(struct rows_in *in, int64_t first, int64_t count, char *to, struct diags *diags)
{
	const int64_t size = (int64_t)dtype_size(in->dtype), elements = count * (in->row / size);
	if (in->copy.fd >= 0 && in->copy.complete)
		return input_copy_read(&in->copy, first * in->row, to, count * in->row, diags);
	if (in->anywhere)
		return reader_read_at(in->from, in->first + first * (in->row / size), to, in->dtype, elements, diags);
	TRY(reader_read(in->from, to, in->dtype, elements, diags));
	return is_copying(in) ? input_copy_write(&in->copy, to, count * in->row, diags) : STATUS_OK;
}

/* Reads COUNT rows of IN from row FIRST on, around the ends of the array, to TO. */
static enum status read_around(const struct run *run, struct rows_in *in, struct owned_rows rows, char *to,
                               struct diags *diags)
{
	const struct tiles *tiles = run->tiles;
	const int64_t first = (rows.first + tiles->rows) % tiles->rows, behind = lesser(rows.count, tiles->rows - first);
	TRY(read_consecutive(in, first, behind, to, diags));
	return behind < rows.count ? read_consecutive(in, 0, rows.count - behind, to + behind * in->row, diags) : STATUS_OK;
}

enum status rows_in_read(struct run *run, int64_t first, int64_t count, char *to, struct diags *diags)
{
	return read_around(run, &run->in, (struct owned_rows){first, count}, to, diags);
}

/* Returns where the rows of IN lie in the blocks of worker INDEX. */
static char *rows_at(const struct run *run, const struct rows_in *in, int index)
{
	const struct worker *worker = &run->workers[index];
	return in == &run->in ? worker->input : worker->others + in->at;
}

/* Returns input K of those that are read by rows: 0 is the first. */
static struct rows_in *input_of(struct run *run, size_t k) { return k == 0 ? &run->in : &run->others[k - 1]; }

/* Reads the next window of a stream, IN, to the input block of worker INDEX. */
static enum status read_next_window(struct run *run, struct rows_in *in, int index, int64_t chunk, struct diags *diags)
{
	const struct tiles *tiles = run->tiles;
	const int64_t begin = tiles_window_begin(tiles, chunk * tiles->tile), row = in->row;
	char *const to = rows_at(run, in, index);
	int64_t kept = 0;
	if (chunk > 0) {
		const int64_t before = tiles_window_begin(tiles, (chunk - 1) * tiles->tile);
		kept = before + tiles->window - begin;
		memmove(to, rows_at(run, in, in->last_reader) + (begin - before) * row, (size_t)(kept * row));
	}
	in->last_reader = index;
	return kept < tiles->window ? read_consecutive(in, begin + kept, tiles->window - kept, to + kept * row, diags)
	                            : STATUS_OK;
}

static enum status read_chunk(struct run *run, struct rows_in *in, int index, int64_t chunk, struct diags *diags)
{
	const struct tiles *tiles = run->tiles;
	char *const to = rows_at(run, in, index);
	const int64_t first = chunk * tiles->per_chunk * tiles->tile;
	if (!tiles->windows)
		return read_consecutive(in, first, tiles_rows_of(tiles, chunk), to, diags);
	if (!in->anywhere)
		return read_next_window(run, in, index, chunk, diags);
	return read_around(run, in, (struct owned_rows){tiles_window_begin(tiles, first), tiles->window}, to, diags);
}

/* Checks the rows of inputs that CHUNK has in worker INDEX, as params_check does whole arrays. */
static enum status check_chunk(const struct run *run, int index, int64_t chunk, struct diags *diags)
{
	const struct tiles *tiles = run->tiles;
	struct params rows = *run->params;
	rows.bound = run->workers[index].rows_bound;
	for (size_t k = 0; k < run->other_count; k++) {
		const struct rows_in *in = &run->others[k];
		struct shape *shape = &run->workers[index].rows_shapes[k];
		*shape = run->chain->params[in->param].type->shape;
		shape->dim[0] = tiles->windows ? tiles->window : tiles_rows_of(tiles, chunk);
		rows.bound[in->param] = (struct bound_array){shape, rows_at(run, in, index), in->dtype};
	}
	for (size_t i = 0; i < run->whole->distinct_count; i++)
		TRY(params_check(&rows, run->whole->distinct[i]->body, &run->whole->distinct[i]->own, run->chain, diags));
	return run->forward ? params_check(&rows, run->whole->whole, NULL, run->chain, diags) : STATUS_OK;
}

enum status rows_in_read_chunk(void *context, int index, int64_t chunk, struct diags *diags)
{
	struct run *run = context;
	if (!run->workers[index].input || run->tiles->carries)
		return STATUS_OK;
	for (size_t k = 0; k <= run->other_count; k++)
		TRY(read_chunk(run, input_of(run, k), index, chunk, diags));
	return run->checks_rows ? check_chunk(run, index, chunk, diags) : STATUS_OK;
}

/* Opens the copy of the array of IN, which must be read again because of WHY. */
static enum status open_copy(struct run *run, struct rows_in *in, const char *why)
{
	const char *const spill = run->gradient ? run->gradient->options->spill : run->options->spill;
	return input_copy_open(&in->copy, spill, why, run->context.diags);
}

/* Fails with the message WHY: --one-pass forbids the copy that would be needed. */
static enum status refuse_copy(const struct run *run, const struct rows_in *in, const char *why)
{
	struct diags *diags = run->context.diags;
	TRY_ALLOC(why, diags);
	diag_file(diags, STATUS_USAGE, in->from->input->name, -1, "%s", why);
	return diag_hint(diags, "a file with -i can, and without --one-pass a copy is made");
}

/* Copies the current array of IN, all of it in order, by pieces of a worker's block. */
static enum status copy_array(struct run *run, struct rows_in *in)
{
	struct diags *diags = run->context.diags;
	const struct tiles *tiles = run->tiles;
	TRY(open_copy(run, in, "the first tile reads the last rows"));
	in->anywhere = false;
	for (int64_t row = 0; row < tiles->rows; row += tiles->window)
		TRY(read_consecutive(in, row, lesser(tiles->window, tiles->rows - row), rows_at(run, in, 0), diags));
	in->copy.complete = in->anywhere = true;
	return STATUS_OK;
}

/* Reads a stream up to the part that the chain reads, through a worker's memory. */
static enum status reach_part(struct run *run)
{
	const enum dtype dtype = dtype_compute(run->input.dtype);
	const int64_t most = tiles_input_rows(run->tiles) * (run->tiles->input_row / (int64_t)dtype_size(dtype));
	for (int64_t left = reader_seekable(run->reader) ? 0 : run->in.first; left > 0; left -= most)
		TRY(reader_read(run->reader, run->workers[0].input, dtype, lesser(left, most), run->context.diags));
	return STATUS_OK;
}

static enum status begin_input(struct run *run, struct rows_in *in)
{
	const struct tiles *tiles = run->tiles;
	const bool shared = shares_rows(run), several = tiles->workers > 1 || shared;
	in->anywhere = shared;
	if (reader_seekable(in->from))
		in->anywhere |=
			tiles->windows || run->points.lie == POINTS_BETWEEN_CHUNKS || (run->forward && (in->part || several));
	TRY(run->forward && in == &run->in ? reach_part(run) : STATUS_OK);
	if (!tiles->wraps)
		return STATUS_OK;
	in->anywhere |= in->from->held != NULL;
	if (in->anywhere) /* the first window has rows of the end */
		return reader_check_size(in->from, run->context.diags);
	if (run->options->one_pass)
		return refuse_copy(run, in,
		                   "the first tile reads the last rows of its input, which --one-pass forbids for one that "
		                   "is read in order");
	return copy_array(run, in);
}

enum status rows_in_begin_array(struct run *run)
{
	for (size_t k = 0; k <= run->other_count; k++)
		TRY(begin_input(run, input_of(run, k)));
	return STATUS_OK;
}

/* True if an output is written over the input. */
static bool is_in_place(const struct run *run)
{
	bool in_place = false;
	for (int i = 0; i < OUTPUTS; i++)
		in_place |= run->outputs[i].writer && run->outputs[i].writer->options.reader;
	return in_place;
}

static enum status begin_passes(struct run *run, struct rows_in *in, uint32_t times)
{
	struct diags *diags = run->context.diags;
	in->began_anywhere = in->anywhere;
	in->stamp = input_stamp(in->from->input);
	if (times < 2 || in->copy.fd >= 0 || (reader_rereadable(in->from) && !(in == &run->in && is_in_place(run))))
		return STATUS_OK;
	if (run->points.lie == POINTS_BETWEEN_CHUNKS)
		return diag_file(diags, STATUS_USAGE, in->from->input->name, -1,
		                 "--journal: the chain reads its input several times, and the output is written over it");
	if (run->options->one_pass)
		return refuse_copy(run, in,
		                   arena_printf(diags->arena,
		                                "the chain reads its input %u times, which --one-pass forbids "
		                                "for one that cannot be read again",
		                                times));
	if (run->tiles->wraps) /* the first window needs the last rows */
		return copy_array(run, in);
	return open_copy(run, in, "the chain reads its input several times");
}

enum status rows_in_begin_passes(struct run *run, uint32_t times)
{
	for (size_t k = 0; k <= run->other_count; k++)
		TRY(begin_passes(run, input_of(run, k), times));
	return STATUS_OK;
}

void rows_in_begin_pass(struct run *run, bool again)
{
	for (size_t k = 0; k <= run->other_count; k++) {
		struct rows_in *in = input_of(run, k);
		in->anywhere = (in->began_anywhere || again) && !is_copying(in);
	}
}

void rows_in_end_pass(struct run *run)
{
	for (size_t k = 0; k <= run->other_count; k++)
		input_of(run, k)->copy.complete = input_of(run, k)->copy.fd >= 0;
}

enum status rows_in_end_passes(struct run *run)
{
	for (size_t k = 0; k <= run->other_count; k++) {
		struct rows_in *in = input_of(run, k);
		in->anywhere = in->began_anywhere;
		if (run->passes.programs->count >= 2 && in->copy.fd < 0 && !in->from->held)
			TRY(input_check_stamp(in->from->input, &in->stamp, run->context.diags));
	}
	return STATUS_OK;
}

bool rows_in_anywhere(const struct run *run)
{
	bool anywhere = run->in.anywhere;
	for (size_t k = 0; k < run->other_count; k++)
		anywhere &= run->others[k].anywhere;
	return anywhere;
}

static void end_copy(struct run *run, struct rows_in *in)
{
	if (in->copy.fd >= 0)
		*(run->gradient ? &run->gradient->result->copied_bytes : &run->forward->counters->copied_bytes) +=
			in->copy.bytes;
	input_copy_close(&in->copy);
}

enum status rows_in_end_array(struct run *run)
{
	struct rows_in *in = &run->in;
	for (size_t k = 0; k <= run->other_count; k++)
		end_copy(run, input_of(run, k));
	for (size_t i = 0; run->inputs && i < run->inputs->count; i++)
		if (run->inputs->items[i].opened && !run->inputs->items[i].loaded)
			TRY(reader_skip(&run->inputs->items[i].arrays.rows, run->context.diags));
	const bool unread = in->anywhere || in->part || shares_items(run) == 0;
	return unread ? reader_skip(run->reader, run->context.diags) : STATUS_OK;
}

/* Lists input I after the first, which tiles cut. */
static enum status list_other(struct run *run, size_t i, struct rows_in *in)
{
	struct further_input *input = &run->inputs->items[i];
	*in = (struct rows_in){.from = &input->arrays.rows,
	                       .row = tiles_other_row(run->tiles, run->whole, i),
	                       .dtype = dtype_compute(input->type.dtype),
	                       .param = i,
	                       .copy.fd = -1};
	if (shares_rows(run) && !reader_seekable(in->from))
		return diag_file(run->context.diags, STATUS_USAGE, in->from->input->name, -1,
		                 "ranks read rows in their places: input '%s' must be a regular file",
		                 run->chain->params[i].name);
	return STATUS_OK;
}

/* True if BODY has an operation that may refuse values of an input (params_check). */
static bool may_refuse(const struct run *run, const struct body *body, const struct particulars *own)
{
	bool may = false;
	for (size_t i = 0; body && i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		const struct value *a = instr->kind == INSTR_OP && instr->a != NO_VALUE ? &body->values[instr->a] : NULL;
		may |= a && a->from == FROM_PARAM && op_table[instr->op].class == OP_CLASS_GENERAL &&
		       own_param(own, &a->param)->param < run->chain->input_count;
	}
	return may;
}

enum status rows_in_open(struct run *run)
{
	const size_t count = run->inputs ? run->inputs->count : 0;
	int64_t at = 0, gradient = tiles_other_bytes(run->tiles, run->whole);
	run->in.from = run->reader;
	run->in.row = run->tiles->input_row;
	run->in.dtype = dtype_compute(run->input.dtype);
	run->others = arena_array(run->context.arena, count + 1, sizeof *run->others);
	run->other_count = 0;
	TRY_ALLOC(run->others, run->context.diags);
	for (size_t i = 0; i < count; i++) {
		struct rows_in *in = &run->others[run->other_count];
		if (tiles_other_row(run->tiles, run->whole, i) == 0)
			continue;
		TRY(list_other(run, i, in));
		in->at = at;
		in->gradient = gradient;
		at += round_up(tiles_input_rows(run->tiles) * in->row, ARRAY_ALIGN);
		gradient += run->gradient ? round_up(job_row_bytes(run->gradient->job, i), ARRAY_ALIGN) : 0;
		run->other_count++;
	}
	run->checks_rows = run->forward && run->other_count && may_refuse(run, run->whole->whole, NULL);
	for (size_t i = 0; run->other_count && i < run->whole->distinct_count; i++)
		run->checks_rows |= may_refuse(run, run->whole->distinct[i]->body, &run->whole->distinct[i]->own);
	return STATUS_OK;
}

bool rows_in_cuts(const struct run *run, size_t i)
{
	bool cut = false;
	for (size_t k = 0; k < run->other_count; k++)
		cut |= run->others[k].param == i;
	return cut;
}

enum status rows_in_load_others(struct run *run)
{
	const struct context context = {run->context.allocator, &run->arena, run->context.diags};
	bool any = false;
	for (size_t i = 0; run->inputs && i < run->inputs->count; i++) {
		struct further_input *input = &run->inputs->items[i];
		if (!input->opened || (run->ready && rows_in_cuts(run, i)))
			continue;
		any |= !input->loaded;
		TRY(input_load(&context, run->chain, input));
		run->params->bound[i].data = run->bound[i].data = input->data;
		run->params->bound[i].dtype = dtype_compute(input->type.dtype);
	}
	if (!any || !run->ready)
		return STATUS_OK;
	for (size_t i = 0; i < run->whole->distinct_count; i++)
		TRY(params_check(run->params, run->whole->distinct[i]->body, &run->whole->distinct[i]->own, run->chain,
		                 run->context.diags));
	return run->forward ? params_check(run->params, run->whole->whole, NULL, run->chain, run->context.diags)
	                    : STATUS_OK;
}

/* Lets the worker's tile read the chunk's rows of inputs. */
static void aim_others(struct worker *worker)
{
	const struct run *run = worker->run;
	const struct tiles *tiles = run->tiles;
	const int64_t first = tiles->windows ? worker->first_row : worker->chunk * tiles->per_chunk * tiles->tile;
	for (size_t k = 0; k < run->other_count; k++) {
		const struct rows_in *in = &run->others[k];
		struct bound_param *param = &worker->params[in->param];
		param->data = worker->others + in->at;
		param->begins = first;
	}
}

void rows_in_aim_params(struct worker *worker)
{
	const struct run *run = worker->run;
	const struct tiles *tiles = run->tiles;
	const int64_t behind = tiles->rows - worker->first_row;
	char *to = worker->param_rows;
	aim_others(worker);
	for (size_t i = 0; i < run->params->count && tiles->wraps; i++) {
		struct bound_param *param = &worker->params[i];
		const struct type type = bound_type(param);
		const int64_t row = type_bytes(&type) / greater(tiles->rows, 1);
		const char *from = run->bound[i].data;
		if (!param->streamed || run->chain->params[i].arrives)
			continue;
		param->data = from;
		param->begins = 0;
		if (behind >= tiles->window)
			continue;
		memcpy(to, from + worker->first_row * row, (size_t)(behind * row));
		memcpy(to + behind * row, from, (size_t)((tiles->window - behind) * row));
		param->data = to;
		param->begins = worker->first_row;
		to += round_up(tiles->window * row, ARRAY_ALIGN);
	}
}
