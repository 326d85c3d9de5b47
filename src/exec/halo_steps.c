/*
 * The plan of a run whose ranks exchange halos: which chains run so, their steps, and the rows of the strips. It depends
 * on the chain, the types and the number of ranks alone, so all ranks make the same plan.
 */
#include <string.h>

#include "base/checked.h"
#include "exec/halos.h"

enum {
	LARGE_STRIP = 4 << 20, /* bytes; a smaller strip stays in the cache, and a step on it takes less than a message */
	LARGE_SHARE = 32,      /* a halo is at most this share of a large strip's rows, unless a step reads more */
	SMALL_SHARE = 16,      /* the same of other strips */
	WINDOWS_GOOD = 8,      /* windows serve a chain that reads at most 1 / WINDOWS_GOOD of a rank's rows around a row */
	WAVE_BYTES = 304 << 10, /* rows that a wave of as many stencils takes at once, in a second-level cache of 1 MiB */
	MESSAGE_MOST = 8 << 20, /* bytes of a halo: sends of so many never wait */
	STAGES_MOST = 64,       /* of the chain */
};
static const int64_t HELD_MOST = INT64_C(4) << 30; /* bytes of a strip's rows */

/* True if BODY makes an array of its own from its only in. */
static bool makes_rows(const struct body *body)
{
	return body->in_count <= 1 && body->out_count == 1 && body->values[body->outs[0].value].from != FROM_PARAM;
}

/* Lowers PORTION on ROWS rows. Sets *REACH to the rows that it reads around a row, and *FITS to whether ranks can run it. */
static enum status find_reach(const struct halos *h, const struct portion *portion, int64_t rows,
                              struct row_reach *reach, bool *fits)
{
	const struct run *run = h->run;
	struct arena arena;
	struct lowered lowered;
	struct type type = h->type;
	type.shape.dim[0] = rows;
	arena_init(&arena, run->context.allocator);
	const struct context context = {run->context.allocator, &arena, run->context.diags};
	const enum status status = lower(&context, &lowered, run->chain, portion, &type, LOWER_RUN);
	*fits = !status && lowered.streamable && !lowered.sums && !lowered.reach.draws &&
	        lowered.output.dtype == type.dtype && shape_equal(&lowered.output.shape, &type.shape) &&
	        makes_rows(lowered.whole);
	*reach = *fits && lowered.neighbours ? lowered.reach : (struct row_reach){0};
	for (size_t i = 0; !status && i < run->params->count; i++)
		*fits &= !lowered.streamed_params[i];
	arena_free(&arena);
	return status;
}

/* Sets *HALO to the rows that PORTION reads on either side of a row; -1 if ranks cannot run it on some rows each. */
static enum status find_halo(struct halos *h, const struct portion *portion, int64_t *halo)
{
	struct row_reach reach;
	bool fits;
	TRY(find_reach(h, portion, h->rows, &reach, &fits));
	*halo = fits ? greater(reach.before, reach.after) : -1;
	h->wraps |= reach.wraps;
	h->ends |= reach.ends;
	return STATUS_OK;
}

/* Sets *FITS to false if PORTION reads other rows on a strip's rows than on all: a roll goes the shorter way round. */
static enum status compare_reach(const struct halos *h, const struct portion *portion, bool *fits)
{
	struct row_reach all, some;
	TRY(find_reach(h, portion, h->rows, &all, fits));
	for (int64_t rows = h->least; *fits && all.wraps && rows <= h->least + 1; rows++) {
		TRY(find_reach(h, portion, rows + 2 * h->halo, &some, fits));
		*fits &= some.before == all.before && some.after == all.after;
	}
	return STATUS_OK;
}

/*
 * Returns the rows of a halo that are worth fewer exchanges, if no step reads more. A sweep on a large strip is some
 * whole waves: 4096^2 f32 by two ranks takes 9 % less processor time with 19 rows than with 16.
 */
static int64_t good_halo(const struct halos *h)
{
	const bool large = h->least * h->row >= LARGE_STRIP;
	const int64_t most = lesser(greater(h->least / (large ? LARGE_SHARE : SMALL_SHARE), 1), MESSAGE_MOST / h->row);
	const int64_t wave = WAVE_BYTES / h->row;
	return large && wave > 0 && wave <= most ? most - most % wave : most;
}

/* Adds an iteration of the REPEAT that is stage PLACE of STAGES. Sets *FITS to false if it cannot run so. */
static enum status add_repeat(struct halos *h, const struct node *node, size_t place, size_t stages, bool *fits)
{
	struct halo_step *step = &h->steps[h->count++];
	*step = (struct halo_step){
		.portion = {.before = place, .after = stages - place - 1, .iterations = 0.5 / (double)node->count},
		.times = node->count};
	TRY(find_halo(h, &step->portion, &step->reach));
	*fits = step->reach >= 0;
	h->count -= node->count < 1;
	return STATUS_OK;
}

