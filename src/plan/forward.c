/*
 * Decides how a forward run is cut up. Three nested pieces of the streamed axis:
 *
 *     chunk   what a worker reads, computes and writes at a time: sized for I/O
 *     tile    what the program runs on: sized for the second-level cache
 *     block   where there is a sum, or the like, over the axis: what is summed on its
 *             own; then the tile is the block, and depends on the chain and its types
 *             alone, so that no option changes a bit of the sum
 *
 * A chain that is not streamable, nor up to such a sum, is one chunk and one tile, the
 * whole array.
 */
#include "plan/forward.h"

#include <math.h>

#include "ops/general.h"
#include "ops/loops.h"
#include "plan/tile.h"

enum {
	STREAM_CHUNK = 128 << 10, /* bytes of input or output, whichever is more: as much as cat writes at a time */
	FILE_CHUNK = 1 << 20,
	TILE_CACHE = 256 << 10, /* bytes of a tile's values */
	PRODUCT_CACHE = 8 << 20,
	PRODUCT_LEAST = 5 * PRODUCT_STRIPE, /* rows of a matrix */
	PRODUCT_MOST = 42 * PRODUCT_STRIPE,
	PARTIALS = 1 << 18, /* bytes of partial sums in a chunk */
};

int64_t forward_fold_size(const struct lowered *whole)
{
	const struct instr *fold = &whole->whole->instrs[whole->fold];
	return fold_parts(fold->op) * shape_count(&fold->of.y->shape);
}

static bool only_elements(const struct body *body)
{
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		if (instr->kind == INSTR_OP && op_table[instr->op].scope != SCOPE_ELEM)
			return false;
	}
	return true;
}

/* Rows, of ROWS, of a tile that stays in cache while a chain of row-wise operations runs on it. */
static int64_t cached_rows(const struct lowered *whole, int64_t rows)
{
	const struct body *body = whole->whole;
	struct tile_row row = {0};
	double widest = (double)type_bytes(&whole->input);
	tile_measure(&row, body);
	for (size_t i = 0; i < body->value_count; i++)
		if (body->values[i].streamed)
			widest = fmax(widest, (double)type_bytes(body->values[i].type));
	const double fit = (row.products ? PRODUCT_CACHE : TILE_CACHE) / (3 * widest / (double)rows);
	const int64_t least = tile_rows_of_products(&row, PRODUCT_LEAST);
	const int64_t most = least ? tile_rows_of_products(&row, PRODUCT_MOST) : rows;
	return (int64_t)fmax(fmin(fit, (double)most), (double)(least ? least : 1));
}

/*
 * Rows of a block of sums. That of a gradient where it has the same; else so many that
 * putting a block's state to the total is little beside making it.
 */
static int64_t fold_block(const struct lowered *whole)
{
	enum { TIMES = 16 };
	const int64_t block = tile_block_of(whole, whole->whole_rows);
	const double rows = (double)whole->whole_rows, row = (double)type_bytes(&whole->input) / rows;
	const double state = (double)sizeof(double) * (double)forward_fold_size(whole);
	const double least = fmin(TIMES * state / row, rows);
	return whole->streamable || (double)block > least ? block : (int64_t)least;
}

/* What is known of the whole array decides whether there are tiles. */
static void choose_mode(struct pieces *pieces, const struct lowered *whole)
{
	const int64_t in = shape_count(&whole->input.shape), out = shape_count(&whole->output.shape);
	const struct body *body = whole->whole;
	/* one block that is the whole is no cut */
	pieces->folds = in > 0 && whole->fold != NO_VALUE && (whole->streamable || fold_block(whole) < whole->whole_rows);
	pieces->tiled = pieces->folds || (in > 0 && whole->streamable && !whole->sums &&
	                                  body->values[body->outs[0].value].from != FROM_PARAM);
	pieces->flat = pieces->tiled && whole->flat;
	pieces->rows = !pieces->tiled ? 1 : pieces->flat ? in : whole->whole_rows;
	pieces->in_row = in / pieces->rows;
	pieces->out_row = pieces->folds ? 0 : out / pieces->rows;
}

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t at_least(int64_t a, int64_t b) { return a > b ? a : b; }

/* Of --tile ROWS, rows of the array, the rows of PIECES; 0 where there is none. */
static int64_t wanted_rows(const struct pieces *pieces, const struct lowered *whole, int64_t tile)
{
	if (tile >= whole->whole_rows)
		return pieces->rows;
	return pieces->flat ? tile * (pieces->rows / whole->whole_rows) : tile;
}

static void choose_sizes(struct pieces *pieces, const struct lowered *whole, const struct forward_wants *wants)
{
	const int64_t in = type_bytes(&whole->input) / pieces->rows;
	const int64_t out = pieces->folds ? 0 : type_bytes(&whole->output) / pieces->rows;
	const int64_t wanted = wanted_rows(pieces, whole, wants->tile);
	const bool files = wants->read_anywhere && (pieces->folds || wants->write_anywhere);
	int64_t chunk = at_least((files ? FILE_CHUNK : STREAM_CHUNK) / at_least(at_least(in, out), 1), 1), tile;
	if (pieces->folds)
		tile = fold_block(whole);
	else if (wanted && !tile_multiplies(whole->whole))
		tile = wanted;
	else
		tile = only_elements(whole->whole) ? chunk : cached_rows(whole, pieces->rows);
	if (wanted)
		chunk = wanted;
	tile = at_most(tile, pieces->rows);
	chunk = at_most(chunk, pieces->rows);
	int64_t tiles = (chunk + tile - 1) / tile;
	if (pieces->folds)
		tiles = at_most(tiles, at_least(PARTIALS / (int64_t)sizeof(double) / (forward_fold_size(whole) + 1), 1));
	pieces->tile = tile;
	pieces->chunk = tiles * tile;
}

void forward_cut(struct pieces *pieces, const struct lowered *whole, const struct forward_wants *wants)
{
	choose_mode(pieces, whole);
	if (pieces->tiled)
		choose_sizes(pieces, whole, wants);
	else
		pieces->tile = pieces->chunk = 1;
}

/* The attributes of the slice of rows that CHAIN begins with, where it needs nothing else of an input of NDIM axes; or NULL. */
static const struct attrs *first_rows(const struct chain *chain, int ndim)
{
	const struct node *first = chain->first;
	const struct declared *declared = &chain->input_type;
	int axis;
	if (!first || first->kind != NODE_OP || first->op != OP_slice || first->late || first->attrs->step != 1)
		return NULL;
	if (!axis_resolve(first->attrs->axis[0], ndim, &axis) || axis != 0 || chain->names_input)
		return NULL;
	return declared->given && declared->type.shape.dim[0] != -1 ? NULL : first->attrs;
}

bool forward_window(const struct chain *chain, const struct type *input, struct slice *rows)
{
	const struct attrs *attrs = first_rows(chain, input->shape.ndim);
	if (!attrs)
		return false;
	*rows = slice_of(attrs, input->shape.dim[0]);
	return rows->count > 0;
}
