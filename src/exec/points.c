/*
 * A *point* is a moment from which a later command can resume. It is the values that pass along a run in order (sums of
 * params, states of folds, the largest error of the store), their place, which is its number, and what the machine holds
 * there. Its *image* has all of that in the spill file:
 *
 *     spill file   |image A|image B|states, or rows of outputs ...
 *
 *     no tiles, or a tile a rank    points lie between two calls of the machine, and an image has its arrays. A state
 *                                   that is on disk anyway is a point, too, if memory holds nothing else (resume.c)
 *     tiles                         points lie between two chunks, where the machine holds nothing (tile_journal.c)
 *
 * An image is due once POINT_SHARE times as long has passed since the last point as it takes to write. So images take at
 * most a tenth of a run, and a kill loses about ten times as long as an image takes. Before the first image of a resumed
 * run it is FIRST_SHARE times as long, so that runs which are all killed early get to the end. Ranks that share rows write
 * an image of the same moment together. Rank 0 decides at some moments only, when they all meet, or all workers do.
 *
 * Invariant: images alternate between two slots. After one, ranks wait for one another. So the last images of ranks are
 * one apart at most, and all ranks have an image of a common point, whenever one is killed.
 * Tests: tests/unit/test_resume.c, tests/scripts/check-journal
 */
#include "exec/points.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/hash.h"
#include "base/system.h"
#include "exec/run_state.h"

/*
 * The time to write B bytes is taken to be in proportion to B + LATENCY, since to sync few bytes takes a while too.
 * Decisions are DECISION seconds apart or, if images are rare, 1 / DECISIONS of the time between two. Between two of
 * them each worker runs at least ROUNDS chunks, once the run is longer than that: at a decision it waits for the others.
 */
enum { POINT_SHARE = 10, FIRST_SHARE = 2, DECISIONS = 8, ROUNDS = 16, LATENCY = 4 << 20 };
static const double ASSUMED_RATE = 5e-9; /* seconds a byte, before the first image */
static const double DECISION = 0.1;

static uint64_t hash_text(uint64_t hash, const char *text)
{
	return hash_bytes(hash, text ? text : "", text ? strlen(text) + 1 : 0);
}

uint64_t points_hash_type(uint64_t hash, const struct type *type)
{
	char text[TYPE_TEXT];
	return hash_text(hash, type_format(type, text));
}

/* Hashes all that the bits of the gradient and the contents of a point depend on, except the input. */
static enum status identify(const struct run *run, uint64_t parts[JOURNAL_PARTS], struct diags *diags)
{
	const struct job *job = run->gradient->job;
	const struct tiles *tiles = run->tiles;
	const struct array *cotangent = &run->gradient->cotangent;
	parts[JOURNAL_CHAIN] = hash_bytes(HASH_START, run->chain->source->text, run->chain->source->length);
	if (run->chain->chosen)
		parts[JOURNAL_CHAIN] = hash_text(parts[JOURNAL_CHAIN], run->chain->chosen->name);
	if (run->chain->place)
		parts[JOURNAL_CHAIN] = hash_text(parts[JOURNAL_CHAIN], run->chain->place->text);
	/* Measured costs or memory may lead to another schedule. */
	const struct counters *c = &job->predicted;
	const int64_t schedule[] = {c->evaluations, c->checkpoints, c->spill_writes, c->spill_reads,
	                            job->scheduled.disk_bytes};
	parts[JOURNAL_POLICY] = hash_text(hash_text(HASH_START, job->policy->text), job->scheduled.text);
	parts[JOURNAL_POLICY] = hash_bytes(parts[JOURNAL_POLICY], schedule, sizeof schedule);
	const int types[] = {run->options->dtype, run->options->job.store, run->options->flush_denormals};
	parts[JOURNAL_TYPES] = hash_bytes(HASH_START, types, sizeof types);
	parts[JOURNAL_VALUE_WANTED] = run->options->value != NULL;
	if (cotangent->data)
		parts[JOURNAL_COTANGENT] = hash_bytes(hash_text(HASH_START, dtype_name(cotangent->type.dtype)), cotangent->data,
		                                      (size_t)type_bytes(&cotangent->type));
	const char *const version[] = {run->kernels[0]->isa, blas_name(), PACKAGE_VERSION};
	for (size_t i = 0; i < sizeof version / sizeof *version; i++)
		parts[JOURNAL_VERSION] = hash_text(parts[JOURNAL_VERSION], version[i]);
	for (size_t i = 0; i < run->params->count; i++) {
		const struct type type = bound_type(&run->bound[i]);
		if (rows_in_cuts(run, i)) /* it is an input, by its rows */
			continue;
		parts[JOURNAL_PARAMS] =
			hash_bytes(points_hash_type(parts[JOURNAL_PARAMS], &type), run->bound[i].data, (size_t)type_bytes(&type));
	}
	const int64_t cut[] = {tiles->tile, tiles->per_chunk, tiles->window, ranks_index(run->ranks)};
	if (tiles->tiled)
		parts[JOURNAL_TILES] = hash_bytes(HASH_START, cut, sizeof cut);
	return external_identify(run->programs, &parts[JOURNAL_TARGETS], &parts[JOURNAL_OBJECTS], diags);
}

