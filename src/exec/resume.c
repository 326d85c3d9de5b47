/*
 * A gradient command with a journal (exec/journal.c): when it writes a point, and how a
 * later command resumes from the last durable point.
 *
 * A *point* is a moment from which a later command can resume. The schedule writes states to disk anyway: if memory
 * holds nothing else, such a state is a point. Any other point is an *image*: all arrays that the machine holds, and the
 * data outside the slab, which are the sums of params' gradients and the largest error of the store. An image is written
 * once so much time has passed since the last point that images take at most a tenth of the run. So a kill loses about
 * ten times as long as an image takes.
 *
 * A resumed command walks the schedule from its first action, but skips: up to the last durable point it computes
 * nothing. If the first sweep ends before that, it reads the output back from the spill file, and writes it. At the
 * point it reads back the state or the image.
 *
 * Ranks that exchange rows have images of the same moments, and no other points. Rank 0 decides at some moments whether
 * all write one. After an image they wait for one another. So their last images are one apart at most, and no state on
 * disk is replaced that a rank needs from there on.
 *
 * Invariants: the gradient has the bits of a command that was not killed. The states that are read after the last
 * durable point are on disk: before the state of a slot is replaced, an image is written.
 */
#include <string.h>

#include "base/checked.h"
#include "base/hash.h"
#include "base/system.h"
#include "exec/run_parts.h"

/*
 * An image is written once POINT_SHARE times as long has passed as it takes. Before the first one of a resumed run it is
 * FIRST_SHARE times as long, so that runs which are all killed early get to the end. The time to write B bytes is taken
 * to be in proportion to B + LATENCY, since to sync few bytes takes a while too.
 */
enum { POINT_SHARE = 10, FIRST_SHARE = 2, LATENCY = 4 << 20 };
static const double ASSUMED_RATE = 5e-9; /* seconds a byte, before the first image */
static const double DECISION = 0.1;      /* seconds between decisions of ranks, at most */

static uint64_t hash_text(uint64_t hash, const char *text)
{
	return hash_bytes(hash, text ? text : "", text ? strlen(text) + 1 : 0);
}

static uint64_t hash_array(uint64_t hash, const struct type *type, const void *data)
{
	char text[TYPE_TEXT];
	return hash_bytes(hash_text(hash, type_format(type, text)), data, (size_t)type_bytes(type));
}

enum status resume_identify(const struct run *run, uint64_t input, uint64_t parts[JOURNAL_PARTS], struct diags *diags)
{
	const struct job *job = run->gradient->job;
	const struct array *cotangent = &run->gradient->cotangent;
	parts[JOURNAL_CHAIN] = hash_bytes(HASH_START, run->chain->source->text, run->chain->source->length);
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
		parts[JOURNAL_PARAMS] = hash_array(parts[JOURNAL_PARAMS], &type, run->bound[i].data);
	}
	parts[JOURNAL_INPUT] = input;
	return external_identify(run->programs, &parts[JOURNAL_TARGETS], &parts[JOURNAL_OBJECTS], diags);
}

size_t resume_sums(const struct gradient_result *result, size_t i, struct spill_piece pieces[SUM_PIECES])
{
	const struct param_gradient *g = &result->params[i];
	const struct param_sums *sums = &g->of[g->type.dtype == DTYPE_F64]; /* a journal covers one array */
	size_t count = 0;
	if (sums->heads)
		pieces[count++] = (struct spill_piece){sums->heads, g->size};
	if (sums->tails)
		pieces[count++] = (struct spill_piece){sums->tails, g->size / 2};
	if (sums->block) {
		pieces[count++] = (struct spill_piece){sums->block->sum, g->size};
		pieces[count++] = (struct spill_piece){&sums->block->rows, sizeof sums->block->rows};
	}
	return count;
}

/* Returns the bytes of an image beside the slab's arrays: sums, a loss so far, and the largest error of the store. */
static int64_t bytes_of_sums(const struct worker *worker)
{
	const struct gradient_result *result = worker->run->gradient->result;
	struct spill_piece pieces[SUM_PIECES];
	int64_t bytes = (int64_t)sizeof(double) * (1 + (worker_state(worker) ? worker->run->tiles->state : 0));
	for (size_t i = 0; i < result->param_count; i++)
		for (size_t k = resume_sums(result, i, pieces); k > 0; k--)
			bytes += (int64_t)pieces[k - 1].size;
	return bytes;
}

bool resume_wanted(const struct run *run)
{
	return run->gradient->options->journal && (!run->tiles->tiled || run->tiles->exchanged);
}

