/*
 * Points between two chunks of a gradient run with tiles: all chunks before a point are done, and no later one has begun.
 * Each rank has a journal and a spill file of its own:
 *
 *     spill file   |image A|image B|rows of its first chunk|of its second|...
 *     image        sums of params, in the file of the rank that owns the chunk before the point; states of folds, and
 *                  results of passes so far; a hash of the rows so far
 *     rows         of outputs, and of gradients of streamed params
 *
 * In a run in passes, a point lies in a pass or at its end. All ranks have images of the results of passes, since they
 * all compute the values between passes. The last pass alone makes rows.
 *
 * Rows of outputs are written twice, to the output and to the spill file, since a kill removes the output. A resumed
 * run copies them to the new output.
 * Tests: tests/cases/folds.test, tests/scripts/check-journal
 */
#include <string.h>

#include "base/checked.h"
#include "base/hash.h"
#include "exec/run_state.h"

/* Sets the pieces of the image before chunk DONE. DONE 0: those of the largest image. */
static enum status set_pieces(struct run *run, int64_t done)
{
	struct points *points = &run->points;
	struct diags *diags = run->context.diags;
	const bool own = run->passes.joint && !run->ordered.shared; /* between passes, each rank adds to its own sums */
	const struct spill_piece left = passes_left(run);
	const bool all = done == 0 || own || shares_owns(run, done - 1);
	points->pieces.count = 0;
	for (size_t i = 0; i < run->params->count && all; i++)
		if (run->gradient->job->sums.kinds[i] != SUM_ROWS)
			TRY(points_add_sums(run, i, diags));
	TRY(points_add(run, left.data, left.size, diags));
	return points_add(run, &points->hash, sizeof points->hash, diags);
}

/* Returns the bytes of a row of param I, whose gradient is in memory; 0 if it has no rows. */
static int64_t gradient_row(const struct run *run, size_t i)
{
	const struct type type = bound_type(&run->bound[i]);
	const bool rows = run->gradient->job->sums.kinds[i] == SUM_ROWS && !rows_in_cuts(run, i);
	return rows ? type_bytes(&type) / run->tiles->rows : 0;
}

/* Sets the pieces to the rows of CHUNK, in the worker's blocks and in the gradients of params; *AT is their place. */
static enum status set_row_pieces(const struct worker *worker, int64_t chunk, int64_t *at, struct diags *diags)
{
	struct run *run = worker->run;
	struct points *points = &run->points;
	struct spill_piece rows[OUTPUTS];
	const size_t count = rows_out_pieces(worker, chunk, rows);
	*at = 2 * points->image + shares_before(run, chunk) * points->item;
	points->pieces.count = 0;
	for (size_t i = 0; i < count; i++)
		TRY(points_add(run, rows[i].data, rows[i].size, diags));
	for (size_t k = 0; k < run->other_count; k++)
		TRY(points_add(run, worker->others + run->others[k].gradient,
		               (size_t)(tiles_rows_of(run->tiles, chunk) * run->others[k].row), diags));
	for (size_t i = 0; i < run->params->count; i++) {
		const int64_t row = gradient_row(run, i), first = chunk * run->tiles->per_chunk * run->tiles->tile;
		if (row > 0)
			TRY(points_add(run, (char *)totals_of(run, i)->heads + first * row,
			               (size_t)(tiles_rows_of(run->tiles, chunk) * row), diags));
	}
	return STATUS_OK;
}

static void hash_pieces(struct points *points)
{
	for (size_t i = 0; i < points->pieces.count; i++)
		points->hash = hash_bytes(points->hash, points->pieces.items[i].data, points->pieces.items[i].size);
}

/*
 * Adds to *HASH what READER's array, of TYPE, is known by: the size and the time of the file, and how it is read. To read all of it would take as
 * long as a part of the run. A copy of the numbers of a text is new, so their values identify it.
 */
static enum status hash_array(const struct reader *reader, const struct type *type, uint64_t *hash, struct diags *diags)
{
	enum { PIECE = 64 << 10 };
	const struct input_stamp stamp = input_stamp(reader->input);
	const bool copied = reader->copy.fd >= 0;
	const int64_t file[] = {stamp.size, copied ? 0 : stamp.modified, reader->data};
	unsigned char piece[PIECE];
	const struct reader_options *options = &reader->options;
	*hash = hash_bytes(*hash, file, sizeof file);
	*hash = hash_bytes(*hash, options->columns, options->columns ? strlen(options->columns) : 0);
	*hash = hash_bytes(*hash, &options->delimiter, 1);
	*hash = hash_bytes(*hash, options->missing, options->missing ? sizeof *options->missing : 0);
	for (int64_t at = 0; copied && at < stamp.size; at += PIECE) {
		const int64_t size = lesser(stamp.size - at, PIECE);
		TRY(input_copy_read(&reader->copy, at, piece, size, diags));
		*hash = hash_bytes(*hash, piece, (size_t)size);
	}
	*hash = points_hash_type(*hash, type);
	return STATUS_OK;
}

