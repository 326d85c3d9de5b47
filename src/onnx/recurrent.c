/*
 * Recurrent layers: a `for` over the time steps, whose states are names of the chain. What does not depend on the state is
 * computed for all time steps at once.
 * Tests: tests/scripts/check-import
 */
#include "onnx/translate.h"

#include <math.h>

#define OPERATOR(DOMAIN, NAME, TRANSLATOR, OPERATION) translate translate_##TRANSLATOR;
#include "onnx/operators.def"

enum { ACTIVATIONS = 3 };

/* One direction of a layer. */
struct layer {
	struct node *node;
	int64_t size;             /* of the state */
	int64_t gates;            /* parts of a gate's product */
	int direction;            /* 0, or 1 for the second of two */
	bool reverse;             /* from the last time step to the first */
	struct value *input;      /* [time,batch,input] */
	struct value *inner;      /* R: [gates*size,size] */
	struct value *inner_bias; /* [gates*size]; NULL: none */
	struct value *outer;      /* X W + bias, [time,batch,gates*size] */
	struct value *step;       /* a part of OUTER */
	struct value *h, *c;      /* the states, as names */
	struct value *peepholes;  /* [3*size]; NULL: none */
	const char *activations[ACTIVATIONS];
	double alpha[ACTIVATIONS], beta[ACTIVATIONS];
	struct value *states; /* of all time steps; NULL: not wanted */
};

/* Returns activation I of V. */
static struct value *activate(const struct layer *l, int i, struct value *v)
{
	static const struct {
		const char *name, *operation;
	} plain[] = {{"Sigmoid", "sigmoid"}, {"Tanh", "tanh"}, {"Relu", "relu"}, {"Softplus", "softplus"}};
	struct node *n = l->node;
	const char *name = l->activations[i];
	const double most = attribute_number(n, "clip", 0);
	const char *bound = most > 0 ? number_text(n, most, DTYPE_F32) : "";
	if (!bound)
		return NULL;
	if (*bound)
		v = apply(n, "clip", v, "-%s %s", bound, bound);
	for (size_t k = 0; k < sizeof plain / sizeof *plain; k++)
		if (!strcmp(plain[k].name, name))
			return unary(n, plain[k].operation, v);
	if (!strcmp(name, "Affine"))
		return plus(n, times(n, v, l->alpha[i]), l->beta[i]);
	if (!strcmp(name, "LeakyRelu")) {
		const char *slope = number_text(n, l->alpha[i], DTYPE_F32);
		return slope ? apply(n, "leaky_relu", v, "slope=%s", slope) : NULL;
	}
	if (!strcmp(name, "HardSigmoid"))
		return apply(n, "clip", plus(n, times(n, v, l->alpha[i]), l->beta[i]), "0 1");
	return refuse(n, "its activation is '%s'", name);
}

static bool read_activations(struct layer *l, const char *const usual[], int count)
{
	struct node *n = l->node;
	const Onnx__AttributeProto *names = attribute(n, "activations"), *alpha = attribute(n, "activation_alpha"),
							   *beta = attribute(n, "activation_beta");
	size_t read_alpha = 0, read_beta = 0;
	/* Alphas and betas are those of the activations that take them, in the order of all directions. */
	for (int k = 0; k < count * (l->direction + 1); k++) {
		const int i = k % count;
		l->activations[i] = usual[i];
		if (names && names->n_strings > (size_t)k) {
			const ProtobufCBinaryData *s = &names->strings[k];
			l->activations[i] = arena_strndup(n->importer->context->arena, s->len ? (const char *)s->data : "", s->len);
		}
		if (!l->activations[i])
			return short_of_memory(n), false;
		const bool leaky = !strcmp(l->activations[i], "LeakyRelu"), hard = !strcmp(l->activations[i], "HardSigmoid"),
				   affine = !strcmp(l->activations[i], "Affine");
		l->alpha[i] = leaky ? 0.01 : hard ? 0.2 : 1;
		l->beta[i] = hard ? 0.5 : 0;
		if ((leaky || hard || affine) && alpha && read_alpha < alpha->n_floats)
			l->alpha[i] = (double)alpha->floats[read_alpha++];
		if ((hard || affine) && beta && read_beta < beta->n_floats)
			l->beta[i] = (double)beta->floats[read_beta++];
	}
	return true;
}

