/*
 * Lowering by examples: the body of each kind of statement, the steps that share a body, the slots that hold one value.
 * Also portions of chains, which chains can run in tiles, and the message at each limit. test_lower_random.c has the
 * oracles.
 */
#include "base/checked.h"
#include "body_text.h"
#include "chains.h"
#include "failing.h"
#include "ir/levels.h"
#include "ir/reads.h"
#include "scratch.h"
#include "suite.h"

#include <stdio.h>

static struct chain chain;

static struct lowered lower_portion(const struct portion *portion, enum lower_what what)
{
	const struct type input = {.dtype = DTYPE_F32, .shape = {.ndim = 2, .dim = {6, 4}}};
	struct lowered lowered;
	ck_assert_int_eq(lower(&scratch, &lowered, &chain, portion, &input, what), STATUS_OK);
	return lowered;
}

/* ---- bodies ---- */

static char dumped[8192];

static void append_dump(void *context, const char *text, size_t length)
{
	size_t *used = context;
	ck_assert_uint_lt(*used + length, sizeof dumped);
	memcpy(dumped + *used, text, length);
	*used += length;
	dumped[*used] = '\0';
}

static const char *dump_of(const struct body *body)
{
	size_t used = 0;
	body_dump(body, &chain, append_dump, &used);
	return dumped;
}

static const struct {
	const char *text, *body; /* of a forward run on f32[6,4] */
} bodies[] = {
	{"identity", "  in (a) }\n"},
	{"sin; add 1", "    b:f32[6,4] = sin a\n    c:f32[6,4] = add b 1\n  in (c) }\n"},
	{"name a; name b; sin; add b", "    b:f32[6,4] = sin a\n    c:f32[6,4] = add b a\n  in (c) }\n"},
	{"add {mul 2; sin}", "    b:f32[6,4] = mul a 2\n    c:f32[6,4] = sin b\n    d:f32[6,4] = add a c\n  in (d) }\n"},
	{"def f(v) { sin; add v }; f 2; f x", "    b:f32[6,4] = sin a\n    c:f32[6,4] = add b 2\n    d:f32[6,4] = sin c\n  "
                                          "  e:f32[6,4] = add d a\n  in (e) }\n"},
	{"def f(v) { mul 3; add v }; f { sin }",
     "    b:f32[6,4] = mul a 3\n    c:f32[6,4] = sin b\n    d:f32[6,4] = add b c\n  in (d) }\n"},
	{"checkpoint { sin; cos }", "    b:f32[6,4] = sin a\n    c:f32[6,4] = cos b\n  in (c) }\n"},
	{"param w: f32[4]\nuse w; sin", "    c:f32[4] = identity w\n    d:f32[4] = sin c\n  in (d) }\n"},
	{"param w: f64[4]\nadd w; mul 2",
     "    c:f64[6,4] = cast a\n    d:f64[6,4] = add c w\n    e:f64[6,4] = mul d 2\n  in (e) }\n"},
	{"param w: f32[2,4]\nadd w[1]; mul w[-2]",
     "    c:f32[6,4] = add a w[1]\n    e:f32[6,4] = mul c w[0]\n  in (e) }\n"},
	{"add x[-1]", "    b:f32[1,4] = slice a\n    c:f32[4] = reshape b\n    d:f32[6,4] = add a c\n  in (d) }\n"},
	{"cast f16; add 0.1", "    b:f32[6,4] = cast a\n    c:f32[6,4] = add b 0.0999755859\n  in (c) }\n"},
	/* loops: kept, written out where an iteration changes a type, or left out */
	{"repeat 1 { sin }", "    b:f32[6,4] = sin a\n  in (b) }\n"},
	{"repeat 3 { sin }", "    loop 3\n        c:f32[6,4] = sin b\n    end\n  in (d) }\n"},
	{"repeat 2 { repeat 3 { sin } }",
     "    loop 2\n        loop 3\n            d:f32[6,4] = sin c\n        end\n    end\n  in (f) }\n"},
	{"repeat 2 { sum axis=-1 }", "    b:f32[6] = sum a\n    c:f32[] = sum b\n  in (c) }\n"},
	{"repeat 3 { sum axis=0 keepdims=true; sin }",
     "    b:f32[1,4] = sum a\n    c:f32[1,4] = sin b\n    loop 2\n        e:f32[1,4] = sum d\n"
     "        f:f32[1,4] = sin e\n    end\n  in (g) }\n"},
	{"name a; repeat 0 { sin; name a }; add a", "    b:f32[6,4] = add a a\n  in (b) }\n"},
	{"param w: f32[3,2,4]\nfor m in w { for r in m { mul r } }",
     "    loop 3\n        loop 2\n            e:f32[6,4] = mul c w[i0][i1]\n        end\n    end\n  in (g) }\n"},
	{"for r in x { add r }",
     "    loop 6\n        c:f32[1,4] = slice a [i0]\n        d:f32[4] = reshape c\n        e:f32[6,4] = add b d\n"
     "    end\n  in (f) }\n"},
};

