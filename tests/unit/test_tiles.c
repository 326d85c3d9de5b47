/* How arrays are cut: what is chosen for given chains and types, as numbers; and how often a job lowers its chain. */
#include "plan/tiles.h"

#include "chains.h"
#include "plan/job.h"
#include "scratch.h"
#include "suite.h"

static struct chain chain;

static const struct tile_wants streams = {0};
static const struct tile_wants files = {.read_anywhere = true, .write_anywhere = true};
static const struct tile_wants from_file = {.read_anywhere = true};

static struct tiles cut(const char *text, int64_t rows, int64_t columns, const struct tile_wants *wants)
{
	const struct type input = {.dtype = DTYPE_F32, .shape = {.ndim = 2, .dim = {rows, columns}}};
	struct lowered whole;
	struct tiles tiles;
	chain_make(&chain, text, &arena, &diags);
	ck_assert_int_eq(lower(&scratch, &whole, &chain, NULL, &input, LOWER_RUN), STATUS_OK);
	tiles_cut(&tiles, &whole, wants);
	return tiles;
}

static struct tiles cut_tile(const char *text, int64_t rows, int64_t columns, int64_t tile)
{
	return cut(text, rows, columns, &(struct tile_wants){.rows = tile});
}

static void check(const struct tiles *tiles, int64_t rows, int64_t tile, int64_t chunk)
{
	ck_assert_int_eq(tiles->rows, rows);
	ck_assert_int_eq(tiles->tile, tile);
	ck_assert_int_eq(tiles->tile * tiles->per_chunk, chunk);
}

/* 128 KiB of a stream, 1 MiB of files, where both ends are. */
START_TEST(elements_go_by_what_is_read_at_a_time)
{
	struct tiles p = cut("sin", 100000, 16, &streams);
	ck_assert(p.tiled && p.flat && !p.folds);
	check(&p, 1600000, 32768, 32768);
	ck_assert_int_eq(p.input_row, 4);
	ck_assert_int_eq(p.output_row, 4);
	p = cut("sin", 100000, 16, &files);
	check(&p, 1600000, 262144, 262144);
	p = cut("sin", 100000, 16, &from_file);
	check(&p, 1600000, 32768, 32768);
	p = cut("sin; cast f64", 100000, 16, &streams); /* the wider end's bytes */
	check(&p, 1600000, 16384, 16384);
	p = cut("sin", 3, 5, &streams);
	check(&p, 15, 15, 15);
}
END_TEST

/* A third of 256 KiB for the widest value, and as many tiles as a chunk needs. */
START_TEST(rows_go_by_the_cache)
{
	struct tiles p = cut("softmax", 100000, 16, &streams);
	ck_assert(p.tiled && !p.flat && !p.folds);
	check(&p, 100000, 1365, 2730);
	ck_assert_int_eq(p.input_row, 64);
	ck_assert_int_eq(p.output_row, 64);
	p = cut("softmax", 100000, 16, &files);
	check(&p, 100000, 1365, 13 * 1365);
	p = cut("sum axis=-1", 100000, 16, &streams);
	ck_assert_int_eq(p.output_row, 4);
	p = cut("softmax", 10, 100000, &streams); /* wider than the cache */
	check(&p, 10, 1, 1);
}
END_TEST

/* 60 to 1008 rows of a matrix, whatever --tile says: the bits of a row follow from how many there are. */
START_TEST(products_go_by_their_rows)
{
	struct tiles p = cut("param w: f32[64,64]\nmatmul w", 100000, 64, &streams);
	check(&p, 100000, 504, 1008);
	p = cut_tile("param w: f32[64,64]\nmatmul w", 100000, 64, 100);
	check(&p, 100000, 504, 504);
	p = cut("param w: f32[20000,2]\nmatmul w", 1000, 20000, &streams);
	check(&p, 1000, 60, 60);
	/* each tile reads and packs a heavy weight: tiles are larger, but there are eight where the array has the rows */
	p = cut("param w: f32[4096,4096]\nmatmul w", 100000, 4096, &streams);
	check(&p, 100000, 1008, 1008);
	p = cut("param w: f32[4096,4096]\nmatmul w", 2048, 4096, &streams);
	check(&p, 2048, 264, 264);
	p = cut("param w: f32[4096,4096]\nmatmul w", 900, 4096, &streams);
	check(&p, 900, 170, 170);
}
END_TEST

