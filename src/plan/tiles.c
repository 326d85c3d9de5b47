/*
 * Chooses the rows of a tile, the tiles of a chunk, and the number of workers.
 *
 * Where something is summed over the streamed axis, a tile is a block of that sum. The rows of a block follow from the
 * chain and its types alone. So the sum has the same bits for every --tile, --threads and policy, in forward runs and
 * gradients. Tiles with a product of matrices have fixed rows too, since the bits of a row depend on the number of rows
 * beside it. Then --tile sets the rows of a chunk, rounded up to tiles.
 *
 * Windows follow the same rules. Whether an array whose tiles are fixed has windows depends on the types alone, so its
 * sums and products do too. Tiles have several times the rows that a window adds to them. If the chain and the types alone
 * decide, the rows of a tile do not grow with those of the array. Tiles that carry rows compute none twice, and are cut
 * at any depth of the halo.
 *
 * All other tiles have the rows of --tile. Without it a forward tile of element-wise operations is a chunk, and any
 * other tile is about as large as the cache allows. A chain whose rows cannot be cut runs on one tile, the whole array.
 * Tests: tests/unit/test_tiles.c
 */
#include "plan/tiles.h"

#include <math.h>

#include "base/checked.h"
#include "ir/levels.h"
#include "ops/general.h"
#include "ops/kernels.h"

enum {
	STREAM_CHUNK = 128 << 10,   /* bytes of input or output, the larger of the two: as much as cat writes at a time */
	FILE_CHUNK = 1 << 20,       /* likewise, if rows of files are read and written in any order */
	GRADIENT_CHUNK = 256 << 10, /* bytes of input */
	TILE_CACHE = 256 << 10,     /* three times the bytes of the widest value of a forward tile */
	PRODUCT_CACHE = 8 << 20,    /* likewise, if the chain has products */
	PRODUCT_LEAST = 5 * PRODUCT_STRIPE, /* matrix rows of a product in a forward tile */
	PRODUCT_MOST = 42 * PRODUCT_STRIPE,
	/* of a weight beyond PRODUCT_CACHE, which each tile reads from memory and packs: the matrix rows, the least tiles of an
	 * array, and the weight by a tile's widest value */
	HEAVY_MOST = 84 * PRODUCT_STRIPE,
	HEAVY_TILES = 8,
	HEAVY_SHARE = 4,
	STATES = 1 << 18,         /* bytes of the states of a forward chunk */
	PARTIALS = 1 << 20,       /* bytes of the sums and states that the tiles of a gradient chunk make apart */
	BLOCK_BYTES = 1024 << 10, /* of the values of a block of sums */
	PRODUCT_BLOCK_BYTES = 4 << 20,
	PRODUCT_BLOCK_WEIGHTS = 4,                 /* or so many times the bytes of the weights, if that is more */
	PRODUCT_BLOCK_LEAST = 10 * PRODUCT_STRIPE, /* matrix rows; a product packs about 10 or 5 stripes at once, by type */
	PRODUCT_BLOCK_MOST = 512,                  /* matrix rows */
	WHOLE_BYTES = 8 << 20,                     /* of an array with rows: only a larger one is cut into windows */
	/* The widest value of a tile with a window has so many bytes, as fractions of WHOLE_BYTES, or WINDOW_RATIO if that is
	 * more. Launches of a window run in a wave, so the window need not fit the cache. */
	WINDOW_LEAST = 8,
	WINDOW_MOST = 2,
	WINDOW_RATIO = 6,       /* rows of a tile, by those that its window adds, */
	WINDOW_FIXED_RATIO = 4, /* of a fixed tile, */
	WINDOW_GOOD_RATIO = 16, /* and if WINDOW_MOST allows */
	WINDOW_UNIT = 8,        /* rows of a fixed tile: elements of bits in a byte */
	/* Tiles that carry rows: */
	CARRYING_BYTES = 1 << 20, /* of the widest value, */
	CARRYING_RATIO = 2,       /* or the rows that two windows have in common, by those of a tile, if that is more */
	CARRYING_TILES = 16,      /* the least tiles of a chunk, */
	CARRYING_GOOD_RATIO = 64, /* and the least rows of one, by those around it */
	/* Rows that ranks exchange: */
	EXCHANGED_GOOD = 8, /* windows serve if those of a rank have so many times the rows around them */
	EXCHANGED_LARGE =
		8 << 20, /* bytes of a tile; a smaller one stays in the cache, and takes less time than messages */
	EXCHANGED_LARGE_SHARE = 64, /* they are at most this share of a large tile, unless an operation reads more, */
	EXCHANGED_SHARE = 32,       /* or of another tile, */
	EXCHANGED_BYTES = 8 << 20,  /* and at most so many bytes: sends of so many never wait */
	WAVE_BYTES = 304 << 10, /* rows that a wave of as many stencils takes at once, in a second-level cache of 1 MiB */
	SUM_BYTES = 16 << 10,   /* of the input's rows of a block of sums, at least */
	SUM_ROWS = 64,          /* at least, but there are SUM_BLOCKS of them: to add up blocks takes a row's time */
	SUM_BLOCKS = 16,
};