START_TEST(each_statement_has_its_body)
{
	static const char begin[] = "{ lambda ; a:f32[6,4]. let\n";
	chain_make(&chain, bodies[_i].text, &arena, &diags);
	const char *dump = dump_of(lower_portion(NULL, LOWER_RUN).whole);
	ck_assert_msg(!strncmp(dump, begin, sizeof begin - 1), "%s gives %s", bodies[_i].text, dump);
	ck_assert_msg(!strcmp(dump + sizeof begin - 1, bodies[_i].body), "%s gives %s", bodies[_i].text, dump);
}
END_TEST

/* ---- steps ---- */

static void put_items(char *text, size_t size, const struct item *items, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t used = strlen(text);
		if (items[i].step) {
			snprintf(text + used, size - used, "%u ", items[i].step->id);
			continue;
		}
		snprintf(text + used, size - used, "%lldx[ ", (long long)items[i].iterations);
		put_items(text, size, items[i].items, items[i].count);
		used = strlen(text);
		snprintf(text + used, size - used, "] ");
	}
}

static const struct {
	const char *text, *steps; /* by number of the distinct step; loops as ITERATIONSx[ ... ] */
} structures[] = {
	{"sin; sin", "0 1 "},
	{"repeat 5 { sin; cos }", "5x[ 0 1 ] "},
	{"repeat 2 { repeat 3 { sin } }", "6x[ 0 ] "},
	{"repeat 2 { repeat 3 { sin }; cos }", "2x[ 3x[ 0 ] 1 ] "},
	{"param w: f32[5,4]\nfor r in w { repeat 3 { mul r } }", "5x[ 3x[ 0 ] ] "},
	{"def f() { repeat 4 { sin } }; f", "0 "},
	{"checkpoint { sin; cos }; tanh", "0 1 "},
	{"repeat 4 { sum axis=0 keepdims=true }", "1x[ 0 ] 3x[ 1 ] "},   /* the first iteration changes a type */
	{"repeat 3 { name a; sin; add a }", "1x[ 0 1 2 ] 2x[ 3 4 5 ] "}, /* ... or binds a name */
	{"name a; repeat 3 { sin; add a; name a }; add a",
     "0 2x[ 1 2 3 ] 1x[ 1 2 4 ] 5 "}, /* the last leaves other slots */
	{"repeat 0 { sin }; cos", "0 "},
	/* a step binds what a loop will rebind: the first one of each inner loop, or one of its own */
	{"param w: f32[3,4]\nfor r in w { repeat 2 { add r; name r } }",
     "1x[ 1x[ 0 1 ] 1x[ 2 3 ] ] 2x[ 1x[ 4 5 ] 1x[ 6 7 ] ] "},
	{"param e: f32[0,4]\nfor q in x { for r in e { name q } }; sin", "1x[ 0 ] 5x[ 1 ] 2 "},
	{"repeat 2 { name x; sin }; add x", "1x[ 0 1 ] 1x[ 2 3 ] 4 "}, /* x is bound before the loop, by its first step */
};

