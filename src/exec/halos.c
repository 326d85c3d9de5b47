/*
 * A forward run on several ranks whose stages together read more rows around a row than windows allow (plan/tiles.h), as
 * a long `repeat` of a stencil does. Each rank keeps its rows in memory, and as many rows around them as a part of the
 * chain needs. It runs the part on all of these rows as on a whole array. Then the outermost rows are wrong, at most as
 * many as the part reads around a row. The ranks beside it have them, and send them.
 *
 *     rank 0   [=================|---]             = its own rows, - rows of others, up to date before each part
 *     rank 1                 [---|=================|---]
 *     rank 2                                   [---|=================]
 *
 * A part is some stages, or some iterations of a `repeat`. Its halo is at most 1 / OWN_PARTS of a rank's rows.
 */
#include <string.h>

#include "base/checked.h"
#include "exec/run_parts.h"

enum {
	OWN_PARTS = 16,
	WINDOWS_GOOD = 8, /* windows serve a chain that reads at most 1 / WINDOWS_GOOD of a rank's rows around a row */
	MESSAGE_MOST = 8 << 20, /* bytes of a halo: sends of so many never wait */
	STAGES_MOST = 64,       /* of the chain */
};
static const int64_t HELD_MOST = INT64_C(4) << 30; /* bytes of a rank's rows */

enum { TAG_DOWN, TAG_UP };

struct part {
	struct portion portion;
	int64_t times;
};

struct halos {
	struct run *run;
	struct arena arena;
	struct type type;   /* of the array, before and after each part */
	int64_t rows, row;  /* of the array; bytes of one */
	int64_t least;      /* rows that each rank has at least */
	int64_t begin, end; /* this rank's rows */
	int64_t halo;       /* rows of others, on each side where there are any */
	int64_t low, high;  /* these on either side */
	bool wraps, ends;   /* a stage goes around the ends of the array; another has a rule for them */
	struct part *parts; /* at most two for a stage */
	size_t count;
	char *from, *to; /* arrays of low + own + high rows */
	int64_t peak;    /* the most bytes of a part's run */
};

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
	        lowered.output.dtype == type.dtype && shape_equal(&lowered.output.shape, &type.shape);
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

/* Sets *FITS to false if PORTION reads other rows on a rank's rows than on all: a roll goes the shorter way round. */
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

static void add_part(struct halos *h, const struct portion *portion, int64_t times, int64_t halo)
{
	if (times < 1)
		return;
	h->parts[h->count++] = (struct part){*portion, times};
	h->halo = greater(h->halo, halo);
}

/* Adds the parts of the REPEAT that is stage PLACE of STAGES. Sets *FITS to false if it cannot run so. */
static enum status add_repeat(struct halos *h, const struct node *node, size_t place, size_t stages, bool *fits)
{
	struct portion portion = {.before = place, .after = stages - place - 1, .iterations = 0.5 / (double)node->count};
	const int64_t allowed = lesser(greater(h->least / OWN_PARTS, 1), MESSAGE_MOST / h->row);
	int64_t halo;
	TRY(find_halo(h, &portion, &halo));
	const int64_t most = halo > 0 ? lesser(greater(allowed / halo, 1), node->count) : node->count;
	portion.iterations = ((double)most - 0.5) / (double)node->count;
	TRY(halo < 0 ? STATUS_OK : find_halo(h, &portion, &halo));
	*fits = halo >= 0;
	add_part(h, &portion, node->count / most, halo);
	portion.iterations = ((double)(node->count % most) - 0.5) / (double)node->count;
	add_part(h, &portion, node->count % most > 0, halo);
	return STATUS_OK;
}

/* Adds a part of the stages from PLACE on, at least one and no `repeat`; sets *NEXT to the stage after them. */
static enum status add_stages(struct halos *h, const struct node *node, size_t place, size_t stages, size_t *next)
{
	struct portion portion = {0};
	int64_t halo = -1;
	*next = place;
	for (; node && (node->kind != NODE_REPEAT || *next == place); node = node->next) {
		const struct portion longer = {.before = place, .after = stages - *next - 1};
		int64_t reach;
		TRY(find_halo(h, &longer, &reach));
		if (reach < 0 || (*next > place && reach > h->least / OWN_PARTS))
			break;
		portion = longer;
		halo = reach;
		(*next)++;
	}
	add_part(h, &portion, *next > place, halo);
	return STATUS_OK;
}

