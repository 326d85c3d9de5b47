/*
 * How the gradient of each param is summed (enum sum_kind):
 *
 *     streamed, in tiles                      SUM_ROWS     the rows; each tile adds to its own. With windows they
 *                                                          are written or long sums, as those of the whole array
 *     one tile, no element read twice         SUM_ONCE     the elements, written where they stay
 *     few elements, some of them read twice   SUM_APART    a long sum, and one more for each tile
 *     few tiles, each element one product's   SUM_PLAIN    the elements, to which products of tiles add in their order
 *     all others                              SUM_SHARED   a long sum, to which the tiles add in their order
 *
 * A long sum has a head and a tail (ops/kernels.h). The product of a tile adds up hundreds of rows in the type. So it may
 * add to the sum of a few tiles in the type, too, and no tail is needed.
 *
 * The steps of a recurrence multiply few rows by the same matrix, time after time. To add each product to a long sum would
 * take a third of the product's time and more. So products of FEW_ROWS at most add up in the type, in a block
 * (evaluate/evaluate.h), until they have some hundred rows. The block is then added to the long sum. In a chain of one tile,
 * the first params have blocks of BLOCKS_MOST bytes together. The scratch of a product of large matrices is as large.
 *
 * Tiles of SUM_PLAIN and SUM_SHARED wait for one another: tile T adds its part of an element once tile T - 1 has. If a
 * tile reads an element twice, tile T waits for all additions of tile T - 1. So small sums are made apart, and a tile's
 * sum is added when the tile ends.
 *
 * Ranks that exchange rows make the sums over all rows together (evaluate/neighbours.h). So the last one alone adds them to
 * params' gradients, which are those of one tile.
 */
#include <string.h>

#include "base/checked.h"
#include "plan/job_parts.h"

enum {
	APART_MOST = 64 << 10, /* bytes of a param whose sums are made apart */
	PLAIN_TILES = 8,       /* the most tiles whose products add up in the type */
	FEW_ROWS = 64,
	BLOCKS_MOST = 512 << 10, /* bytes of blocks */
	APART_SHARE = 16,        /* all such params are at most this fraction of the params' bytes, or APART_MOST */
};

bool job_has_rows(const struct job *job, size_t i) { return job->sums.kinds[i] == SUM_ROWS; }

bool job_sums_once(const struct job *job, size_t i)
{
	const enum sum_kind kind = job->sums.kinds[i];
	return kind == SUM_ONCE || (kind == SUM_ROWS && job->tiles.windows && job->sums.once[i]);
}

bool job_sums_long(const struct job *job, size_t i)
{
	const enum sum_kind kind = job->sums.kinds[i];
	return kind == SUM_SHARED || kind == SUM_APART || (kind == SUM_ROWS && job->tiles.windows && !job->sums.once[i]);
}

static struct type held_type(const struct job *job, size_t i)
{
	return param_type(&job->chain->params[i], &job->input);
}

bool job_sums_plain(const struct job *job, size_t i) { return job->sums.kinds[i] == SUM_PLAIN; }

int64_t job_long_bytes(const struct job *job, size_t i)
{
	const struct type type = held_type(job, i);
	return saturated_add(type_bytes(&type), round_up(type_bytes(&type) / 2, sizeof(double)));
}

int64_t job_sum_bytes(const struct job *job, size_t i)
{
	const enum sum_kind kind = job->sums.kinds[i];
	const struct type type = held_type(job, i);
	const int64_t bytes = job_sums_long(job, i) ? job_long_bytes(job, i) : type_bytes(&type);
	return kind == SUM_NONE ? 0 : saturated_add(bytes, job->sums.blocks[i] ? type_bytes(&type) : 0);
}

int64_t job_apart_bytes(const struct job *job, size_t i)
{
	return job->sums.kinds[i] == SUM_APART ? round_up(job_long_bytes(job, i), ARRAY_ALIGN) : 0;
}

/* The reads of params in a forward body. */
struct reads {
	const struct body *body;
	int32_t levels[MAX_LOOPS]; /* of the open loops */
	int depth;
	const struct job *job;
	bool *seen, *whole; /* by param: it is read so far; it is read otherwise than by a constant leading index */
	uint64_t **parts;   /* by param: a bit for each leading index that is such a constant; NULL: none */
	bool *once;         /* by param: none of its elements is read twice */
	bool *products;     /* by param: only products of V and one matrix read it */
	bool *blocks;       /* by param: such products read all of it, each of few rows */
	bool failed;        /* out of memory */
};