/* Sets *HASH to that of the inputs whose rows the run reads. Fails with STATUS_USAGE unless they can be read at any place. */
static enum status hash_inputs(const struct run *run, uint64_t *hash)
{
	struct diags *diags = run->context.diags;
	*hash = HASH_START;
	for (size_t k = 0; k <= run->other_count; k++) {
		const struct rows_in *in = k ? &run->others[k - 1] : NULL;
		const struct reader *reader = in ? in->from : run->reader;
		if (!reader_seekable(reader))
			return diag_file(
				diags, STATUS_USAGE, reader->input->name, -1,
				"a journal of tiles needs an input that is a regular file, npy in C order, raw, text or csv");
		TRY(hash_array(reader, in ? run->chain->params[in->param].type : &run->input, hash, diags));
	}
	return STATUS_OK;
}

/* Copies the rows of this rank's chunks before DONE to the outputs. */
static enum status copy_rows(struct run *run, int64_t done)
{
	struct points *points = &run->points;
	struct diags *diags = run->context.diags;
	const uint64_t hash = points->hash;
	int64_t at;
	TRY(rows_out_begin(run, diags));
	points->hash = HASH_START;
	for (int64_t item = 0; item < shares_before(run, done); item++) {
		const int64_t chunk = shares_chunk(run, item);
		TRY(ranks_check(run->ranks));
		TRY(set_row_pieces(&run->workers[0], chunk, &at, diags));
		TRY(spill_read_at(points->spill, at, &points->pieces, diags));
		hash_pieces(points);
		TRY(rows_out_write_chunk(&run->workers[0], chunk, diags));
		run->rows_done += tiles_rows_of(run->tiles, chunk);
	}
	return points->hash == hash ? STATUS_OK
	                            : spill_damaged(points->spill, 2 * points->image, "not as it was written", diags);
}

/* Resumes from the point. */
static enum status resume(struct run *run)
{
	const int64_t chunks = tiles_chunks(run->tiles), pass = (run->points.from - 1) / chunks;
	const int64_t done = run->points.from - pass * chunks;
	run->passes.current = (uint32_t)pass;
	TRY(set_pieces(run, done));
	TRY(points_read(run, run->context.diags));
	run->begun = done;
	TRY(shares_move_sums(run, done));
	TRY(shares_meet(run)); /* the sums that ranks share are there */
	return passes_write(run) ? copy_rows(run, done) : STATUS_OK;
}

enum status tile_journal_open(struct run *run)
{
	struct points *points = &run->points;
	const struct tiles *tiles = run->tiles;
	struct diags *diags = run->context.diags;
	uint64_t input;
	if (points->lie != POINTS_BETWEEN_CHUNKS)
		return STATUS_OK;
	TRY(hash_inputs(run, &input));
	TRY(set_pieces(run, 0));
	points->item = tiles->tile * tiles->per_chunk * tiles->gradient_row;
	if (run->options->value)
		points->item += tiles_value_rows(tiles, true) * tiles->output_row;
	for (size_t i = 0; i < run->params->count; i++)
		points->item += tiles->tile * tiles->per_chunk * gradient_row(run, i);
	for (size_t k = 0; k < run->other_count; k++)
		points->item += tiles->tile * tiles->per_chunk * run->others[k].row;
	TRY(points_open(run, input, shares_items(run) * points->item, diags));
	return points->from > 0 ? resume(run) : STATUS_OK;
}

void tile_journal_close(struct run *run)
{
	if (run->points.spill == &run->points.file)
		spill_close(&run->points.file);
	run->points = (struct points){.lie = POINTS_NOWHERE};
}

enum status tile_journal_keep(struct worker *worker, int64_t chunk, struct diags *diags)
{
	struct points *points = &worker->run->points;
	int64_t at;
	if (points->lie != POINTS_BETWEEN_CHUNKS || !passes_write(worker->run))
		return STATUS_OK;
	TRY(set_row_pieces(worker, chunk, &at, diags));
	hash_pieces(points);
	return spill_write_at(points->spill, at, &points->pieces, diags);
}

enum status tile_journal_run(struct run *run, const struct pipeline *pipeline)
{
	struct points *points = &run->points;
	const int64_t chunks = tiles_chunks(run->tiles), round = ranks_count(run->ranks) * run->tiles->workers;
	if (points->lie != POINTS_BETWEEN_CHUNKS)
		return pipeline_run(pipeline, run->context.diags);
	for (int64_t done = run->begun; done < chunks;) {
		struct pipeline part = *pipeline;
		bool due;
		part.first = shares_before(run, done);
		done = lesser(done + lesser(points->step, chunks) * round, chunks);
		part.items = shares_before(run, done);
		TRY(pipeline_run(&part, run->context.diags));
		if (done == chunks && passes_write(run))
			break;
		points->number = run->passes.current * chunks + done;
		/* The first point comes at once, so that a run which fails early can go on. */
		TRY(points_decide(run, !run->gradient->result->journal->has_point, 0, &due));
		if (!due)
			continue;
		TRY(set_pieces(run, done));
		TRY(points_write(run, run->context.diags));
	}
	return STATUS_OK;
}
