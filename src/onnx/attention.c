/*
 * Attention and rotary embeddings.
 * Tests: tests/scripts/check-import
 */
#include "onnx/translate.h"

#include <math.h>

#define OPERATOR(DOMAIN, NAME, TRANSLATOR, OPERATION) translate translate_##TRANSLATOR;
#include "onnx/operators.def"

/* Returns V [B,S,H*D] as [B,H,S,D]; one of four axes stays. */
static struct value *heads_first(struct node *n, struct value *v, int64_t heads)
{
	static const int order[] = {0, 2, 1, 3};
	if (!v || v->type.shape.ndim == 4)
		return v;
	const struct shape *s = &v->type.shape;
	if (s->ndim != 3 || heads < 1 || s->dim[2] % heads)
		return refuse(n, "its heads do not fit");
	const struct shape parts = {4, {s->dim[0], s->dim[1], heads, s->dim[2] / heads}};
	return transpose(n, reshape(n, v, &parts), order);
}

/* Returns V with each of its heads COUNT times. */
static struct value *repeat_heads(struct node *n, struct value *v, int64_t count)
{
	if (!v || count == 1)
		return v;
	struct shape flat = v->type.shape;
	struct value *high = new_axis(n, v, 2);
	if (!high)
		return NULL;
	struct shape wide = high->type.shape;
	wide.dim[2] = count;
	flat.dim[1] *= count;
	return reshape(n, expand(n, high, &wide), &flat);
}

/* Returns what is 0 where CONDITION holds and -inf elsewhere. */
static struct value *allow(struct node *n, struct value *condition, enum dtype dtype)
{
	struct value *v =
		condition ? choose(n, condition, filled(n, dtype, NULL, 0), filled(n, dtype, NULL, -INFINITY)) : NULL;
	return v ? convert(n, typed(n, v, dtype), dtype) : NULL;
}

/* Returns the array [ROWS,COLUMNS] of the place of a column less that of a row. */
static struct value *distances(struct node *n, int64_t rows, int64_t columns)
{
	const struct shape shape = {2, {rows, columns}};
	if (symbol_in(n->importer, (double)rows) || symbol_in(n->importer, (double)columns) || rows > NUMBERS_MOST ||
	    columns > NUMBERS_MOST || rows * columns > NUMBERS_MOST)
		return refuse(n, "its mask is open, or has more than %d elements", NUMBERS_MOST);
	double *numbers = arena_array(n->importer->context->arena, (size_t)(rows * columns) + 1, sizeof *numbers);
	for (int64_t i = 0; numbers && i < rows * columns; i++)
		numbers[i] = (double)(i % columns - i / columns);
	return numbers ? numbers_of(n, DTYPE_I64, numbers, &shape, 0) : short_of_memory(n);
}

static struct value *sum_of(struct node *n, struct value *a, struct value *b)
{
	return !a ? b : !b ? NULL : binary(n, "add", a, b);
}

/* What an attention reads. */
struct attending {
	struct value *q, *k, *v, *lengths;
	int64_t past; /* keys before the first query */
	bool guarded; /* a row may have no key at all */
	enum dtype dtype;
};

/* Returns what is added to the products of queries and keys; NULL if nothing is. */
static struct value *bias_of(struct node *n, struct attending *a)
{
	const int64_t rows = a->q->type.shape.dim[2], columns = a->k->type.shape.dim[2];
	const int64_t left = attribute_integer(n, "left_window_size", -1),
				  right = attribute_integer(n, "right_window_size", -1);
	struct value *bias = input(n, 3), *offset = NULL;
	if (bias) {
		const int last = bias->type.shape.ndim - 1;
		const int64_t more = last >= 0 ? columns - bias->type.shape.dim[last] : 0;
		const bool condition = bias->type.dtype == DTYPE_BOOL;
		if (more > 0)
			bias = padded(n, bias, last, 0, more, condition ? 0 : -INFINITY);
		bias = condition ? allow(n, typed(n, bias, DTYPE_BOOL), a->dtype) : bias;
		a->guarded = true;
		if (!bias)
			return NULL;
	}
	if (a->lengths) { /* [B,1,1,1] */
		const struct shape shape = {4, {a->lengths->type.shape.dim[0], 1, 1, 1}};
		a->lengths = once(n, reshape(n, a->lengths, &shape));
		offset = a->past ? NULL : plus(n, a->lengths, (double)-rows);
		a->guarded = true;
		if (!a->lengths)
			return NULL;
	}
	const struct {
		bool on;
		const char *operation;
		double by;
	} bounds[] = {{attribute_integer(n, "is_causal", 0), "le", 0},
	              {left >= 0, "ge", (double)-left},
	              {right >= 0, "le", (double)right}};
	for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
		if (!bounds[i].on)
			continue;
		struct value *apart = distances(n, rows, columns);
		apart = apart ? plus(n, apart, -bounds[i].by) : NULL;
		struct value *limit = offset ? offset : filled(n, DTYPE_I64, NULL, (double)a->past);
		bias = sum_of(n, bias, allow(n, binary(n, bounds[i].operation, apart, limit), a->dtype));
		a->guarded |= i > 0 || offset;
		if (!bias)
			return NULL;
	}
	if (a->lengths) {
		struct value *places = distances(n, 1, columns);
		bias = sum_of(n, bias, allow(n, binary(n, "lt", places, a->lengths), a->dtype));
	}
	return bias;
}