/* Fails if this array follows another, or another follows it. Rows of a file are read where they lie. */
static enum status refuse_more(const struct run *run, struct diags *diags)
{
	const struct reader *reader = run->reader;
	const int64_t end = reader->data + reader->stored * (int64_t)dtype_size(reader->type.dtype);
	const unsigned char *bytes;
	size_t more = run->tiles->tiled && reader->input->size > end;
	if (!run->tiles->tiled)
		TRY(input_peek(reader->input, 1, &bytes, &more, diags));
	if (run->gradient->result->arrays == 0 && (!more || reader->text))
		return STATUS_OK;
	return diag_file(diags, STATUS_DATA, reader->input->name, run->tiles->tiled ? end : reader->input->offset,
	                 "another array follows, and a journal is of one");
}

/* Returns the number of the point that SLOT has, if it is at most MOST; else 0. */
static int64_t point_in(const struct spill *spill, int64_t slot, int64_t most)
{
	const int64_t number = spill_holds(spill, slot) ? spill->regions[slot].number : 0;
	return number <= most ? greater(number, 0) : 0;
}

/* Returns the last point up to MOST that SPILL has; 0: it has no point; -1: all of them are later. */
static int64_t point_up_to(const struct spill *spill, int64_t most)
{
	int64_t last = 0, found = 0;
	for (size_t slot = 0; slot < spill->capacity; slot++) {
		last = greater(last, point_in(spill, (int64_t)slot, INT64_MAX));
		found = greater(found, point_in(spill, (int64_t)slot, most));
	}
	return last > 0 && found == 0 ? -1 : found;
}

/*
 * Finds the last point that all ranks have. That need not be any rank's last: a rank may have a point of a run that others
 * did not reach, and later runs have other points. The next image is not written over that of the point. Fails with
 * STATUS_DATA if all ranks have points, but none in common: their journals are not of one run.
 */
static enum status find_point(const struct run *run, struct points *points)
{
	const struct spill *spill = points->spill;
	const struct journal *journal = run->gradient->result->journal;
	int64_t most;
	points->from = INT64_MAX;
	do {
		most = points->from;
		points->from = point_up_to(spill, most);
		TRY(shares_least(run, &points->from));
	} while (points->from > 0 && points->from < most);
	if (points->from < 0) {
		diag_file(run->context.diags, STATUS_DATA, journal->path, -1,
		          "the journals of the ranks are of different runs");
		return diag_hint(run->context.diags, "%s", journal->remedy);
	}
	const int64_t other = point_in(spill, JOURNAL_IMAGE_B, points->from);
	points->slot = point_in(spill, JOURNAL_IMAGE_A, points->from) > other ? JOURNAL_IMAGE_A : JOURNAL_IMAGE_B;
	return STATUS_OK;
}

