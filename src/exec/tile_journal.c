/*
 * A journal of a gradient run with tiles. A point lies between two chunks: all chunks before it are done, and no later one has
 * begun. Each rank has a journal and a spill file of its own, and all ranks write a point together:
 *
 *     spill file   |image A|image B|rows of its first chunk|of its second|...
 *     image        sums of params, in the file of the rank that owns the chunk before the point; states of folds, and
 *                  results of passes so far; a hash of the rows so far
 *     rows         of outputs, and of gradients of streamed params
 *
 * In a run in passes, a point lies in a pass or at its end. All ranks have images of all that passes have left, since they
 * all compute what lies between passes. The last pass alone makes rows.
 *
 * Rows of outputs are written twice, to the output and to the spill file, since a kill removes the output. A resumed
 * run copies them to the new output.
 *
 * Invariant: no rank overwrites the image before the last until all ranks have the last. So if ranks are killed, all have
 * an image of the last point that all have reached.
 *
 * Rank 0 chooses the number of chunks between two points, so that points take at most a tenth of the run.
 */
#include <string.h>

#include "base/checked.h"
#include "base/hash.h"
#include "base/system.h"
#include "exec/run_parts.h"

/* SHARE, FIRST_SHARE: as many times as a point takes, the chunks before it take; in a resumed run before its first point.
 * ROUNDS: as many chunks each worker runs at least between points, once the run is longer than that: they wait there. */
enum { SHARE = 10, FIRST_SHARE = 2, ROUNDS = 16 };

struct tile_journal {
	struct spill spill;
	int64_t slot;               /* of the last image */
	int64_t rows_at;            /* byte of the spill file where rows begin */
	int64_t item;               /* bytes of the rows of a chunk */
	int64_t image;              /* bytes of the largest image */
	struct spill_piece *pieces; /* of the image; or of the rows of a chunk */
	size_t piece_count;
	uint64_t hash; /* of this rank's rows so far */
	double error;  /* the largest of the store so far */
};

bool tile_journal_wanted(const struct run *run)
{
	return run->gradient && run->gradient->options->journal && run->tiles->tiled && !run->tiles->exchanged;
}

/* Sets the pieces of the image before chunk DONE. DONE 0: those of the largest image. */
static void set_pieces(struct run *run, int64_t done)
{
	struct tile_journal *tj = run->gradient->tile_journal;
	const struct gradient_result *result = run->gradient->result;
	const bool own = run->passes.joint && !run->ordered.shared; /* between passes, each rank adds to its own sums */
	const bool all = done == 0 || own || shares_owns(run, done - 1);
	tj->piece_count = 0;
	for (size_t i = 0; i < result->param_count && all; i++)
		if (run->gradient->job->sums.kinds[i] != SUM_ROWS)
			tj->piece_count += resume_sums(result, i, tj->pieces + tj->piece_count);
	if (run->passes.levels)
		tj->pieces[tj->piece_count++] = passes_left(run);
	tj->pieces[tj->piece_count++] = (struct spill_piece){&tj->hash, sizeof tj->hash};
	tj->pieces[tj->piece_count++] = (struct spill_piece){&tj->error, sizeof tj->error};
}

/* Returns the bytes of a row of param I; 0 if its gradient has no rows. */
static int64_t gradient_row(const struct run *run, size_t i)
{
	const struct type type = bound_type(&run->bound[i]);
	return run->gradient->job->sums.kinds[i] == SUM_ROWS ? type_bytes(&type) / run->tiles->rows : 0;
}

/* Sets the pieces of the rows of CHUNK, in the worker's blocks and in the gradients of params. */
static void set_row_pieces(const struct worker *worker, int64_t chunk)
{
	const struct run *run = worker->run;
	const struct tiles *tiles = run->tiles;
	struct tile_journal *tj = run->gradient->tile_journal;
	tj->piece_count = rows_out_pieces(worker, chunk, tj->pieces);
	for (size_t i = 0; i < run->params->count; i++)
		if (gradient_row(run, i) > 0)
			tj->pieces[tj->piece_count++] = (struct spill_piece){
				(char *)totals_of(run, i)->heads + chunk * tiles->per_chunk * tiles->tile * gradient_row(run, i),
				(size_t)(tiles_rows_of(tiles, chunk) * gradient_row(run, i))};
}