/* A chunk of files would hold all tiles. So that threads share them it has fewer; one tile is for all threads together. */
START_TEST(products_go_to_all_threads)
{
	static const char *const text = "param w: f32[64,64]\nmatmul w";
	for (int threads = 1; threads <= 8; threads++) {
		const struct tile_wants wants = {.read_anywhere = true, .write_anywhere = true, .threads = threads};
		struct tiles p = cut(text, 4000, 64, &wants);
		check(&p, 4000, 504, 504 * ((8 + threads - 1) / threads));
		ck_assert_int_eq(tiles_members(&p, threads), 1);
		p = cut(text, 100, 64, &wants);
		check(&p, 100, 100, 100);
		ck_assert_int_eq(p.workers, 1);
		ck_assert_int_eq(tiles_members(&p, threads), threads);
	}
}
END_TEST

START_TEST(tiles_that_are_asked_for)
{
	struct tiles p = cut_tile("softmax", 100000, 16, 13);
	check(&p, 100000, 13, 13);
	p = cut_tile("sin", 100000, 16, 13); /* rows are elements */
	check(&p, 1600000, 208, 208);
	p = cut_tile("softmax", 100, 16, 1000);
	check(&p, 100, 100, 100);
	p = cut_tile("sin", 100, 16, 100);
	check(&p, 1600, 1600, 1600);
}
END_TEST

/* Blocks of a sum are of 1 MiB, and no option changes them. */
START_TEST(sums_go_by_blocks)
{
	struct tiles p = cut("sum axis=0", 100000, 16, &streams);
	ck_assert(p.tiled && !p.flat && p.folds);
	check(&p, 100000, 8192, 8192);
	ck_assert_int_eq(p.output_row, 0);
	p = cut("sum axis=0", 100000, 16, &files); /* without rows to write, a chunk of a file is no larger */
	check(&p, 100000, 8192, 8192);
	p = cut_tile("sum axis=0", 100000, 16, 5000);
	check(&p, 100000, 8192, 8192);
	p = cut_tile("sum axis=0", 100000, 16, 20000);
	check(&p, 100000, 8192, 24576);
	p = cut("sum axis=0; exp; logsumexp", 100000, 16, &streams); /* the stages after the fold run once */
	ck_assert(p.folds);
	check(&p, 100000, 8192, 8192);
	p = cut("param w: f32[16]\nuse w; mul 2; name b; use x; sum axis=0; add b", 100000, 16, &from_file);
	check(&p, 100000, 8192, 8192);
}
END_TEST

/* At most 512 rows of a matrix. More than one block are an even number, nearly equal, of whole stripes of a product or of 512. */
START_TEST(sums_of_products_go_by_even_blocks)
{
	static const int64_t wanted[][2] = {{400, 400},  {512, 512},  {513, 264}, {1024, 512},
	                                    {1025, 264}, {4096, 512}, {5000, 504}};
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
		const struct tiles p = cut("param w: f32[64,64]\nmatmul w; sum axis=0", wanted[i][0], 64, &streams);
		ck_assert_msg(p.tile == wanted[i][1], "%ld rows: %ld, not %ld", (long)wanted[i][0], (long)p.tile,
		              (long)wanted[i][1]);
	}
}
END_TEST

/* Chains that cannot be cut into tiles, and arrays without elements. */
START_TEST(whole_arrays)
{
	static const char *const chains[] = {"transpose", "cumsum axis=0", "slice axis=0 start=1; sin",
	                                     "mul 0; sum; add x"};
	for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
		const struct tiles p = cut(chains[i], 1000, 8, &files);
		ck_assert_msg(!p.tiled && !p.flat && !p.folds, "%s", chains[i]);
		check(&p, 1, 1, 1);
		ck_assert_int_eq(p.input_row, 32000);
	}
	const struct tiles none = cut("sin", 0, 8, &files);
	ck_assert(!none.tiled);
	check(&none, 1, 1, 1);
}
END_TEST