enum status points_open(struct run *run, uint64_t input, int64_t wanted, struct diags *diags)
{
	const bool chunks = run->points.lie == POINTS_BETWEEN_CHUNKS;
	const struct gradient_options *options = run->gradient->options;
	const struct context context = {run->context.allocator, run->gradient->arena, diags};
	struct points *points = &run->points;
	TRY(refuse_more(run, diags));
	points->spill = chunks ? &points->file : &run->workers[0].walk.kept.spill;
	TRY(chunks ? spill_open(points->spill, 0, run->context.allocator, diags) : STATUS_OK);
	points->sums = (int64_t)(spill_pieces_bytes(&points->pieces) + sizeof points->error);
	points->image = points->sums + (chunks ? 0 : run->gradient->job->slabs);
	struct journal *journal = run->gradient->result->journal = arena_alloc(context.arena, sizeof *journal);
	TRY_ALLOC(journal, diags);
	*journal = (struct journal){.path = options->journal,
	                            .directory = options->spill,
	                            .ranks = shares_rows(run) ? ranks_count(run->ranks) : 1,
	                            .wanted = saturated_add(wanted, 2 * points->image)};
	TRY(identify(run, journal->identity.parts, diags));
	journal->identity.parts[JOURNAL_INPUT] = input;
	journal->identity.parts[JOURNAL_RANKS] = (uint64_t)journal->ranks;
	if (options->keep_costs)
		options->keep_costs(run->options->job.costs_context, &journal->costs);
	TRY(journal_open(&context, journal, points->spill));
	for (int64_t slot = JOURNAL_IMAGE_A, at = 0; slot <= JOURNAL_IMAGE_B; slot++, at += points->image)
		TRY(spill_reserve(points->spill, slot, at, (size_t)points->image, diags));
	TRY(find_point(run, points));
	run->gradient->result->resumed = points->from > 0;
	points->last = points->asked = clock_seconds();
	points->step = 1;
	points->rate = ASSUMED_RATE;
	points->share = points->from > 0 ? FIRST_SHARE : POINT_SHARE;
	return STATUS_OK;
}

enum status points_add(struct run *run, void *data, size_t size, struct diags *diags)
{
	return spill_pieces_add(&run->points.pieces, &run->arena, data, size, diags);
}

enum status points_add_sums(struct run *run, size_t i, struct diags *diags)
{
	const struct param_sums *sums = totals_of(run, i);
	const size_t size = run->gradient->result->params[i].size;
	if (sums->heads)
		TRY(points_add(run, sums->heads, size, diags));
	if (sums->tails)
		TRY(points_add(run, sums->tails, size / 2, diags));
	if (!sums->block)
		return STATUS_OK;
	TRY(points_add(run, sums->block->sum, size, diags));
	return points_add(run, &sums->block->rows, sizeof sums->block->rows, diags);
}

enum status points_decide(struct run *run, bool must, int64_t arrays, bool *due)
{
	struct points *points = &run->points;
	const double now = clock_seconds(), passed = now - points->asked;
	const double wait = points->share * points->rate * (double)(arrays + points->sums + LATENCY);
	const double apart = fmax(DECISION, wait / DECISIONS);
	const int64_t least = points->lie == POINTS_BETWEEN_CHUNKS ? ROUNDS : 1;
	int64_t keeps = -(int64_t)(must || (now - points->last >= wait && ranks_index(run->ranks) == 0));
	*due = false;
	TRY(shares_least(run, &keeps));
	*due = keeps < 0;
	if (passed < apart / 2 || points->step < least)
		points->step = lesser(2 * points->step, INT32_MAX);
	else if (passed > apart && points->step / 2 >= least)
		points->step /= 2;
	if (shares_rows(run))
		TRY(ranks_broadcast(run->ranks, &points->step, sizeof points->step));
	points->next = points->number + points->step;
	points->asked = now;
	return STATUS_OK;
}

/* One slow write does not put off the next image for long: the rate doubles at most. */
enum status points_write(struct run *run, struct diags *diags)
{
	struct points *points = &run->points;
	const double begun = clock_seconds();
	for (int i = 0; i < run->open; i++)
		points->error = fmax(points->error, run->workers[i].walk.kept.error);
	TRY(points_add(run, &points->error, sizeof points->error, diags));
	points->slot = points->slot == JOURNAL_IMAGE_A ? JOURNAL_IMAGE_B : JOURNAL_IMAGE_A;
	points->spill->number = points->number;
	TRY(spill_write_at_once(points->spill, points->slot, &points->pieces, diags));
	points->last = clock_seconds();
	points->rate = fmin((points->last - begun) / (double)(spill_pieces_bytes(&points->pieces) + LATENCY),
	                    2 * fmax(points->rate, ASSUMED_RATE));
	points->share = POINT_SHARE;
	return shares_meet(run);
}

enum status points_read(struct run *run, struct diags *diags)
{
	struct points *points = &run->points;
	TRY(points_add(run, &points->error, sizeof points->error, diags));
	TRY(spill_read(points->spill, points->slot, &points->pieces, diags));
	run->workers[0].walk.kept.error = points->error;
	return STATUS_OK;
}
