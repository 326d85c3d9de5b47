/*
 * The fuser: which instructions end in one launch, what stays in registers, how many
 * registers a group has, and the block that it walks its arrays in.
 *
 * Registers of random groups are checked against lifetimes that the test finds itself in
 * the kernel ops.
 */
#include "bodies.h"
#include "compile/launch.h"
#include "suite.h"

static struct model m;
static struct program program;

static void begin(int64_t rows, int64_t columns) { model_init(&m, 1, DTYPE_F32, rows, columns); }

/* Compiles the body with the out VALUE. */
static const struct launch *compile_out(uint32_t value)
{
	body_add_out(&m.body, PORT_SLOT, (uint32_t)m.body.out_count, value);
	ck_assert_int_eq(program_compile(&m.context, &program, &m.body, NULL, NULL), STATUS_OK);
	return program.launches;
}

static void check_kinds(const enum launch_kind *kinds, size_t count)
{
	ck_assert_uint_eq(program.launch_count, count);
	for (size_t i = 0; i < count; i++)
		ck_assert_msg(program.launches[i].kind == kinds[i], "launch %zu is of kind %d, not %d", i,
		              program.launches[i].kind, kinds[i]);
}

static uint32_t unary(enum op op, uint32_t v) { return hand_op(&m, op, v, NO_VALUE, 0.5); }
static uint32_t binary(enum op op, uint32_t v, uint32_t a) { return hand_op(&m, op, v, a, 0); }

/* A value of the whole shape made from V and a broadcast A. */
static uint32_t broadcast(enum op op, uint32_t v, uint32_t a)
{
	const uint32_t out = binary(op, v, a);
	m.body.values[out].type = m.body.instrs[m.body.instr_count - 1].of.y = m.full;
	return out;
}

/* A param of the model: INDEX as model_init numbers them. LOOP: the level that indexes it, or -1. */
static uint32_t param(uint32_t index, int32_t loop)
{
	const uint32_t id = body_add_value(&m.body, m.part[index]);
	struct value *value = &m.body.values[id];
	value->from = FROM_PARAM;
	value->param.param = index;
	if (m.stacked[index]) {
		struct index *by = arena_alloc(&m.arena, sizeof *by);
		by->loop = loop;
		value->param.count = 1;
		value->param.index = by;
	}
	return id;
}

/* ---- groups ---- */

START_TEST(one_shape_is_one_launch)
{
	begin(600, 0);
	const uint32_t x = m.visible[0], y = m.visible[2];
	const uint32_t s = unary(OP_sin, x), t = binary(OP_add, x, y);
	const struct launch *group = compile_out(binary(OP_mul, s, t));
	check_kinds((const enum launch_kind[]){LAUNCH_GROUP}, 1);
	ck_assert_int_eq(group->count, 600);
	ck_assert_uint_eq(group->kernel_op_count, 3);
	/* The ins and the out are arrays; the values between them are registers. */
	ck_assert_int_eq(group->kernel_ops[0].v.kind, ARG_ARRAY);
	ck_assert_int_eq(group->kernel_ops[0].out.kind, ARG_REGISTER);
	ck_assert_int_eq(group->kernel_ops[1].out.kind, ARG_REGISTER);
	ck_assert_int_eq(group->kernel_ops[2].v.kind, ARG_REGISTER);
	ck_assert_int_eq(group->kernel_ops[2].a.kind, ARG_REGISTER);
	ck_assert_int_eq(group->kernel_ops[2].out.kind, ARG_ARRAY);
	model_free(&m);
}
END_TEST