START_TEST(equal_iterations_share_their_steps)
{
	char text[256] = "";
	chain_make(&chain, structures[_i].text, &arena, &diags);
	const struct lowered lowered = lower_portion(NULL, LOWER_STEPS);
	put_items(text, sizeof text, lowered.items, lowered.item_count);
	ck_assert_msg(!strcmp(text, structures[_i].steps), "%s has the steps %s", structures[_i].text, text);
}
END_TEST

/* Where a and b hold one value they are a class: it is read, kept and derived by its lowest slot, which is a's. */
START_TEST(slots_of_one_value_are_a_class)
{
	enum { A = 2 };
	chain_make(&chain, "sin; name a; name b; cos; add b; mul a", &arena, &diags);
	const struct lowered lowered = lower_portion(NULL, LOWER_STEPS);
	const struct step *cosine = lowered_step(&lowered, 3, NULL), *add = lowered_step(&lowered, 4, NULL);
	const int64_t bytes = type_bytes(slot_map_find(cosine->live_in, 0)->type);
	ck_assert_uint_eq(cosine->live_in->count, 2);
	ck_assert_uint_eq(slot_map_find(cosine->live_in, A)->class, 0); /* the current value has not changed yet */
	ck_assert_int_eq(cosine->bytes.slots, 2 * bytes);
	ck_assert_int_eq(cosine->bytes.slab, round_up(bytes, ARRAY_ALIGN));
	ck_assert_uint_eq(cosine->moved_count, 1);
	ck_assert_uint_eq(cosine->moved[0].before, 0);
	ck_assert_uint_eq(cosine->moved[0].after, A);
	ck_assert_uint_eq(add->live_in->count, 2);
	ck_assert_uint_eq(slot_map_find(add->live_in, A)->class, A);
	ck_assert_int_eq(add->bytes.slab, 2 * round_up(bytes, ARRAY_ALIGN));
	ck_assert_int_eq(add->bytes.passing, bytes);
	ck_assert_uint_eq(step_slot(add, &add->body->ins[1]), A);
	/* The class has one cotangent: from `mul a` past `add b`, whose own part is added to it in the body. */
	ck_assert_uint_eq(add->cot_out->count, 2);
	ck_assert_uint_eq(add->cot_read.count, 2);
	ck_assert_uint_eq(add->cot_read.slots[1], A);
	ck_assert_uint_eq(add->cot_value[1], add->body->ins[1].value);
	ck_assert_uint_eq(add->cot_in->count, 2);
	ck_assert(has_slot(add->cot_in, A));
	/* The cotangent of a passes a step that does not read it. */
	const struct step *mul = lowered_step(&lowered, 5, NULL);
	ck_assert_uint_eq(mul->cot_out->count, 1);
	ck_assert_uint_eq(mul->cot_in->count, 2);
	chain_make(&chain, "sin; name a; cos; tanh; mul a", &arena, &diags);
	const struct lowered passing = lower_portion(NULL, LOWER_STEPS);
	const struct step *tanh = lowered_step(&passing, 3, NULL);
	ck_assert_uint_eq(tanh->cot_out->count, 2);
	ck_assert(has_slot(tanh->cot_out, A) && has_slot(tanh->cot_in, A));
	ck_assert_uint_eq(tanh->cot_read.count, 1);
	ck_assert_uint_eq(tanh->cot_read.slots[0], 0);
}
END_TEST

static const struct {
	const char *text;
	bool shared; /* the first two steps have one body */
} bodies_of_two[] = {
	{"sin; sin", true},
	{"mul 2; mul 3", true},
	{"param v: f32[4]\nparam w: f32[4]\nadd v; add w", true},
	{"name a; name b; add a; add b", true},
	{"def f(c) { mul c; tanh }; f 1; f 2", true},
	{"checkpoint { sin }; checkpoint { sin }", true},
	{"clip 0 1; clip 0 2", true},
	{"leaky_relu; leaky_relu 0.2", true},
	{"gelu; gelu tanh=true", true},
	{"layernorm; layernorm eps=1", true},
	{"dropout 0.1; dropout 0.2", true},
	{"dropout 0.1; dropout 0.1 seed=1", false},
	{"layernorm; rmsnorm", false},
	{"sin; cos", false},
	{"pow 2; pow 3", false}, /* the first is a square */
	{"param v: f32[4]\nparam w: f32[1]\nadd v; add w", false},
	{"param v: f32[4]\nconst w: f32[4]\nadd v; add w", false},
	{"checkpoint { sin }; sin", false},
	{"slice stop=4; slice stop=2", false},
};