/* Adds a step of the stages from PLACE on, at least one and no `repeat`; sets *NEXT to the stage after them. */
static enum status add_stages(struct halos *h, const struct node *node, size_t place, size_t stages, size_t *next)
{
	struct halo_step *step = &h->steps[h->count];
	*next = place;
	for (; node && (node->kind != NODE_REPEAT || *next == place); node = node->next) {
		const struct portion longer = {.before = place, .after = stages - *next - 1};
		int64_t reach;
		TRY(find_halo(h, &longer, &reach));
		if (reach < 0 || (*next > place && reach > good_halo(h)))
			break;
		*step = (struct halo_step){.portion = longer, .times = 1, .reach = reach};
		(*next)++;
	}
	h->count += *next > place;
	return STATUS_OK;
}

/* Sets the rows of halos, some times as many as the step reads that reads the most. */
static void choose_halo(struct halos *h)
{
	int64_t most = 0, all = 0;
	for (size_t i = 0; i < h->count; i++) {
		most = greater(most, h->steps[i].reach);
		all = saturated(all + (__int128)h->steps[i].reach * h->steps[i].times);
	}
	const int64_t good = lesser(good_halo(h), all);
	h->halo = most > 0 ? greater(most, good - good % most) : 0;
}

/* Cuts the chain into steps. *FITS: they can run so. */
static enum status cut_chain(struct halos *h, bool *fits)
{
	const struct chain *chain = h->run->chain;
	size_t stages = 0, place = 0, next;
	for (const struct node *node = chain->first; node; node = node->next)
		stages++;
	*fits = stages > 0 && stages <= STAGES_MOST;
	h->steps = arena_array(&h->arena, stages + 1, sizeof *h->steps);
	TRY_ALLOC(h->steps, h->run->context.diags);
	for (const struct node *node = chain->first; *fits && node; place = next) {
		next = place + 1;
		if (node->kind == NODE_REPEAT && !node->conditional)
			TRY(add_repeat(h, node, place, stages, fits));
		else
			TRY(add_stages(h, node, place, stages, &next));
		*fits &= next > place;
		for (size_t i = place; i < next; i++)
			node = node->next;
	}
	choose_halo(h);
	*fits &= h->halo > 0 && h->halo <= h->least && h->halo * h->row <= MESSAGE_MOST && !(h->wraps && h->ends);
	for (size_t i = 0; *fits && i < h->count; i++)
		TRY(compare_reach(h, &h->steps[i].portion, fits));
	return STATUS_OK;
}

/* True if a step of the chain needs no other value than the one before it, and does not depend on its place. */
static bool is_simple(const struct chain *chain)
{
	return chain->variable_count <= 1 && !chain->names_input && !chain->input_type.given && chain->loop_count == 0 &&
	       chain->program_count == 0 && !chain->has_conditions;
}

static int64_t first_row_of_strip(const struct halos *h, int64_t strip, int64_t strips)
{
	return h->least * strip + lesser(h->rows % strips, strip);
}

/* Cuts the array into strips of nearly as many rows each. */
static void cut_strips(struct halos *h)
{
	const int64_t strips = STRIPS * (int64_t)ranks_count(h->run->ranks);
	h->rows = h->type.shape.dim[0];
	h->row = greater(type_bytes(&h->type) / greater(h->rows, 1), 1);
	h->least = h->rows / strips;
	for (int64_t i = 0; i < STRIPS; i++) {
		const int64_t strip = STRIPS * (int64_t)ranks_index(h->run->ranks) + i;
		h->strips[i] = (struct halo_strip){.begin = first_row_of_strip(h, strip, strips),
		                                   .end = first_row_of_strip(h, strip + 1, strips)};
	}
}

enum status halos_plan(struct halos *h, bool *fits)
{
	const struct run *run = h->run;
	const struct run_options *options = run->options;
	const struct type *type = &h->type;
	int64_t halo;
	*fits = false;
	if (!run->ranks || run->gradient || options->job.portion.before || !is_simple(run->chain) || type->shape.ndim < 1 ||
	    type->dtype != dtype_compute(type->dtype) || !reader_seekable(run->reader) || !writer_seekable(options->value))
		return STATUS_OK;
	cut_strips(h);
	TRY(find_halo(h, &options->job.portion, &halo));
	if (halo <= 0 || h->least < 1 || 2 * halo <= STRIPS * h->least / WINDOWS_GOOD || h->least * h->row > HELD_MOST)
		return STATUS_OK;
	TRY(cut_chain(h, fits));
	const int64_t last = STRIPS * (int64_t)ranks_count(run->ranks) - 1;
	for (int64_t i = 0; i < STRIPS; i++) {
		const int64_t strip = STRIPS * (int64_t)ranks_index(run->ranks) + i;
		h->strips[i].low = h->wraps || strip > 0 ? h->halo : 0;
		h->strips[i].high = h->wraps || strip < last ? h->halo : 0;
	}
	return STATUS_OK;
}