START_TEST(a_general_operation_is_a_barrier)
{
	begin(20, 8);
	const uint32_t x = m.visible[0], s = unary(OP_sin, x), t = unary(OP_cos, s);
	const struct launch *launches = compile_out(binary(OP_mul, unary(OP_tanh, unary(OP_softmax, t)), s));
	check_kinds((const enum launch_kind[]){LAUNCH_GROUP, LAUNCH_OPERATION, LAUNCH_GROUP}, 3);
	/* s and t cross the barrier, so both are arrays. */
	ck_assert_int_eq(launches[0].kernel_ops[0].out.kind, ARG_ARRAY);
	ck_assert_int_eq(launches[0].kernel_ops[1].out.kind, ARG_ARRAY);
	ck_assert_uint_eq(launches[1].needs[0], launches[0].kernel_ops[1].out.index);
	ck_assert_uint_eq(launches[2].kernel_ops[1].a.index, launches[0].kernel_ops[0].out.index);
	model_free(&m);
}
END_TEST

START_TEST(another_shape_is_another_group)
{
	begin(20, 8);
	const uint32_t x = m.visible[0], row = m.visible[2];
	const uint32_t r = unary(OP_sin, row), v = unary(OP_sin, x), s = unary(OP_tanh, r);
	const struct launch *launches = compile_out(broadcast(OP_mul, v, s));
	check_kinds((const enum launch_kind[]){LAUNCH_GROUP, LAUNCH_GROUP, LAUNCH_GROUP, LAUNCH_GROUP}, 4);
	ck_assert_int_eq(launches[0].count, 20);
	ck_assert_int_eq(launches[1].count, 160);
	ck_assert_int_eq(launches[2].count, 20);
	ck_assert_int_eq(launches[3].count, 160);
	model_free(&m);
}
END_TEST

/* A broadcast input is filled into a register; a single number is read from where it lies; neither ends the group. */
START_TEST(broadcasts_stay_in_the_group)
{
	begin(1000, 8);
	const uint32_t x = m.visible[0], row = param(5, -1), columns = param(6, -1), number = param(0, -1);
	uint32_t v = broadcast(OP_mul, x, row);
	v = broadcast(OP_add, broadcast(OP_mul, v, columns), columns);
	const struct launch *group = compile_out(broadcast(OP_sub, v, number));
	check_kinds((const enum launch_kind[]){LAUNCH_GROUP}, 1);
	size_t fills = 0, once = 0, scalars = 0;
	for (size_t i = 0; i < group->kernel_op_count; i++) {
		const struct kernel_op *op = &group->kernel_ops[i];
		fills += op->kind == KERNEL_OP_FILL;
		once += op->kind == KERNEL_OP_FILL && op->once;
		scalars += op->a.kind == ARG_SCALAR;
	}
	ck_assert_uint_eq(fills, 2); /* columns is filled once for both of its readers */
	ck_assert_uint_eq(once, 1);  /* and its pattern is the same in every block; the row's is not */
	ck_assert_uint_eq(scalars, 1);
	ck_assert_int_eq(group->block % 8, 0);
	model_free(&m);
}
END_TEST

/* ---- loops ---- */

START_TEST(a_loop_of_element_wise_operations_is_in_the_group)
{
	begin(600, 0);
	const uint32_t x = m.visible[0], y = m.visible[2];
	uint32_t inner;
	const uint32_t before = unary(OP_sin, x);
	const size_t loop = hand_loop(&m, 7, 1, before, &inner);
	const uint32_t final = hand_end(&m, loop, binary(OP_mul, unary(OP_gelu, inner), y));
	const struct launch *group = compile_out(binary(OP_add, final, x));
	check_kinds((const enum launch_kind[]){LAUNCH_GROUP}, 1);
	size_t begins = 0, at = 0;
	for (size_t i = 0; i < group->kernel_op_count; i++)
		if (group->kernel_ops[i].kind == KERNEL_OP_LOOP)
			begins++, at = i;
	ck_assert_uint_eq(begins, 1);
	ck_assert_int_eq(group->kernel_ops[at].iterations, 7);
	ck_assert_int_eq(group->kernel_ops[group->kernel_ops[at].match].kind, KERNEL_OP_END);
	ck_assert_uint_eq(group->kernel_ops[group->kernel_ops[at].match].match, at);
	/* The product is made in place of the value that the next iteration reads: no copy ends the iteration. */
	ck_assert_uint_eq(group->kernel_ops[at].match, at + 3);
	model_free(&m);
}
END_TEST

