/*
 * The placer: where the arrays of a program lie, and the pool that gives them their places.
 *
 * The test finds from the launches alone when each array of a random body is live, and
 * compares every pair. Two arrays that are live at once share no byte of the workspace, and
 * no array of the caller's. The pool is compared with a map of bytes.
 */
#include "base/pool.h"
#include "bodies.h"
#include "compile/launch.h"
#include "suite.h"

static struct model m;
static struct program program;

/* ---- the pool ---- */

START_TEST(pool_takes_the_best_hole)
{
	struct pool pool;
	pool_init(&pool, &allocator_system);
	/* Holes of 3, 1, 2 and 1 units between arrays that stay. */
	static const int64_t units[] = {3, 1, 1, 1, 2, 1, 1, 1};
	int64_t at[8];
	for (int i = 0; i < 8; i++)
		at[i] = pool_get(&pool, units[i] * ARRAY_ALIGN);
	for (int i = 0; i < 8; i += 2)
		ck_assert(pool_put(&pool, at[i], units[i] * ARRAY_ALIGN));
	ck_assert_uint_eq(pool.holes.count, 4);
	ck_assert_int_eq(pool_get(&pool, 2 * ARRAY_ALIGN), at[4]); /* not the larger one below */
	ck_assert_int_eq(pool_get(&pool, 1), at[2]);               /* the lower of two equals */
	ck_assert_int_eq(pool_get(&pool, ARRAY_ALIGN), at[6]);
	ck_assert_int_eq(pool_get(&pool, ARRAY_ALIGN), at[0]); /* a part of the large one */
	ck_assert_int_eq(pool_get(&pool, 2 * ARRAY_ALIGN), at[0] + ARRAY_ALIGN);
	ck_assert_uint_eq(pool.holes.count, 0);
	pool_free(&pool);
}
END_TEST

/* The value of a loss takes no part of a state's hole, so the next state fits there. */
START_TEST(pool_keeps_large_holes_whole)
{
	struct pool pool;
	pool_init(&pool, &allocator_system);
	const int64_t state = 1100 * ARRAY_ALIGN, at = pool_get(&pool, state), above = pool_get(&pool, state);
	ck_assert(pool_put(&pool, at, state));
	ck_assert_int_eq(pool_get(&pool, 1), above + state);
	ck_assert_int_eq(pool_get(&pool, state), at);
	ck_assert_int_eq(pool.peak, 2 * state + ARRAY_ALIGN);
	pool_free(&pool);
}
END_TEST

START_TEST(pool_joins_neighbours)
{
	/* Three arrays below one that stays, freed in every order, are one hole. */
	static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
	for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
		struct pool pool;
		int64_t at[4];
		pool_init(&pool, &allocator_system);
		for (int k = 0; k < 4; k++)
			at[k] = pool_get(&pool, 100);
		for (int k = 0; k < 3; k++)
			ck_assert(pool_put(&pool, at[orders[i][k]], 100));
		ck_assert_uint_eq(pool.holes.count, 1);
		ck_assert_int_eq(sorted_at(&pool.holes, (struct place){0, 0})->first, 0);
		ck_assert_int_eq(sorted_at(&pool.holes, (struct place){0, 0})->second, 3 * 2 * ARRAY_ALIGN);
		/* Without the one that stays there is nothing. */
		ck_assert(pool_put(&pool, at[3], 100));
		ck_assert_uint_eq(pool.holes.count, 0);
		ck_assert_int_eq(pool.top, 0);
		ck_assert_int_eq(pool.peak, 4 * 2 * ARRAY_ALIGN);
		pool_free(&pool);
	}
}
END_TEST

START_TEST(pool_refuses_to_overflow)
{
	struct pool pool;
	pool_init(&pool, &allocator_system);
	ck_assert_int_eq(pool_get(&pool, POOL_MOST + 1), -1);
	ck_assert_int_eq(pool_get(&pool, INT64_MAX), -1);
	ck_assert_int_eq(pool.top, 0);
	ck_assert_int_eq(pool_get(&pool, POOL_MOST), 0);
	ck_assert_int_eq(pool_get(&pool, 1), -1);
	ck_assert_int_eq(pool.top, POOL_MOST);
	ck_assert(pool_put(&pool, 0, POOL_MOST));
	ck_assert_int_eq(pool_get(&pool, 1), 0);
	pool_free(&pool);
}
END_TEST