START_TEST(steps_that_differ_in_particulars_share_a_body)
{
	chain_make(&chain, bodies_of_two[_i].text, &arena, &diags);
	const struct lowered lowered = lower_portion(NULL, LOWER_STEPS);
	const struct step *first = lowered_step(&lowered, 0, NULL), *second = lowered_step(&lowered, 1, NULL);
	ck_assert_msg((first->body == second->body) == bodies_of_two[_i].shared, "%s", bodies_of_two[_i].text);
}
END_TEST

START_TEST(particulars_are_each_steps_own)
{
	chain_make(&chain, "param v: f32[4]\nparam w: f32[4]\nmul 2; mul 3; add v; name a; add w; add a", &arena, &diags);
	const struct lowered lowered = lower_portion(NULL, LOWER_STEPS);
	const struct step *steps[6];
	for (int i = 0; i < 6; i++)
		steps[i] = lowered_step(&lowered, i, NULL);
	for (int i = 0; i < 2; i++)
		ck_assert(step_scalar(steps[i], &steps[i]->body->instrs[0]) == 2 + i);
	const struct value *added = &steps[2]->body->values[steps[2]->body->instrs[0].a];
	ck_assert_uint_eq(step_param(steps[2], &added->param)->param, 0);
	ck_assert_uint_eq(step_param(steps[4], &added->param)->param, 1);
	ck_assert_uint_eq(step_span(steps[4], steps[4]->body->instrs[0].span).column, 30);
	const struct value *named = &steps[3]->body->values[0];
	ck_assert_str_eq(step_names(steps[3], 0, named->names)->name, "a");
	ck_assert_uint_eq(step_slot(steps[5], &steps[5]->body->ins[1]), steps[3]->own.slots[1]);
}
END_TEST

/* ---- reads of params ---- */

static const struct {
	const char *text,
		*reads; /* of a forward run: by, param, indices, operand, "v": it varies with the loops around it */
} reads_of[] = {
	{"param w: f32[4]\nadd w; mul w", "add w 1 v; mul w 1 v; "},
	{"param w: f32[4]\nuse w", "identity w 0 v; "},
	{"param w: f32[2,4]\nadd w[1]; mul w[-2]", "add w[1] 1 v; mul w[0] 1 v; "},
	{"param w: f32[4]\nrepeat 3 { add w }; mul w", "add w 1; mul w 1 v; "},
	{"param w: f32[3,4]\nfor r in w { add r; mul w[1] }", "add w[i0] 1 v; mul w[1] 1; "},
	{"param w: f32[3,2,4]\nfor m in w { for r in m { mul r } }", "mul w[i0][i1] 1 v; "},
	{"param v: f32[4]; param w: f32[4]\nadd { mul w }; mul v", "mul w 1 v; mul v 1 v; "},
};

START_TEST(reads_of_params_come_in_order)
{
	char text[256] = "";
	struct reads reads = {.depth = 0};
	struct param_read read;
	chain_make(&chain, reads_of[_i].text, &arena, &diags);
	const struct lowered run = lower_portion(NULL, LOWER_RUN);
	for (reads_begin(&reads, run.whole, NULL); reads_next(&reads, &read);) {
		size_t at = strlen(text);
		at += (size_t)sprintf(text + at, "%s %s", instr_name(read.by), chain.params[read.ref->param].name);
		for (uint32_t k = 0; k < read.ref->count; k++)
			at +=
				(size_t)sprintf(text + at, read.ref->index[k].loop < 0 ? "[%d]" : "[i%d]",
			                    read.ref->index[k].loop < 0 ? (int)read.ref->index[k].value : read.ref->index[k].loop);
		sprintf(text + at, " %d%s; ", (int)read.operand, reads_vary(&reads, &read) ? " v" : "");
		ck_assert(!read.adds && read_is_operand(&read) == (read.operand == 1));
	}
	ck_assert_str_eq(text, reads_of[_i].reads);
	ck_assert_uint_eq(reads.depth, 0);
}
END_TEST

