/*
 * attention: softmax(q K' scale) V over the last two axes, by blocks of queries and of keys, so that no array has the
 * scores of all. (Dao, Fu, Ermon, Rudra, Re 2022, "FlashAttention: fast and memory-efficient exact attention with
 * IO-awareness"; the running maximum and sum are from Milakov, Gimelshein 2018, "Online normalizer calculation for softmax".)
 *
 * A block of scores is s[queries, keys] = scale q K', where -inf hides a key behind its query if CAUSAL. Forward, a query
 * has the largest score so far m, the sum of exp(s - m), and the sum of exp(s - m) V, which a larger m scales anew. What it
 * keeps is log(sum exp(s)). With that, any block of weights is made again:
 *     p  = exp(s - kept)              ds = scale p (g V' - g.y)
 *     dq = ds K                       dK = ds' q                     dV = p' g
 * Each block of dq, dK and dV is one piece for a team, and adds its terms in order. Batch axes broadcast: then a block of
 * the smaller one adds what all batches give.
 *
 * The derivative by V is an operation of its own (OP_ATTENDED), since an operation is differentiated by V and A alone.
 * Tests: tests/unit/test_general.c, tests/cases/attention.test
 */
#include "ops/lines.h"

#include "base/checked.h"

enum { QUERIES = 64, KEYS = 128 }; /* of a block, at most */

struct attention {
	const struct op_call *call;
	const struct loops *loops;
	enum dtype dtype;
	size_t size;
	int64_t batches, queries, keys, depth, value_depth;
	bool causal;
	double scale;
	struct shape batch, of_q, of_k; /* the batch axes: of the result, of q, and of K and V */
	const char *q, *k, *v, *y, *g, *logs;
	char *out; /* the result or a gradient */
	char *log; /* what the forward pass keeps, or NULL */
};

/* A block of one batch: QUERIES from QUERY on, and KEYS from KEY on. Matrix Q of q, and matrix K of K and of V. */
struct block {
	int64_t batch, q, k, query, queries, key, keys;
};

/* Returns the axes of TYPE without the last two. */
static struct shape batch_axes(const struct type *type)
{
	struct shape batch = type->shape;
	batch.ndim -= 2;
	return batch;
}

static struct attention attention_of(const struct op_call *call)
{
	const struct type *q = call->v, *k = call->a, *y = call->y;
	const int last = q->shape.ndim - 1;
	struct attention t = {.call = call,
	                      .loops = call->kernels->loops,
	                      .dtype = q->dtype,
	                      .size = element_size(q->dtype),
	                      .queries = q->shape.dim[last - 1],
	                      .keys = k->shape.dim[k->shape.ndim - 2],
	                      .depth = q->shape.dim[last],
	                      .value_depth = y->shape.dim[y->shape.ndim - 1],
	                      .causal = call->attrs->number[1] != 0,
	                      .scale = call->attrs->number[0],
	                      .batch = batch_axes(y),
	                      .of_q = batch_axes(q),
	                      .of_k = batch_axes(k)};
	t.batches = shape_count(&t.batch);
	if (t.scale == 0)
		t.scale = 1 / sqrt((double)t.depth);
	return t;
}

/* Returns the index, among the batches of the axes OF, of batch INDEX of the result. */
static int64_t batch_within(const struct attention *t, const struct shape *of, int64_t index)
{
	int64_t at = 0, step = 1;
	for (int d = t->batch.ndim, own = of->ndim; d-- > 0 && own-- > 0;) {
		if (of->dim[own] != 1)
			at += index % t->batch.dim[d] * step;
		step *= of->dim[own];
		index /= t->batch.dim[d];
	}
	return at;
}

/* Returns whether B can be moved to the next batch of the result, from B's on, whose matrix OF is AT. */
static bool find_batch(const struct attention *t, const struct shape *of, int64_t at, struct block *b)
{
	if (shape_equal(of, &t->batch) && b->batch <= at)
		b->batch = at;
	for (; b->batch < t->batches; b->batch++)
		if (batch_within(t, of, b->batch) == at) {
			b->q = batch_within(t, &t->of_q, b->batch);
			b->k = batch_within(t, &t->of_k, b->batch);
			return true;
		}
	return false;
}

static int64_t attention_blocks(int64_t n, int64_t most) { return (n + most - 1) / most; }

