/*
 * Lowering of random chains. The oracle for the forward body, the steps and the unrolled body is a walk over the
 * resolved tree. A value is a hash of how it was made, so two values are equal only if the same operations made them of
 * the same inputs. The oracle for liveness and cotangents is a search through the steps, written out.
 */
#include "chains.h"
#include "ir/lower.h"
#include "random_chains.h"
#include "scratch.h"
#include "suite.h"

enum { CHAINS = SANITIZED ? 150 : 400, MOST_SLOTS = 64, MOST_STEPS = 300, MOST_HASHES = 20000 };

static struct chain chain;
static const struct type input_type = {.dtype = DTYPE_F32, .shape = {.ndim = 2, .dim = {6, 4}}};

/* ---- hashes that stand for values ---- */

static uint64_t mix(uint64_t a, uint64_t b)
{
	a = (a ^ b) * 0x9e3779b97f4a7c15u;
	return (a ^ a >> 29) * 0xbf58476d1ce4e5b9u;
}

static uint64_t hash_number(double number)
{
	uint64_t bits;
	memcpy(&bits, &number, sizeof bits);
	return mix(bits, 1);
}

static uint64_t hash_dropout(uint64_t v, uint64_t stream) { return mix(mix(5, v), stream); }

static uint64_t hash_op(enum op op, uint64_t v, uint64_t a) { return mix(mix(mix(2, op), v), a); }

static uint64_t hash_element(uint64_t v, int64_t index) { return mix(mix(3, v), (uint64_t)index); }

/* The array SO_FAR of a loop, with V of iteration N, of which each EVERY-th is a part. */
static uint64_t hash_collected(uint64_t so_far, uint64_t v, int64_t n, int64_t every)
{
	return (n + 1) % every ? so_far : mix(mix(so_far, v), 6);
}

static uint64_t hash_param(uint32_t param) { return mix(4, param); }

/* A part of a param is its element, as a part of a value is. */
static uint64_t hash_part(const struct param_ref *ref, const int64_t *counters)
{
	uint64_t hash = hash_param(ref->param);
	for (uint32_t i = 0; i < ref->count; i++)
		hash = hash_element(hash, ref->index[i].loop < 0 ? ref->index[i].value : counters[ref->index[i].loop]);
	return hash;
}

/* ---- the meaning of a chain, from its tree ---- */

struct meaning { /* of an operand */
	enum ref_kind kind;
	uint64_t value;
	const struct node *block;
	const struct call *call; /* that the block was written in */
};

struct call {
	struct meaning arguments[8];
};

struct walk {
	uint64_t current;
	uint64_t variables[MOST_SLOTS], loops[MOST_SLOTS];
	int64_t numbers[MOST_SLOTS]; /* of iterations, by the identity of a counter */
	int64_t iteration;           /* of the innermost loop */
	const struct call *call;
	uint64_t dropouts; /* so far */
};

static void walk_nodes(struct walk *w, const struct node *node);

static int64_t extent_of(const struct ref *ref)
{
	return ref->kind == REF_PARAM ? chain.params[ref->index].type->shape.dim[0] : input_type.shape.dim[0];
}

static struct meaning meaning_of(const struct walk *w, const struct ref *ref)
{
	struct meaning m = {.kind = ref->kind};
	switch (ref->kind) {
	case REF_NONE:
		break;
	case REF_NUMBER:
		m.value = hash_number(ref->number);
		break;
	case REF_PARAM:
		m.value = hash_param(ref->index);
		break;
	case REF_VARIABLE:
		m.value = w->variables[ref->index];
		break;
	case REF_LOOP:
		m.value = w->loops[ref->index];
		break;
	case REF_COUNTER:
		m.value = hash_number((double)w->numbers[ref->index]);
		break;
	case REF_ARGUMENT:
		m = w->call->arguments[ref->index];
		break;
	case REF_CURRENT: /* no formula is drawn */
	case REF_TERM:
	case REF_HELD:
	case REF_BLOCK:
		m.block = ref->block;
		m.call = w->call;
		break;
	}
	if (ref_has_element(ref))
		m.value = hash_element(m.value, ref->element + (ref->element < 0 ? extent_of(ref) : 0));
	if (ref->by_name)
		m.value = hash_element(m.value, w->numbers[ref->by->index]);
	return m;
}