/* Allocates run->gradient->tile_journal, and plans its spill file. */
static enum status plan_file(struct run *run)
{
	const struct tiles *tiles = run->tiles;
	struct tile_journal *tj = run->gradient->tile_journal = arena_alloc(&run->arena, sizeof *tj);
	TRY_ALLOC(tj, run->context.diags);
	tj->spill = (struct spill){.fd = -1, .allocator = run->context.allocator};
	tj->pieces = arena_array(&run->arena, SUM_PIECES * run->params->count + 4, sizeof *tj->pieces);
	TRY_ALLOC(tj->pieces, run->context.diags);
	tj->slot = JOURNAL_IMAGE_B;
	set_pieces(run, 0);
	for (size_t i = 0; i < tj->piece_count; i++)
		tj->image += (int64_t)tj->pieces[i].size;
	tj->rows_at = 2 * tj->image;
	tj->item = tiles->tile * tiles->per_chunk * tiles->input_row;
	if (run->options->value)
		tj->item += tiles_value_rows(tiles, true) * tiles->output_row;
	for (size_t i = 0; i < run->params->count; i++)
		tj->item += tiles->tile * tiles->per_chunk * gradient_row(run, i);
	return spill_open(&tj->spill, 0, run->context.allocator, run->context.diags);
}

/*
 * Identifies a file by its size and its time: to read all of it would take as long as a part of the run. A copy of the
 * numbers of a text is new, so their values identify it.
 */
static enum status hash_file(const struct run *run, uint64_t *hash)
{
	enum { PIECE = 64 << 10 };
	const struct input_stamp stamp = input_stamp(run->reader->input);
	const bool copied = run->reader->copy.fd >= 0;
	const int64_t file[] = {stamp.size, copied ? 0 : stamp.modified, run->reader->data};
	unsigned char piece[PIECE];
	*hash = hash_bytes(HASH_START, file, sizeof file);
	for (int64_t at = 0; copied && at < stamp.size; at += PIECE) {
		const int64_t size = lesser(stamp.size - at, PIECE);
		TRY(input_copy_read(&run->reader->copy, at, piece, size, run->context.diags));
		*hash = hash_bytes(*hash, piece, (size_t)size);
	}
	return STATUS_OK;
}

static enum status identify(const struct run *run, struct journal *journal)
{
	const struct tiles *tiles = run->tiles;
	char type[TYPE_TEXT];
	uint64_t input;
	TRY(hash_file(run, &input));
	type_format(&run->input, type);
	input = hash_bytes(input, type, strlen(type));
	const int64_t cut[] = {tiles->tile, tiles->per_chunk, tiles->window, ranks_index(run->ranks)};
	journal->identity.parts[JOURNAL_RANKS] = (uint64_t)ranks_count(run->ranks);
	journal->identity.parts[JOURNAL_TILES] = hash_bytes(HASH_START, cut, sizeof cut);
	return resume_identify(run, input, journal->identity.parts, run->context.diags);
}

static enum status check_input(const struct run *run)
{
	struct diags *diags = run->context.diags;
	const struct reader *reader = run->reader;
	const int64_t end = reader->data + reader->count * (int64_t)dtype_size(reader->type.dtype);
	if (!reader_seekable(reader))
		return diag_file(diags, STATUS_USAGE, reader->input->name, -1,
		                 "a journal of tiles needs an input that is a regular file, npy in C order, raw, text or csv");
	if ((reader->input->size > end && !reader->text) || run->gradient->result->arrays > 0)
		return diag_file(diags, STATUS_DATA, reader->input->name, end,
		                 "another array follows, and a journal is of one");
	return STATUS_OK;
}

/* Copies the rows of this rank's chunks before DONE to the outputs. */
static enum status copy_rows(struct run *run, int64_t done)
{
	struct tile_journal *tj = run->gradient->tile_journal;
	struct diags *diags = run->context.diags;
	const uint64_t hash = tj->hash;
	TRY(rows_out_begin(run, diags));
	tj->hash = HASH_START;
	for (int64_t item = 0; item < shares_before(run, done); item++) {
		const int64_t chunk = shares_chunk(run, item);
		int64_t at = tj->rows_at + item * tj->item;
		TRY(ranks_check(run->ranks));
		set_row_pieces(&run->workers[0], chunk);
		for (size_t i = 0; i < tj->piece_count; at += (int64_t)tj->pieces[i++].size) {
			const struct spill_piece *rows = &tj->pieces[i];
			size_t got = 0;
			if (!io_read_at(tj->spill.fd, at, rows->data, rows->size, &got))
				return spill_failed(&tj->spill, "read the spill file", diags);
			if (got < rows->size)
				return spill_damaged(&tj->spill, at, "short", diags);
			tj->hash = hash_bytes(tj->hash, rows->data, rows->size);
		}
		TRY(rows_out_write_chunk(&run->workers[0], chunk, diags));
		run->rows_done += tiles_rows_of(run->tiles, chunk);
	}
	return tj->hash == hash ? STATUS_OK : spill_damaged(&tj->spill, tj->rows_at, "not as it was written", diags);
}