enum { UNITS = 40000, MOST_ARRAYS = 1200 };

/* Phases of STEPS steps: in one that fills the pool FULL of 100 steps get an array, in the next one EMPTY. */
static const struct {
	size_t most; /* arrays */
	int steps, phase;
	uint32_t full, empty;
} loads[] = {{64, 20000, 1000, 60, 40}, {MOST_ARRAYS, 8000, 2000, 90, 20}};

/* The lowest of the smallest gaps of at least SIZE units below TOP; TOP if there is none, or if it is far larger. */
static int64_t best_gap(const bool *used, int64_t top, int64_t size)
{
	int64_t best = top, best_size = INT64_MAX;
	for (int64_t i = 0; i < top;) {
		int64_t end = i;
		while (end < top && !used[end])
			end++;
		if (end - i >= size && end - i < best_size) {
			best = i;
			best_size = end - i;
		}
		i = end + 1;
	}
	return best < top && best_size * ARRAY_ALIGN / 1024 <= size * ARRAY_ALIGN ? best : top;
}

START_TEST(pool_against_a_map)
{
	static bool used[UNITS];
	struct pool pool;
	struct {
		int64_t at, units;
	} arrays[MOST_ARRAYS];
	size_t count = 0, most_holes = 0;
	int64_t peak = 0;
	m.random = 7;
	memset(used, 0, sizeof used);
	pool_init(&pool, &allocator_system);
	int64_t top = 0;
	for (int step = 0; step < loads[_i].steps; step++) {
		while (top > 0 && !used[top - 1])
			top--;
		ck_assert_int_eq(pool.top, top * ARRAY_ALIGN);
		ck_assert_int_eq(pool.peak, peak * ARRAY_ALIGN);
		if (count < loads[_i].most && draw(&m, 100) < (step / loads[_i].phase % 2 ? loads[_i].empty : loads[_i].full)) {
			const int64_t units = 1 + draw(&m, 30), wanted = best_gap(used, top, units);
			const int64_t at = pool_get(&pool, units * ARRAY_ALIGN - draw(&m, ARRAY_ALIGN));
			ck_assert_msg(at == wanted * ARRAY_ALIGN, "step %d: %lld, not %lld", step, (long long)at,
			              (long long)wanted * ARRAY_ALIGN);
			memset(used + wanted, true, (size_t)units);
			top = wanted + units > top ? wanted + units : top;
			peak = top > peak ? top : peak;
			ck_assert_int_le(top, UNITS);
			arrays[count].at = wanted;
			arrays[count++].units = units;
		} else if (count) {
			const size_t i = draw(&m, (uint32_t)count);
			ck_assert(pool_put(&pool, arrays[i].at * ARRAY_ALIGN, arrays[i].units * ARRAY_ALIGN));
			memset(used + arrays[i].at, false, (size_t)arrays[i].units);
			arrays[i] = arrays[--count];
		}
		most_holes = pool.holes.count > most_holes ? pool.holes.count : most_holes;
	}
	ck_assert_uint_gt(most_holes, loads[_i].most > SORTED_BLOCK ? 2 * SORTED_BLOCK : 1);
	pool_free(&pool);
}
END_TEST

/* ---- lifetimes ---- */

/* When an entry of the frame is live, in launches; and, in the launch where it dies or is made, in kernel ops. */
struct life {
	int64_t made, dies;
	int64_t written,
		read; /* the first kernel op that writes it in launch MADE, the last that reads it in launch DIES */
	int64_t bytes;
	int64_t offset; /* in the workspace */
};

enum { NEVER = -2, BEFORE = -1 };
static struct life *lives;

static void written_by(uint32_t entry, int64_t launch, int64_t op)
{
	struct life *life = entry == NO_VALUE ? NULL : &lives[entry];
	if (!life)
		return;
	if (life->made == NEVER || launch < life->made) {
		life->made = launch;
		life->written = op;
	}
	life->dies = launch > life->dies ? launch : life->dies;
}

static void read_by(uint32_t entry, int64_t launch, int64_t op)
{
	struct life *life = entry == NO_VALUE ? NULL : &lives[entry];
	if (!life || launch < life->dies)
		return;
	if (launch > life->dies)
		life->read = -1;
	life->dies = launch;
	life->read = op > life->read ? op : life->read;
}