struct row_cost {
	double bytes;        /* of the values made from a row, loops unrolled, and twice of the input */
	double widest;       /* of the largest value, for all rows */
	double largest;      /* of the largest row of a value, which may have other rows than the input; at least 1 */
	int64_t matrix_rows; /* the fewest matrix rows that a row gives to a product by one matrix; 0: no such product */
	double weight;       /* bytes of the largest matrix of such a product */
	bool products;       /* the chain has a matrix product or a convolution, of any kind */
	bool elements;       /* every operation goes element by element */
};

static void add_op(struct row_cost *row, const struct body *body, const struct instr *instr)
{
	if (op_is_product(instr->op) && body->values[instr->out].streamed) {
		const int64_t rows = product_rows(instr->op, body->values[instr->v].type, body->values[instr->a].type);
		if (rows > 0 && (row->matrix_rows == 0 || rows < row->matrix_rows))
			row->matrix_rows = rows;
		if (rows > 0)
			row->weight = fmax(row->weight, (double)type_bytes(body->values[instr->a].type));
	}
	row->products |= op_is_product(instr->op);
	row->elements &= op_table[instr->op].scope == SCOPE_ELEM;
}

/* Adds input I after the first, if tiles may cut it. */
static void add_input(struct row_cost *row, const struct lowered *whole, size_t i)
{
	const struct type type = chain_param_type(whole->chain, i, &whole->input);
	const double bytes = whole->streamed_params[i] ? (double)type_bytes(&type) : 0;
	row->bytes += 2 * bytes;
	row->widest = fmax(row->widest, bytes);
	row->largest = fmax(row->largest, bytes / (double)whole->whole_rows);
}

/* Returns the cost of one row, where the array of WHOLE has ROWS rows. */
static struct row_cost cost_of_row(const struct lowered *whole, int64_t rows)
{
	const struct body *body = whole->whole;
	const double input = (double)type_bytes(&whole->input);
	struct row_cost row = {
		.bytes = 2 * input, .widest = input, .largest = fmax(input / (double)whole->whole_rows, 1), .elements = true};
	for (size_t i = 0; i < whole->chain->input_count; i++)
		add_input(&row, whole, i);
	double iterations[MAX_LOOPS + 1] = {1};
	int level = 0;
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		if (instr->kind == INSTR_LOOP && level < MAX_LOOPS) {
			iterations[level + 1] = iterations[level] * (double)instr->loop.iterations;
			level++;
		} else if (instr->kind == INSTR_END && level > 0) {
			level--;
		} else if (instr->kind == INSTR_OP) {
			add_op(&row, body, instr);
		}
		if (instr->out != NO_VALUE && body->values[instr->out].streamed)
			row.bytes += iterations[level] * (double)type_bytes(body->values[instr->out].type);
	}
	for (size_t i = 0; i < body->value_count; i++) {
		const struct type *type = body->values[i].type;
		const double bytes = body->values[i].streamed ? (double)type_bytes(type) : 0;
		row.widest = fmax(row.widest, bytes);
		if (bytes > 0)
			row.largest = fmax(row.largest, bytes / (double)type->shape.dim[0]);
	}
	row.bytes /= (double)rows;
	return row;
}

/* Returns the rows of a tile whose products each multiply at least ROWS matrix rows; 0 if matrix_rows is 0. */
static int64_t rows_for_products(const struct row_cost *row, int64_t rows)
{
	return row->matrix_rows ? (rows - 1) / row->matrix_rows + 1 : 0;
}

/* Bytes of the params that every tile reads whole. */
static double weight_bytes(const struct lowered *whole)
{
	double bytes = 0;
	for (size_t i = 0; i < whole->chain->param_count; i++) {
		const struct type type = chain_param_type(whole->chain, i, &whole->input);
		if (!whole->streamed_params[i])
			bytes += (double)type_bytes(&type);
	}
	return bytes;
}

/*
 * Returns the rows of a block of sums with products, at most BLOCK. If an array of ROWS rows has more than one, the blocks
 * are nearly equal, and their number is even, unless the rounding to UNIT takes one away. So two threads end at the same
 * time.
 */
static int64_t even_blocks(int64_t rows, int64_t block, int64_t unit)
{
	const int64_t count = round_up(ceil_div(rows, block), 2);
	return rows > block ? lesser(block, round_up(ceil_div(rows, count), unit)) : block;
}

/*
 * Returns the rows of a block of sums, perhaps more than the array's ROWS. A block's values stay in the second-level
 * cache. With products they have PRODUCT_BLOCK_BYTES or PRODUCT_BLOCK_WEIGHTS, since a tile reads the weights, packs
 * them for its products, and adds up their gradients.
 */