/* Returns part I of the last axis of V, of SIZE. */
static struct value *gate(const struct layer *l, struct value *v, int64_t i)
{
	return v ? range_of(l->node, v, v->type.shape.ndim - 1, i * l->size, l->size) : NULL;
}

/* Gives V the name of a state. Returns the value that the name has from now on. */
static struct value *begin_state(struct node *n, struct value *v, const char *what)
{
	const char *name = name_take(n->importer, what);
	if (!v || !declare(n, v))
		return NULL;
	if (!name)
		return short_of_memory(n);
	state(n, "let %s = %s", name, v->text);
	struct value *named = formula(n, &v->type, v->computed, name, LEVEL_ATOM);
	if (named)
		named->is_name = true;
	return named;
}

static bool rebind(struct node *n, const struct value *name, struct value *v)
{
	v = v ? convert(n, v, name->type.dtype) : NULL;
	if (v)
		state(n, "let %s = %s", name->text, v->text);
	return v;
}

/* Returns zeros of the shape of a state. */
static struct value *zeros(const struct layer *l)
{
	struct node *n = l->node;
	return filled(n, l->input->type.dtype, &(struct shape){2, {l->input->type.shape.dim[1], l->size}}, 0);
}

static struct value *initial_state(const struct layer *l, size_t i)
{
	struct value *given = input(l->node, i);
	if (!given)
		return zeros(l);
	if (attribute_integer(l->node, "layout", 0))
		given = exchange(l->node, given, 0, 1);
	return pick(l->node, given, 0, l->direction);
}

typedef bool layer_step(struct layer *l);

/* Runs STEP over all time steps. Sets the states at the end, and all of them. */
static bool run_layer(struct layer *l, layer_step *step, bool has_cell)
{
	struct node *n = l->node;
	struct value *weight = pick(n, needed(n, 1), 0, l->direction), *bias = pick(n, input(n, 3), 0, l->direction);
	l->inner = once(n, pick(n, needed(n, 2), 0, l->direction));
	if (!weight || !l->inner || n->reason)
		return false;
	const int64_t width = l->gates * l->size;
	if (weight->type.shape.ndim != 2 || weight->type.shape.dim[0] != width || l->inner->type.shape.dim[0] != width)
		return refuse(n, "its weights do not fit"), false;
	l->outer = binary(n, "linear", l->input, weight);
	if (bias) {
		l->outer = binary(n, "add", l->outer, range_of(n, bias, 0, 0, width));
		l->inner_bias = once(n, range_of(n, bias, 0, width, width));
	}
	if (l->reverse)
		l->outer = apply(n, "flip", l->outer, "axis=0");
	l->outer = bind(n, l->outer, "products");
	l->h = begin_state(n, initial_state(l, 5), "h");
	if (has_cell)
		l->c = begin_state(n, initial_state(l, 6), "c");
	if (!l->outer || !l->h || (has_cell && !l->c) || n->reason)
		return false;
	const char *name = name_take(n->importer, "step"), *all = is_wanted(n, 0) ? name_take(n->importer, "states") : "";
	if (!name || !all)
		return short_of_memory(n), false;
	struct type type = {l->outer->type.dtype, l->outer->type.shape};
	const int64_t count = type.shape.dim[0];
	shape_drop_leading(&type.shape);
	l->step = formula(n, &type, l->outer->computed, name, LEVEL_ATOM);
	if (!l->step)
		return false;
	l->step->is_name = true;
	state(n, "use %s", l->h->text);
	state(n, "for %s in %s {", name, l->outer->text);
	block_begin(n);
	if (!step(l))
		return false;
	state(n, "use %s", l->h->text);
	if (*all)
		state(n, "collect %s", all);
	block_end(n);
	struct shape states = {3, {count, l->h->type.shape.dim[0], l->size}};
	if (*all) {
		const struct type collected = {l->h->type.dtype, states};
		l->states = formula(n, &collected, l->h->computed, all, LEVEL_ATOM);
		if (l->states)
			l->states->is_name = true;
		if (l->reverse)
			l->states = apply(n, "flip", l->states, "axis=0");
	}
	return true;
}

/* Returns V with the numbers of gate I of the peepholes times CELL. */
static struct value *peep(const struct layer *l, struct value *v, struct value *cell, int64_t i)
{
	return l->peepholes ? binary(l->node, "add", v, binary(l->node, "mul", gate(l, l->peepholes, i), cell)) : v;
}