static bool first_slice(const char *text, struct slice *rows)
{
	const struct type input = {.dtype = DTYPE_F32, .shape = {.ndim = 2, .dim = {100, 4}}};
	chain_make(&chain, text, &arena, &diags);
	return tiles_first_slice(&chain, &input, rows);
}

#define STEPS(N) "repeat " #N " { add { laplacian boundary=zero; mul 0.1 }; sin }"

/* A deep gradient has one window a rank, and blocks of sums of which a rank's rows are a multiple. */
START_TEST(rows_that_ranks_exchange)
{
	struct tile_wants wants = {.threads = 2, .ranks = 3, .gradient = true, .alike = true};
	struct tiles p = cut(STEPS(200), 3000, 1000, &wants);
	check(&p, 3000, 1000, 1000);
	ck_assert_int_eq(p.exchanged, 31);
	ck_assert_int_eq(p.window, 1000 + 2 * 31);
	ck_assert_int_eq(p.workers, 1);
	p = cut(STEPS(20), 3000, 1000, &wants); /* windows are good */
	ck_assert(p.windows && !p.exchanged);
	p = cut("pad 1 1 axis=0; " STEPS(200), 3000, 1000, &wants);
	ck_assert(!p.exchanged);
	p = cut(STEPS(200) "; mean", 3000, 1000, &wants);
	ck_assert(p.exchanged > 0 && p.folds);
	wants.value = true;
	p = cut(STEPS(200) "; mean", 3000, 1000, &wants);
	ck_assert(!p.tiled && p.because.reason);
	p = cut(STEPS(200) "; mse 0.5", 3001, 24, &wants); /* 1024 elements begin at each 128th row */
	check(&p, 3001, 1024, 1024);
	wants.sums = true;
	p = cut(STEPS(200), 3000, 1000, &wants);
	check(&p, 3000, 1024, 1024);
	ck_assert_int_eq(p.sum_block, 64);
	wants.ranks = 1;
	p = cut(STEPS(200), 3000, 1000, &wants);
	ck_assert(!p.tiled);
	ck_assert_int_eq(p.sum_block, 64);
	wants.ranks = 3;
	wants.alike = false;
	p = cut(STEPS(200), 3000, 1000, &wants);
	ck_assert(!p.exchanged);
}
END_TEST

START_TEST(first_slices)
{
	struct slice rows;
	ck_assert(first_slice("slice axis=0 start=3 stop=40; sin", &rows));
	ck_assert_int_eq(rows.start, 3);
	ck_assert_int_eq(rows.count, 37);
	ck_assert(first_slice("input v: f32[*,4]\nslice axis=-2 start=-10", &rows));
	ck_assert_int_eq(rows.start, 90);
	ck_assert_int_eq(rows.count, 10);
	static const char *const others[] = {
		"sin",
		"sin; slice axis=0 start=3",
		"slice axis=1 start=3",
		"slice axis=0 start=3 step=2",
		"slice axis=0 start=40 stop=3",
		"slice axis=0 start=3 stop=4; add x",
		"input x: f32[100,4]\nslice axis=0 start=3",
		"",
	};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		ck_assert_msg(!first_slice(others[i], &rows), "%s", others[i]);
}
END_TEST

/* The linker puts __wrap_NAME for NAME, and NAME for __real_NAME (Makefile.am). */
enum status __real_lower(const struct context *context, struct lowered *lowered, const struct chain *chain,
                         const struct portion *portion, const struct type *input, enum lower_what what);
enum status __wrap_lower(const struct context *context, struct lowered *lowered, const struct chain *chain,
                         const struct portion *portion, const struct type *input, enum lower_what what);
enum status __real_lower_tile(const struct context *context, struct lowered *lowered, const struct lowered *whole,
                              const struct type *input, enum lower_what what, int64_t rows);
enum status __wrap_lower_tile(const struct context *context, struct lowered *lowered, const struct lowered *whole,
                              const struct type *input, enum lower_what what, int64_t rows);

static struct {
	int by_what[LOWER_UNROLLED + 1]; /* of the whole array */
	int tiles;
} lowerings;