static void see_group(const struct launch *group, int64_t at)
{
	bool loops = false;
	for (size_t i = 0; i < group->kernel_op_count; i++)
		loops |= group->kernel_ops[i].kind == KERNEL_OP_LOOP;
	for (size_t i = 0; i < group->kernel_op_count; i++) {
		const struct kernel_op *op = &group->kernel_ops[i];
		const struct arg *reads[] = {&op->v, &op->a, &op->y, &op->k, &op->l, &op->g};
		const struct arg *writes[] = {&op->out, &op->keep[0], &op->keep[1]};
		/* A fill and a scalar read any part of the array in every block; a loop reads a block again. */
		const int64_t read = loops || op->kind == KERNEL_OP_FILL ? INT64_MAX : (int64_t)i;
		for (size_t k = 0; k < sizeof reads / sizeof *reads; k++)
			if (reads[k]->kind == ARG_ARRAY)
				read_by(reads[k]->index, at, read);
		if (op->a.kind == ARG_SCALAR)
			read_by(op->a.index, at, INT64_MAX);
		for (size_t k = 0; k < sizeof writes / sizeof *writes; k++)
			if (writes[k]->kind == ARG_ARRAY)
				written_by(writes[k]->index, at, (int64_t)i);
	}
}

static void see_launch(const struct launch *launch, int64_t at)
{
	if (launch->kind < LAUNCH_LOOP) {
		for (int i = 0; i < MAX_NEEDS; i++)
			read_by(launch->needs[i], at, INT64_MAX);
		read_by(launch->g, at, INT64_MAX);
		written_by(launch->out, at, 0);
		written_by(launch->out_a, at, 0);
		for (int k = 0; k < MAX_KEEPS; k++)
			written_by(launch->keep[k], at, 0);
	}
	for (size_t i = 0; launch->kind == LAUNCH_LOOP && i < launch->carried_count; i++) {
		const struct carried *c = &launch->carried[i];
		read_by(c->init, (int64_t)launch->match, INT64_MAX); /* as the inner of the first iteration */
		read_by(c->result, (int64_t)launch->match, INT64_MAX);
		written_by(c->inner, at, 0);
		written_by(c->final, (int64_t)launch->match, 0);
	}
}

/* An array that was made before a loop and is read in it is read until the loop's end. */
static bool widen_by_loops(void)
{
	bool more = false;
	for (size_t i = 0; i < program.launch_count; i++) {
		const struct launch *loop = &program.launches[i];
		for (size_t e = 0; loop->kind == LAUNCH_LOOP && e < program.frame->count; e++)
			if (lives[e].made < (int64_t)i && lives[e].dies > (int64_t)i && lives[e].dies < (int64_t)loop->match) {
				lives[e].dies = (int64_t)loop->match;
				lives[e].read = INT64_MAX;
				more = true;
			}
	}
	return more;
}

/* ENTRY's array: an in, an out or a place in the workspace; false for params, and for what nothing uses. */
static bool has_array(uint32_t entry)
{
	const enum entry_kind kind = program.frame->entries[entry].kind;
	return lives[entry].dies != NEVER && kind != ENTRY_PARAM && kind != ENTRY_CARRIED;
}

static void find_lives(void)
{
	const struct frame_plan *frame = program.frame;
	lives = arena_array(&m.arena, frame->count + 1, sizeof *lives);
	for (size_t e = 0; e < frame->count; e++)
		lives[e] = (struct life){.made = NEVER,
		                         .dies = NEVER,
		                         .read = -1,
		                         .bytes = type_bytes(frame->entries[e].type),
		                         .offset = frame->entries[e].offset[LAYOUT_ALL]};
	for (size_t i = 0; i < program.launch_count; i++)
		if (program.launches[i].kind == LAUNCH_GROUP)
			see_group(&program.launches[i], (int64_t)i);
		else
			see_launch(&program.launches[i], (int64_t)i);
	for (size_t e = 0; e < frame->count; e++)
		if (lives[e].made == NEVER)
			lives[e].made = BEFORE;
	while (widen_by_loops())
		;
}

