/*
 * A forward run on several ranks whose stages together read more rows around a row than windows allow (plan/tiles.h), as
 * a long `repeat` of a stencil does. Each rank keeps its rows in memory, as two strips (exec/halos.h), and evaluates each
 * step on a strip and its halo as on a whole array. A sweep is as many steps as the halos allow. A rank makes a sweep on
 * one of its strips, then on the other. What a strip receives for the next sweep arrives while the other one is computed.
 *
 *              rank 0         |         rank 1         |         rank 2
 *     strips   first    last  |    last        first   |    first    last
 *     halos          -|-     -|-            -|-       -|-        -|-
 *
 * Ranks of odd numbers begin with their upper strip. So strips that lie side by side on two ranks are computed at the
 * same time, and each has half a sweep of time until it needs the other's rows.
 */
#include "exec/halos.h"

#include <string.h>

#include "base/checked.h"
#include "base/system.h"
#include "base/team.h"

enum { TAG_DOWN, TAG_UP };

static int64_t strip_rows(const struct halo_strip *strip)
{
	return strip->low + strip->end - strip->begin + strip->high;
}

/* Compiles STEP for strip S. Strips of equal rows share programs. */
static enum status compile_for_strip(struct halos *h, struct halo_step *step, int s)
{
	const struct run *run = h->run;
	const struct context context = {run->context.allocator, &h->arena, run->context.diags};
	struct lowered *lowered = arena_alloc(&h->arena, sizeof *lowered);
	struct type type = h->type;
	type.shape.dim[0] = strip_rows(&h->strips[s]);
	if (s > 0 && type.shape.dim[0] == strip_rows(&h->strips[0])) {
		step->programs[s] = step->programs[0];
		return STATUS_OK;
	}
	step->programs[s] = arena_alloc(&h->arena, sizeof *step->programs[s]);
	TRY_ALLOC(lowered && step->programs[s], run->context.diags);
	TRY(lower(&context, lowered, run->chain, &step->portion, &type, LOWER_RUN));
	TRY(params_check(run->params, lowered->whole, NULL, run->chain, run->context.diags));
	return program_compile(&context, step->programs[s], lowered->whole, NULL, NULL);
}

static int64_t strip_bytes(const struct halos *h, const struct halo_strip *strip)
{
	return round_up(strip_rows(strip) * h->row, ARRAY_ALIGN);
}

/* Allocates the strips, a workspace of WORKSPACE bytes, and the WAVE. */
static enum status open_memory(struct halos *h, int64_t workspace, int64_t wave)
{
	const struct run *run = h->run;
	const struct allocator *allocator = run->context.allocator;
	int64_t bytes = workspace;
	for (size_t i = 0; i < STRIPS; i++)
		bytes += 2 * strip_bytes(h, &h->strips[i]);
	TRY(slab_get(&h->slab, bytes, allocator, run->context.diags));
	char *at = h->slab.base + workspace;
	for (struct halo_strip *strip = h->strips; strip < h->strips + STRIPS; strip++, at = strip[-1].to + bytes) {
		bytes = strip_bytes(h, strip);
		strip->from = at;
		strip->to = at + bytes;
		h->bytes += 2 * bytes;
	}
	if (wave && !run->options->apart)
		TRY_ALLOC(h->wave = wave_open(wave, allocator), run->context.diags);
	h->bytes += workspace + wave;
	return STATUS_OK;
}

/* Compiles all steps, and allocates all that they need. */
static enum status open_steps(struct halos *h)
{
	const struct run *run = h->run;
	const int threads = run->options->job.threads;
	int64_t workspace = 0, wave = 0, widest = 0, member = 0;
	bool uses_gemm = false;
	for (size_t i = 0; i < STRIPS * h->count; i++) {
		struct halo_step *step = &h->steps[i / STRIPS];
		TRY(compile_for_strip(h, step, i % STRIPS));
		const struct program *program = step->programs[i % STRIPS];
		workspace = greater(workspace, program->workspace);
		wave = greater(wave, program->wave);
		widest = greater(widest, program->widest);
		member = greater(member, round_up(program->member, ARRAY_ALIGN));
		uses_gemm |= program->uses_gemm;
	}
	if (uses_gemm)
		TRY(blas_load(threads, run->context.diags));
	const int members = team_members(threads, widest, member);
	h->bytes += (members - 1) * member;
	TRY(team_open(&h->team, members, member, run->context.allocator, run->context.diags));
	return open_memory(h, workspace, wave);
}