static int64_t block_rows(const struct lowered *whole, int64_t rows)
{
	const struct row_cost row = cost_of_row(whole, rows);
	if (row.bytes == 0)
		return rows;
	const double bytes =
		row.products ? fmax(PRODUCT_BLOCK_WEIGHTS * weight_bytes(whole), PRODUCT_BLOCK_BYTES) : BLOCK_BYTES;
	const int64_t product = rows_for_products(&row, PRODUCT_BLOCK_LEAST);
	const int64_t least = product ? product : whole->flat ? 512 : 1;
	const int64_t most = product ? rows_for_products(&row, PRODUCT_BLOCK_MOST) : 1 << 16;
	const double fit = bytes / fmax(row.bytes, 1);
	const int64_t good = greater(fit > (double)most ? most : (int64_t)fit, least);
	const int64_t unit = whole->flat ? least : good > 8 ? 8 : 1;
	return product ? even_blocks(rows, good, rows_for_products(&row, PRODUCT_STRIPE)) : good / unit * unit;
}

/* Returns the most doubles of states that the folds of one level of WHOLE have. */
static int64_t level_state(const struct lowered *whole)
{
	const struct levels *levels = whole->levels;
	int64_t most = 0;
	for (uint32_t level = 1; level <= levels->count; level++) {
		int64_t sum = 0;
		for (uint32_t i = 0; i < levels->fold_count; i++) {
			const struct instr *fold = &levels->body->instrs[levels->folds[i].instr];
			if (levels->folds[i].level == level)
				sum += instr_state(fold);
		}
		most = greater(most, sum);
	}
	return most;
}

/* Returns the most bytes of an array that is not cut into windows. */
static int64_t whole_bytes(const struct tile_wants *wants) { return wants->whole ? wants->whole : WHOLE_BYTES; }

/*
 * Returns the rows of a tile whose window has HALO more rows. A multiple of WINDOW_UNIT if FIXED: then the rows of a tile
 * begin at a byte in an array of bits. Else, where the halo makes tiles large and few, all threads get as many. The tiles are
 * nearly equal then, since the last window has as many rows as the others.
 */
static int64_t window_tile(const struct lowered *whole, const struct tile_wants *wants, bool fixed, int64_t halo)
{
	const struct row_cost cost = cost_of_row(whole, whole->whole_rows);
	const double rows = (double)whole->whole_rows;
	const double limit = (double)whole_bytes(wants) / cost.largest, least = limit / WINDOW_LEAST,
				 most = limit / WINDOW_MOST;
	const double good = fmin(fmax(least, (double)halo * WINDOW_GOOD_RATIO), most);
	const int64_t products = rows_for_products(&cost, PRODUCT_BLOCK_LEAST);
	const int64_t ratio = fixed ? WINDOW_FIXED_RATIO : WINDOW_RATIO;
	const int64_t tile = (int64_t)fmin(fmax(good, (double)(halo * ratio)), rows);
	if (fixed)
		return round_up(greater(tile, products), WINDOW_UNIT);
	const int64_t count = greater(whole->whole_rows / greater(tile, 2), 1);
	const int64_t shared = round_up(count, greater(wants->threads, 1));
	return greater((double)tile > most ? ceil_div(whole->whole_rows, shared) : tile, 2);
}

/* Returns the rows of a tile that carries rows, whose window has at least MORE more. */
static int64_t carrying_tile(const struct lowered *whole, const struct tile_wants *wants, int64_t more)
{
	const int64_t good = (int64_t)(CARRYING_BYTES / cost_of_row(whole, whole->whole_rows).largest);
	return wants->rows ? greater(wants->rows, 2) : greater(good, more / CARRYING_RATIO + 1);
}

/* Lets TILES, which are windows of a forward run, carry rows if they can: then the window has DEPTH rows beside a tile. */
static bool carry_rows(struct tiles *tiles, const struct lowered *whole, const struct tile_wants *wants)
{
	const int64_t rows = whole->whole_rows, deep = saturated_add(whole->reach.before, whole->reach.after);
	const int64_t depth = lesser(greater(deep, wants->depth), rows), tile = carrying_tile(whole, wants, depth);
	const bool alone = wants->threads <= 1 && wants->ranks <= 1;
	if (!wants->carries || whole->chain->input_count || whole->chain->wanted_count ||
	    !(alone || (wants->read_anywhere && wants->write_anywhere)) || tile + depth >= rows)
		return false;
	tiles->carries = true;
	tiles->tile = tile;
	tiles->window = tile + depth;
	tiles->before = whole->reach.before;
	tiles->after = whole->reach.after;
	return true;
}

/* Returns the rows of a chunk of windows: of one tile or, if they carry rows, so many that those around it do not matter. */
static int64_t window_chunk(const struct tiles *tiles, const struct tile_wants *wants)
{
	const int64_t workers = greater(wants->threads, 1) * greater(wants->ranks, 1);
	const int64_t good = greater(CARRYING_TILES * tiles->tile, CARRYING_GOOD_RATIO * tiles_halo(tiles));
	const int64_t each = greater(ceil_div(tiles->rows, workers), tiles_halo(tiles));
	return !tiles->carries ? 1 : workers > 1 ? lesser(good, each) : each;
}