/* The places that carried values have for themselves, at most two each, as lives. */
static size_t add_carried(struct life *list)
{
	size_t count = 0;
	for (size_t i = 0; i < program.launch_count; i++) {
		const struct launch *loop = &program.launches[i];
		for (size_t k = 0; loop->kind == LAUNCH_LOOP && k < loop->carried_count; k++) {
			const struct carried *c = &loop->carried[k];
			/* Iterations write side 0, side 1, side 0, ...; the last one leaves the final. */
			const int last = loop->iterations > 1 ? (int)((loop->iterations - 1) % 2) : 0;
			for (int side = 0; side < 2; side++) {
				struct life life = {(int64_t)i, (int64_t)loop->match,       0, INT64_MAX,
				                    c->bytes,   c->offset[side][LAYOUT_ALL]};
				if (side == last && lives[c->final].dies > life.dies)
					life.dies = lives[c->final].dies;
				if (c->array[side] == NO_VALUE)
					list[count++] = life;
			}
		}
	}
	return count;
}

static bool overlap_in_time(const struct life *a, const struct life *b)
{
	return a->made <= b->dies && b->made <= a->dies;
}

static int64_t whole_units(int64_t bytes) { return (bytes > 0 ? bytes + 63 : 64) / 64 * 64; }

static bool overlap_in_space(const struct life *a, const struct life *b)
{
	return a->offset < b->offset + whole_units(b->bytes) && b->offset < a->offset + whole_units(a->bytes);
}

static int64_t first_array(void)
{
	int64_t most = 0;
	for (size_t i = 0; i < program.launch_count; i++) {
		const struct launch *launch = &program.launches[i];
		const int64_t bytes = launch->kind == LAUNCH_GROUP ? launch->register_bytes[LAYOUT_ALL] * launch->registers : 0;
		most = bytes > most ? bytes : most;
	}
	return program.frame->registers[LAYOUT_ALL] + most;
}

static void check_workspace(uint32_t seed)
{
	const struct frame_plan *frame = program.frame;
	size_t limit = frame->count + 1, count = 0;
	for (size_t i = 0; i < program.launch_count; i++)
		limit += program.launches[i].kind == LAUNCH_LOOP ? 2 * program.launches[i].carried_count : 0;
	struct life *list = arena_array(&m.arena, limit, sizeof *list);
	for (uint32_t e = 0; e < frame->count; e++)
		if (has_array(e) && frame->entries[e].kind == ENTRY_WORKSPACE)
			list[count++] = lives[e];
	count += add_carried(list + count);
	const int64_t begin = first_array();
	int64_t sum = 0, most = 0;
	for (size_t i = 0; i < count; i++) {
		ck_assert_int_eq(list[i].offset % ARRAY_ALIGN, 0);
		ck_assert_int_ge(list[i].offset, begin);
		ck_assert_int_le(list[i].offset + whole_units(list[i].bytes), program.workspace);
		for (size_t k = 0; k < i; k++)
			ck_assert_msg(!overlap_in_time(&list[i], &list[k]) || !overlap_in_space(&list[i], &list[k]),
			              "seed %u: arrays of launches %lld..%lld and %lld..%lld share bytes", seed,
			              (long long)list[i].made, (long long)list[i].dies, (long long)list[k].made,
			              (long long)list[k].dies);
		sum += whole_units(list[i].bytes);
	}
	for (int64_t at = 0; at < (int64_t)program.launch_count; at++) {
		int64_t live = 0;
		for (size_t i = 0; i < count; i++)
			live += list[i].made <= at && at <= list[i].dies ? whole_units(list[i].bytes) : 0;
		most = live > most ? live : most;
	}
	ck_assert_msg(program.workspace - begin >= most && program.workspace - begin <= sum,
	              "seed %u: %lld bytes, not within %lld..%lld", seed, (long long)(program.workspace - begin),
	              (long long)most, (long long)sum);
}

/*
 * True if THEN may lie in the array of FIRST: that dies before, or in the launch that makes THEN. A group reads it first. An
 * operation along an axis reads each line before it writes it, but for log_softmax.
 */
static bool may_follow(const struct life *first, const struct life *then)
{
	if (first->dies < then->made)
		return true;
	const struct launch *launch = first->dies == then->made ? &program.launches[then->made] : NULL;
	if (launch && launch_is_call(launch))
		return op_normalizes(launch->instr->op) && launch->instr->op != OP_log_softmax;
	return launch && launch->kind == LAUNCH_GROUP && first->read <= then->written;
}

static bool goes_out(uint32_t port)
{
	for (size_t i = 0; i < m.body.out_count; i++)
		if (m.body.outs[i].value == m.body.ins[port].value)
			return true;
	return false;
}