START_TEST(a_loop_with_a_barrier_is_a_loop_of_launches)
{
	begin(20, 8);
	uint32_t inner;
	const size_t loop = hand_loop(&m, 7, 1, m.visible[0], &inner);
	const struct launch *launches = compile_out(hand_end(&m, loop, unary(OP_sin, unary(OP_softmax, inner))));
	check_kinds((const enum launch_kind[]){LAUNCH_LOOP, LAUNCH_OPERATION, LAUNCH_GROUP, LAUNCH_END}, 4);
	ck_assert_int_eq(launches[0].iterations, 7);
	ck_assert_uint_eq(launches[0].match, 3);
	ck_assert_uint_eq(launches[3].match, 0);
	ck_assert_uint_eq(launches[0].carried_count, 1);
	model_free(&m);
}
END_TEST

/* The part of a param moves with the counter: of the loop itself, or of one around the body. */
START_TEST(a_loop_that_reads_its_counter_is_a_loop_of_launches)
{
	for (int32_t level = 0; level < 2; level++) {
		begin(600, 0);
		uint32_t inner;
		const size_t loop = hand_loop(&m, 3, 1, m.visible[0], &inner);
		const uint32_t weight = param(4, level);
		const struct launch *launches = compile_out(hand_end(&m, loop, binary(OP_mul, unary(OP_sin, inner), weight)));
		if (level == 0) {
			check_kinds((const enum launch_kind[]){LAUNCH_GROUP}, 1);
		} else {
			check_kinds((const enum launch_kind[]){LAUNCH_LOOP, LAUNCH_GROUP, LAUNCH_END}, 3);
			ck_assert_uint_eq(launches[0].dynamic_count, 1);
			ck_assert(program.frame->entries[launches[0].dynamic[0]].dynamic);
		}
		model_free(&m);
	}
}
END_TEST

/* ---- runs ---- */

START_TEST(cheap_operations_chain)
{
	begin(600, 0);
	const uint32_t a = unary(OP_neg, unary(OP_mul, unary(OP_add, m.visible[0])));
	const struct launch *group = compile_out(a);
	ck_assert_uint_eq(group->kernel_op_count, 1);
	ck_assert_int_eq(group->kernel_ops[0].kind, KERNEL_OP_RUN);
	ck_assert_uint_eq(group->kernel_ops[0].step_count, 3);
	ck_assert_int_eq(group->kernel_ops[0].steps[0].op, OP_add);
	ck_assert_int_eq(group->kernel_ops[0].steps[2].op, OP_neg);
	ck_assert_uint_eq(group->registers, 0);
	model_free(&m);
}
END_TEST

/* A value that is read twice is written, so a run ends with it. */
START_TEST(a_value_read_twice_ends_a_run)
{
	begin(600, 0);
	const uint32_t shared = unary(OP_mul, unary(OP_add, m.visible[0]));
	const uint32_t other = unary(OP_mul, unary(OP_neg, shared));
	const struct launch *group = compile_out(binary(OP_mul, other, shared));
	ck_assert_uint_eq(group->kernel_op_count, 3);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(group->kernel_ops[i].kind, KERNEL_OP_RUN);
		ck_assert_uint_eq(group->kernel_ops[i].step_count, 2);
		ck_assert_int_eq(group->kernel_ops[i].out.kind, ARG_REGISTER);
	}
	ck_assert_uint_eq(group->registers, 2);
	model_free(&m);
}
END_TEST

/* ---- registers ---- */

/* However long a chain of products is, each takes the register of the one before it, which dies there. */
START_TEST(a_chain_takes_one_register)
{
	begin(600, 0);
	uint32_t v = unary(OP_sin, m.visible[0]);
	for (int i = 0; i < 50; i++)
		v = binary(OP_mul, v, m.visible[2]);
	ck_assert_uint_eq(compile_out(v)->registers, 1);
	model_free(&m);
}
END_TEST