/* ---- tiles ---- */

enum { TILES = 1, FLAT = 2, SUMS = 4, FOLDS = 8 };

static const struct {
	const char *text;
	int facts;
} streams[] = {
	{"sin; add 1", TILES | FLAT},
	{"param w: f32[4]\nadd w", TILES},
	{"param w: f32[6,4]\nadd w", TILES},
	{"param w: f32[4,4]\nmatmul w", TILES},
	{"softmax", TILES},
	{"sum axis=1", TILES},
	{"sum axis=0", TILES | SUMS | FOLDS},
	{"sum axis=0; mul 2", TILES | SUMS | FOLDS},
	{"sum axis=0; sin", FOLDS}, /* the derivative of sin needs the whole sum */
	{"param w: f32[4]\nsum axis=0; mul w", FOLDS},
	{"amax axis=0", FOLDS},
	{"amax axis=0; sin; sum", FOLDS},
	{"name a; sum axis=0; add a", 0}, /* the rows are read after the sum */
	{"sum axis=0; use x", 0},
	{"cumsum axis=0", 0},
	{"transpose", 0},
	{"add x[1]", 0},
	{"param w: f32[6,4]\nadd w; mul w[0]", 0}, /* w is cut with the input, and read whole */
	{"param w: f32[6,4]\nfor r in w { add r }", TILES},
	{"for r in x { add r }", 0},
	{"param w: f32[4]\nuse w", 0},
	{"repeat 3 { sin; add x }", TILES | FLAT},
	{"repeat 3 { cumsum axis=0 }", 0},
	{"reshape 6 2 2", TILES},
	{"reshape 4 6", 0},
};

START_TEST(tiles_are_where_rows_stay_apart)
{
	chain_make(&chain, streams[_i].text, &arena, &diags);
	const struct lowered run = lower_portion(NULL, LOWER_RUN), steps = lower_portion(NULL, LOWER_STEPS);
	const int facts = (run.streamable ? TILES : 0) | (run.flat ? FLAT : 0) | (lowered_sums(&run) ? SUMS : 0) |
	                  (run.levels && levels_passes(run.levels) == 1 && !run.levels->last ? FOLDS : 0);
	ck_assert_msg(facts == streams[_i].facts, "%s: %d", streams[_i].text, facts);
	ck_assert(steps.streamable == run.streamable && steps.flat == run.flat && steps.folds == run.folds);
}
END_TEST

/* One row is no tile, unless its elements can be cut. */
START_TEST(one_row_alone_is_no_tile)
{
	const struct type row = {.dtype = DTYPE_F32, .shape = {.ndim = 2, .dim = {1, 4}}};
	struct lowered lowered;
	chain_make(&chain, "softmax", &arena, &diags);
	ck_assert_int_eq(lower(&scratch, &lowered, &chain, NULL, &row, LOWER_RUN), STATUS_OK);
	ck_assert(!lowered.streamable);
	chain_make(&chain, "sin", &arena, &diags);
	ck_assert_int_eq(lower(&scratch, &lowered, &chain, NULL, &row, LOWER_RUN), STATUS_OK);
	ck_assert(lowered.streamable && lowered.flat);
}
END_TEST