/* Entries that lie in arrays of the caller's; returns how many lie in another's. */
static size_t check_callers(const bool *owned, uint32_t seed)
{
	const struct frame_plan *frame = program.frame;
	size_t reused = 0;
	for (uint32_t e = 0; e < frame->count; e++) {
		const struct entry *entry = &frame->entries[e];
		if (!has_array(e) || entry->kind == ENTRY_WORKSPACE)
			continue;
		const struct port *port = entry->kind == ENTRY_IN ? &m.body.ins[entry->port] : &m.body.outs[entry->port];
		const bool own = entry->kind == ENTRY_IN ? lives[e].made == BEFORE : false;
		ck_assert(type_equal(entry->type, m.body.values[port->value].type));
		for (uint32_t k = 0; k < frame->count; k++) {
			if (k == e || !has_array(k) || frame->entries[k].kind != entry->kind ||
			    frame->entries[k].port != entry->port)
				continue;
			ck_assert_msg(may_follow(&lives[e], &lives[k]) || may_follow(&lives[k], &lives[e]),
			              "seed %u: entries %u and %u share an array of the caller's", seed, e, k);
		}
		if (entry->kind == ENTRY_IN && !own) {
			ck_assert_msg(owned && owned[entry->port], "seed %u: an in that is not owned is written", seed);
			ck_assert(!dtype_bits(entry->type->dtype));
			ck_assert_msg(!goes_out(entry->port), "seed %u: an in that is an out is written", seed);
			reused++;
		}
	}
	return reused;
}

static size_t shared_outs(void)
{
	size_t count = 0;
	for (uint32_t e = 0; e < program.frame->count; e++)
		for (uint32_t k = 0; k < e; k++)
			count += has_array(e) && has_array(k) && program.frame->entries[e].kind == ENTRY_OUT &&
			         program.frame->entries[k].kind == ENTRY_OUT &&
			         program.frame->entries[e].port == program.frame->entries[k].port;
	return count;
}

START_TEST(random_bodies)
{
	size_t ins = 0, outs = 0, loops = 0;
	for (uint32_t seed = 0; seed < 400; seed++) {
		static const int64_t columns[] = {0, 1, 3, 8, 16};
		bool owned[8];
		model_init(&m, seed + 1000, seed % 2 ? DTYPE_F64 : DTYPE_F32, 1 + seed % 300, columns[seed % 5]);
		m.loops = seed % 3 > 0;
		m.general = seed % 7 > 0;
		add_instrs(&m, 1 + (int)seed / 4, 0);
		add_outs(&m);
		for (size_t i = 0; i < m.body.in_count; i++)
			owned[i] = draw(&m, 2);
		const bool *given = seed % 4 ? owned : NULL;
		ck_assert_int_eq(program_compile(&m.context, &program, &m.body, given, NULL), STATUS_OK);
		find_lives();
		check_workspace(seed);
		ins += check_callers(given, seed);
		outs += shared_outs();
		for (size_t i = 0; i < program.launch_count; i++)
			loops += program.launches[i].kind == LAUNCH_LOOP;
		model_free(&m);
	}
	/* The check has seen enough of each. */
	ck_assert_uint_gt(ins, 20);
	ck_assert_uint_gt(outs, 20);
	ck_assert_uint_gt(loops, 100);
}
END_TEST

/* ---- reuse, by hand ---- */

static uint32_t unary(enum op op, uint32_t v) { return hand_op(&m, op, v, NO_VALUE, 0.5); }

static void compile_owned(uint32_t out, const bool *owned)
{
	body_add_out(&m.body, PORT_SLOT, 0, out);
	ck_assert_int_eq(program_compile(&m.context, &program, &m.body, owned, NULL), STATUS_OK);
}

/* Entries of KIND beyond those of the ports themselves. */
static size_t count_in(enum entry_kind kind)
{
	size_t count = 0;
	for (size_t e = 0; e < program.frame->count; e++)
		count += program.frame->entries[e].kind == kind;
	return count;
}

/*
 * x -> softmax -> cumsum -> softmax -> out: three arrays between, of which the first two die before
 * the out is made. All calls, so none works in place.
 */
static void compile_calls(const bool *owned)
{
	model_init(&m, 1, DTYPE_F32, 20, 8);
	uint32_t v = m.visible[0];
	for (int i = 0; i < 4; i++)
		v = unary(i % 2 ? OP_cumsum : OP_log_softmax, v);
	compile_owned(v, owned);
	ck_assert_uint_eq(program.launch_count, 4);
}