/* Returns the rows of a window before a tile of fixed rows: a derivative reaches as far to the other side, and one beyond. */
static int64_t fixed_before(const struct lowered *whole)
{
	const int64_t deep = saturated_add(whole->reach.before, whole->reach.after);
	return round_up(lesser(deep, whole->whole_rows) + 1, WINDOW_UNIT);
}

/* A tile in passes is a block of sums, or the tile of a window, or a few times the states if that is more. */
int64_t tiles_block(const struct lowered *whole, const struct tile_wants *wants)
{
	enum { TIMES = 4, LEAST = 16 };
	const int64_t rows = whole->whole_rows;
	const double row = (double)type_bytes(&whole->input) / (double)rows;
	const double state = fmin(TIMES * (double)sizeof(double) * (double)level_state(whole) / row, (double)rows);
	const int64_t least = whole->neighbours ? window_tile(whole, wants, true, 2 * fixed_before(whole))
	                                        : greater(block_rows(whole, rows), LEAST);
	return round_up(greater(least, (int64_t)state), 8);
}

static void set_rows(struct tiles *tiles, const struct lowered *whole)
{
	tiles->rows = tiles->flat ? shape_count(&whole->input.shape) : tiles->tiled ? whole->whole_rows : 1;
	tiles->state = tiles->folds ? level_state(whole) : 0;
	tiles->input_row = type_bytes(&whole->input) / tiles->rows;
	tiles->gradient_row = tiles->input_row;
	tiles->other_rows = 0;
	for (size_t i = 0; i < whole->chain->input_count; i++)
		tiles->other_rows += tiles_other_row(tiles, whole, i);
	const bool rowless = tiles->folds && !whole->whole->values[whole->whole->outs[0].value].streamed;
	tiles->outputs = tiles->windows && !rowless ? whole->output.shape.dim[0] : tiles->rows;
	tiles->output_row = rowless ? 0 : type_bytes(&whole->output) / tiles->outputs;
	tiles->tile = tiles->window = tiles->per_chunk = tiles->workers = 1;
	tiles->rest = 0;
}

void tiles_keep_whole(struct tiles *tiles, const struct lowered *whole)
{
	*tiles = (struct tiles){.tiled = false, .because = whole->because};
	set_rows(tiles, whole);
}

/* Returns ROWS, which --tile gave, in rows of TILES; 0 if --tile is not given. */
static int64_t wanted_rows(const struct tiles *tiles, const struct lowered *whole, int64_t rows)
{
	return rows >= whole->whole_rows ? tiles->rows : rows * (tiles->rows / whole->whole_rows);
}

/* Sets the tiles of a chunk (CHUNK rows rounded up; at most MOST, at least one), the rest and the workers. */
static void set_chunks(struct tiles *tiles, int64_t chunk, int64_t most, const struct tile_wants *wants)
{
	tiles->tile = tiles->window = lesser(tiles->tile, tiles->rows);
	tiles->rest = tiles->rows % tiles->tile;
	const int64_t all = ceil_div(tiles->rows, tiles->tile);
	tiles->per_chunk = greater(lesser(ceil_div(chunk, tiles->tile), lesser(most, all)), 1);
	tiles->workers = (int)greater(lesser(wants->threads, ceil_div(tiles_chunks(tiles), greater(wants->ranks, 1))), 1);
}

/* Returns the most tiles of a chunk. If tiles have products, which take long, each thread of each rank gets a chunk. */
static int64_t tiles_for_each(const struct tiles *tiles, const struct row_cost *row, const struct tile_wants *wants)
{
	const int64_t threads = greater(wants->threads, 1) * greater(wants->ranks, 1);
	return row->products ? ceil_div(ceil_div(tiles->rows, tiles->tile), threads) : INT64_MAX;
}

/*
 * Returns the rows of a forward tile that stays in the cache while row by row operations run on it; at least 1. With
 * heavy weights that matters less than how often tiles read and pack these.
 */
static int64_t cached_rows(const struct row_cost *row, int64_t rows)
{
	const double each = row->widest / (double)rows;
	const bool heavy = row->weight > PRODUCT_CACHE;
	double fit = (row->products ? PRODUCT_CACHE : TILE_CACHE) / (3 * each);
	const int64_t least = rows_for_products(row, PRODUCT_LEAST);
	const int64_t most = least ? rows_for_products(row, heavy ? HEAVY_MOST : PRODUCT_MOST) : rows;
	if (heavy)
		fit = fmax(fit, fmin(row->weight / (HEAVY_SHARE * each),
		                     (double)round_up(ceil_div(rows, HEAVY_TILES), PRODUCT_STRIPE)));
	return (int64_t)fmax(fmin(fit, (double)most), (double)(least ? least : 1));
}