/* True if a program of RUN keeps records, which end with it. */
static bool keeps_records(const struct run *run)
{
	bool keeps = false;
	for (size_t i = 0; i < run->chain->program_count; i++)
		keeps |= run->chain->programs[i].traits.record_bytes >= 0;
	return keeps;
}

/* Fails if another array follows. A window is read in its place, so bytes of the array itself follow. */
static enum status refuse_more(const struct worker *worker)
{
	const struct run *run = worker->run;
	const struct reader *reader = run->reader;
	const int64_t end = reader->data + reader->count * (int64_t)dtype_size(reader->type.dtype);
	const unsigned char *more;
	size_t got = run->tiles->tiled && reader->input->size > end;
	if (!run->tiles->tiled)
		TRY(input_peek(reader->input, 1, &more, &got, worker->diags));
	if (!got || reader->text) /* whose bytes are read where they lie */
		return STATUS_OK;
	return diag_file(worker->diags, STATUS_DATA, reader->input->name, run->tiles->tiled ? end : reader->input->offset,
	                 "another array follows, and a journal is of one");
}

/* Returns the last point up to point MOST of which SPILL has an image. 0: it has no image; -1: all are later. */
static int64_t point_up_to(const struct spill *spill, int64_t most)
{
	int64_t last = 0, found = -1;
	for (int64_t slot = JOURNAL_IMAGE_A; slot <= JOURNAL_IMAGE_B; slot++) {
		const int64_t number = spill_holds(spill, slot) ? spill->regions[slot].number : 0;
		last = greater(last, number);
		found = number > 0 && number <= most ? greater(found, number) : found;
	}
	return last > 0 ? found : 0;
}

enum status resume_common_point(const struct run *run, const struct spill *spill, int64_t *number, int64_t *slot)
{
	int64_t last;
	*number = INT64_MAX;
	do {
		last = *number;
		*number = point_up_to(spill, last);
		TRY(shares_least(run, number));
	} while (*number > 0 && *number < last);
	*slot = spill_holds(spill, JOURNAL_IMAGE_A) && spill->regions[JOURNAL_IMAGE_A].number == *number ? JOURNAL_IMAGE_A
	                                                                                                 : JOURNAL_IMAGE_B;
	if (*number >= 0)
		return STATUS_OK;
	const struct journal *journal = run->gradient->result->journal;
	diag_file(run->context.diags, STATUS_DATA, journal->path, -1, "the journals of the ranks are of different runs");
	return diag_hint(run->context.diags, "%s", journal->remedy);
}

/* Lets ranks that exchange rows resume from the last image of all of them, or begin together. */
static enum status agree_on_point(const struct worker *worker, struct journal *journal)
{
	int64_t number, slot;
	if (!worker->neighbours)
		return STATUS_OK;
	TRY(resume_common_point(worker->run, &worker->walk.kept.spill, &number, &slot));
	journal->goes_on = number > 0;
	journal->number = number;
	journal->point_slot = journal->image_slot = slot;
	return STATUS_OK;
}

enum status resume_open(struct worker *worker, const struct type *type, const void *input)
{
	struct run *run = worker->run;
	struct resuming *resuming = &worker->walk.resuming;
	struct spill *spill = &worker->walk.kept.spill;
	const struct context context = {run->context.allocator, run->gradient->arena, worker->diags};
	const int64_t cut[] = {run->tiles->tile, run->tiles->window, ranks_index(run->ranks)};
	const int ranks = worker->neighbours ? ranks_count(run->ranks) : 1;
	TRY(refuse_more(worker));
	struct journal *journal = run->gradient->result->journal = arena_alloc(context.arena, sizeof *journal);
	TRY_ALLOC(journal, worker->diags);
	resuming->sums = bytes_of_sums(worker);
	const int64_t image = run->gradient->job->slabs + resuming->sums;
	*journal = (struct journal){.path = run->gradient->options->journal,
	                            .directory = run->gradient->options->spill,
	                            .ranks = ranks,
	                            .wanted = saturated_add(run->gradient->job->predicted.spill_bytes, 2 * image)};
	TRY(resume_identify(run, hash_array(HASH_START, type, input), journal->identity.parts, worker->diags));
	journal->identity.parts[JOURNAL_RANKS] = (uint64_t)ranks;
	if (worker->neighbours)
		journal->identity.parts[JOURNAL_TILES] = hash_bytes(HASH_START, cut, sizeof cut);
	if (run->gradient->options->keep_costs)
		run->gradient->options->keep_costs(run->options->job.costs_context, &journal->costs);
	TRY(journal_open(&context, journal, spill));
	for (int64_t slot = JOURNAL_IMAGE_A; slot <= JOURNAL_IMAGE_B; slot++)
		TRY(spill_reserve(spill, slot, (slot - JOURNAL_IMAGE_A) * image, (size_t)image, worker->diags));
	TRY(agree_on_point(worker, journal));
	resuming->skips = run->gradient->result->resumed = journal->goes_on;
	resuming->recordless = keeps_records(run);
	resuming->last = clock_seconds();
	resuming->rate = ASSUMED_RATE;
	resuming->share = journal->goes_on ? FIRST_SHARE : POINT_SHARE;
	return STATUS_OK;
}