START_TEST(values_that_live_at_once_take_a_register_each)
{
	for (uint32_t count = 1; count < 9; count++) {
		begin(600, 0);
		uint32_t made[9];
		for (uint32_t i = 0; i < count; i++)
			made[i] = unary(OP_sin, i ? made[i - 1] : m.visible[0]);
		uint32_t sum = made[count - 1];
		for (uint32_t i = count - 1; i-- > 0;)
			sum = binary(OP_mul, sum, made[i]);
		ck_assert_uint_eq(compile_out(unary(OP_sin, sum))->registers, count);
		model_free(&m);
	}
}
END_TEST

/* ---- blocks ---- */

START_TEST(blocks_fit_the_first_level_cache)
{
	enum { CACHE = 32 << 10, LEAST = 256, MOST = 4096 };
	int64_t last = MOST;
	for (uint32_t count = 1; count < 30; count++) {
		begin(100000, 0);
		uint32_t made[30];
		for (uint32_t i = 0; i < count; i++)
			made[i] = unary(OP_sin, i ? made[i - 1] : m.visible[0]);
		uint32_t sum = made[count - 1];
		for (uint32_t i = count - 1; i-- > 0;)
			sum = binary(OP_mul, sum, made[i]);
		const struct launch *group = compile_out(unary(OP_sin, sum));
		ck_assert_int_ge(group->block, LEAST);
		ck_assert_int_le(group->block, last); /* more registers, no larger block */
		ck_assert_int_eq(group->block % 512, 0);
		ck_assert_int_ge(group->register_bytes[LAYOUT_ALL], group->block * 4);
		ck_assert(group->register_bytes[LAYOUT_ALL] * group->registers <= CACHE || group->block == 512);
		last = group->block;
		model_free(&m);
	}
	ck_assert_int_lt(last, 1024);
}
END_TEST

START_TEST(a_block_is_no_larger_than_the_array)
{
	static const int64_t sizes[] = {0, 1, 63, 64, 65, 511, 5000};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		begin(sizes[i], 0);
		const struct launch *group = compile_out(binary(OP_mul, unary(OP_sin, m.visible[0]), m.visible[2]));
		ck_assert_int_eq(group->count, sizes[i]);
		ck_assert_int_lt(group->block, sizes[i] + (sizes[i] ? 64 : 65));
		ck_assert_int_ge(group->block, 1);
		model_free(&m);
	}
}
END_TEST

START_TEST(a_lone_operation_takes_the_largest_block)
{
	begin(100000, 0);
	ck_assert_int_eq(compile_out(unary(OP_sin, m.visible[0]))->block, 4096);
	model_free(&m);
}
END_TEST

/* ---- random groups: lifetimes that the test finds ---- */

enum { MOST_NAMES = 4096 };

/* A value that a register holds, by its name in the kernel ops. */
struct life {
	bool known, bits, result;
	uint8_t shift;
	uint32_t place;
	size_t begin, end;
};

static struct life lives[MOST_NAMES];

static void see(const struct launch *group, const struct arg *arg, size_t at, bool result)
{
	if (arg->kind != ARG_REGISTER)
		return;
	ck_assert_uint_lt(arg->value, MOST_NAMES);
	ck_assert_uint_lt(arg->index, group->registers);
	struct life *life = &lives[arg->value];
	if (!life->known)
		*life = (struct life){true, arg->bits, result, arg->shift, arg->index, at, at};
	ck_assert_uint_eq(life->place, arg->index);
	life->end = at;
}

static void find_lives(const struct launch *group)
{
	memset(lives, 0, sizeof lives);
	for (size_t i = 0; i < group->kernel_op_count; i++) {
		const struct kernel_op *op = &group->kernel_ops[i];
		const struct arg *reads[] = {&op->v, &op->a, &op->y, &op->k, &op->l, &op->g};
		for (size_t k = 0; k < sizeof reads / sizeof *reads; k++)
			see(group, reads[k], i, false);
		see(group, &op->out, i, true);
		for (int k = 0; k < MAX_KEEPS; k++)
			see(group, &op->keep[k], i, false);
		if (op->kind == KERNEL_OP_FILL && op->once) {
			lives[op->out.value].begin = 0;
			lives[op->out.value].end = group->kernel_op_count;
		}
	}
}