enum status __wrap_lower(const struct context *context, struct lowered *lowered, const struct chain *from,
                         const struct portion *portion, const struct type *input, enum lower_what what)
{
	lowerings.by_what[what]++;
	return __real_lower(context, lowered, from, portion, input, what);
}

enum status __wrap_lower_tile(const struct context *context, struct lowered *lowered, const struct lowered *whole,
                              const struct type *input, enum lower_what what, int64_t rows)
{
	lowerings.tiles++;
	return __real_lower_tile(context, lowered, whole, input, what, rows);
}

/* More than 8 MiB of the widest value are cut, and tiles do not grow with the array. */
START_TEST(windows_by_default)
{
	static const char *const texts[] = {"repeat 5 { add { laplacian boundary=zero; mul 0.1 } }", "roll 3; sin",
	                                    "slice start=1; tanh", "stencil [1,2,3]; softmax", "laplacian; matmul m"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		char text[200];
		snprintf(text, sizeof text, "const m: f32[1024,1024]; %s", texts[i]);
		ck_assert(!cut(text, 2048, 1024, &files).tiled);
		const struct tiles some = cut(text, 2056, 1024, &files), more = cut(text, 205600, 1024, &files);
		ck_assert(some.windows && more.windows);
		ck_assert_int_eq(some.tile, more.tile);
		ck_assert_int_eq(some.window, more.window);
		ck_assert_int_le(some.window * some.input_row, 4 << 20);
	}
	const struct tiles wide = cut("const w: f32[1024]; mul w; laplacian; mean axis=1 keepdims=true", 5000, 1, &files);
	ck_assert(wide.windows);
	ck_assert_int_le(wide.window, 2048);
}
END_TEST

/* Tiles that carry rows compute none twice, and are cut however deep; others have some six times the rows of their halo. */
START_TEST(windows_of_deep_chains)
{
	static const char *const deep = "repeat 900 { add { laplacian boundary=zero; mul 0.1 } }";
	const struct tile_wants carrying = {.read_anywhere = true, .write_anywhere = true, .carries = true, .threads = 4};
	const struct tile_wants gradient = {.gradient = true, .threads = 2};
	struct tiles tiles = cut(deep, 16384, 1024, &carrying);
	ck_assert(tiles.carries);
	ck_assert_int_eq(tiles.window, 901 + 1800);
	ck_assert_int_eq(tiles_chunks(&tiles), 4);
	tiles = cut(deep, 4096, 1024, &carrying); /* a chunk has as many rows as are around it, at least */
	ck_assert(tiles.carries);
	ck_assert_int_eq(tiles_chunks(&tiles), 3);
	tiles = cut(deep, 2048, 2048, &carrying);
	ck_assert(!tiles.tiled && tiles.because.reason);
	tiles = cut(deep, 16384, 1024, &gradient);
	ck_assert(!tiles.tiled && tiles.because.reason);
	tiles = cut(deep, 65536, 1024, &gradient); /* as many tiles for each thread */
	ck_assert(tiles.windows && !tiles.carries);
	ck_assert_int_eq(tiles_chunks(&tiles), 4);
	ck_assert_int_eq(tiles.tile, 65536 / 4);
	tiles = cut("repeat 100 { add { laplacian boundary=zero; mul 0.1 } }", 16384, 1024, &gradient);
	ck_assert(tiles.windows && !tiles.carries);
	/* Windows compute at most an eighth more rows than those of 4096 rows do, which have 402 around them. */
	ck_assert_int_le(tiles.window * tiles_chunks(&tiles), (4096 + 402) * 4 * 9 / 8);
}
END_TEST