/* Resumes from the last point that all ranks have, if there is one. */
static enum status resume(struct run *run)
{
	struct tile_journal *tj = run->gradient->tile_journal;
	const int64_t chunks = tiles_chunks(run->tiles);
	int64_t number;
	TRY(resume_common_point(run, &tj->spill, &number, &tj->slot));
	if (number == 0)
		return STATUS_OK;
	run->gradient->result->resumed = true;
	const int64_t pass = (number - 1) / chunks, done = number - pass * chunks;
	run->passes.current = (uint32_t)pass;
	set_pieces(run, done);
	TRY(spill_read(&tj->spill, tj->slot, tj->pieces, tj->piece_count, run->context.diags));
	run->begun = done;
	run->workers[0].walk.kept.error = tj->error;
	TRY(shares_move_sums(run, done));
	TRY(shares_meet(run)); /* the sums that ranks share are there */
	return passes_write(run) ? copy_rows(run, done) : STATUS_OK;
}

enum status tile_journal_open(struct run *run)
{
	TRY(check_input(run));
	TRY(plan_file(run));
	const struct context context = {run->context.allocator, run->gradient->arena, run->context.diags};
	struct tile_journal *tj = run->gradient->tile_journal;
	struct journal *journal = run->gradient->result->journal = arena_alloc(context.arena, sizeof *journal);
	TRY_ALLOC(journal, context.diags);
	*journal = (struct journal){.path = run->gradient->options->journal,
	                            .directory = run->gradient->options->spill,
	                            .ranks = ranks_count(run->ranks),
	                            .wanted = saturated_add(tj->rows_at, shares_items(run) * tj->item)};
	TRY(identify(run, journal));
	if (run->gradient->options->keep_costs)
		run->gradient->options->keep_costs(run->options->job.costs_context, &journal->costs);
	TRY(journal_open(&context, journal, &tj->spill));
	for (int64_t slot = JOURNAL_IMAGE_A; slot <= JOURNAL_IMAGE_B; slot++)
		TRY(spill_reserve(&tj->spill, slot, (slot - JOURNAL_IMAGE_A) * tj->image, (size_t)tj->image, context.diags));
	return resume(run);
}

void tile_journal_close(struct run *run)
{
	if (run->gradient && run->gradient->tile_journal)
		spill_close(&run->gradient->tile_journal->spill);
	if (run->gradient)
		run->gradient->tile_journal = NULL;
}

enum status tile_journal_keep(struct worker *worker, int64_t chunk, struct diags *diags)
{
	struct run *run = worker->run;
	struct tile_journal *tj = run->gradient ? run->gradient->tile_journal : NULL;
	if (!tj || !passes_write(run))
		return STATUS_OK;
	set_row_pieces(worker, chunk);
	int64_t at = tj->rows_at + shares_before(run, chunk) * tj->item;
	for (size_t i = 0; i < tj->piece_count; at += (int64_t)tj->pieces[i++].size) {
		if (!io_write_at(tj->spill.fd, at, tj->pieces[i].data, tj->pieces[i].size))
			return spill_failed(&tj->spill, "write the spill file", diags);
		tj->hash = hash_bytes(tj->hash, tj->pieces[i].data, tj->pieces[i].size);
	}
	return STATUS_OK;
}

/* Makes the point before chunk DONE of the current pass durable, or at the end of the pass. */
static enum status write_point(struct run *run, int64_t done)
{
	struct tile_journal *tj = run->gradient->tile_journal;
	for (int i = 0; i < run->open; i++)
		if (run->workers[i].walk.kept.error > tj->error)
			tj->error = run->workers[i].walk.kept.error;
	set_pieces(run, done);
	tj->slot = tj->slot == JOURNAL_IMAGE_A ? JOURNAL_IMAGE_B : JOURNAL_IMAGE_A;
	tj->spill.number = run->passes.current * tiles_chunks(run->tiles) + done;
	return spill_write_at_once(&tj->spill, tj->slot, tj->pieces, tj->piece_count, run->context.diags);
}

enum status tile_journal_run(struct run *run, const struct pipeline *pipeline)
{
	const int64_t chunks = tiles_chunks(run->tiles), round = ranks_count(run->ranks) * run->tiles->workers;
	double share = run->begun ? FIRST_SHARE : SHARE;
	int64_t step = round;
	for (int64_t done = run->begun; done < chunks;) {
		struct pipeline part = *pipeline;
		const double begun = clock_seconds();
		part.first = shares_before(run, done);
		done = lesser(done + step, chunks);
		part.items = shares_before(run, done);
		TRY(pipeline_run(&part, run->context.diags));
		if (done == chunks && passes_write(run))
			break;
		const double computed = clock_seconds() - begun;
		TRY(write_point(run, done));
		const double written = clock_seconds() - begun - computed;
		if (computed < share * written || step < ROUNDS * round)
			step *= 2;
		else if (computed > 4 * share * written && step >= 2 * ROUNDS * round)
			step /= 2;
		step = ranks_index(run->ranks) == 0 ? step : INT64_MAX;
		TRY(shares_least(run, &step)); /* now all ranks have the point */
		share = SHARE;
	}
	return STATUS_OK;
}