/* True if a query of B sees a key of B. */
static bool is_seen(const struct attention *t, const struct block *b)
{
	return !t->causal || b->key <= b->query + b->queries - 1;
}

/* Returns where row ROW of matrix INDEX begins, in an array of matrices of ROWS rows of COLUMNS elements. */
static const void *matrix_row(const struct attention *t, const char *array, int64_t index, int64_t rows, int64_t row,
                              int64_t columns)
{
	return element_at(array, t->size, (index * rows + row) * columns);
}
static const void *q_of(const struct attention *t, const struct block *b)
{
	return matrix_row(t, t->q, b->q, t->queries, b->query, t->depth);
}
static const void *k_of(const struct attention *t, const struct block *b)
{
	return matrix_row(t, t->k, b->k, t->keys, b->key, t->depth);
}
static const void *v_of(const struct attention *t, const struct block *b)
{
	return matrix_row(t, t->v, b->k, t->keys, b->key, t->value_depth);
}
static const void *g_of(const struct attention *t, const struct block *b)
{
	return matrix_row(t, t->g, b->batch, t->queries, b->query, t->value_depth);
}

/* Multiplies by our own product, whose bits do not depend on the block's size. */
static void multiply_blocks(const struct attention *t, const struct product *p)
{
	if (p->m > 0 && p->n > 0 && p->k > 0)
		t->loops->gemm(p, true);
	else if (!p->accumulate)
		for (int64_t i = 0; i < p->m; i++)
			memset(element_of(p->c, t->size, i * p->ldc), 0, (size_t)p->n * t->size);
}

/* Stores in S the scaled scores of B. */
static void score_block(const struct attention *t, const struct block *b, void *s)
{
	double scales[QUERIES];
	multiply_blocks(t, &(struct product){.m = b->queries,
	                                     .n = b->keys,
	                                     .k = t->depth,
	                                     .a = {q_of(t, b), t->depth, false},
	                                     .b = {k_of(t, b), t->depth, true},
	                                     .c = s,
	                                     .ldc = b->keys});
	for (int64_t i = 0; i < b->queries; i++)
		scales[i] = t->scale;
	t->loops->multiply(s, s, scales, (size_t)b->keys, (size_t)b->queries);
	for (int64_t i = 0; i < b->queries && t->causal; i++) {
		const int64_t first = greater(0, b->query + i + 1 - b->key);
		if (first < b->keys)
			t->loops->fill(element_of(s, t->size, i * b->keys + first), -INFINITY, (size_t)(b->keys - first));
	}
}

/* What the blocks of some queries have given so far. */
struct so_far {
	double largest[QUERIES], sum[QUERIES];
};

/* Makes exponentials of the scores S of B, adds them to STATE, and scales Y anew, the sums of values so far. */
static void add_exponentials(const struct attention *t, const struct block *b, struct so_far *state, void *s, void *y)
{
	double here[QUERIES], shift[QUERIES], anew[QUERIES];
	bool changed = false;
	t->loops->largest(here, s, (size_t)b->keys, (size_t)b->queries);
	for (int64_t i = 0; i < b->queries; i++) {
		const double before = state->largest[i];
		const double now = isnan(before) || isnan(here[i]) ? NAN : fmax(before, here[i]);
		shift[i] = now == -INFINITY ? 0 : now;
		anew[i] = before == -INFINITY ? 0 : exp(before - now);
		if (t->dtype == DTYPE_F32)
			anew[i] = (double)(float)anew[i];
		changed |= anew[i] != 1;
		state->largest[i] = now;
	}
	t->loops->subtract(s, s, shift, (size_t)b->keys, (size_t)b->queries);
	lines_exp(t->call, s, s, (size_t)(b->queries * b->keys));
	t->loops->sum.values(here, NULL, s, (size_t)b->keys, (size_t)b->queries);
	for (int64_t i = 0; i < b->queries; i++)
		state->sum[i] = state->sum[i] * anew[i] + here[i];
	if (y && changed && b->key > 0)
		t->loops->multiply(y, y, anew, (size_t)t->value_depth, (size_t)b->queries);
}