/* Adds the data outside the slab to the pieces of an image: sums, and the store's largest error. */
static void add_sums(struct worker *worker)
{
	struct kept_states *kept = &worker->walk.kept;
	const struct gradient_result *result = worker->run->gradient->result;
	for (size_t i = 0; i < result->param_count; i++)
		if (totals_adds(worker->run, i)) /* another rank adds to others, perhaps now, and in the same memory */
			kept->piece_count += resume_sums(result, i, kept->pieces + kept->piece_count);
	kept->pieces[kept->piece_count++] = (struct spill_piece){&kept->error, sizeof kept->error};
	if (worker_state(worker))
		kept->pieces[kept->piece_count++] =
			(struct spill_piece){worker_state(worker), (size_t)worker->run->tiles->state * sizeof(double)};
}

/* Writes the pieces of an image, which are set, to the slot that has not the last one. */
static enum status write_image(struct worker *worker)
{
	const struct journal *journal = worker->run->gradient->result->journal;
	struct kept_states *kept = &worker->walk.kept;
	struct resuming *resuming = &worker->walk.resuming;
	const int64_t slot = journal->image_slot == JOURNAL_IMAGE_A ? JOURNAL_IMAGE_B : JOURNAL_IMAGE_A;
	const double begun = clock_seconds();
	double bytes = LATENCY;
	for (size_t i = 0; i < kept->piece_count; i++)
		bytes += (double)kept->pieces[i].size;
	kept->spill.number = resuming->points;
	TRY(spill_write_at_once(&kept->spill, slot, kept->pieces, kept->piece_count, worker->diags));
	resuming->last = clock_seconds();
	resuming->rate = (resuming->last - begun) / bytes;
	resuming->share = POINT_SHARE;
	return STATUS_OK;
}

/* True if it is time for an image of MOMENT, before which CLOCK seconds have passed since the last point. */
static bool is_due(const struct resuming *resuming, const struct machine_moment *moment, double clock)
{
	const double bytes = (double)moment->bytes + (double)resuming->sums + LATENCY;
	return clock >= resuming->share * resuming->rate * bytes;
}

/*
 * The same for ranks that exchange rows. They ask rank 0 at some moments alone, which are a tenth of a second apart or
 * so, and before a state is replaced on disk. If a rank has failed, there is no image, and the next exchange fails.
 */
static bool decide(struct worker *worker, const struct machine_moment *moment, bool replaces)
{
	struct resuming *resuming = &worker->walk.resuming;
	const double now = clock_seconds();
	struct {
		int64_t due, step;
	} first = {replaces || is_due(resuming, moment, now - resuming->last), resuming->step};
	if (moment->slot < 0 && resuming->points < resuming->next)
		return false;
	first.step = now - resuming->asked < DECISION / 2 ? 2 * first.step + 1 : first.step;
	first.step = now - resuming->asked > DECISION ? first.step / 2 : first.step;
	resuming->asked = now;
	int64_t keeps = -(int64_t)replaces; /* after a resumed run ranks may hold different states */
	if (ranks_broadcast(worker->run->ranks, &first, sizeof first) ||
	    (moment->slot >= 0 && shares_least(worker->run, &keeps)))
		return false;
	resuming->step = first.step;
	resuming->next = resuming->points + first.step;
	return first.due || keeps < 0;
}

/* True if MOMENT is the point from which the run resumes, or if its image should be written. */
static bool on_moment(void *context, const struct machine_moment *moment)
{
	struct worker *worker = context;
	struct resuming *resuming = &worker->walk.resuming;
	resuming->points++;
	if (resuming->skips)
		return resuming->points == worker->run->gradient->result->journal->number;
	if (moment->recorded && resuming->recordless)
		return false;
	const bool replaces =
		moment->slot >= 0 && spill_holds(&worker->walk.kept.spill, kept_states_slot(worker, moment->slot));
	if (worker->neighbours)
		return decide(worker, moment, replaces);
	return replaces || is_due(resuming, moment, clock_seconds() - resuming->last);
}