static void cut_forward(struct tiles *tiles, const struct lowered *whole, const struct tile_wants *wants)
{
	const int64_t wanted = wanted_rows(tiles, whole, wants->rows);
	const bool files = wants->read_anywhere && wants->write_anywhere && tiles->output_row > 0;
	const int64_t row = greater(greater(tiles->input_row + tiles->other_rows, tiles->output_row), 1);
	const int64_t chunk = wanted ? wanted : greater((files ? FILE_CHUNK : STREAM_CHUNK) / row, 1);
	const struct row_cost cost = cost_of_row(whole, tiles->rows);
	int64_t most = INT64_MAX;
	if (tiles->folds) {
		tiles->tile = tiles->block ? tiles->block : block_rows(whole, tiles->rows);
		most = STATES / (int64_t)sizeof(double) / (tiles->state + 1);
	} else if (wanted && !cost.matrix_rows) {
		tiles->tile = wanted;
	} else {
		tiles->tile = cost.elements ? chunk : cached_rows(&cost, tiles->rows);
	}
	set_chunks(tiles, chunk, lesser(most, tiles_for_each(tiles, &cost, wants)), wants);
}

static void cut_gradient(struct tiles *tiles, const struct lowered *whole, const struct tile_wants *wants)
{
	const int64_t wanted = wanted_rows(tiles, whole, wants->rows);
	const int64_t chunk = wanted ? wanted : GRADIENT_CHUNK / greater(tiles->input_row + tiles->other_rows, 1);
	const struct row_cost cost = cost_of_row(whole, tiles->rows);
	const bool fixed = tiles->folds || wants->sums || cost.matrix_rows;
	const int64_t sums = saturated_add(wants->apart, tiles->state * (int64_t)sizeof(double));
	tiles->tile = tiles->block ? tiles->block : wanted && !fixed ? wanted : block_rows(whole, tiles->rows);
	const int64_t most = lesser(sums > 0 ? PARTIALS / sums : INT64_MAX, tiles_for_each(tiles, &cost, wants));
	/* A worker's next tile must not wait for the last one of another worker's chunk. */
	set_chunks(tiles, chunk, wants->ordered && (wants->threads > 1 || wants->ranks > 1) ? 1 : most, wants);
}

/* Sets tiles->because if the array must not be cut into windows. */
static void refuse_windows(struct tiles *tiles, const struct row_reach *reach)
{
	static const char *const both = "it goes around the ends of the array, and another stage has a rule for them";
	static const char *const counts =
		"it goes around the ends of the array, and a dropout or triangle depends on the indices of its rows";
	if (reach->wraps && (reach->ends || reach->counts))
		tiles->because = (struct because){reach->ends ? both : counts, reach->wraps_at};
}

/*
 * Sets TILES to windows if the array can and shall be cut so. Sets tiles->because if it must stay whole. If neither sums
 * nor products depend on the cut, --tile and ranks ask for windows too.
 */
static bool cut_windows(struct tiles *tiles, const struct lowered *whole, const struct tile_wants *wants)
{
	const struct row_reach *reach = &whole->reach;
	const int64_t rows = whole->whole_rows, deep = saturated_add(reach->before, reach->after);
	const struct row_cost cost = cost_of_row(whole, rows);
	const bool small = cost.largest * (double)rows <= (double)whole_bytes(wants);
	const bool decided = tiles->folds || cost.matrix_rows || (wants->gradient && wants->sums);
	const bool fixed = decided || tiles->block, both = fixed || wants->gradient;
	const bool shared = wants->ranks > 1 && !decided; /* each rank gets a tile at least, unless tiles are blocks */
	const int64_t unit = fixed ? WINDOW_UNIT : 1, wanted = decided ? 0 : lesser(wants->rows, rows);
	const int64_t before = fixed ? fixed_before(whole) : both ? lesser(deep, rows) + 1 : reach->before;
	const int64_t halo = both ? 2 * before : lesser(deep, rows);
	refuse_windows(tiles, reach);
	if (!tiles->because.reason && small && wants->ranks > 1 && decided)
		tiles->because = (struct because){"an array of at most 8 MiB is summed or multiplied as one", reach->deepest};
	if (tiles->because.reason || (small && !wanted && !shared))
		return false;
	tiles->wraps = reach->wraps;
	if (!both && carry_rows(tiles, whole, wants))
		return true;
	tiles->tile = tiles->block ? tiles->block : wanted ? greater(wanted, 2) : window_tile(whole, wants, fixed, halo);
	if (shared && !wanted && !fixed)
		tiles->tile = greater(lesser(tiles->tile, ceil_div(rows, wants->ranks)), 2);
	tiles->window = tiles->tile + halo;
	tiles->window += greater(rows - tiles->window, 0) % unit; /* the last one begins at a multiple of UNIT too */
	tiles->before = before;
	if (tiles->window < (wanted || shared ? rows : ceil_div(rows, 2)))
		return true;
	if (!small || shared)
		tiles->because = (struct because){
			"tiles would be small beside the rows that it and other stages read around them", reach->deepest};
	return false;
}

