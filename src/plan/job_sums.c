/*
 * How the gradient of each param is summed (enum sum_kind):
 *
 *     streamed, in tiles                      SUM_ROWS     the rows; each tile adds to its own. With windows they
 *                                                          are written or long sums, as those of the whole array.
 *                                                          Those of an input are in a worker's block, for a chunk
 *     one tile, no element read twice         SUM_ONCE     the elements, written where they stay
 *     few elements, some of them read twice   SUM_APART    a long sum, and one more for each tile
 *     few tiles, each element one product's   SUM_PLAIN    the elements, to which products of tiles add in their order
 *     each element one take's                 SUM_PLAIN    the elements, to which the take adds row by row
 *     all others                              SUM_SHARED   a long sum, to which the tiles add in their order
 *
 * A long sum has a head and a tail (ops/kernels.h). The product of a tile adds up hundreds of rows in the type. So it may
 * add to the sum of a few tiles in the type, too, and no tail is needed.
 *
 * A take adds the rows of the cotangent one after another, in one tile as in several. So its sums need no tails, and have the
 * same bits for all tiles. It may add to an element many times, and to other elements than the tile before.
 *
 * The steps of a recurrence multiply few rows by the same matrix, time after time. To add each product to a long sum would
 * take a third of the product's time and more. So products of FEW_ROWS at most add up in the type, in a block
 * (evaluate/evaluate.h), until they have some hundred rows. The block is then added to the long sum. In a chain of one tile,
 * the first params have blocks of BLOCKS_MOST bytes together. The scratch of a product of large matrices is as large.
 *
 * A journal keeps an array whole that tiles would cut. The rows of a streamed param are then plain sums, as in tiles.
 *
 * Tiles of SUM_PLAIN and SUM_SHARED wait for one another: tile T adds its part of an element once tile T - 1 has. If a
 * tile reads an element twice, tile T waits for all additions of tile T - 1. So small sums are made apart, and a tile's
 * sum is added when the tile ends.
 *
 * Ranks that exchange rows make the sums over all rows together (evaluate/neighbours.h). So the last one alone adds them to
 * params' gradients, which are those of one tile.
 * Tests: tests/cases/grad.test, tests/scripts/check-param-sums
 */
#include <string.h>

#include "base/checked.h"
#include "ir/reads.h"
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

static struct type held_type(const struct job *job, size_t i) { return chain_param_type(job->chain, i, &job->input); }

bool job_sums_plain(const struct job *job, size_t i) { return job->sums.kinds[i] == SUM_PLAIN; }

int64_t job_long_bytes(const struct job *job, size_t i)
{
	const struct type type = held_type(job, i);
	return saturated_add(type_bytes(&type), round_up(type_bytes(&type) / 2, sizeof(double)));
}

int64_t job_row_bytes(const struct job *job, size_t i)
{
	const int64_t row = job_has_rows(job, i) ? tiles_other_row(&job->tiles, &job->whole, i) : 0;
	const int64_t bytes = job->tiles.tile * job->tiles.per_chunk * row;
	return job_sums_long(job, i) ? saturated_add(bytes, round_up(bytes / 2, sizeof(double))) : bytes;
}

int64_t job_rows_bytes(const struct job *job)
{
	int64_t bytes = 0;
	for (size_t i = 0; i < job->chain->input_count; i++)
		bytes = saturated_add(bytes, round_up(job_row_bytes(job, i), ARRAY_ALIGN));
	return bytes;
}

int64_t job_sum_bytes(const struct job *job, size_t i)
{
	const enum sum_kind kind = job->sums.kinds[i];
	const struct type type = held_type(job, i);
	const int64_t bytes = job_sums_long(job, i) ? job_long_bytes(job, i) : type_bytes(&type);
	return kind == SUM_NONE || job_row_bytes(job, i)
	           ? 0
	           : saturated_add(bytes, job->sums.blocks[i] ? type_bytes(&type) : 0);
}

int64_t job_apart_bytes(const struct job *job, size_t i)
{
	return job->sums.kinds[i] == SUM_APART ? round_up(job_long_bytes(job, i), ARRAY_ALIGN) : 0;
}

/* The elements of a param that were read so far. */
struct seen {
	bool any, whole; /* WHOLE: they are not known to be those of PARTS alone */
	uint64_t *parts; /* a bit for each leading index that was read as a constant; NULL: none */
};