/* Returns the probabilities of SCORES plus BIAS. A row without a key has zeros. */
static struct value *probabilities(struct node *n, const struct attending *a, struct value *scores, struct value *bias)
{
	enum dtype dtype = a->dtype;
	const int64_t precise = attribute_integer(n, "softmax_precision", 0);
	if (precise && !model_dtype((int32_t)precise, &dtype))
		return refuse(n, "its softmax_precision is none of a chain");
	if (a->guarded && bias)
		bias = once(n, bias);
	struct value *y = unary(n, "softmax", convert(n, bias ? sum_of(n, scores, bias) : scores, dtype));
	if (a->guarded && bias) {
		struct value *most = apply(n, "amax", bias, "axis=-1 keepdims=true");
		y = most ? choose(n, binary(n, "eq", most, number_like(n, most, -INFINITY)), number_like(n, y, 0), y) : NULL;
	}
	return y ? convert(n, typed(n, y, dtype), a->dtype) : NULL;
}

/* Returns V [B,H,S,D], as [B,S,H*D] if FLAT. */
static struct value *heads_last(struct node *n, struct value *v, bool flat)
{
	static const int order[] = {0, 2, 1, 3};
	v = flat ? transpose(n, v, order) : v;
	if (!v || !flat)
		return v;
	const struct shape *s = &v->type.shape, made = {3, {s->dim[0], s->dim[1], s->dim[2] * s->dim[3]}};
	return reshape(n, v, &made);
}

void translate_attention(struct node *n)
{
	struct attending a = {needed(n, 0), needed(n, 1), needed(n, 2), input(n, 6), 0, false, DTYPE_F32};
	const int64_t heads = attribute_integer(n, "q_num_heads", 0), own = attribute_integer(n, "kv_num_heads", 0);
	const int64_t mode = attribute_integer(n, "qk_matmul_output_mode", 0);
	const double softcap = attribute_number(n, "softcap", 0);
	if (!a.q || !a.k || !a.v)
		return;
	const bool flat = a.q->type.shape.ndim == 3;
	a.dtype = a.q->type.dtype;
	a.q = heads_first(n, a.q, heads);
	a.k = heads_first(n, a.k, own ? own : heads);
	a.v = heads_first(n, a.v, own ? own : heads);
	if (input(n, 4) && input(n, 5) && a.k && a.v) {
		struct value *keys[] = {input(n, 4), a.k}, *values[] = {input(n, 5), a.v};
		if (keys[0]->type.shape.ndim == 4)
			a.past = keys[0]->type.shape.dim[2];
		a.k = join(n, keys, 2, 2);
		a.v = join(n, values, 2, 2);
	}
	if (is_wanted(n, 1))
		give(n, 1, once(n, a.k));
	if (is_wanted(n, 2))
		give(n, 2, once(n, a.v));
	if (!a.q || !a.k || !a.v)
		return;
	const int64_t groups = a.k->type.shape.dim[1] ? a.q->type.shape.dim[1] / a.k->type.shape.dim[1] : 1;
	if (a.q->type.shape.dim[1] != groups * a.k->type.shape.dim[1]) {
		refuse(n, "its heads do not fit");
		return;
	}
	const double scale = attribute_number(n, "scale", 1 / sqrt((double)a.q->type.shape.dim[3]));
	const bool plain = !input(n, 3) && !a.lengths && !a.past && softcap <= 0 && !is_wanted(n, 3) &&
	                   attribute_integer(n, "left_window_size", -1) < 0 &&
	                   attribute_integer(n, "right_window_size", -1) < 0 && !attribute(n, "softmax_precision");
	if (plain) {
		const bool usual = scale == 1 / sqrt((double)a.q->type.shape.dim[3]);
		const char *number = usual ? "" : number_text(n, scale, DTYPE_F32);
		const char *causal = attribute_integer(n, "is_causal", 0) ? "causal=true" : "";
		struct value *const all[] = {a.q, repeat_heads(n, a.k, groups), repeat_heads(n, a.v, groups)};
		struct value *y = NULL;
		if (number)
			y = apply_several(n, "attention", all, 3, "%s%s%s", causal, usual ? "" : " scale=", number);
		give(n, 0, heads_last(n, y, flat));
		return;
	}
	struct value *k = exchange(n, repeat_heads(n, a.k, groups), 2, 3), *v = repeat_heads(n, a.v, groups);
	struct value *scores = times(n, binary(n, "matmul", a.q, k), scale);
	if (softcap > 0)
		scores = times(n, unary(n, "tanh", times(n, scores, 1 / softcap)), softcap);
	struct value *bias = bias_of(n, &a);
	if (n->reason || !scores)
		return;
	if (is_wanted(n, 3) && mode <= 1)
		scores = once(n, scores);
	if (is_wanted(n, 3) && mode == 2) {
		scores = once(n, bias ? sum_of(n, scores, bias) : scores);
		struct value *y = unary(n, "softmax", scores);
		give(n, 3, scores);
		scores = y;
		if (a.guarded && y && bias) {
			struct value *most = apply(n, "amax", bias, "axis=-1 keepdims=true");
			scores = most ? choose(n, binary(n, "eq", most, number_like(n, most, -INFINITY)), number_like(n, y, 0), y)
			              : NULL;
		}
	} else {
		if (is_wanted(n, 3) && mode <= 1)
			give(n, 3, scores);
		scores = probabilities(n, &a, scores, bias);
	}
	if (is_wanted(n, 3) && mode == 3)
		give(n, 3, scores = once(n, scores));
	struct value *y = binary(n, "matmul", scores, v);
	give(n, 0, typed(n, heads_last(n, y, flat), a.dtype));
}