/* True if the derivative of INSTR by its operand is a sum over rows that the operation makes itself. */
static bool sums_operand(const struct body *body, const struct instr *instr)
{
	const struct value *a = instr->kind == INSTR_OP && instr->a != NO_VALUE ? &body->values[instr->a] : NULL;
	return a && a->active && !a->streamed && op_table[instr->op].scope != SCOPE_ELEM;
}

/*
 * True if ranks can exchange rows of WHOLE, by what the chain and the types say: all arrays of rows have as many as the
 * input, sums can be added up block by block, and no stage multiplies matrices or has a rule against windows.
 */
static bool can_exchange(const struct lowered *whole, const struct tile_wants *wants)
{
	const struct row_reach *reach = &whole->reach;
	const struct body *body = whole->whole;
	bool can = reach->most > 0 && !whole->chain->input_count && !whole->chain->wanted_count && !whole->conditions &&
	           !(reach->wraps && (reach->ends || reach->counts)) && !cost_of_row(whole, whole->whole_rows).matrix_rows;
	for (size_t i = 0; i < body->value_count && can; i++) {
		const struct type *type = body->values[i].type;
		can = !body->values[i].streamed || type->shape.dim[0] == whole->whole_rows;
	}
	for (size_t i = 0; i < body->instr_count && can && wants->sums; i++)
		can = !sums_operand(body, &body->instrs[i]);
	return can;
}

/* True if an array of WHOLE that has no rows has ROWS of them: it would be taken for a window. */
static bool has_other(const struct lowered *whole, int64_t rows)
{
	const struct body *body = whole->whole;
	for (size_t i = 0; i < body->value_count; i++) {
		const struct value *value = &body->values[i];
		if (!value->streamed && value->type->shape.ndim > 0 && value->type->shape.dim[0] == rows)
			return true;
	}
	return false;
}

/* Returns the rows of which a rank's are a multiple: a block of sums, made of whole pieces of a loss. */
static int64_t exchanged_unit(const struct lowered *whole, const struct tile_wants *wants)
{
	const int64_t bytes = type_bytes(&whole->input) / whole->whole_rows;
	int64_t unit = LOSS_PIECE;
	for (int64_t elements = shape_count(&whole->input.shape) / whole->whole_rows; elements % 2 == 0 && unit > 1;
	     elements /= 2)
		unit /= 2;
	unit = lowered_sums(whole) ? unit : 1;
	const int64_t least = lesser(SUM_ROWS, ceil_div(whole->whole_rows, SUM_BLOCKS));
	return wants->sums ? round_up(greater(SUM_BYTES / greater(bytes, 1), least), unit) : unit;
}

/*
 * Returns the rows of ROW bytes around a tile of TILE rows that are worth fewer exchanges. Steps between two exchanges
 * of a large tile are whole waves.
 */
static int64_t good_exchange(const struct row_reach *reach, int64_t tile, int64_t row)
{
	const int64_t deep = greater(reach->before, reach->after) + 1;
	const bool large = tile * row >= EXCHANGED_LARGE;
	const int64_t bytes = EXCHANGED_BYTES / greater(row, 1), wave = WAVE_BYTES / greater(row, 1);
	const int64_t share = lesser(tile / (large ? EXCHANGED_LARGE_SHARE : EXCHANGED_SHARE), bytes);
	const int64_t waves = large && wave > 0 && wave <= share ? share - share % wave : share;
	const int64_t good = lesser(waves, deep);
	return greater(reach->most, good - good % reach->most);
}

/*
 * Returns the rows that ranks exchange on either side of a tile of TILE rows; 0 if there is no number that the rows of
 * the array and of its last tile, LAST, allow. No window has as many rows as an array that has none.
 */
static int64_t exchanged_rows(const struct lowered *whole, int64_t tile, int64_t last)
{
	const int64_t row = type_bytes(&whole->input) / whole->whole_rows, least = whole->reach.most;
	const int64_t most = lesser(last, (whole->whole_rows - tile) / 2), good = good_exchange(&whole->reach, tile, row);
	for (int64_t halo = good; halo <= most; halo++)
		if (!has_other(whole, tile + 2 * halo))
			return halo;
	for (int64_t halo = lesser(good, most + 1) - 1; halo >= least; halo--)
		if (!has_other(whole, tile + 2 * halo))
			return halo;
	return 0;
}

/* True if the value of WHOLE is the sum of a loss of as many elements as the input, or no sum over rows. */
static bool sums_by_pieces(const struct lowered *whole)
{
	const struct body *body = whole->whole;
	if (!lowered_sums(whole))
		return true;
	const struct instr *fold = &body->instrs[whole->levels->folds->instr];
	const bool loss = op_table[fold->op].scope == SCOPE_SUM && fold->op != OP_sum && fold->op != OP_mean;
	const int64_t count = shape_count(&whole->input.shape);
	return loss && shape_count(&body->values[fold->v].type->shape) == count &&
	       (fold->a == NO_VALUE || shape_count(&body->values[fold->a].type->shape) <= count);
}

/*
 * Sets TILES to one window a rank, between which rows are exchanged, if that can be and the windows that TILES has, if
 * CUT, have more rows around their tiles than is good. Returns whether it has.
 */