/* Writes an image with ARRAYS or, at the end of skipping, reads it. */
static enum status on_point(void *context, const struct machine_array *arrays, size_t count)
{
	struct worker *worker = context;
	const struct gradient_result *result = worker->run->gradient->result;
	struct kept_states *kept = &worker->walk.kept;
	wave_run(worker->wave);
	evaluate_deferred(&worker->deferred);
	TRY(kept_states_set_pieces(worker, arrays, count, SUM_PIECES * result->param_count + 2));
	add_sums(worker);
	if (!worker->walk.resuming.skips) {
		TRY(write_image(worker));
		return worker->neighbours ? shares_meet(worker->run) : STATUS_OK;
	}
	worker->walk.resuming.skips = false;
	if (worker->neighbours)
		neighbours_begin(worker->neighbours, worker->tile_row);
	return spill_read(&kept->spill, result->journal->point_slot, kept->pieces, kept->piece_count, worker->diags);
}

/* The hooks of a worker that may skip. */

/* A skipped backward call still reports the gradients that it completes. */
static enum status skip_call(void *context, const struct machine_call *call)
{
	struct worker *worker = context;
	if (!worker->walk.resuming.skips)
		return worker->walk.resuming.computing.call(context, call);
	return call->kind == CALL_BACKWARD ? gradient_events_step(worker->run, call->step, worker->diags) : STATUS_OK;
}

/*
 * The output is also written to the spill file: a command that resumes after the first sweep reads it back.
 * The worker learns whether it skips only when the input has been read.
 */
static enum status on_exchange(void *context, enum machine_input_output which, int64_t offset, const struct type *type)
{
	struct worker *worker = context;
	const struct resuming *resuming = &worker->walk.resuming;
	struct spill *spill = &worker->walk.kept.spill;
	if (which == MACHINE_OUTPUT) {
		const struct spill_piece piece = {worker->slab.base + offset, (size_t)type_bytes(type)};
		spill->number = -1;
		TRY(resuming->skips ? spill_read(spill, JOURNAL_VALUE, &piece, 1, worker->diags)
		                    : spill_write_at_once(spill, JOURNAL_VALUE, &piece, 1, worker->diags));
	}
	if (resuming->skips && which == MACHINE_SEED)
		return STATUS_OK;
	if (resuming->skips && which == MACHINE_GRADIENT)
		return diag_file(worker->diags, STATUS_DATA, worker->run->gradient->options->journal, -1,
		                 "names no point of this run");
	return resuming->computing.input_output(context, which, offset, type);
}

static enum status skip_convert(void *context, int64_t to, int64_t from, const struct type *type, bool narrow)
{
	const struct resuming *resuming = &((const struct worker *)context)->walk.resuming;
	return resuming->skips ? STATUS_OK : resuming->computing.convert(context, to, from, type, narrow);
}

/* Skipped fetches are counted: the worker reads ahead from the right slot once it computes. */
static enum status skip_disk(void *context, enum machine_disk access, int64_t slot, const struct machine_array *arrays,
                             size_t count)
{
	struct worker *worker = context;
	struct kept_states *kept = &worker->walk.kept;
	struct resuming *resuming = &worker->walk.resuming;
	resuming->points += access == MACHINE_SPILL_ALONE;
	if (!resuming->skips && access == MACHINE_SPILL_ALONE)
		resuming->last = clock_seconds();
	if (!resuming->skips)
		return resuming->computing.disk(context, access, slot, arrays, count);
	if (access == MACHINE_FETCH)
		(void)kept_states_next_fetch(worker);
	if (access != MACHINE_SPILL_ALONE || resuming->points != worker->run->gradient->result->journal->number)
		return STATUS_OK;
	resuming->skips = false;
	TRY(kept_states_set_pieces(worker, arrays, count, 0));
	return spill_read(&kept->spill, kept_states_slot(worker, slot), kept->pieces, kept->piece_count, worker->diags);
}

void resume_hook(struct worker *worker)
{
	struct machine_hooks *hooks = &worker->walk.hooks;
	worker->walk.resuming.computing = *hooks;
	hooks->call = skip_call;
	hooks->input_output = on_exchange;
	hooks->convert = skip_convert;
	hooks->disk = skip_disk;
	hooks->wants_point = on_moment;
	hooks->point = on_point;
}