static void walk_op(struct walk *w, const struct node *node)
{
	const struct meaning m = meaning_of(w, &node->operand);
	const uint64_t v = w->current;
	uint64_t a = m.value;
	if (m.kind == REF_BLOCK) {
		const struct call *call = w->call;
		w->call = m.call;
		walk_nodes(w, m.block);
		w->call = call;
		a = w->current;
	}
	w->current = node->op == OP_dropout ? hash_dropout(v, w->dropouts++)
	             : node->op == OP_use   ? a
	                                    : hash_op(node->op, v, a);
}

static void walk_call(struct walk *w, const struct node *node)
{
	const struct call *outer = w->call;
	struct call call;
	uint64_t saved[MOST_SLOTS];
	walk_nodes(w, node->body);
	for (size_t i = 0; i < node->def->count; i++)
		call.arguments[i] = meaning_of(w, &node->arguments[i]);
	uint64_t *locals = w->variables + node->def->first_variable;
	memcpy(saved, locals, node->def->variables * sizeof *saved);
	w->call = &call;
	walk_nodes(w, node->def->body);
	w->call = outer;
	uint64_t exported[MOST_SLOTS];
	for (size_t i = 0; i < node->def->export_count; i++)
		exported[i] = w->variables[node->def->exports[i].variable];
	memcpy(locals, saved, node->def->variables * sizeof *saved);
	for (size_t i = 0; i < node->def->export_count; i++)
		w->variables[node->exports[i]] = exported[i];
}

static void walk_for(struct walk *w, const struct node *node)
{
	uint64_t over[MOST_SLOTS];
	for (size_t k = 0; k < node->loop_count; k++)
		over[k] = meaning_of(w, &node->over[k]).value;
	for (int64_t i = 0; i < extent_of(&node->over[0]); i++) {
		for (size_t k = 0; k < node->loop_count; k++)
			w->loops[node->loops[k]] = hash_element(over[k], i);
		w->iteration = i;
		walk_nodes(w, node->body);
	}
}

static void walk_node(struct walk *w, const struct node *node)
{
	const int64_t around = w->iteration;
	switch (node->kind) {
	case NODE_COLLECT:
		w->variables[node->variable] =
			hash_collected(w->iteration ? w->variables[node->variable] : 0, w->current, w->iteration, node->every);
		break;
	case NODE_OP:
		walk_op(w, node);
		break;
	case NODE_CALL:
		walk_call(w, node);
		break;
	case NODE_NAME:
		w->variables[node->variable] =
			node->operand.kind == REF_NONE ? w->current : meaning_of(w, &node->operand).value;
		break;
	case NODE_REPEAT:
		for (int64_t i = 0; i < node->count; i++) {
			w->iteration = i;
			if (node->counter)
				w->numbers[node->counter - 1] = i;
			walk_nodes(w, node->body);
		}
		break;
	case NODE_FOR:
		walk_for(w, node);
		break;
	case NODE_CHECKPOINT:
		walk_nodes(w, node->body);
		break;
	case NODE_PROGRAM: /* no chain here has one of these */
	case NODE_INDEX:
	case NODE_FIXED_POINT:
	case NODE_COTANGENTS:
		break;
	}
	w->iteration = around;
}

static void walk_nodes(struct walk *w, const struct node *node)
{
	for (; node; node = node->next)
		walk_node(w, node);
}

static uint64_t meaning_of_chain(void)
{
	struct walk w = {.current = 5, .variables = {5}};
	walk_nodes(&w, chain.first);
	return w.current;
}

/* ---- what a body computes ---- */

struct execution {
	const struct body *body;
	uint64_t *values;
	int64_t counters[MAX_LOOPS];
};

static uint64_t value_of(const struct execution *e, uint32_t value)
{
	const struct value *v = &e->body->values[value];
	return v->from == FROM_PARAM ? hash_part(&v->param, e->counters) : e->values[value];
}