START_TEST(an_outs_array_is_reused_before_the_out_is_made)
{
	compile_calls(NULL);
	ck_assert_uint_eq(count_in(ENTRY_OUT), 2);       /* the out, and the first array */
	ck_assert_uint_eq(count_in(ENTRY_WORKSPACE), 2); /* the third is read by the call that makes the out */
	ck_assert_uint_eq(count_in(ENTRY_IN), 1);
	model_free(&m);
}
END_TEST

START_TEST(an_owned_ins_array_is_reused_after_its_last_read)
{
	static const bool owned[8] = {true};
	compile_calls(owned);
	ck_assert_uint_eq(count_in(ENTRY_OUT), 2);
	ck_assert_uint_eq(count_in(ENTRY_WORKSPACE), 1);
	ck_assert_uint_eq(count_in(ENTRY_IN), 2);
	model_free(&m);
}
END_TEST

/* A softmax reads a line before it writes it, so all lie in the out's array. A log_softmax may not be. */
START_TEST(a_softmax_is_written_over_what_it_reads)
{
	static const enum op ops[] = {OP_softmax, OP_log_softmax};
	model_init(&m, 1, DTYPE_F32, 20, 8);
	uint32_t v = m.visible[0];
	for (int i = 0; i < 3; i++)
		v = unary(ops[_i], v);
	compile_owned(v, NULL);
	ck_assert_uint_eq(count_in(ENTRY_OUT), _i ? 2 : 3);
	ck_assert_uint_eq(count_in(ENTRY_WORKSPACE), _i ? 1 : 0);
	model_free(&m);
}
END_TEST

START_TEST(only_an_owned_in_is_reused)
{
	static const bool other[8] = {false, true, true, true};
	compile_calls(other);
	ck_assert_uint_eq(count_in(ENTRY_IN), 1); /* the others are not read, so the frame lacks them */
	model_free(&m);
}
END_TEST

/* An in that is an out is the caller's value, whoever owns its array. */
START_TEST(an_in_that_goes_out_is_not_reused)
{
	static const bool owned[8] = {true};
	model_init(&m, 1, DTYPE_F32, 20, 8);
	body_add_out(&m.body, PORT_SLOT, 1, m.visible[0]);
	uint32_t v = m.visible[0];
	for (int i = 0; i < 4; i++)
		v = unary(OP_log_softmax, v);
	compile_owned(v, owned);
	ck_assert_uint_eq(count_in(ENTRY_IN), 1);
	model_free(&m);
}
END_TEST

/* A cotangent that is written is reported: a second program is compiled for when it must stay. */
START_TEST(a_cotangent_that_is_written_is_reported)
{
	static const bool owned[8] = {true};
	for (int kind = PORT_SLOT; kind <= PORT_COTANGENT; kind++) {
		model_init(&m, 1, DTYPE_F32, 20, 8);
		m.body.ins[0].kind = (enum port_kind)kind;
		uint32_t v = m.visible[0];
		for (int i = 0; i < 4; i++)
			v = unary(OP_log_softmax, v);
		compile_owned(v, owned);
		ck_assert_int_eq(program.takes_cotangent, kind == PORT_COTANGENT);
		model_free(&m);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("place");
	TCase *pool = suite_make_case(suite, "pool"), *arrays = suite_make_case(suite, "arrays");
	tcase_set_timeout(arrays, 300);
	tcase_add_test(pool, pool_takes_the_best_hole);
	tcase_add_test(pool, pool_keeps_large_holes_whole);
	tcase_add_test(pool, pool_joins_neighbours);
	tcase_add_test(pool, pool_refuses_to_overflow);
	tcase_add_loop_test(pool, pool_against_a_map, 0, sizeof loads / sizeof *loads);
	tcase_add_test(arrays, random_bodies);
	tcase_add_test(arrays, an_outs_array_is_reused_before_the_out_is_made);
	tcase_add_test(arrays, an_owned_ins_array_is_reused_after_its_last_read);
	tcase_add_loop_test(arrays, a_softmax_is_written_over_what_it_reads, 0, 2);
	tcase_add_test(arrays, only_an_owned_in_is_reused);
	tcase_add_test(arrays, an_in_that_goes_out_is_not_reused);
	tcase_add_test(arrays, a_cotangent_that_is_written_is_reported);
	return suite_run(suite);
}