/* Reads COUNT rows from row FIRST on, around the end of the array, to TO. */
static enum status read_rows_around(const struct halos *h, int64_t first, int64_t count, char *to)
{
	const struct run *run = h->run;
	const int64_t elements = h->row / (int64_t)dtype_size(h->type.dtype);
	for (int64_t n; count > 0; count -= n, first += n, to += n * h->row) {
		first = (first + h->rows) % h->rows;
		n = lesser(count, h->rows - first);
		TRY(reader_read_at(run->reader, first * elements, to, h->type.dtype, n * elements, run->context.diags));
	}
	return STATUS_OK;
}

static enum status read_strips(struct halos *h)
{
	TRY(reader_check_size(h->run->reader, h->run->context.diags));
	for (const struct halo_strip *strip = h->strips; strip < h->strips + STRIPS; strip++)
		TRY(read_rows_around(h, strip->begin - strip->low, strip_rows(strip), strip->from));
	h->valid = h->halo;
	return STATUS_OK;
}

/* Evaluates STEP on strip S, whose state it replaces. */
static enum status run_step(struct halos *h, const struct halo_step *step, int s)
{
	static const int64_t counters[MAX_LOOPS];
	const struct run *run = h->run;
	struct halo_strip *strip = &h->strips[s];
	const struct program *program = step->programs[s];
	const void *in = strip->from;
	void *out = strip->to;
	if (program->body->values[program->body->outs[0].value].from == FROM_PORT)
		return STATUS_OK;
	TRY(evaluate(&(struct evaluation){.program = program,
	                                  .ins = &in,
	                                  .outs = &out,
	                                  .params = run->bound,
	                                  .counters = counters,
	                                  .workspace = h->slab.base,
	                                  .diags = run->context.diags,
	                                  .wave = h->wave,
	                                  .team = h->team,
	                                  .kernels = {run->kernels[0], run->kernels[1]}}));
	strip->to = strip->from;
	strip->from = out;
	return STATUS_OK;
}

/* Where a sweep begins and ends: so many times of the steps before STEP, and TIME times of it, have run. */
struct halo_point {
	size_t step;
	int64_t time;
};

/* Moves POINT by one step. */
static void advance(const struct halos *h, struct halo_point *point)
{
	if (++point->time < h->steps[point->step].times)
		return;
	point->step++;
	point->time = 0;
}

/* Runs the steps from FROM to TO on strip S. */
static enum status run_sweep(struct halos *h, struct halo_point from, struct halo_point to, int s)
{
	enum status status = STATUS_OK;
	for (; !status && (from.step < to.step || from.time < to.time); advance(h, &from))
		status = run_step(h, &h->steps[from.step], s);
	wave_run(h->wave);
	return status;
}

/* Returns the rank that has the strip below strip 0 or above strip 1, which is strip S. */
static int neighbour(const struct halos *h, int s)
{
	const int count = ranks_count(h->run->ranks);
	return (ranks_index(h->run->ranks) + (s > 0 ? 1 : count - 1)) % count;
}

/* True if strip S has a halo from another rank. */
static bool has_neighbour(const struct halos *h, int s) { return (s > 0 ? h->strips[s].high : h->strips[s].low) > 0; }

/* Sends the outermost own rows of strip S to the rank beside it. */
static enum status begin_exchange(const struct halos *h, int s)
{
	const struct ranks *ranks = h->run->ranks;
	const struct halo_strip *strip = &h->strips[s];
	const size_t size = (size_t)(h->halo * h->row);
	const char *own = strip->from + (s > 0 ? strip_rows(strip) - 2 * h->halo : h->halo) * h->row;
	if (!has_neighbour(h, s))
		return STATUS_OK;
	return ranks_send(ranks, neighbour(h, s), s > 0 ? TAG_UP : TAG_DOWN, own, size);
}

/* Receives the halo of strip S, which the rank beside it has sent by begin_exchange. */
static enum status end_exchange(const struct halos *h, int s)
{
	const struct halo_strip *strip = &h->strips[s];
	char *to = strip->from + (s > 0 ? strip_rows(strip) - h->halo : 0) * h->row;
	return has_neighbour(h, s) ? ranks_receive(h->run->ranks, neighbour(h, s), s > 0 ? TAG_DOWN : TAG_UP, to,
	                                           (size_t)(h->halo * h->row))
	                           : STATUS_OK;
}