/* The array of A becomes the result: a loop writes part after part of it. */
static void execute_collect(struct execution *e, const struct instr *instr)
{
	const int64_t n = instr->attrs->start.at + (instr->level >= 0 ? e->counters[instr->level] : 0);
	const uint64_t so_far = instr->a == NO_VALUE ? 0 : value_of(e, instr->a);
	e->values[instr->out] = hash_collected(so_far, value_of(e, instr->v), n, instr->attrs->step);
	if (instr->a != NO_VALUE)
		e->values[instr->a] = e->values[instr->out];
}

static void execute_op(struct execution *e, const struct instr *instr)
{
	if (instr->op == OP_COLLECT) {
		execute_collect(e, instr);
		return;
	}
	const uint64_t v = value_of(e, instr->v);
	const double counter = instr_adds_counter(instr) ? (double)e->counters[instr->level] : 0;
	const uint64_t number = hash_number(instr->scalar + counter);
	if (instr->op == OP_add && instr->a == NO_VALUE && v == 0) /* a number as an array */
		e->values[instr->out] = number;
	else if (instr->op == OP_identity || instr->op == OP_reshape || instr->op == OP_cast)
		e->values[instr->out] = v;
	else if (instr->op == OP_slice)
		e->values[instr->out] =
			hash_element(v, instr->attrs->start.at + (instr->level >= 0 ? e->counters[instr->level] : 0));
	else if (instr->op == OP_dropout)
		e->values[instr->out] = hash_dropout(v, stream_index(instr->stream, e->counters));
	else if (instr->a != NO_VALUE)
		e->values[instr->out] = hash_op(instr->op, v, value_of(e, instr->a));
	else
		e->values[instr->out] = hash_op(instr->op, v, op_table[instr->op].operands ? number : 0);
}

static void execute(struct execution *e, size_t from, size_t to);

static void execute_loop(struct execution *e, size_t at)
{
	const struct instr *loop = &e->body->instrs[at];
	uint64_t carried[MOST_SLOTS];
	ck_assert_uint_le(loop->loop.carry_count, MOST_SLOTS);
	for (uint32_t k = 0; k < loop->loop.carry_count; k++)
		carried[k] = value_of(e, loop->loop.carries[k].init);
	for (int64_t i = 0; i < loop->loop.iterations; i++) {
		e->counters[loop->level] = loop->loop.first + i;
		for (uint32_t k = 0; k < loop->loop.carry_count; k++)
			e->values[loop->loop.carries[k].inner] = carried[k];
		execute(e, at + 1, loop->loop.match);
		for (uint32_t k = 0; k < loop->loop.carry_count; k++)
			carried[k] = value_of(e, loop->loop.carries[k].result);
	}
	for (uint32_t k = 0; k < loop->loop.carry_count; k++)
		e->values[loop->loop.carries[k].final] = carried[k];
}

static void execute(struct execution *e, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++) {
		const struct instr *instr = &e->body->instrs[i];
		if (instr->kind == INSTR_LOOP) {
			execute_loop(e, i);
			i = instr->loop.match;
		} else {
			ck_assert(instr->kind == INSTR_OP || instr->kind == INSTR_ZERO);
			if (instr->kind == INSTR_OP)
				execute_op(e, instr);
			else
				e->values[instr->out] = 0;
		}
	}
}

/* Runs BODY on the state SLOTS, which its outs change. */
static void execute_body(const struct body *body, uint64_t *slots, const int64_t *counters)
{
	struct execution e = {body, calloc(body->value_count + 1, sizeof *e.values), {0}};
	uint64_t outs[MOST_SLOTS];
	ck_assert_ptr_nonnull(e.values);
	if (counters)
		memcpy(e.counters, counters, sizeof e.counters);
	for (size_t i = 0; i < body->in_count; i++)
		e.values[body->ins[i].value] = slots[body->ins[i].index];
	execute(&e, 0, body->instr_count);
	for (size_t i = 0; i < body->out_count; i++)
		outs[i] = value_of(&e, body->outs[i].value);
	for (size_t i = 0; i < body->out_count; i++)
		slots[body->outs[i].index] = outs[i];
	free(e.values);
}