/* Computes blocks BEGIN .. END-1 of queries: all of a batch, then of the next. */
static void attend(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct attention *t = context;
	void *const s = memory ? memory : t->call->scratch;
	const int64_t blocks = attention_blocks(t->queries, QUERIES);
	for (int64_t i = begin; i < end; i++) {
		struct so_far state = {.sum = {0}};
		struct block b = {.batch = i / blocks, .query = i % blocks * QUERIES};
		b.q = batch_within(t, &t->of_q, b.batch);
		b.k = batch_within(t, &t->of_k, b.batch);
		b.queries = lesser(QUERIES, t->queries - b.query);
		const int64_t row = b.batch * t->queries + b.query;
		void *const y = t->out ? element_of(t->out, t->size, row * t->value_depth) : NULL;
		for (int64_t r = 0; r < b.queries; r++)
			state.largest[r] = -INFINITY;
		for (b.key = 0; b.key < t->keys && is_seen(t, &b); b.key += KEYS) {
			b.keys = lesser(KEYS, t->keys - b.key);
			score_block(t, &b, s);
			add_exponentials(t, &b, &state, s, y);
			if (y)
				multiply_blocks(t, &(struct product){.m = b.queries,
				                                     .n = t->value_depth,
				                                     .k = b.keys,
				                                     .a = {s, b.keys, false},
				                                     .b = {v_of(t, &b), t->value_depth, false},
				                                     .c = y,
				                                     .ldc = t->value_depth,
				                                     .accumulate = b.key > 0});
		}
		if (y)
			t->loops->divide(y, y, state.sum, (size_t)t->value_depth, (size_t)b.queries);
		for (int64_t r = 0; r < b.queries && t->log; r++)
			element_set(t->dtype, t->log, (size_t)(row + r), state.largest[r] + log(state.sum[r]));
	}
}

/* Stores in P the weights of B. */
static void weigh_block(const struct attention *t, const struct block *b, void *p)
{
	double kept[QUERIES];
	score_block(t, b, p);
	for (int64_t i = 0; i < b->queries; i++)
		kept[i] = element_get(t->dtype, t->logs, (size_t)(b->batch * t->queries + b->query + i));
	t->loops->subtract(p, p, kept, (size_t)b->keys, (size_t)b->queries);
	lines_exp(t->call, p, p, (size_t)(b->queries * b->keys));
}

/* Stores in DS the derivative by the products of queries and keys of B. P has room for a block. */
static void differentiate_block(const struct attention *t, const struct block *b, void *p, void *ds)
{
	double sums[QUERIES], scales[QUERIES];
	const void *g = g_of(t, b), *y = matrix_row(t, t->y, b->batch, t->queries, b->query, t->value_depth);
	weigh_block(t, b, p);
	multiply_blocks(t, &(struct product){.m = b->queries,
	                                     .n = b->keys,
	                                     .k = t->value_depth,
	                                     .a = {g, t->value_depth, false},
	                                     .b = {v_of(t, b), t->value_depth, true},
	                                     .c = ds,
	                                     .ldc = b->keys});
	t->loops->sum.products(sums, NULL, g, y, (size_t)t->value_depth, (size_t)b->queries);
	t->loops->softmax_derivative(ds, ds, p, sums, (size_t)b->keys, (size_t)b->queries);
	for (int64_t i = 0; i < b->queries; i++)
		scales[i] = t->scale;
	t->loops->multiply(ds, ds, scales, (size_t)b->keys, (size_t)b->queries);
}

/* Returns the second block of scratch. */
static void *second_block(const struct attention *t, void *first)
{
	return element_of(first, t->size, (int64_t)QUERIES * KEYS);
}

/* Computes blocks BEGIN .. END-1 of the gradient by q. */
static void differentiate_queries(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct attention *t = context;
	void *const p = memory ? memory : t->call->scratch, *const ds = second_block(t, p);
	const int64_t blocks = attention_blocks(t->queries, QUERIES);
	for (int64_t i = begin; i < end; i++) {
		struct block b = {.query = i % blocks * QUERIES};
		b.queries = lesser(QUERIES, t->queries - b.query);
		void *const dq = element_of(t->out, t->size, (i / blocks * t->queries + b.query) * t->depth);
		memset(dq, 0, (size_t)(b.queries * t->depth) * t->size);
		for (; find_batch(t, &t->of_q, i / blocks, &b); b.batch++)
			for (b.key = 0; b.key < t->keys && is_seen(t, &b); b.key += KEYS) {
				b.keys = lesser(KEYS, t->keys - b.key);
				differentiate_block(t, &b, p, ds);
				multiply_blocks(t, &(struct product){.m = b.queries,
				                                     .n = t->depth,
				                                     .k = b.keys,
				                                     .a = {ds, b.keys, false},
				                                     .b = {k_of(t, &b), t->depth, false},
				                                     .c = dq,
				                                     .ldc = t->depth,
				                                     .accumulate = true});
			}
	}
}