/* True if each iteration of each open loop reads another part of REF's param: REF is indexed by each loop's counter. */
static bool varies(const struct reads *reads, const struct param_ref *ref)
{
	for (int d = 0; d < reads->depth; d++) {
		uint32_t k = 0;
		while (k < ref->count && ref->index[k].loop != reads->levels[d])
			k++;
		if (k == ref->count)
			return false;
	}
	return true;
}

/* True if no earlier read has an element of REF in common with it. Remembers REF. */
static bool is_apart(struct reads *reads, const struct param_ref *ref)
{
	const uint32_t p = ref->param;
	const bool constant = ref->count > 0 && ref->index[0].loop < 0, seen = reads->seen[p];
	reads->seen[p] = true;
	reads->whole[p] |= !constant;
	if (!constant || reads->whole[p])
		return !seen;
	const struct type type = param_type(&reads->job->chain->params[p], &reads->job->input);
	const size_t part = (size_t)ref->index[0].value, words = (size_t)(type.shape.dim[0] / 64 + 1);
	if (!reads->parts[p])
		reads->parts[p] = arena_array(reads->job->context.arena, words, sizeof **reads->parts);
	reads->failed |= !reads->parts[p];
	if (reads->failed)
		return false;
	const bool again = reads->parts[p][part / 64] >> part % 64 & 1;
	reads->parts[p][part / 64] |= UINT64_C(1) << part % 64;
	return !again;
}

/* False for a vector also if it has two extents: its products would add row by row to what is in the block. */
static bool is_matrix(const struct shape *shape) { return shape->ndim == 2 && shape->dim[0] > 1 && shape->dim[1] > 1; }

/* Notes that INSTR, which may be NULL, reads value INDEX. */
static void note_read(struct reads *reads, const struct instr *instr, uint32_t index)
{
	const struct value *value = index == NO_VALUE ? NULL : &reads->body->values[index];
	if (!value || value->from != FROM_PARAM)
		return;
	const bool apart = is_apart(reads, &value->param);
	reads->once[value->param.param] &= apart && varies(reads, &value->param);
	const bool product =
		instr && instr->kind == INSTR_OP && index == instr->a && product_in_pieces(instr->op, instr->of.v, instr->of.a);
	reads->products[value->param.param] &= product;
	reads->blocks[value->param.param] &= product && value->param.count == 0 && is_matrix(&instr->of.a->shape) &&
	                                     product_depth(instr->op, instr->of.v, instr->of.a) <= FEW_ROWS;
}

static void note_instr(struct reads *reads, const struct instr *instr)
{
	if (instr->kind == INSTR_LOOP) {
		reads->levels[reads->depth++] = instr->level;
		for (uint32_t c = 0; c < instr->loop.carry_count; c++) {
			note_read(reads, NULL, instr->loop.carries[c].init); /* counts as a read in every iteration */
			note_read(reads, NULL, instr->loop.carries[c].result);
		}
	} else if (instr->kind == INSTR_END) {
		reads->depth--;
	} else {
		for (uint32_t k = 0; k < instr_value_count(instr); k++)
			note_read(reads, instr, instr_value(instr, k));
		if (instr->op == OP_identity) /* the copy that `use` makes: it may have several readers, so it counts twice */
			note_read(reads, instr, instr->v);
	}
}