static struct value *biased(const struct layer *l, struct value *v)
{
	return l->inner_bias ? binary(l->node, "add", v, l->inner_bias) : v;
}

static bool step_rnn(struct layer *l)
{
	struct node *n = l->node;
	struct value *sum = binary(n, "add", l->step, biased(l, binary(n, "linear", l->h, l->inner)));
	return rebind(n, l->h, activate(l, 0, sum));
}

static bool step_lstm(struct layer *l)
{
	struct node *n = l->node;
	struct value *all = bind(n, binary(n, "add", l->step, biased(l, binary(n, "linear", l->h, l->inner))), "gates");
	struct value *in = activate(l, 0, peep(l, gate(l, all, 0), l->c, 0));
	const bool couples = attribute_integer(n, "input_forget", 0);
	if (couples)
		in = bind(n, in, "input_gate");
	struct value *forget = couples ? (in ? binary(n, "sub", number_like(n, in, 1), in) : NULL)
	                               : activate(l, 0, peep(l, gate(l, all, 2), l->c, 2));
	struct value *fresh = activate(l, 1, gate(l, all, 3));
	if (!rebind(n, l->c, binary(n, "add", binary(n, "mul", forget, l->c), binary(n, "mul", in, fresh))))
		return false;
	struct value *out = activate(l, 0, peep(l, gate(l, all, 1), l->c, 1));
	return rebind(n, l->h, binary(n, "mul", out, activate(l, 2, l->c)));
}

static bool step_gru(struct layer *l)
{
	struct node *n = l->node;
	const bool after = attribute_integer(n, "linear_before_reset", 0);
	const int64_t both = 2 * l->size;
	struct value *rows = range_of(n, l->inner, 0, 0, both), *last = range_of(n, l->inner, 0, both, l->size);
	struct value *bias = l->inner_bias, *sum = binary(n, "linear", l->h, rows);
	if (bias)
		sum = binary(n, "add", sum, range_of(n, bias, 0, 0, both));
	struct value *first = l->step ? range_of(n, l->step, l->step->type.shape.ndim - 1, 0, both) : NULL;
	struct value *gates = bind(n, binary(n, "add", first, sum), "gates");
	struct value *update = bind(n, activate(l, 0, gate(l, gates, 0)), "update"),
				 *reset = activate(l, 0, gate(l, gates, 1));
	struct value *inner;
	if (after) {
		inner = binary(n, "linear", l->h, last);
		inner = bias ? binary(n, "add", inner, range_of(n, bias, 0, both, l->size)) : inner;
		inner = binary(n, "mul", reset, inner);
	} else {
		inner = binary(n, "linear", binary(n, "mul", reset, l->h), last);
		inner = bias ? binary(n, "add", inner, range_of(n, bias, 0, both, l->size)) : inner;
	}
	struct value *fresh = activate(l, 1, binary(n, "add", gate(l, l->step, 2), inner));
	struct value *kept = binary(n, "mul", update, l->h);
	return update &&
	       rebind(n, l->h,
	              binary(n, "add", binary(n, "mul", binary(n, "sub", number_like(n, update, 1), update), fresh), kept));
}

/* True if all sequences have the length of X. */
static bool has_full_lengths(struct node *n, int64_t length)
{
	if (!input(n, 4))
		return true;
	const struct integers list = input_integers(n, 4, "sequence_lens");
	for (size_t i = 0; i < list.count; i++)
		if (list.at[i] != length)
			return refuse(n, "its sequences have different lengths"), false;
	return list.at;
}