/* Adds to OUT, a block of the gradient by K or, if VALUES, by V, what queries of batch B give to B's keys. */
static void add_of_queries(const struct attention *t, struct block b, bool values, void *memory, void *out)
{
	void *const p = memory ? memory : t->call->scratch, *const ds = second_block(t, p);
	const int64_t columns = values ? t->value_depth : t->depth;
	for (b.query = 0; b.query < t->queries; b.query += QUERIES) {
		b.queries = lesser(QUERIES, t->queries - b.query);
		if (!is_seen(t, &b))
			continue;
		if (values)
			weigh_block(t, &b, p);
		else
			differentiate_block(t, &b, p, ds);
		multiply_blocks(t, &(struct product){.m = b.keys,
		                                     .n = columns,
		                                     .k = b.queries,
		                                     .a = {values ? p : ds, b.keys, true},
		                                     .b = {values ? g_of(t, &b) : q_of(t, &b), columns, false},
		                                     .c = out,
		                                     .ldc = columns,
		                                     .accumulate = true});
	}
}

/* Computes blocks BEGIN .. END-1 of the gradient by K or, if VALUES, by V. */
static void differentiate_blocks_of_keys(const struct attention *t, bool values, void *memory, int64_t begin,
                                         int64_t end)
{
	const int64_t blocks = attention_blocks(t->keys, KEYS), columns = values ? t->value_depth : t->depth;
	for (int64_t j = begin; j < end; j++) {
		struct block b = {.key = j % blocks * KEYS};
		b.keys = lesser(KEYS, t->keys - b.key);
		void *const out = element_of(t->out, t->size, (j / blocks * t->keys + b.key) * columns);
		memset(out, 0, (size_t)(b.keys * columns) * t->size);
		for (; find_batch(t, &t->of_k, j / blocks, &b); b.batch++)
			add_of_queries(t, b, values, memory, out);
	}
}

static void differentiate_keys(void *context, void *memory, int64_t begin, int64_t end)
{
	differentiate_blocks_of_keys(context, false, memory, begin, end);
}

static void differentiate_values(void *context, void *memory, int64_t begin, int64_t end)
{
	differentiate_blocks_of_keys(context, true, memory, begin, end);
}

int64_t attention_scratch(const struct type *v)
{
	return 2 * (int64_t)QUERIES * KEYS * (int64_t)element_size(v->dtype);
}

FORWARD(attention)
{
	struct attention t = attention_of(call);
	t.q = v;
	t.k = a;
	t.v = call->b;
	t.out = y;
	t.log = keep ? keep[0] : NULL;
	team_run(call->team, t.batches * attention_blocks(t.queries, QUERIES), 1, attend, &t);
}

VJP(attention)
{
	struct attention t = attention_of(call);
	t.q = needs[0];
	t.k = needs[1];
	t.y = needs[2];
	t.logs = needs[3];
	t.v = needs[4];
	t.g = g;
	t.out = dv;
	if (dv)
		team_run(call->team, shape_count(&t.of_q) * attention_blocks(t.queries, QUERIES), 1, differentiate_queries, &t);
	t.out = da;
	if (da)
		team_run(call->team, shape_count(&t.of_k) * attention_blocks(t.keys, KEYS), 1, differentiate_keys, &t);
}

/* The A of this CALL has the type of V, and DA is its derivative. The matrices of K have as many rows. */
void vjp_attended(const struct op_call *call, void *dv MAYBE_UNUSED, void *da, const void *g,
                  const void *const needs[MAX_NEEDS])
{
	struct attention t = attention_of(call);
	t.q = needs[0];
	t.k = needs[1];
	t.logs = needs[3];
	t.g = g;
	t.out = da;
	team_run(call->team, shape_count(&t.of_k) * attention_blocks(t.keys, KEYS), 1, differentiate_values, &t);
}