/* Sets once, products and blocks of SUMS from FORWARD, which may be NULL. */
static enum status find_reads(const struct job *job, const struct body *forward, struct sums *sums)
{
	const size_t count = job->chain->param_count;
	struct arena *arena = job->context.arena;
	struct reads reads = {.body = forward,
	                      .job = job,
	                      .seen = arena_array(arena, count + 1, sizeof *reads.seen),
	                      .whole = arena_array(arena, count + 1, sizeof *reads.whole),
	                      .parts = arena_array(arena, count + 1, sizeof *reads.parts),
	                      .once = arena_array(arena, count + 1, sizeof *reads.once),
	                      .products = arena_array(arena, count + 1, sizeof *reads.products),
	                      .blocks = arena_array(arena, count + 1, sizeof *reads.blocks)};
	TRY_ALLOC(reads.seen && reads.whole && reads.parts && reads.once && reads.products && reads.blocks,
	          job->context.diags);
	memset(reads.once, true, count * sizeof *reads.once);
	memset(reads.products, true, count * sizeof *reads.products);
	memset(reads.blocks, true, count * sizeof *reads.blocks);
	for (size_t i = 0; forward && i < forward->instr_count; i++)
		note_instr(&reads, &forward->instrs[i]);
	for (size_t i = 0; forward && i < forward->out_count; i++)
		note_read(&reads, NULL, forward->outs[i].value);
	TRY_ALLOC(!reads.failed, job->context.diags);
	sums->once = reads.once;
	sums->products = reads.products;
	sums->blocks = reads.blocks;
	return STATUS_OK;
}

enum status job_find_sums(struct job *job, const struct body *forward)
{
	const size_t count = job->chain->param_count;
	struct sums *sums = &job->sums;
	int64_t all = 0, apart = 0;
	TRY(find_reads(job, forward, sums));
	sums->kinds = arena_array(job->context.arena, count + 1, sizeof *sums->kinds);
	sums->written = arena_array(job->context.arena, count + 1, sizeof *sums->written);
	TRY_ALLOC(sums->kinds && sums->written, job->context.diags);
	for (size_t i = 0; i < count; i++) {
		const struct type type = held_type(job, i);
		all = saturated_add(all, job->chain->params[i].differentiated ? type_bytes(&type) : 0);
	}
	for (size_t i = 0; i < count; i++) {
		const struct type type = held_type(job, i);
		const int64_t bytes = type_bytes(&type);
		if (!job->chain->params[i].differentiated)
			sums->kinds[i] = SUM_NONE;
		else if (job->whole.streamed_params[i])
			sums->kinds[i] = SUM_ROWS;
		else if (sums->once[i] || bytes > APART_MOST || apart + bytes > greater(all / APART_SHARE, APART_MOST))
			sums->kinds[i] = SUM_SHARED;
		else
			sums->kinds[i] = SUM_APART;
		apart += sums->kinds[i] == SUM_APART ? bytes : 0;
		sums->apart += job_apart_bytes(job, i);
		sums->any |= sums->kinds[i] == SUM_SHARED || sums->kinds[i] == SUM_APART;
		sums->ordered |= sums->kinds[i] == SUM_SHARED;
	}
	return STATUS_OK;
}

/* Leaves blocks to the first params that have them, if there is one tile, without a window. */
static void settle_blocks(struct job *job, bool several)
{
	struct sums *sums = &job->sums;
	int64_t left = BLOCKS_MOST;
	for (size_t i = 0; i < job->chain->param_count; i++) {
		const struct type type = held_type(job, i);
		const int64_t bytes = type_bytes(&type);
		sums->blocks[i] &= !several && !job->tiles.windows && sums->kinds[i] == SUM_SHARED && bytes <= left;
		left -= sums->blocks[i] ? bytes : 0;
	}
}

void job_settle_sums(struct job *job)
{
	struct sums *sums = &job->sums;
	const struct tiles *tiles = &job->tiles;
	sums->ordered &= (tiles->workers > 1 || job->options.ranks > 1) && !tiles->exchanged;
	const bool few = ceil_div(tiles->rows, tiles->tile) <= PLAIN_TILES;
	const bool several = tiles->tiled && tiles->tile < tiles->rows && !tiles->exchanged;
	for (size_t i = 0; several && few && i < job->chain->param_count; i++)
		if (sums->kinds[i] == SUM_SHARED && sums->once[i] && sums->products[i])
			sums->kinds[i] = SUM_PLAIN;
	for (size_t i = 0; !several && i < job->chain->param_count; i++) {
		if (sums->kinds[i] != SUM_NONE && (!tiles->tiled || sums->kinds[i] != SUM_ROWS))
			sums->kinds[i] = sums->once[i] ? SUM_ONCE : SUM_SHARED;
		sums->written[i] = sums->kinds[i] == SUM_ONCE;
	}
	sums->apart = several ? sums->apart : 0;
	settle_blocks(job, several);
}