static bool cut_exchanged(struct tiles *tiles, const struct lowered *whole, const struct tile_wants *wants, bool cut)
{
	const int64_t rows = whole->whole_rows, ranks = greater(wants->ranks, 1);
	if (tiles->block || (tiles->folds && !wants->gradient) || !can_exchange(whole, wants))
		return false;
	const int64_t unit = exchanged_unit(whole, wants), tile = round_up(ceil_div(rows, ranks), unit);
	const bool fixed = tiles->folds || wants->rows || wants->sums;
	if (cut && (fixed || tile >= EXCHANGED_GOOD * (tiles->window - tiles->tile)))
		return false;
	tiles->sum_block = wants->sums ? unit : 0;
	if (ranks < 2 || !wants->alike || (wants->value && !sums_by_pieces(whole)))
		return false;
	const int64_t halo = exchanged_rows(whole, tile, rows - (ranks - 1) * tile);
	if (halo == 0)
		return false;
	tiles->tile = tile;
	tiles->window = tile + 2 * halo;
	tiles->before = tiles->exchanged = halo;
	tiles->carries = false;
	tiles->wraps = whole->reach.wraps;
	tiles->because.reason = NULL;
	return true;
}

int64_t tiles_window_begin(const struct tiles *tiles, int64_t first)
{
	const int64_t begin = first - tiles->before;
	if (!tiles->windows)
		return first;
	if (tiles->wraps)
		return begin < 0 ? begin + tiles->rows : begin;
	return greater(lesser(begin, tiles->rows - tiles->window), 0);
}

struct owned_rows tiles_owned(const struct tiles *tiles, int64_t first, int64_t rows)
{
	const bool last = tiles->rows - first <= tiles->tile;
	int64_t skip = first - tiles_window_begin(tiles, first);
	if (!tiles->windows)
		return (struct owned_rows){0, rows};
	if (skip < 0)
		skip += tiles->rows;
	const int64_t left = greater(rows - skip, 0), tile = lesser(tiles->tile, tiles->rows - first);
	return (struct owned_rows){skip, last && !tiles->wraps ? left : lesser(tile, left)};
}

struct owned_rows tiles_owned_output(const struct tiles *tiles, int64_t chunk)
{
	if (!tiles->windows)
		return (struct owned_rows){0, tiles_rows_of(tiles, chunk)};
	return tiles_owned(tiles, chunk * tiles->tile, tiles->window + tiles->outputs - tiles->rows);
}

int64_t tiles_other_row(const struct tiles *tiles, const struct lowered *whole, size_t i)
{
	const struct param *param = &whole->chain->params[i];
	if (!tiles->tiled || !param->arrives || !whole->streamed_params[i])
		return 0;
	const struct type type = chain_param_type(whole->chain, i, &whole->input);
	return type_bytes(&type) / tiles->rows;
}

int64_t tiles_other_bytes(const struct tiles *tiles, const struct lowered *whole)
{
	int64_t bytes = 0;
	for (size_t i = 0; i < whole->chain->input_count; i++)
		bytes = saturated_add(bytes, round_up(tiles_input_rows(tiles) * tiles_other_row(tiles, whole, i), ARRAY_ALIGN));
	return bytes;
}

int64_t tiles_param_bytes(const struct tiles *tiles, const struct lowered *whole)
{
	int64_t bytes = 0;
	for (size_t i = 0; i < whole->chain->param_count && tiles->wraps; i++) {
		const struct type type = chain_param_type(whole->chain, i, &whole->input);
		if (whole->streamed_params[i] && !whole->chain->params[i].arrives)
			bytes += round_up(type_bytes(&type) / tiles->rows * tiles->window, ARRAY_ALIGN);
	}
	return bytes;
}

int64_t tiles_input_rows(const struct tiles *tiles)
{
	return tiles->windows ? tiles->window : tiles->tile * tiles->per_chunk;
}

int64_t tiles_value_rows(const struct tiles *tiles, bool gradient)
{
	const int64_t rows = gradient || !tiles->windows ? tiles->tile * tiles->per_chunk : tiles->window;
	return rows + (gradient ? greater(tiles->outputs - tiles->rows, 0) : tiles->outputs - tiles->rows);
}

/*
 * Sets tiles->because if TILES, which are blocks of sums, are one tile of more bytes than a block should have: a product by
 * a matrix multiplies no fewer rows than the array has.
 */
static void explain_block(struct tiles *tiles, const struct lowered *whole)
{
	static const char reason[] = "its product goes by blocks of at least 120 matrix rows, and the array has fewer";
	_Static_assert(PRODUCT_BLOCK_LEAST == 120, "the text says so");
	const struct row_cost cost = cost_of_row(whole, tiles->rows);
	const double bytes = fmax(PRODUCT_BLOCK_WEIGHTS * weight_bytes(whole), PRODUCT_BLOCK_BYTES);
	const struct body *body = whole->whole;
	if (tiles->tile < tiles->rows || !cost.matrix_rows || cost.bytes * (double)tiles->rows <= bytes ||
	    rows_for_products(&cost, PRODUCT_BLOCK_LEAST) < tiles->rows)
		return;
	for (size_t i = 0; i < body->instr_count && !tiles->because.reason; i++) {
		const struct instr *instr = &body->instrs[i];
		struct row_cost own = {.matrix_rows = 0};
		if (instr->kind == INSTR_OP)
			add_op(&own, body, instr);
		if (own.matrix_rows == cost.matrix_rows)
			tiles->because = (struct because){reason, instr->span};
	}
}