/* Puts 7 rows, which no other extent is, in place of 6: the tile of 7 rows must be the whole of 6 otherwise. */
START_TEST(tiles_are_lowered_as_the_whole)
{
	static const char *const texts[] = {
		"sin; add 1; repeat 3 { name a; cos; mul a }", "param w: f32[6,4]\nmul w; softmax", "reshape 6 2 2; sin",
		"param w: f32[4,5]\nmatmul w; sum axis=1; def f(v) { mul v; add v }; f 2; f { sin }", "sum axis=0; mul 3"};
	for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
		char wanted[sizeof dumped];
		struct lowered tile;
		chain_make(&chain, texts[t], &arena, &diags);
		const struct lowered whole = lower_portion(NULL, LOWER_RUN);
		strcpy(wanted, dump_of(whole.whole));
		ck_assert_int_eq(lower_tile(&scratch, &tile, &whole, &whole.input, LOWER_RUN, 7), STATUS_OK);
		dump_of(tile.whole);
		ck_assert_ptr_nonnull(strstr(dumped, "f32[7"));
		for (char *at = dumped; (at = strstr(at, "f32[7")); at++)
			at[4] = '6';
		ck_assert_str_eq(dumped, wanted);
	}
}
END_TEST

/* ---- portions ---- */

static int64_t steps_of(const struct portion *portion)
{
	const int64_t steps = lower_portion(portion, LOWER_STEPS).steps;
	ck_assert_int_eq(lower_portion(portion, LOWER_UNROLLED).steps, steps);
	return steps;
}

static const enum op *ops_of(const struct portion *portion, size_t *count)
{
	static enum op ops[16];
	const struct lowered lowered = lower_portion(portion, LOWER_RUN);
	*count = 0;
	for (size_t i = 0; i < lowered.whole->instr_count; i++)
		if (lowered.whole->instrs[i].kind == INSTR_OP)
			ops[(*count)++] = lowered.whole->instrs[i].op;
	return ops;
}

START_TEST(stages_are_left_out_at_both_ends)
{
	size_t count;
	chain_make(&chain, "sin; cos; exp; tanh", &arena, &diags);
	ck_assert_int_eq(steps_of(NULL), 4);
	ck_assert_int_eq(steps_of(&(struct portion){0}), 4);
	ck_assert_int_eq(steps_of(&(struct portion){.before = 1, .after = 1}), 2);
	const enum op *ops = ops_of(&(struct portion){.before = 1, .after = 1}, &count);
	ck_assert_uint_eq(count, 2);
	ck_assert_int_eq(ops[0], OP_cos);
	ck_assert_int_eq(ops[1], OP_exp);
	ck_assert_int_eq(steps_of(&(struct portion){.before = 4}), 0);
	ck_assert_int_eq(steps_of(&(struct portion){.after = 4}), 0);
	ck_assert_int_eq(steps_of(&(struct portion){.before = 3, .after = 3}), 0);
	ck_assert_int_eq(steps_of(&(struct portion){.before = 9, .after = 9}), 0);
}
END_TEST

/* Rounded up, and not of loops within loops, blocks or defs. */
START_TEST(iterations_of_outermost_loops_are_taken_in_part)
{
	const struct portion half = {.iterations = 0.5}, all = {.iterations = 1}, quarter = {.iterations = 0.25};
	chain_make(&chain, "param w: f32[5,4]\nrepeat 7 { repeat 3 { sin } }\nfor v in w { add v; for u in w { mul u } }",
	           &arena, &diags);
	ck_assert_int_eq(steps_of(NULL), 7 * 3 + 5 * 6);
	ck_assert_int_eq(steps_of(&all), 7 * 3 + 5 * 6);
	ck_assert_int_eq(steps_of(&half), 4 * 3 + 3 * 6);
	ck_assert_int_eq(steps_of(&quarter), 2 * 3 + 2 * 6);
	chain_make(&chain, "def f() { repeat 4 { sin } }\nf\nrepeat 2 { f }", &arena, &diags);
	ck_assert_int_eq(steps_of(&quarter), 2);
}
END_TEST

