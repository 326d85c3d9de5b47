/*
 * Tiles that carry rows: a worker runs the tiles of a chunk in their order, on windows that lie one tile apart. All
 * launches of the program wait in a wave. In each window the wave continues where it stopped in the one before
 * (evaluate/wave.h). So no row is read or computed twice, but for those around the chunk.
 *
 *     rows of the array    |-----------------------------------------------|
 *     the chunk's own              |-----------------------|
 *     windows                  [-----------]
 *                                      [-----------]
 *                                              [-----------]
 *
 * Before the run, a walk of the program on arrays that nothing reads or writes finds whether the wave can carry its
 * rows, and how many rows windows must have in common for it. If a launch runs on whole arrays alone, such as a product,
 * no rows are carried: windows overlap, and each computes all of its rows.
 *
 * Invariant: a chunk reads each row once, in order, and writes each of its own once, in order.
 * Tests: tests/cases/cli.test, tests/unit/test_windows.c
 */
#include "base/checked.h"
#include "exec/run_state.h"

/* Walks the program with its workspace at WORKSPACE, where only the frame is in memory. The other arrays follow it. */
static enum status walk_program(const struct run *run, struct wave *wave, char *workspace)
{
	static const int64_t counters[MAX_LOOPS];
	const struct program *program = &run->forward->tile.program;
	const size_t ins = program->body->in_count;
	const void **in = arena_array(run->context.arena, ins + 1, sizeof *in);
	TRY_ALLOC(in, run->context.diags);
	for (size_t i = 0; i < ins; i++)
		in[i] = workspace + program->workspace;
	void *out =
		workspace + program->workspace + round_up(tiles_input_rows(run->tiles) * run->tiles->input_row, ARRAY_ALIGN);
	wave_begin_window(wave, &(struct wave_window){.rows = run->tiles->window, .dry = true});
	TRY(evaluate(&(struct evaluation){.program = program,
	                                  .ins = in,
	                                  .outs = &out,
	                                  .params = run->bound,
	                                  .counters = counters,
	                                  .workspace = workspace,
	                                  .wave = wave,
	                                  .kernels = {run->kernels[0], run->kernels[1]},
	                                  .diags = run->context.diags}));
	wave_run(wave);
	return STATUS_OK;
}

enum status carried_find_depth(const struct run *run, int64_t *depth)
{
	const struct allocator *allocator = run->context.allocator;
	const struct program *program = &run->forward->tile.program;
	const int64_t bytes = wave_window_bytes(program);
	struct slab frame;
	*depth = -1;
	if (!bytes)
		return STATUS_OK;
	struct wave *wave = wave_open(bytes, allocator);
	TRY_ALLOC(wave, run->context.diags);
	const int64_t pointers = (int64_t)(program->frame->count * sizeof(char *));
	enum status status = slab_get(&frame, pointers, allocator, run->context.diags);
	if (!status) {
		status = walk_program(run, wave, frame.base);
		*depth = wave_depth(wave);
		slab_put(&frame, allocator);
	}
	wave_close(wave, allocator);
	return status;
}

/* A chunk: its own rows of the input and of the output, and the rows that it reads. The first read may be below 0. */
struct stretch {
	int64_t begin, end; /* of the input and, since no stage before has other rows, of the output */
	int64_t outputs;    /* END, or where the output ends if the array does */
	int64_t read_begin, read_end;
};

static struct stretch stretch_of_chunk(const struct tiles *tiles, int64_t chunk)
{
	struct stretch s = {.begin = chunk * tiles->per_chunk * tiles->tile};
	s.end = s.begin + tiles_rows_of(tiles, chunk);
	s.outputs = s.end == tiles->rows ? tiles->outputs : lesser(s.end, tiles->outputs);
	s.read_begin = s.begin - tiles->before;
	s.read_end = s.end + tiles->after;
	if (!tiles->wraps) {
		s.read_begin = greater(lesser(s.read_begin, tiles->rows - tiles->window), 0);
		s.read_end = lesser(s.read_end, tiles->rows);
	}
	return s;
}

/* Runs the window that begins at row BEGIN and has DONE rows of the one before. */
static enum status run_window(struct worker *worker, int64_t begin, int64_t done, bool last)
{
	const struct tiles *tiles = worker->run->tiles;
	worker->first_row = begin < 0 ? begin + tiles->rows : begin % tiles->rows;
	worker->rows = tiles->window;
	wave_begin_window(worker->wave, &(struct wave_window){.rows = tiles->window, .done = done, .last = last});
	return forward_run_tile(worker);
}

enum status carried_run_chunk(struct worker *worker, int64_t chunk)
{
	struct run *run = worker->run;
	const struct tiles *tiles = run->tiles;
	const char *const value = worker->made[OUTPUT_VALUE];
	const struct stretch s = stretch_of_chunk(tiles, chunk);
	int64_t begin = s.read_begin, next = tiles->window, written = s.begin;
	worker->tile = 0;
	worker->tile_row = s.begin;
	for (bool last = false; !last; begin += next) {
		const int64_t done = tiles->window - next;
		last = begin + tiles->window >= s.read_end;
		TRY(ranks_check(run->ranks));
		TRY(rows_in_read(run, begin + done, next, worker->input + done * tiles->input_row, worker->diags));
		TRY(run_window(worker, begin, done, last));
		const int64_t ready = last ? s.outputs : begin + tiles->window - wave_lag(worker->wave, value);
		const int64_t rows = greater(lesser(ready, s.outputs) - written, 0);
		TRY(rows_out_write(run, OUTPUT_VALUE, &(struct owned_rows){written, rows},
		                   value + (written - begin) * tiles->output_row, worker->diags));
		run_report_rows(run, rows);
		written += rows;
		next = lesser(tiles->tile, s.read_end - begin - tiles->window);
		if (!last)
			wave_move_window(worker->wave, next);
	}
	return STATUS_OK;
}