/* Returns STEP's body with the step's particulars in it. */
static const struct body *whole_body(const struct step *step)
{
	struct body *body = arena_alloc(&arena, sizeof *body);
	*body = *step->body;
	body->values = arena_array(&arena, body->value_count, sizeof *body->values);
	body->instrs = arena_array(&arena, body->instr_count, sizeof *body->instrs);
	body->ins = arena_array(&arena, body->in_count, sizeof *body->ins);
	body->outs = arena_array(&arena, body->out_count, sizeof *body->outs);
	for (size_t i = 0; i < body->value_count; i++) {
		body->values[i] = step->body->values[i];
		if (body->values[i].from == FROM_PARAM)
			body->values[i].param = *step_param(step, &step->body->values[i].param);
	}
	for (size_t i = 0; i < body->instr_count; i++) {
		body->instrs[i] = step->body->instrs[i];
		body->instrs[i].scalar = step_scalar(step, &step->body->instrs[i]);
		body->instrs[i].stream = own_stream(&step->own, &step->body->instrs[i]);
	}
	for (size_t i = 0; i < body->in_count; i++) {
		body->ins[i] = step->body->ins[i];
		body->ins[i].index = step_slot(step, &step->body->ins[i]);
	}
	for (size_t i = 0; i < body->out_count; i++) {
		body->outs[i] = step->body->outs[i];
		body->outs[i].index = step_slot(step, &step->body->outs[i]);
	}
	return body;
}

/* ---- the chains ---- */

static struct random_chain random_text;
static struct lowered lowered;

/* Lowers the chain of the test's number. False if it has too many steps for the searches. */
static bool lower_random(int number, enum lower_what what)
{
	chain_make(&chain, random_chain_text(&random_text, (uint64_t)number), &arena, &diags);
	ck_assert_uint_lt(random_text.used, RANDOM_TEXT);
	ck_assert_uint_lt(chain.variable_count, MOST_SLOTS - 1);
	ck_assert_msg(lower(&scratch, &lowered, &chain, NULL, &input_type, what) == STATUS_OK, "%s\n%s", random_text.text,
	              diags.first ? diags.first->message : "");
	return lowered.steps <= MOST_STEPS;
}

START_TEST(bodies_compute_what_the_chain_means)
{
	uint64_t slots[MOST_SLOTS] = {5, 5};
	lower_random(_i, LOWER_RUN);
	const uint64_t meant = meaning_of_chain();
	execute_body(lowered.whole, slots, NULL);
	ck_assert_msg(slots[0] == meant, "a forward run computes something else:\n%s", random_text.text);
	uint64_t unrolled[MOST_SLOTS] = {5, 5};
	lower_random(_i, LOWER_UNROLLED);
	execute_body(lowered.distinct[0]->body, unrolled, NULL);
	ck_assert_msg(unrolled[0] == meant, "the unrolled body computes something else:\n%s", random_text.text);
}
END_TEST

START_TEST(steps_compute_what_the_chain_means)
{
	uint64_t slots[MOST_SLOTS] = {5, 5};
	int64_t counters[MAX_LOOPS] = {0};
	lower_random(_i, LOWER_STEPS);
	for (int64_t i = 0; i < lowered.steps; i++) {
		const struct step *step = lowered_step(&lowered, i, counters);
		ck_assert_ptr_nonnull(step);
		struct slot_walk walk = slot_walk_begin(step->live_in);
		for (const struct slot_map *entry; (entry = slot_walk_next(&walk));)
			ck_assert_msg(slots[entry->slot] == slots[entry->class], "a class holds two values:\n%s", random_text.text);
		execute_body(whole_body(step), slots, counters);
	}
	ck_assert_msg(slots[0] == meaning_of_chain(), "the steps compute something else:\n%s", random_text.text);
}
END_TEST

/* By value of BODY: the slots, as bits, that it is made of. */
static void find_sources(const struct body *body, uint64_t *sources)
{
	for (size_t i = 0; i < body->value_count; i++)
		sources[i] = 0;
	for (size_t i = 0; i < body->in_count; i++)
		sources[body->ins[i].value] = (uint64_t)1 << body->ins[i].index;
	for (size_t i = 0; i < body->instr_count; i++) {
		uint32_t reads[INSTR_READS];
		const size_t count = instr_reads(&body->instrs[i], reads);
		for (size_t k = 0; k < count; k++)
			sources[body->instrs[i].out] |= sources[reads[k]];
	}
}