/* A tile is of the same portion as the whole. */
START_TEST(tiles_are_of_the_portion)
{
	const struct type input = {.dtype = DTYPE_F32, .shape = {.ndim = 2, .dim = {6, 4}}};
	const struct portion portion = {.before = 1, .iterations = 0.5};
	struct lowered tile;
	chain_make(&chain, "exp; repeat 6 { sin }; cos", &arena, &diags);
	const struct lowered whole = lower_portion(&portion, LOWER_STEPS);
	ck_assert_int_eq(lower_tile(&scratch, &tile, &whole, &input, LOWER_STEPS, 2), STATUS_OK);
	ck_assert_int_eq(tile.steps, 4);
	ck_assert_int_eq(tile.begins.shape.dim[0], 2);
}
END_TEST

/* ---- what cannot be lowered ---- */

static const struct {
	const char *text;
	enum status status;
	uint32_t line, column;
	const char *message;
} errors[] = {
	{"input x: f32[*,3]\nsin", STATUS_CHAIN, 1, 10, "input 'x' is declared as f32[*,3], and the data has shape [6,4]"},
	{"add x[6]", STATUS_CHAIN, 1, 5, "index 6 is out of range for f32[6,4]"},
	{"add x[-7]", STATUS_CHAIN, 1, 5, "index -7 is out of range for f32[6,4]"},
	{"param w: f32[2,4]\nadd w[2]", STATUS_CHAIN, 2, 5, "index 2 is out of range for 'w', f32[2,4]"},
	{"param w: f32[]\nadd w[0]", STATUS_CHAIN, 2, 5, "'w' is a scalar and has no elements"},
	{"def f(a) { add a[0] }\nf 3", STATUS_CHAIN, 1, 16, "only arrays have elements"},
	{"def f(a) { for r in a { add r } }\nf 3", STATUS_CHAIN, 1, 21,
     "for runs over a leading axis, and a number has none"},
	{"param w: f32[]\nfor r in w { add r }", STATUS_CHAIN, 2, 10, "for runs over a leading axis, and f32[] has none"},
	{"param w: f32[2,4]\nfor a, b in w, x { add a }", STATUS_CHAIN, 2, 16,
     "for runs over 'w', f32[2,4], and 'x', f32[6,4]: 2 iterations and 6"},
	{"use 3", STATUS_CHAIN, 1, 5, "'use' takes an array, not a number"},
	{"def f(a) { clip 0 a }\nf x", STATUS_CHAIN, 1, 19,
     "an argument of 'clip' is a number, and 'a' is none in this call"},
	{"def f(a) { repeat 2 { name a } }\nf 3", STATUS_CHAIN, 1, 28,
     "a loop binds 'a' again, which is no array before the loop"},
};

START_TEST(errors_name_the_place_and_the_values)
{
	const struct type input = {.dtype = DTYPE_F32, .shape = {.ndim = 2, .dim = {6, 4}}};
	struct lowered lowered;
	chain_make(&chain, errors[_i].text, &arena, &diags);
	const enum status status = lower(&scratch, &lowered, &chain, NULL, &input, LOWER_RUN);
	ck_assert_msg(status == errors[_i].status, "%s gives %d", errors[_i].text, status);
	ck_assert_int_eq(diags.errors, status != STATUS_OK);
	if (status == STATUS_OK)
		return;
	ck_assert_str_eq(diags.first->message, errors[_i].message);
	ck_assert_msg(diags.first->span.line == errors[_i].line && diags.first->span.column == errors[_i].column,
	              "%s is wrong at %u:%u", errors[_i].text, diags.first->span.line, diags.first->span.column);
}
END_TEST