/* Translates NODE, whose STEP has GATES and the activations USUAL. */
static void translate_layer(struct node *n, layer_step *step, int64_t gates, const char *const usual[], int activations)
{
	const char *direction = attribute_text(n, "direction", "forward");
	const bool both = !strcmp(direction, "bidirectional"), has_cell = gates == 4,
			   batch_first = attribute_integer(n, "layout", 0);
	struct layer layers[2];
	struct value *x = needed(n, 0), *r = needed(n, 2), *parts[2];
	if (!x || !r)
		return;
	if (x->type.shape.ndim != 3 || r->type.shape.ndim != 3) {
		refuse(n, "its inputs do not have three axes");
		return;
	}
	x = batch_first ? exchange(n, x, 0, 1) : x;
	if (!x || !has_full_lengths(n, x->type.shape.dim[0]))
		return;
	if (both && !x->is_name)
		once(n, x);
	for (int i = 0; i <= both; i++) {
		struct layer *l = &layers[i];
		*l = (struct layer){.node = n,
		                    .size = r->type.shape.dim[2],
		                    .gates = gates,
		                    .direction = i,
		                    .reverse = i == 1 || !strcmp(direction, "reverse"),
		                    .input = x};
		if (has_cell && input(n, 7))
			l->peepholes = once(n, pick(n, input(n, 7), 0, i));
		if (!read_activations(l, usual, activations) || !run_layer(l, step, has_cell))
			return;
	}
	/* Y is [time,directions,batch,size]; with batches first, [batch,time,directions,size]. */
	static const int y_order[] = {2, 0, 1, 3};
	for (int i = 0; i <= both && is_wanted(n, 0); i++)
		parts[i] = new_axis(n, layers[i].states, 1);
	if (is_wanted(n, 0)) {
		struct value *y = join(n, parts, 1 + (size_t)both, 1);
		give(n, 0, batch_first ? transpose(n, y, y_order) : y);
	}
	for (size_t k = 1; k <= 1 + (size_t)has_cell; k++) {
		if (!is_wanted(n, k))
			continue;
		for (int i = 0; i <= both; i++)
			parts[i] = new_axis(n, k == 1 ? layers[i].h : layers[i].c, batch_first ? 1 : 0);
		give(n, k, join(n, parts, 1 + (size_t)both, batch_first ? 1 : 0));
	}
}

void translate_rnn(struct node *n)
{
	static const char *const usual[] = {"Tanh"};
	translate_layer(n, step_rnn, 1, usual, 1);
}

void translate_gru(struct node *n)
{
	static const char *const usual[] = {"Sigmoid", "Tanh"};
	translate_layer(n, step_gru, 3, usual, 2);
}

void translate_lstm(struct node *n)
{
	static const char *const usual[] = {"Sigmoid", "Tanh", "Tanh"};
	translate_layer(n, step_lstm, 4, usual, 3);
}

/* The inputs of LinearAttention, with time first, and what they are in an iteration. */
struct recall {
	struct value *series[5], *now[5]; /* query, key, value, decay, beta; NULL: not given */
	int64_t heads, group;             /* of keys; queries for each */
	int64_t key, columns;             /* elements of a key and of a value */
};

/* Stores input I of NODE in M, as [time,batch,heads,...] of MIDDLE by LAST elements a head. */
static bool unpack_heads(struct node *n, struct recall *m, int i, size_t from, const int64_t extents[2])
{
	static const int time_first[] = {1, 0, 2, 3, 4};
	struct value *v = input(n, from);
	if (!v)
		return true;
	const struct shape wide = {5, {v->type.shape.dim[0], v->type.shape.dim[1], m->heads, extents[0], extents[1]}};
	struct shape one = wide;
	one.dim[2] = 1; /* a rate for all heads */
	const bool shared = v->type.shape.ndim == 3 && m->heads > 1 && v->type.shape.dim[2] == extents[0] * extents[1];
	v = reshape(n, v, shared ? &one : &wide);
	m->series[i] = bind(n, transpose(n, v, time_first), "parts");
	return m->series[i];
}