/* The whole array is lowered once to steps, and once to the body that says where to cut; a tile once. */
START_TEST(lowerings_of_a_job)
{
	static const struct {
		const char *text;
		int64_t rows, tile;
		int bodies, tiles;
	} cases[] = {
		{"softmax; sin", 1000, 250, 1, 1},     /* four tiles */
		{"softmax; sin", 1000, 300, 1, 1},     /* and a rest */
		{"softmax; sin", 1000, 1000, 1, 0},    /* one tile: the whole array */
		{"cumsum axis=0; sin", 1000, 0, 0, 0}, /* no tiles */
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct type input = {.dtype = DTYPE_F32, .shape = {.ndim = 2, .dim = {cases[i].rows, 64}}};
		const struct job_options options = {
			.policy = &policy_save_all, .threads = 1, .store = DTYPE_COUNT, .tile = cases[i].tile};
		struct job job;
		chain_make(&chain, cases[i].text, &arena, &diags);
		memset(&lowerings, 0, sizeof lowerings);
		ck_assert_int_eq(job_make(&scratch, &job, &chain, &input, &options), STATUS_OK);
		ck_assert_int_eq(lowerings.by_what[LOWER_STEPS], 1);
		ck_assert_int_eq(lowerings.by_what[LOWER_RUN], cases[i].bodies);
		ck_assert_int_eq(lowerings.by_what[LOWER_UNROLLED], 0);
		ck_assert_msg(lowerings.tiles == cases[i].tiles, "case %zu: %d tiles of %lld", i, lowerings.tiles,
		              (long long)job.tile.rows);
		/* A comparison with save-all lowers nothing of what the job has. */
		ck_assert(job_saves_nothing(&job, false));
		ck_assert_int_eq(lowerings.by_what[LOWER_STEPS] + lowerings.by_what[LOWER_RUN], 1 + cases[i].bodies);
		job_free(&job);
	}
}
END_TEST

/* The shorter last tile needs as much memory as if its rows were the array. */
START_TEST(a_rest_takes_the_bytes_of_its_rows)
{
	static const char *const texts[] = {
		"mul { layernorm; tanh; softmax; cumsum }",
		"param w: f32[64]\nadd w; tanh; layernorm; repeat 3 { silu; mul { softmax axis=-1; square } }",
		"repeat 4 { div { square; add 0.5 }; gelu }; logsumexp axis=-1",
	};
	static const struct policy every = {.kind = POLICY_every, .number = 1};
	static const struct policy *const policies[] = {&policy_save_all, &every};
	for (size_t i = 0; i < 2 * sizeof texts / sizeof *texts; i++) {
		const struct job_options options = {
			.policy = policies[i % 2], .threads = 2, .store = DTYPE_COUNT, .tile = 600, .unexecuted = true};
		const struct type input = {.dtype = DTYPE_F32, .shape = {.ndim = 2, .dim = {i % 2 ? 1000 : 603, 64}}};
		struct job job, alone;
		chain_make(&chain, texts[i / 2], &arena, &diags);
		ck_assert_int_eq(job_make(&scratch, &job, &chain, &input, &options), STATUS_OK);
		ck_assert_int_gt(job.tiles.rest, 0);
		const struct type rest = {.dtype = DTYPE_F32, .shape = {.ndim = 2, .dim = {job.tiles.rest, 64}}};
		ck_assert_int_eq(job_make(&scratch, &alone, &chain, &rest, &options), STATUS_OK);
		ck_assert_msg(job.tile.rest_slab == alone.tile.slab, "case %zu: %lld bytes, not %lld", i,
		              (long long)job.tile.rest_slab, (long long)alone.tile.slab);
		job_free(&job);
		job_free(&alone);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tiles");
	TCase *tcase = suite_make_case(suite, "tiles");
	tcase_add_checked_fixture(tcase, scratch_setup, scratch_teardown);
	tcase_add_test(tcase, elements_go_by_what_is_read_at_a_time);
	tcase_add_test(tcase, rows_go_by_the_cache);
	tcase_add_test(tcase, products_go_by_their_rows);
	tcase_add_test(tcase, products_go_to_all_threads);
	tcase_add_test(tcase, tiles_that_are_asked_for);
	tcase_add_test(tcase, sums_go_by_blocks);
	tcase_add_test(tcase, sums_of_products_go_by_even_blocks);
	tcase_add_test(tcase, whole_arrays);
	tcase_add_test(tcase, windows_by_default);
	tcase_add_test(tcase, windows_of_deep_chains);
	tcase_add_test(tcase, rows_that_ranks_exchange);
	tcase_add_test(tcase, first_slices);
	tcase_add_test(tcase, lowerings_of_a_job);
	tcase_add_test(tcase, a_rest_takes_the_bytes_of_its_rows);
	return suite_run(suite);
}