/* True if the output depends on SLOT of the state before step FIRST: its mark is followed forward to the end. */
static bool reaches_output(int64_t first, uint32_t slot)
{
	static uint64_t sources[MOST_HASHES];
	uint64_t marked = (uint64_t)1 << slot;
	for (int64_t i = first; i < lowered.steps && marked; i++) {
		const struct body *body = whole_body(lowered_step(&lowered, i, NULL));
		uint64_t after = marked;
		ck_assert_uint_lt(body->value_count, MOST_HASHES);
		find_sources(body, sources);
		for (size_t k = 0; k < body->out_count; k++) {
			const uint64_t bit = (uint64_t)1 << body->outs[k].index;
			after = sources[body->outs[k].value] & marked ? after | bit : after & ~bit;
		}
		marked = after;
	}
	return marked & 1;
}

/* True if SLOT is among those that a walk over MAP meets, in order, and the map finds it. */
static bool is_in(const struct slot_map *map, uint32_t slot)
{
	uint32_t count = 0, last = 0;
	bool in = false;
	struct slot_walk walk = slot_walk_begin(map);
	for (const struct slot_map *entry; (entry = slot_walk_next(&walk)); last = entry->slot) {
		ck_assert(count++ == 0 || entry->slot > last);
		in |= entry->slot == slot;
	}
	ck_assert_uint_eq(count, slot_map_count(map));
	ck_assert(in == has_slot(map, slot));
	return in;
}

START_TEST(live_slots_are_those_that_reach_the_output)
{
	if (!lower_random(_i, LOWER_STEPS))
		return;
	for (int64_t i = 0; i < lowered.steps; i++) {
		const struct step *step = lowered_step(&lowered, i, NULL);
		for (uint32_t slot = 0; slot < lowered.slot_count; slot++) {
			const bool live = reaches_output(i, slot), after = reaches_output(i + 1, slot);
			ck_assert_msg(live == is_in(step->live_in, slot), "slot %u before step %d of\n%s", slot, (int)i,
			              random_text.text);
			ck_assert_msg(after == is_in(step->live_out, slot), "slot %u after step %d of\n%s", slot, (int)i,
			              random_text.text);
		}
	}
}
END_TEST

/* ---- cotangents: all steps as one graph of values ---- */

struct made { /* a value of the graph, by an operation or, with step -1, from outside */
	int64_t step;
	uint32_t v, a; /* what it has a derivative by; NO_VALUE where it has none */
	bool active;
};

struct graph {
	struct made values[MOST_HASHES];
	uint32_t count;
	uint32_t slots[MOST_STEPS + 1][MOST_SLOTS]; /* by boundary: the value that each slot holds; NO_VALUE: none */
};

static struct graph graph;

static uint32_t graph_add(struct made made)
{
	ck_assert_uint_lt(graph.count, MOST_HASHES);
	graph.values[graph.count] = made;
	return graph.count++;
}

static uint32_t add_derivative(const struct body *body, const uint32_t *ids, uint32_t value, bool differentiable)
{
	if (value == NO_VALUE || !differentiable)
		return NO_VALUE;
	const struct value *v = &body->values[value];
	const bool active =
		v->from == FROM_PARAM ? chain.params[v->param.param].differentiated : graph.values[ids[value]].active;
	return !active                 ? NO_VALUE
	       : v->from == FROM_PARAM ? graph_add((struct made){-1, NO_VALUE, NO_VALUE, true})
	                               : ids[value];
}

static void graph_step(int64_t i, const struct body *body)
{
	static uint32_t ids[MOST_HASHES];
	const uint32_t *before = graph.slots[i];
	uint32_t *after = graph.slots[i + 1];
	memcpy(after, before, sizeof graph.slots[i]);
	for (size_t k = 0; k < body->in_count; k++)
		ids[body->ins[k].value] = before[body->ins[k].index];
	for (size_t k = 0; k < body->instr_count; k++) {
		const struct instr *instr = &body->instrs[k];
		const struct op_info *info = &op_table[instr->op];
		const uint32_t v = add_derivative(body, ids, instr->v, info->differentiable);
		const uint32_t a = add_derivative(body, ids, instr->a, info->operand_differentiable);
		ids[instr->out] = graph_add((struct made){i, v, a, v != NO_VALUE || a != NO_VALUE});
	}
	for (size_t k = 0; k < body->out_count; k++)
		after[body->outs[k].index] = ids[body->outs[k].value];
}