/* Copies the outermost rows of the rank's strips to each other's halos. */
static void exchange_inside(const struct halos *h)
{
	const struct halo_strip *below = &h->strips[0], *above = &h->strips[1];
	const size_t size = (size_t)(h->halo * h->row);
	char *end = below->from + strip_rows(below) * h->row;
	memcpy(end - size, above->from + size, size);
	memcpy(above->from, end - 2 * size, size);
}

/* Sets *TO to the end of the longest sweep from FROM that h->valid rows of halos allow. Subtracts the rows that it needs. */
static void find_sweep(struct halos *h, struct halo_point from, struct halo_point *to)
{
	for (*to = from; to->step < h->count && h->steps[to->step].reach <= h->valid; advance(h, to)) {
		h->valid -= h->steps[to->step].reach;
		h->done++;
	}
}

static enum status run_sweeps(struct halos *h)
{
	const struct run_options *options = h->run->options;
	double all = 0;
	for (size_t i = 0; i < h->count; i++)
		all += (double)h->steps[i].times;
	for (struct halo_point from = {0, 0}, to; from.step < h->count; from = to) {
		const bool first = h->done == 0;
		TRY(ranks_check(h->run->ranks));
		find_sweep(h, from, &to);
		if (!first)
			exchange_inside(h);
		for (int i = 0; i < STRIPS; i++) {
			const int s = (i + ranks_index(h->run->ranks)) % STRIPS;
			TRY(first ? STATUS_OK : end_exchange(h, s));
			TRY(run_sweep(h, from, to, s));
			TRY(to.step < h->count ? begin_exchange(h, s) : STATUS_OK);
		}
		h->valid = h->halo;
		if (options->progress)
			options->progress(options->progress_context, NULL, h->done / all, 0, 0);
	}
	return STATUS_OK;
}

static enum status write_strips(struct halos *h)
{
	struct writer *writer = h->run->options->value;
	struct diags *diags = h->run->context.diags;
	const int64_t elements = h->row / (int64_t)dtype_size(h->type.dtype);
	TRY(writer_begin(writer, &h->type, diags));
	for (const struct halo_strip *strip = h->strips; strip < h->strips + STRIPS; strip++)
		TRY(writer_write_at(writer, strip->begin * elements, strip->from + strip->low * h->row, h->type.dtype,
		                    (strip->end - strip->begin) * elements, diags));
	return writer_end(writer, diags);
}

static void count_forward_pass(const struct halos *h)
{
	struct run_counters *counters = h->run->forward->counters;
	counters->arrays++;
	counters->tiles += STRIPS * ranks_count(h->run->ranks);
	counters->chunks += STRIPS * ranks_count(h->run->ranks);
	counters->tile_rows = h->least + (h->rows > STRIPS * ranks_count(h->run->ranks) * h->least);
	counters->halo_rows = 2 * h->halo;
	counters->passes = greater(counters->passes, 1);
	counters->peak_bytes = greater(counters->peak_bytes, h->bytes);
}

static enum status run_strips(struct halos *h)
{
	const struct run *run = h->run;
	h->bytes = run->params->bytes + 2 * STRIPS * h->halo * h->row; /* a copy of each message waits on either side */
	run_bind_params(h->run, h->type.dtype);
	TRY(open_steps(h));
	TRY(read_strips(h));
	const unsigned before = flush_begin(run->options->flush_denormals);
	const enum status status = run_sweeps(h);
	flush_end(before);
	TRY(status);
	TRY(write_strips(h));
	count_forward_pass(h);
	return reader_skip(run->reader, run->context.diags);
}

enum status halos_run(struct run *run, const struct type *type, bool *ran)
{
	struct halos h = {.run = run, .type = *type};
	arena_init(&h.arena, run->context.allocator);
	enum status status = halos_plan(&h, ran);
	if (!status && *ran)
		status = run_strips(&h);
	wave_close(h.wave, run->context.allocator);
	team_close(h.team);
	slab_put(&h.slab, run->context.allocator);
	arena_free(&h.arena);
	return status;
}