/* As many steps as may be, and one more: of steps, and of steps in one body. */
START_TEST(steps_are_limited)
{
	const struct type input = {.dtype = DTYPE_F32, .shape = {.ndim = 1, .dim = {2}}};
	struct lowered lowered;
	chain_make(&chain, "repeat 10000 { repeat 999 { sin }; cos }", &arena, &diags);
	ck_assert_int_eq(lower(&scratch, &lowered, &chain, NULL, &input, LOWER_STEPS), STATUS_OK);
	ck_assert_int_eq(lowered.steps, 10000000);
	ck_assert_uint_eq(lowered.distinct_count, 2);
	chain_make(&chain, "repeat 10000 { repeat 999 { sin }; cos }; tanh", &arena, &diags);
	ck_assert_int_eq(lower(&scratch, &lowered, &chain, NULL, &input, LOWER_STEPS), STATUS_LIMIT);
	ck_assert_str_eq(diags.last->message, "the chain has more than 10^7 steps when its loops are written out");
	ck_assert_uint_eq(diags.last->span.column, 43);
	chain_make(&chain, "repeat 10000001 { }; repeat 10000001 { name a }", &arena, &diags);
	ck_assert_int_eq(lower(&scratch, &lowered, &chain, NULL, &input, LOWER_UNROLLED), STATUS_LIMIT);
	ck_assert_int_eq(lower(&scratch, &lowered, &chain, NULL, &input, LOWER_RUN), STATUS_OK);
}
END_TEST

/* Each request for memory fails once: the status says so, and nothing else goes wrong. */
START_TEST(memory_may_fail_at_each_request)
{
	static const char text[] =
		"param w: f32[3,4]\ndef f(v) { mul v; name t; add t }\nname a; repeat 3 { sin; f {cos}; name a }\n"
		"for r in w { add r; checkpoint { mul a } }; add x[1]; repeat 2 { cast f64 }";
	const struct type input = {.dtype = DTYPE_F32, .shape = {.ndim = 2, .dim = {6, 4}}};
	chain_make(&chain, text, &arena, &diags);
	for (int what = LOWER_RUN; what <= LOWER_UNROLLED; what++) {
		enum status status = STATUS_LIMIT;
		struct failing failing = {.fail_at = 1};
		for (; status; failing = (struct failing){.fail_at = failing.fail_at + 1}) {
			const struct allocator allocator = failing_allocator(&failing);
			struct arena limited;
			struct lowered lowered;
			arena_init(&limited, &allocator);
			const struct context context = {&allocator, &limited, &diags};
			status = lower(&context, &lowered, &chain, NULL, &input, (enum lower_what)what);
			ck_assert(status == STATUS_OK || (status == STATUS_LIMIT && diags.exhausted));
			diags.exhausted = false;
			arena_free(&limited);
			ck_assert_uint_eq(failing.live, 0);
		}
		ck_assert_uint_gt(failing.fail_at, 2);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("lower");
	TCase *tcase = suite_make_case(suite, "lower");
	tcase_set_timeout(tcase, 60); /* steps_are_limited takes seconds under ASan */
	tcase_add_checked_fixture(tcase, scratch_setup, scratch_teardown);
	tcase_add_loop_test(tcase, each_statement_has_its_body, 0, sizeof bodies / sizeof *bodies);
	tcase_add_loop_test(tcase, reads_of_params_come_in_order, 0, sizeof reads_of / sizeof *reads_of);
	tcase_add_loop_test(tcase, equal_iterations_share_their_steps, 0, sizeof structures / sizeof *structures);
	tcase_add_loop_test(tcase, steps_that_differ_in_particulars_share_a_body, 0,
	                    sizeof bodies_of_two / sizeof *bodies_of_two);
	tcase_add_test(tcase, particulars_are_each_steps_own);
	tcase_add_test(tcase, slots_of_one_value_are_a_class);
	tcase_add_loop_test(tcase, tiles_are_where_rows_stay_apart, 0, sizeof streams / sizeof *streams);
	tcase_add_test(tcase, one_row_alone_is_no_tile);
	tcase_add_test(tcase, tiles_are_lowered_as_the_whole);
	tcase_add_test(tcase, stages_are_left_out_at_both_ends);
	tcase_add_test(tcase, iterations_of_outermost_loops_are_taken_in_part);
	tcase_add_test(tcase, tiles_are_of_the_portion);
	tcase_add_loop_test(tcase, errors_name_the_place_and_the_values, 0, sizeof errors / sizeof *errors);
	tcase_add_test(tcase, steps_are_limited);
	tcase_add_test(tcase, memory_may_fail_at_each_request);
	return suite_run(suite);
}