/* The slots that have a cotangent before step FIRST: the lowest of each active value that the output derives from. */
static uint64_t slots_with_cotangents(int64_t first)
{
	static bool marked[MOST_HASHES];
	const uint32_t output = graph.slots[lowered.steps][0];
	uint64_t slots = 0;
	memset(marked, 0, sizeof marked);
	marked[output] = graph.values[output].active;
	for (uint32_t i = graph.count; i-- > 0;) {
		const struct made *made = &graph.values[i];
		if (marked[i] && made->step >= first && made->v != NO_VALUE)
			marked[made->v] = true;
		if (marked[i] && made->step >= first && made->a != NO_VALUE)
			marked[made->a] = true;
	}
	for (uint32_t slot = 0; slot < lowered.slot_count; slot++) {
		const uint32_t value = graph.slots[first][slot];
		bool lowest = value != NO_VALUE && marked[value];
		for (uint32_t k = 0; k < slot; k++)
			lowest &= graph.slots[first][k] != value;
		slots |= (uint64_t)lowest << slot;
	}
	return slots;
}

START_TEST(cotangents_are_of_values_that_the_output_derives_from)
{
	if (!lower_random(_i, LOWER_STEPS))
		return;
	graph.count = 0;
	memset(graph.slots, 0xff, sizeof graph.slots);
	graph.slots[0][0] = graph_add((struct made){-1, NO_VALUE, NO_VALUE, true});
	if (chain.names_input)
		graph.slots[0][1] = graph.slots[0][0];
	for (int64_t i = 0; i < lowered.steps; i++)
		graph_step(i, whole_body(lowered_step(&lowered, i, NULL)));
	for (int64_t i = 0; i < lowered.steps; i++) {
		const struct step *step = lowered_step(&lowered, i, NULL);
		const uint64_t wanted = slots_with_cotangents(i);
		for (uint32_t slot = 0; slot < lowered.slot_count; slot++)
			ck_assert_msg((wanted >> slot & 1) == is_in(step->cot_in, slot),
			              "cotangent of slot %u before step %d of\n%s", slot, (int)i, random_text.text);
	}
}
END_TEST

/* Neighbours agree on the state between them, and each step's number is its place among distinct ones. */
START_TEST(steps_fit_together)
{
	lower_random(_i, LOWER_STEPS);
	const struct step *before = NULL;
	for (int64_t i = 0; i < lowered.steps; i++) {
		const struct step *step = lowered_step(&lowered, i, NULL);
		ck_assert_ptr_eq(lowered.distinct[step->id], step);
		if (before) {
			ck_assert(slot_map_equal(before->live_out, step->live_in));
			ck_assert(slot_map_equal(before->cot_out, step->cot_in));
			struct slot_walk walk = slot_walk_begin(step->live_in);
			for (const struct slot_map *entry; (entry = slot_walk_next(&walk));) {
				const struct slot_map *out = slot_map_find(before->live_out, entry->slot);
				ck_assert_ptr_eq(out->type, entry->type);
				ck_assert_uint_eq(out->class, entry->class);
			}
		}
		before = step;
	}
	ck_assert_ptr_null(lowered_step(&lowered, lowered.steps, NULL));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("lower_random");
	TCase *tcase = suite_make_case(suite, "lower_random");
	tcase_add_checked_fixture(tcase, scratch_setup, scratch_teardown);
	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, bodies_compute_what_the_chain_means, 0, CHAINS);
	tcase_add_loop_test(tcase, steps_compute_what_the_chain_means, 0, CHAINS);
	tcase_add_loop_test(tcase, live_slots_are_those_that_reach_the_output, 0, CHAINS);
	tcase_add_loop_test(tcase, cotangents_are_of_values_that_the_output_derives_from, 0, CHAINS);
	tcase_add_loop_test(tcase, steps_fit_together, 0, CHAINS);
	return suite_run(suite);
}