/* Returns elements FIRST, FIRST + STEP, ... of the last axis of V, COUNT of them. */
static struct value *every(struct node *n, struct value *v, int64_t first, int64_t count, int64_t step)
{
	struct part parts[MAX_DIMS];
	if (!v)
		return NULL;
	for (int i = 0; i < v->type.shape.ndim; i++)
		parts[i] = i == v->type.shape.ndim - 1 ? (struct part){first, count, count > 1 ? step : 1}
		                                       : (struct part){0, v->type.shape.dim[i], 1};
	return part_of(n, v, parts);
}

void translate_rotary_embedding(struct node *n)
{
	static const int order[] = {0, 2, 1, 3};
	struct value *v = needed(n, 0), *cosine = needed(n, 1), *sine = needed(n, 2), *places = input(n, 3);
	const int64_t heads = attribute_integer(n, "num_heads", 0);
	if (!v || !cosine || !sine)
		return;
	const struct shape original = v->type.shape;
	const bool high = original.ndim == 4;
	if (!high && (original.ndim != 3 || heads < 1 || original.dim[2] % heads)) {
		refuse(n, "its heads do not fit");
		return;
	}
	/* [B,S,H,D] */
	const struct shape parts = {4, {original.dim[0], original.dim[1], heads, high ? 0 : original.dim[2] / heads}};
	v = once(n, high ? transpose(n, v, order) : reshape(n, v, &parts));
	if (!v)
		return;
	const int64_t size = v->type.shape.dim[3], given = attribute_integer(n, "rotary_embedding_dim", 0),
				  turned = given ? given : size;
	const int64_t half = turned / 2;
	const bool interleaved = attribute_integer(n, "interleaved", 0);
	if (turned < 2 || turned > size || turned % 2) {
		refuse(n, "its rotary_embedding_dim does not fit");
		return;
	}
	if (places) {
		cosine = taken(n, places, cosine, 0);
		sine = taken(n, places, sine, 0);
	}
	if (!cosine || !sine || cosine->type.shape.ndim != 3 || sine->type.shape.ndim != 3) {
		refuse(n, "its caches do not fit");
		return;
	}
	cosine = once(n, new_axis(n, cosine, 2));
	sine = once(n, new_axis(n, sine, 2));
	struct value *a = once(n, interleaved ? every(n, v, 0, half, 2) : every(n, v, 0, half, 1));
	struct value *b = bind(n, interleaved ? every(n, v, 1, half, 2) : every(n, v, half, half, 1), "second");
	struct value *real = binary(n, "sub", binary(n, "mul", cosine, a), binary(n, "mul", sine, b));
	struct value *imaginary = binary(n, "add", binary(n, "mul", sine, a), binary(n, "mul", cosine, b));
	if (!real || !imaginary)
		return;
	struct value *both[3] = {real, imaginary, turned < size ? every(n, v, turned, size - turned, 1) : NULL};
	struct value *made;
	if (interleaved) {
		struct shape s = real->type.shape;
		s.dim[3] = turned;
		struct value *pair[] = {new_axis(n, real, 4), new_axis(n, imaginary, 4)};
		made = reshape(n, join(n, pair, 2, 4), &s);
		struct value *rest[] = {made, both[2]};
		made = both[2] ? join(n, rest, 2, 3) : made;
	} else {
		made = join(n, both, both[2] ? 3 : 2, 3);
	}
	give(n, 0, high ? transpose(n, made, order) : reshape(n, made, &original));
}