/* Cuts the chain into parts. *FITS: they can run so. */
static enum status cut_chain(struct halos *h, bool *fits)
{
	const struct chain *chain = h->run->chain;
	size_t stages = 0, place = 0, next;
	for (const struct node *node = chain->first; node; node = node->next)
		stages++;
	*fits = stages > 0 && stages <= STAGES_MOST;
	h->parts = arena_array(&h->arena, 2 * stages + 1, sizeof *h->parts);
	TRY_ALLOC(h->parts, h->run->context.diags);
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
	*fits &= h->halo > 0 && h->halo <= h->least && h->halo * h->row <= MESSAGE_MOST && !(h->wraps && h->ends);
	for (size_t i = 0; *fits && i < h->count; i++)
		TRY(compare_reach(h, &h->parts[i].portion, fits));
	return STATUS_OK;
}

/* True if a part of the chain needs no other value than the one before it, and does not depend on its place. */
static bool is_simple(const struct chain *chain)
{
	return chain->variable_count <= 1 && !chain->names_input && !chain->input_type.given && chain->loop_count == 0 &&
	       chain->program_count == 0 && !chain->has_conditions;
}

static void share_rows(struct halos *h)
{
	const int64_t count = ranks_count(h->run->ranks), index = ranks_index(h->run->ranks);
	h->rows = h->type.shape.dim[0];
	h->row = greater(type_bytes(&h->type) / greater(h->rows, 1), 1);
	h->least = h->rows / count;
	h->begin = h->least * index + lesser(h->rows % count, index);
	h->end = h->begin + h->least + (index < h->rows % count);
}

/* Sets *FITS to whether the array runs by parts. */
static enum status plan(struct halos *h, bool *fits)
{
	const struct run *run = h->run;
	const struct run_options *options = run->options;
	const struct type *type = &h->type;
	int64_t halo;
	*fits = false;
	if (!run->ranks || run->gradient || options->job.portion.before || !is_simple(run->chain) || type->shape.ndim < 1 ||
	    type->dtype != dtype_compute(type->dtype) || !reader_seekable(run->reader) || !writer_seekable(options->value))
		return STATUS_OK;
	share_rows(h);
	TRY(find_halo(h, &options->job.portion, &halo));
	if (halo <= 0 || h->least < 2 || 2 * halo <= h->least / WINDOWS_GOOD || h->least * h->row > HELD_MOST)
		return STATUS_OK;
	return cut_chain(h, fits);
}

/* Reads COUNT rows from row FIRST on, around the end of the array, to TO. */
static enum status read_rows(const struct halos *h, int64_t first, int64_t count, char *to)
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

/* Runs PORTION on the rows at h->from, and writes those at h->to. */
static enum status run_part(struct halos *h, const struct portion *portion)
{
	const struct run *run = h->run;
	struct arena arena;
	struct type type = h->type;
	struct run_counters counters;
	type.shape.dim[0] = h->low + h->end - h->begin + h->high;
	arena_init(&arena, run->context.allocator);
	struct input input = {.fd = -1, .name = run->reader->input->name, .arena = &arena};
	struct reader reader;
	struct writer writer;
	struct kept_array kept = {.data = h->to, .size = (size_t)type_bytes(&type)};
	reader_init(&reader, &input, &(struct reader_options){.format = FORMAT_MEMORY, .raw = type, .memory = h->from},
	            &arena);
	writer_init(&writer, NULL, &(struct writer_options){.format = FORMAT_MEMORY, .memory = &kept}, &arena);
	struct run_options options = *run->options;
	options.job.portion = *portion;
	options.job.ranks = 1;
	options.job.tile = 0;
	options.dtype = DTYPE_COUNT;
	options.value = &writer;
	options.progress = NULL;
	const struct context context = {run->context.allocator, &arena, run->context.diags};
	const struct run_subject subject = {.chain = run->chain, .params = run->params, .reader = &reader};
	const enum status status = run_forward(&context, &subject, &options, &counters);
	h->peak = greater(h->peak, counters.peak_bytes);
	reader_free(&reader);
	writer_free(&writer);
	arena_free(&arena);
	return status;
}