/* Two lives may share a place if one ends before the other begins, or where it begins, if that is a result of one type. */
static bool may_share(const struct life *a, const struct life *b)
{
	const struct life *first = a->begin <= b->begin ? a : b, *then = first == a ? b : a;
	if (first->end < then->begin)
		return true;
	return first->end == then->begin && first->begin < then->begin && then->result && !first->bits && !then->bits &&
	       first->shift == then->shift;
}

static void check_registers(const struct launch *group, uint32_t seed)
{
	size_t most = 0, names = 0;
	find_lives(group);
	for (uint32_t i = 0; i < MOST_NAMES; i++)
		for (uint32_t k = 0; lives[i].known && k < i; k++)
			if (lives[k].known && lives[i].place == lives[k].place)
				ck_assert_msg(may_share(&lives[i], &lives[k]), "seed %u: %u and %u share register %u", seed, i, k,
				              lives[i].place);
	for (size_t at = 0; at < group->kernel_op_count; at++) {
		size_t live = 0;
		for (uint32_t i = 0; i < MOST_NAMES; i++)
			live += lives[i].known && lives[i].begin <= at && at < lives[i].end;
		most = live > most ? live : most;
	}
	for (uint32_t i = 0; i < MOST_NAMES; i++)
		names += lives[i].known;
	ck_assert_uint_ge(group->registers, most);
	ck_assert_uint_le(group->registers, names);
}

START_TEST(registers_of_random_groups)
{
	size_t groups = 0, shared = 0;
	for (uint32_t seed = 0; seed < 150; seed++) {
		model_init(&m, seed, seed % 2 ? DTYPE_F64 : DTYPE_F32, 100, seed % 3 ? 8 : 0);
		m.general = seed % 4 == 0;
		add_instrs(&m, 3 + (int)seed / 2, 0);
		add_outs(&m);
		ck_assert_int_eq(program_compile(&m.context, &program, &m.body, NULL, NULL), STATUS_OK);
		for (size_t i = 0; i < program.launch_count; i++) {
			const struct launch *launch = &program.launches[i];
			if (launch->kind != LAUNCH_GROUP)
				continue;
			check_registers(launch, seed);
			groups++;
			size_t names = 0;
			for (uint32_t k = 0; k < MOST_NAMES; k++)
				names += lives[k].known;
			shared += names > launch->registers;
		}
		model_free(&m);
	}
	/* The check has seen groups enough, and registers that are used again in many of them. */
	ck_assert_uint_gt(groups, 100);
	ck_assert_uint_gt(shared, 20);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fuse");
	TCase *tests = suite_make_case(suite, "fuse");
	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, one_shape_is_one_launch);
	tcase_add_test(tests, a_general_operation_is_a_barrier);
	tcase_add_test(tests, another_shape_is_another_group);
	tcase_add_test(tests, broadcasts_stay_in_the_group);
	tcase_add_test(tests, a_loop_of_element_wise_operations_is_in_the_group);
	tcase_add_test(tests, a_loop_with_a_barrier_is_a_loop_of_launches);
	tcase_add_test(tests, a_loop_that_reads_its_counter_is_a_loop_of_launches);
	tcase_add_test(tests, cheap_operations_chain);
	tcase_add_test(tests, a_value_read_twice_ends_a_run);
	tcase_add_test(tests, a_chain_takes_one_register);
	tcase_add_test(tests, values_that_live_at_once_take_a_register_each);
	tcase_add_test(tests, blocks_fit_the_first_level_cache);
	tcase_add_test(tests, a_block_is_no_larger_than_the_array);
	tcase_add_test(tests, a_lone_operation_takes_the_largest_block);
	tcase_add_test(tests, registers_of_random_groups);
	return suite_run(suite);
}