/* Adds REF, of param P, to SEEN. *APART: no element of it was seen before. */
static enum status see_part(const struct job *job, struct seen *seen, const struct param_ref *ref, bool *apart)
{
	const bool constant = ref->count > 0 && ref->index[0].loop < 0;
	*apart = !seen->any;
	seen->any = true;
	seen->whole |= !constant;
	if (seen->whole)
		return STATUS_OK;
	const struct type type = chain_param_type(job->chain, ref->param, &job->input);
	const size_t words = (size_t)(type.shape.dim[0] / 64 + 1);
	if (!seen->parts)
		seen->parts = arena_array(job->context.arena, words, sizeof *seen->parts);
	TRY_ALLOC(seen->parts, job->context.diags);
	uint64_t *const word = &seen->parts[ref->index[0].value / 64];
	const uint64_t bit = UINT64_C(1) << ref->index[0].value % 64;
	*apart = !(*word & bit);
	*word |= bit;
	return STATUS_OK;
}

/* False for a vector also if it has two extents: its products would add row by row to what is in the block. */
static bool is_matrix(const struct shape *shape) { return shape->ndim == 2 && shape->dim[0] > 1 && shape->dim[1] > 1; }

/* Sets once, products, taken and blocks of SUMS from FORWARD, which may be NULL. A copy, which `use` makes, may have several readers. */
static enum status find_reads(const struct job *job, const struct body *forward, struct sums *sums)
{
	const size_t count = job->chain->param_count;
	struct arena *arena = job->context.arena;
	struct seen *const seen = arena_array(arena, count + 1, sizeof *seen);
	struct reads reads = {.depth = 0};
	struct param_read read;
	sums->once = arena_array(arena, count + 1, sizeof *sums->once);
	sums->products = arena_array(arena, count + 1, sizeof *sums->products);
	sums->taken = arena_array(arena, count + 1, sizeof *sums->taken);
	sums->blocks = arena_array(arena, count + 1, sizeof *sums->blocks);
	TRY_ALLOC(seen && sums->once && sums->products && sums->taken && sums->blocks, job->context.diags);
	for (size_t i = 0; i < count; i++)
		sums->once[i] = sums->products[i] = sums->taken[i] = sums->blocks[i] = true;
	for (reads_begin(&reads, forward, NULL); forward && reads_next(&reads, &read);) {
		const uint32_t p = read.ref->param;
		const struct instr *by = read.by;
		const bool product = read_is_operand(&read) && product_in_pieces(by->op, by->of.v, by->of.a);
		const bool takes = read_is_operand(&read) && op_adds_rows(by->op);
		bool apart;
		TRY(see_part(job, &seen[p], read.ref, &apart));
		apart &= reads_vary(&reads, &read) && !(by && by->op == OP_identity);
		sums->once[p] &= apart && !takes;
		sums->taken[p] &= apart && takes;
		sums->products[p] &= product;
		sums->blocks[p] &= product && read.ref->count == 0 && is_matrix(&by->of.a->shape) &&
		                   product_depth(by->op, by->of.v, by->of.a) <= FEW_ROWS;
	}
	for (size_t i = 0; i < count; i++)
		sums->taken[i] &= seen[i].any;
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
		else if (sums->once[i] || sums->taken[i] || bytes > APART_MOST ||
		         apart + bytes > greater(all / APART_SHARE, APART_MOST))
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

void job_settle_sums(struct job *job, bool kept_rows)
{
	struct sums *sums = &job->sums;
	const struct tiles *tiles = &job->tiles;
	const bool few = ceil_div(tiles->rows, tiles->tile) <= PLAIN_TILES;
	const bool several = tiles->tiled && tiles->tile < tiles->rows && !tiles->exchanged;
	sums->ordered &= several && (tiles->workers > 1 || job->options.ranks > 1);
	for (size_t i = 0; several && few && i < job->chain->param_count; i++)
		if (sums->kinds[i] == SUM_SHARED && sums->once[i] && sums->products[i])
			sums->kinds[i] = SUM_PLAIN;
	for (size_t i = 0; several && i < job->chain->param_count; i++)
		if (sums->kinds[i] == SUM_SHARED && sums->taken[i])
			sums->kinds[i] = SUM_PLAIN;
	for (size_t i = 0; !several && i < job->chain->param_count; i++) {
		if (sums->kinds[i] == SUM_ROWS && kept_rows)
			sums->kinds[i] = SUM_PLAIN; /* also of elements that are read once: 0 and -0 add up to 0, as in tiles */
		else if (sums->kinds[i] != SUM_NONE && (!tiles->tiled || sums->kinds[i] != SUM_ROWS))
			sums->kinds[i] = sums->taken[i] ? SUM_PLAIN : sums->once[i] ? SUM_ONCE : SUM_SHARED;
		sums->written[i] = sums->kinds[i] == SUM_ONCE;
	}
	sums->apart = several ? sums->apart : 0;
	settle_blocks(job, several);
}