void tiles_cut(struct tiles *tiles, const struct lowered *whole, const struct tile_wants *wants)
{
	const struct body *body = whole->whole;
	struct tiles windows = {.tiled = false};
	*tiles = (struct tiles){.tiled = false};
	if (wants->gradient) {
		const int64_t rows = whole->flat ? shape_count(&whole->input.shape) : whole->whole_rows;
		tiles->tiled = whole->streamable && rows > 0;
		tiles->block = wants->block;
		tiles->folds = tiles->block > 0 || (tiles->tiled && lowered_sums(whole));
		tiles->tiled |= tiles->folds;
		tiles->passes = tiles->block ? (int)levels_passes(whole->levels) : tiles->tiled;
	} else if (shape_count(&whole->input.shape) > 0) {
		const bool made = body->values[body->outs[0].value].from != FROM_PARAM;
		tiles->folds = lowered_sums(whole);
		tiles->tiled = tiles->folds || (whole->streamable && made);
		if (!tiles->tiled && whole->levels) {
			tiles->block = tiles_block(whole, wants);
			tiles->tiled = tiles->folds = tiles->block < whole->whole_rows;
		}
		tiles->passes = !tiles->tiled ? 0 : tiles->block ? (int)levels_passes(whole->levels) : 1;
	}
	if (tiles->tiled && whole->neighbours) {
		windows.folds = tiles->folds && !tiles->block;
		windows.block = tiles->block;
		tiles->tiled = cut_windows(&windows, whole, wants);
		tiles->tiled = tiles->windows = cut_exchanged(&windows, whole, wants, tiles->tiled) || tiles->tiled;
		tiles->folds &= tiles->tiled;
		tiles->passes = tiles->tiled ? tiles->passes : 0;
	}
	tiles->flat = tiles->tiled && whole->flat;
	tiles->sum_block = windows.sum_block;
	if (!tiles->tiled)
		tiles->because = windows.because.reason ? windows.because : whole->because;
	set_rows(tiles, whole);
	if (tiles->windows) {
		tiles->tile = windows.tile;
		tiles->carries = windows.carries;
		tiles->before = windows.before;
		tiles->after = windows.after;
		set_chunks(tiles, window_chunk(tiles, wants), INT64_MAX, wants);
		tiles->rest = 0;
		tiles->window = windows.window;
		tiles->wraps = windows.wraps;
		tiles->exchanged = windows.exchanged;
	} else if (tiles->tiled && wants->gradient)
		cut_gradient(tiles, whole, wants);
	else if (tiles->tiled)
		cut_forward(tiles, whole, wants);
	if (tiles->tiled && !tiles->windows && !tiles->block && (wants->gradient || tiles->folds))
		explain_block(tiles, whole);
}

bool tiles_are_whole(const struct tiles *tiles, const struct lowered *whole)
{
	return !tiles->tiled || (tiles->tile == tiles->rows && (!tiles->flat || whole->input.shape.ndim == 1));
}

int64_t tiles_chunks(const struct tiles *tiles) { return ceil_div(tiles->rows, tiles->tile * tiles->per_chunk); }

int64_t tiles_rows_of(const struct tiles *tiles, int64_t chunk)
{
	const int64_t full = tiles->tile * tiles->per_chunk;
	return lesser(tiles->rows - chunk * full, full);
}

int64_t tiles_of(const struct tiles *tiles, int64_t chunk)
{
	return ceil_div(tiles_rows_of(tiles, chunk), tiles->tile);
}

/* Returns the slice of rows, of step 1, that CHAIN begins with. NULL if there is none, or CHAIN may use more rows. */
static const struct attrs *first_rows(const struct chain *chain, int ndim)
{
	const struct node *first = chain->first;
	const struct declared *declared = &chain->input_type;
	int axis;
	if (!first || chain->input_count || first->kind != NODE_OP || first->op != OP_slice || first->deferred ||
	    first->attrs->step != 1)
		return NULL;
	if (!axis_resolve(first->attrs->axis[0], ndim, &axis) || axis != 0 || chain->names_input)
		return NULL;
	return declared->given && declared->type.shape.dim[0] != -1 ? NULL : first->attrs;
}

bool tiles_first_slice(const struct chain *chain, const struct type *input, struct slice *rows)
{
	const struct attrs *attrs = first_rows(chain, input->shape.ndim);
	if (!attrs)
		return false;
	*rows = slice_of(attrs, input->shape.dim[0]);
	return rows->count > 0;
}