/* States the loop over time. Returns the results of all iterations, [time,batch,heads,group,width]. */
static struct value *remember(struct node *n, struct recall *m, struct value **memory, bool corrects, double scale)
{
	struct arena *arena = n->importer->context->arena;
	const char *names = "", *arrays = "", *collected = name_take(n->importer, "results");
	for (int i = 0; i < 5; i++) {
		if (!m->series[i])
			continue;
		const char *name = name_take(n->importer, "part");
		struct type type = m->series[i]->type;
		shape_drop_leading(&type.shape);
		m->now[i] = name ? formula(n, &type, m->series[i]->computed, name, LEVEL_ATOM) : short_of_memory(n);
		if (!m->now[i])
			return NULL;
		m->now[i]->is_name = true;
		names = arena_printf(arena, "%s%s%s", names, *names ? ", " : "", name);
		arrays = arena_printf(arena, "%s%s%s", arrays, *arrays ? ", " : "", m->series[i]->text);
		if (!names || !arrays)
			return short_of_memory(n);
	}
	if (!collected)
		return short_of_memory(n);
	state(n, "use %s", (*memory)->text);
	state(n, "for %s in %s {", names, arrays);
	block_begin(n);
	struct value *kept = *memory, *key = m->now[1], *fresh = m->now[2];
	if (m->now[3])
		kept = once(n, binary(n, "mul", kept, m->now[3]));
	if (corrects)
		fresh = binary(n, "sub", fresh, binary(n, "matmul", exchange(n, key, 2, 3), kept));
	if (m->now[4])
		fresh = binary(n, "mul", fresh, m->now[4]);
	if (!rebind(n, *memory, binary(n, "add", kept, binary(n, "mul", key, fresh))))
		return NULL;
	struct value *result = times(n, binary(n, "matmul", m->now[0], *memory), scale);
	if (!result)
		return NULL;
	state(n, "use (%s)", result->text);
	state(n, "collect %s", collected);
	state(n, "use %s", (*memory)->text);
	block_end(n);
	struct type type = {result->type.dtype, {5, {m->series[0]->type.shape.dim[0]}}};
	memcpy(&type.shape.dim[1], result->type.shape.dim, 4 * sizeof *type.shape.dim);
	struct value *all = formula(n, &type, result->computed, collected, LEVEL_ATOM);
	if (all)
		all->is_name = true;
	return all;
}

void translate_linear_attention(struct node *n)
{
	static const int time_second[] = {1, 0, 2, 3, 4};
	struct value *q = needed(n, 0), *k = needed(n, 1), *v = needed(n, 2), *past = input(n, 3), *decay = input(n, 4);
	const char *rule = attribute_text(n, "update_rule", "gated_delta");
	const bool corrects = strstr(rule, "delta"), gated = !strncmp(rule, "gated", 5);
	const int64_t heads = attribute_integer(n, "kv_num_heads", 0), queries = attribute_integer(n, "q_num_heads", 0);
	struct recall m = {.heads = heads, .group = heads > 0 ? queries / heads : 0};
	if (!q || !k || !v)
		return;
	if (q->type.shape.ndim != 3 || k->type.shape.ndim != 3 || v->type.shape.ndim != 3 || heads < 1 || m.group < 1 ||
	    queries % heads || k->type.shape.dim[2] % heads || v->type.shape.dim[2] % heads ||
	    q->type.shape.dim[2] / queries != k->type.shape.dim[2] / heads || (gated && !decay) ||
	    (corrects && !input(n, 5))) {
		refuse(n, "its queries, keys, values and gates do not fit");
		return;
	}
	m.key = k->type.shape.dim[2] / heads;
	m.columns = v->type.shape.dim[2] / heads;
	const double given = attribute_number(n, "scale", 0), scale = given != 0 ? given : 1 / sqrt((double)m.key);
	const bool by_key = gated && decay->type.shape.dim[2] == heads * m.key && m.key > 1;
	const int64_t of_query[] = {m.group, m.key}, of_key[] = {m.key, 1}, of_value[] = {1, m.columns};
	const int64_t of_decay[] = {by_key ? m.key : 1, 1}, of_rate[] = {1, 1};
	const struct shape memory_shape = {4, {q->type.shape.dim[0], heads, m.key, m.columns}};
	if (!unpack_heads(n, &m, 0, 0, of_query) || !unpack_heads(n, &m, 1, 1, of_key) ||
	    !unpack_heads(n, &m, 2, 2, of_value) || (gated && !unpack_heads(n, &m, 3, 4, of_decay)) ||
	    (corrects && !unpack_heads(n, &m, 4, 5, of_rate)))
		return;
	if (gated)
		m.series[3] = bind(n, unary(n, "exp", m.series[3]), "decay");
	struct value *first = past ? past : filled(n, v->type.dtype, &memory_shape, 0);
	struct value *memory = begin_state(n, first, "memory");
	struct value *all = memory && !n->reason ? remember(n, &m, &memory, corrects, scale) : NULL;
	if (!all)
		return;
	const struct shape made = {3, {q->type.shape.dim[0], q->type.shape.dim[1], queries * m.columns}};
	give(n, 0, reshape(n, transpose(n, all, time_second), &made));
	give(n, 1, memory);
}