/* Gives the ranks beside this one the outermost of its own rows, and gets theirs. */
static enum status exchange(const struct halos *h)
{
	const struct ranks *ranks = h->run->ranks;
	const int count = ranks->count, below = (ranks->index + count - 1) % count, above = (ranks->index + 1) % count;
	const size_t size = (size_t)(h->halo * h->row);
	char *own = h->to + h->low * h->row, *end = own + (h->end - h->begin) * h->row;
	TRY(h->low ? ranks_send(ranks, below, TAG_DOWN, own, size) : STATUS_OK);
	TRY(h->high ? ranks_send(ranks, above, TAG_UP, end - size, size) : STATUS_OK);
	TRY(h->low ? ranks_receive(ranks, below, TAG_UP, h->to, size) : STATUS_OK);
	return h->high ? ranks_receive(ranks, above, TAG_DOWN, end, size) : STATUS_OK;
}

static enum status run_parts(struct halos *h)
{
	const struct run_options *options = h->run->options;
	double done = 0, all = 0;
	for (size_t i = 0; i < h->count; i++)
		all += (double)h->parts[i].times;
	for (size_t i = 0; i < h->count; i++)
		for (int64_t time = 0; time < h->parts[i].times; time++) {
			TRY(ranks_check(h->run->ranks));
			TRY(run_part(h, &h->parts[i].portion));
			TRY(++done < all ? exchange(h) : STATUS_OK);
			char *to = h->to;
			h->to = h->from;
			h->from = to;
			if (options->progress)
				options->progress(options->progress_context, NULL, done / all, 0, 0);
		}
	return STATUS_OK;
}

static void count_run(const struct halos *h, int64_t bytes)
{
	struct run_counters *counters = h->run->forward->counters;
	counters->arrays++;
	counters->tiles += ranks_count(h->run->ranks);
	counters->tile_rows = h->end - h->begin;
	counters->halo_rows = 2 * h->halo;
	counters->passes = greater(counters->passes, 1);
	counters->peak_bytes = greater(counters->peak_bytes, h->peak + bytes);
}

static enum status run_array(struct halos *h)
{
	const struct run *run = h->run;
	struct diags *diags = run->context.diags;
	const int64_t own = h->end - h->begin, elements = h->row / (int64_t)dtype_size(h->type.dtype);
	h->low = h->wraps || ranks_index(run->ranks) > 0 ? h->halo : 0;
	h->high = h->wraps || ranks_index(run->ranks) + 1 < ranks_count(run->ranks) ? h->halo : 0;
	const int64_t bytes = (h->low + own + h->high) * h->row;
	TRY(reader_check_size(run->reader, diags));
	h->from = arena_alloc(&h->arena, (size_t)bytes);
	h->to = arena_alloc(&h->arena, (size_t)bytes);
	TRY_ALLOC(h->from && h->to, diags);
	TRY(read_rows(h, h->begin - h->low, h->low + own + h->high, h->from));
	TRY(run_parts(h));
	TRY(writer_begin(run->options->value, &h->type, diags));
	TRY(writer_write_at(run->options->value, h->begin * elements, h->from + h->low * h->row, h->type.dtype,
	                    own * elements, diags));
	TRY(writer_end(run->options->value, diags));
	count_run(h, 2 * bytes);
	return reader_skip(run->reader, diags);
}

enum status halos_run(struct run *run, const struct type *type, bool *ran)
{
	struct halos h = {.run = run, .type = *type};
	arena_init(&h.arena, run->context.allocator);
	enum status status = plan(&h, ran);
	if (!status && *ran)
		status = run_array(&h);
	arena_free(&h.arena);
	return status;
}
