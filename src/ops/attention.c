/*
 * attention: softmax(q K' scale) V over the last two axes, by blocks of queries and of keys, so that no array has the
 * scores of all. (Dao, Fu, Ermon, Rudra, Re 2022, "FlashAttention: fast and memory-efficient exact attention with
 * IO-awareness"; the running maximum and sum are from Milakov, Gimelshein 2018, "Online normalizer calculation for softmax".)
 *
 * A block of scores is s[keys, queries] = K (scale q)', where -inf hides a key behind its query if CAUSAL. So the queries of
 * a block lie in the lanes of vectors: what a query has of its own is a row of numbers, and only the block's q and g are
 * transposed. Forward, a query has the largest score so far m, the sum of exp(s - m), and the sum of exp(s - m) V, which a
 * larger m scales anew. What it keeps is log(sum exp(s)), from which any block of weights is made again:
 *     p  = exp(s - kept)              ds = p (V g' - g.y)
 *     dq = scale ds' K                dK = scale ds q                dV = p g
 * Each block of dq, dK and dV is one piece for a team, and adds its terms in order. Batch axes broadcast: then a block of
 * the smaller one adds what all batches give.
 *
 * A mask is added to the scores of a block. A query without keys, or that it hides all keys from, gives 0 and keeps -inf. The derivative by
 * the mask is ds, by blocks of keys, each the sum of what broadcasts to it.
 *
 * The derivatives by V and by the mask are operations of their own (OP_ATTENDED, OP_MASKED), since an operation is
 * differentiated by V and A alone. But one call can make those by q, K and V, and then makes each block of weights once.
 * Tests: tests/unit/test_general.c, tests/cases/attention.test
 */
#include "ops/lines.h"

#include "base/checked.h"

/*
 * Of a block, at most; QUERIES are whole cache lines. K and V are read once for each block of queries: few queries, and a
 * product waits for them. With many, the scores of a block leave the second cache.
 */
enum { QUERIES = 192, KEYS = 256 };

struct attention {
	const struct op_call *call;
	const struct loops *loops;
	enum dtype dtype;
	size_t size;
	int64_t batches, queries, keys, depth, value_depth;
	bool causal;
	double scale;
	struct shape batch, of_q, of_k, of_mask;     /* the batch axes: of the result, of q, of K and V, and of the mask */
	const char *q, *k, *v, *y, *g, *logs, *mask; /* MASK: NULL if there is none */
	int64_t mask_queries, mask_keys;             /* the extents of its matrices: those of the scores, or 1 */
	char *out;                                   /* the result or a gradient */
	char *out_k, *out_v;                         /* the gradients by K and V beside that by q; V's may be NULL */
	char *log;                                   /* what the forward pass keeps, or NULL */
};

/* A block of one batch: QUERIES from QUERY on, and KEYS from KEY on. Matrix Q of q, K of K and of V, and MASK of the mask. */
struct block {
	int64_t batch, q, k, mask, query, queries, key, keys;
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
	if (call->c_type) {
		const struct shape *m = &call->c_type->shape;
		t.mask_keys = m->ndim > 0 ? m->dim[m->ndim - 1] : 1;
		t.mask_queries = m->ndim > 1 ? m->dim[m->ndim - 2] : 1;
		t.of_mask = *m;
		t.of_mask.ndim = m->ndim > 2 ? m->ndim - 2 : 0;
	}
	if (!call->attrs->scaled)
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

/* Sets the matrices of B to those of its batch. */
static void set_matrices(const struct attention *t, struct block *b)
{
	b->q = batch_within(t, &t->of_q, b->batch);
	b->k = batch_within(t, &t->of_k, b->batch);
	b->mask = batch_within(t, &t->of_mask, b->batch);
}

/* Returns whether B can be moved to the next batch of the result, from B's on, whose matrix OF is AT. */
static bool find_batch(const struct attention *t, const struct shape *of, int64_t at, struct block *b)
{
	if (shape_equal(of, &t->batch) && b->batch <= at)
		b->batch = at;
	for (; b->batch < t->batches; b->batch++)
		if (batch_within(t, of, b->batch) == at) {
			set_matrices(t, b);
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

/* Returns for how many of QUERIES, or of KEYS, the memory of a block has room. Its parts are whole cache lines. */
static int64_t most_queries(int64_t queries)
{
	enum { LINE = 16 };
	return lesser(QUERIES, attention_blocks(queries, LINE) * LINE);
}
static int64_t most_keys(int64_t keys) { return lesser(KEYS, keys); }

/* A thread's memory for blocks. */
struct block_memory {
	void *q, *g;           /* of the queries of a block, transposed, as factors B: q is scaled */
	void *q_rows, *g_rows; /* the same as rows, not scaled */
	void *weights, *other; /* [keys, queries] */
	void *row;             /* a number for each query */
};

int64_t attention_scratch(const struct type *v, const struct type *a, const struct type *result)
{
	const int64_t *const q = &v->shape.dim[v->shape.ndim - 2], *const k = &a->shape.dim[a->shape.ndim - 2];
	const int64_t value_depth = result->shape.dim[result->shape.ndim - 1];
	const int64_t queries = most_queries(q[0]);
	const size_t size = element_size(v->dtype);
	if (q[1] > INT32_MAX || value_depth > INT32_MAX)
		return INT64_MAX;
	const int64_t factors = product_panel(q[1], queries, size) + product_panel(value_depth, queries, size) +
	                        product_panel(queries, q[1], size) + product_panel(queries, value_depth, size);
	return saturated(((__int128)factors + (2 * most_keys(k[0]) + 1) * queries) * (int64_t)size);
}

/* Returns the parts of MEMORY, attention_scratch() bytes; NULL: of the caller's. */
static struct block_memory memory_of(const struct attention *t, void *memory)
{
	struct block_memory m = {.q = memory ? memory : t->call->scratch};
	const int64_t queries = most_queries(t->queries), keys = most_keys(t->keys);
	m.g = element_of(m.q, t->size, product_panel(t->depth, queries, t->size));
	m.q_rows = element_of(m.g, t->size, product_panel(t->value_depth, queries, t->size));
	m.g_rows = element_of(m.q_rows, t->size, product_panel(queries, t->depth, t->size));
	m.weights = element_of(m.g_rows, t->size, product_panel(queries, t->value_depth, t->size));
	m.other = element_of(m.weights, t->size, keys * queries);
	m.row = element_of(m.other, t->size, keys * queries);
	return m;
}

/* Multiplies by our own product, whose bits do not depend on the block's size. Without terms all sums are 0. */
static void multiply_blocks(const struct attention *t, const struct product *p)
{
	if (p->m > 0 && p->n > 0 && p->k > 0) {
		t->loops->gemm(p, true);
		return;
	}
	if (!p->accumulate)
		for (int64_t i = 0; i < p->m; i++)
			memset(element_of(p->c, t->size, i * p->ldc), 0, (size_t)p->n * t->size);
	if (p->less && !p->times)
		t->loops->subtract_row(p->c, p->less, (size_t)p->n, (size_t)p->m);
}

/* Stores in M what the blocks of B's queries read of q. */
static void take_queries(const struct attention *t, const struct block *b, const struct block_memory *m)
{
	t->loops->gemm_pack(m->q, &(struct factor){q_of(t, b), t->depth, true}, t->depth, b->queries);
	t->loops->multiply(m->q, m->q, &t->scale, (size_t)product_panel(t->depth, b->queries, t->size), 1);
}

/* Adds the mask to M's weights, the scores of B. M's other is free. */
static void add_mask(const struct attention *t, const struct block *b, const struct block_memory *m)
{
	const int64_t first = t->mask_queries == 1 ? 0 : b->query;
	const void *const from = element_at(matrix_row(t, t->mask, b->mask, t->mask_queries, first, t->mask_keys), t->size,
	                                    t->mask_keys == 1 ? 0 : b->key);
	double less[KEYS];
	if (t->mask_keys == 1) {
		for (int64_t i = 0; i < b->queries; i++)
			element_set(t->dtype, m->other, (size_t)i,
			            -element_get(t->dtype, from, t->mask_queries == 1 ? 0 : (size_t)i));
		t->loops->subtract_row(m->weights, m->other, (size_t)b->queries, (size_t)b->keys);
	} else if (t->mask_queries == 1) {
		for (int64_t r = 0; r < b->keys; r++)
			less[r] = -element_get(t->dtype, from, (size_t)r);
		t->loops->subtract(m->weights, m->weights, less, (size_t)b->queries, (size_t)b->keys);
	} else {
		t->loops->transpose(m->other, b->queries, from, t->mask_keys, b->queries, b->keys);
		t->loops->accumulate(m->weights, m->other, (size_t)(b->queries * b->keys));
	}
}

/* Stores in M's weights the scores of B, scaled and masked. Unless LESS is NULL, it has a number for each query to subtract. */
static void score_block(const struct attention *t, const struct block *b, const struct block_memory *m,
                        const void *less)
{
	multiply_blocks(t, &(struct product){.m = b->keys,
	                                     .n = b->queries,
	                                     .k = t->depth,
	                                     .a = {k_of(t, b), t->depth, false},
	                                     .b = {m->q, 0, false},
	                                     .c = m->weights,
	                                     .ldc = b->queries,
	                                     .less = t->mask ? NULL : less});
	if (t->mask)
		add_mask(t, b, m);
	for (int64_t r = greater(0, b->query + 1 - b->key); r < b->keys && t->causal; r++) {
		const int64_t hidden = lesser(b->queries, b->key + r - b->query);
		t->loops->fill(element_of(m->weights, t->size, r * b->queries), -INFINITY, (size_t)hidden);
	}
}

/* What the blocks of some queries have given so far. */
struct so_far {
	double largest[QUERIES], sum[QUERIES];
};

/*
 * Makes M's weights of B exp(s - LESS) of its scores s, where LESS has a number for each query or is NULL for none, and adds
 * the sum of those of a query to SUMS, unless that is NULL. Some rows at a time stay in the first cache.
 */
static void exponentiate(const struct attention *t, const struct block *b, const struct block_memory *m,
                         const void *less, double *sums)
{
	enum { ROWS = 8 }; /* add_columns adds as many at once */
	const size_t queries = (size_t)b->queries;
	for (int64_t r = 0; r < b->keys; r += ROWS) {
		void *const rows = element_of(m->weights, t->size, r * b->queries);
		const size_t n = (size_t)lesser(ROWS, b->keys - r);
		if (less)
			t->loops->subtract_row(rows, less, queries, n);
		lines_exp(t->call, rows, rows, queries * n);
		if (sums)
			t->loops->add_columns(sums, rows, queries, n);
	}
}

/* Makes exponentials of the scores of B, adds them to STATE, and scales Y anew, the sums of values so far. */
static void add_exponentials(const struct attention *t, const struct block *b, const struct block_memory *m,
                             struct so_far *state, void *y)
{
	const size_t queries = (size_t)b->queries;
	double anew[QUERIES];
	bool changed = false;
	for (size_t i = 0; i < queries; i++)
		element_set(t->dtype, m->row, i, state->largest[i]);
	t->loops->largest_in_columns(m->row, m->weights, queries, (size_t)b->keys);
	for (size_t i = 0; i < queries; i++) {
		const double before = state->largest[i], now = element_get(t->dtype, m->row, i);
		state->largest[i] = now;
		anew[i] = before == now ? 1 : before == -INFINITY ? 0 : exp(before - now);
		if (t->dtype == DTYPE_F32)
			anew[i] = (double)(float)anew[i];
		changed |= anew[i] != 1;
		if (now == -INFINITY)
			element_set(t->dtype, m->row, i, 0);
		state->sum[i] *= anew[i];
	}
	exponentiate(t, b, m, m->row, state->sum);
	if (y && changed && b->key > 0)
		t->loops->multiply(y, y, anew, (size_t)t->value_depth, queries);
}

/* Computes blocks BEGIN .. END-1 of queries: all of a batch, then of the next. */
static void attend(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct attention *t = context;
	const struct block_memory m = memory_of(t, memory);
	const int64_t blocks = attention_blocks(t->queries, QUERIES);
	for (int64_t i = begin; i < end; i++) {
		struct so_far state = {.sum = {0}};
		struct block b = {.batch = i / blocks, .query = i % blocks * QUERIES};
		set_matrices(t, &b);
		b.queries = lesser(QUERIES, t->queries - b.query);
		const int64_t row = b.batch * t->queries + b.query;
		void *const y = t->out ? element_of(t->out, t->size, row * t->value_depth) : NULL;
		for (int64_t r = 0; r < b.queries; r++)
			state.largest[r] = -INFINITY;
		take_queries(t, &b, &m);
		for (b.key = 0; b.key < t->keys && is_seen(t, &b); b.key += KEYS) {
			b.keys = lesser(KEYS, t->keys - b.key);
			score_block(t, &b, &m, NULL);
			add_exponentials(t, &b, &m, &state, y);
			if (y)
				multiply_blocks(t, &(struct product){.m = b.queries,
				                                     .n = t->value_depth,
				                                     .k = b.keys,
				                                     .a = {m.weights, b.queries, true},
				                                     .b = {v_of(t, &b), t->value_depth, false},
				                                     .c = y,
				                                     .ldc = t->value_depth,
				                                     .accumulate = b.key > 0});
		}
		if (y && t->keys == 0)
			memset(y, 0, (size_t)(b.queries * t->value_depth) * t->size);
		for (int64_t r = 0; r < b.queries && (t->mask || t->keys == 0); r++)
			if (state.largest[r] == -INFINITY) /* it sees no key */
				state.sum[r] = 1;
		if (y)
			t->loops->divide(y, y, state.sum, (size_t)t->value_depth, (size_t)b.queries);
		for (int64_t r = 0; r < b.queries && t->log; r++)
			element_set(t->dtype, t->log, (size_t)(row + r), state.largest[r] + log(state.sum[r]));
	}
}

/* Stores in M the weights of B. */
static void weigh_block(const struct attention *t, const struct block *b, const struct block_memory *m)
{
	const void *kept = element_at(t->logs, t->size, b->batch * t->queries + b->query);
	score_block(t, b, m, kept);
	for (int64_t i = 0; i < b->queries && t->mask; i++) {
		const double log = element_get(t->dtype, kept, (size_t)i);
		element_set(t->dtype, m->other, (size_t)i,
		            log == -INFINITY ? INFINITY : log); /* that of no key gives weights of 0 */
	}
	exponentiate(t, b, m, t->mask ? m->other : NULL, NULL);
}

/* Stores in M what a derivative of B's queries reads of g: its transpose, and in the row g.y for each query. */
static void transpose_cotangents(const struct attention *t, const struct block *b, const struct block_memory *m)
{
	double sums[QUERIES];
	t->loops->gemm_pack(m->g, &(struct factor){g_of(t, b), t->value_depth, true}, t->value_depth, b->queries);
	const void *y = matrix_row(t, t->y, b->batch, t->queries, b->query, t->value_depth);
	t->loops->sum.products(sums, NULL, g_of(t, b), y, (size_t)t->value_depth, (size_t)b->queries);
	for (int64_t i = 0; i < b->queries; i++)
		element_set(t->dtype, m->row, (size_t)i, sums[i]);
}

/* Stores in M's other the derivative by the products of queries and keys of B, scaled by 1 / scale. */
static void differentiate_block(const struct attention *t, const struct block *b, const struct block_memory *m)
{
	weigh_block(t, b, m);
	multiply_blocks(t, &(struct product){.m = b->keys,
	                                     .n = b->queries,
	                                     .k = t->value_depth,
	                                     .a = {v_of(t, b), t->value_depth, false},
	                                     .b = {m->g, 0, false},
	                                     .c = m->other,
	                                     .ldc = b->queries,
	                                     .less = m->row,
	                                     .times = m->weights});
}

/* Computes blocks BEGIN .. END-1 of the gradient by q. */
static void differentiate_queries(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct attention *t = context;
	const struct block_memory m = memory_of(t, memory);
	const int64_t blocks = attention_blocks(t->queries, QUERIES);
	for (int64_t i = begin; i < end; i++) {
		struct block b = {.query = i % blocks * QUERIES};
		b.queries = lesser(QUERIES, t->queries - b.query);
		void *const dq = element_of(t->out, t->size, (i / blocks * t->queries + b.query) * t->depth);
		memset(dq, 0, (size_t)(b.queries * t->depth) * t->size);
		for (; find_batch(t, &t->of_q, i / blocks, &b); b.batch++) {
			take_queries(t, &b, &m);
			transpose_cotangents(t, &b, &m);
			for (b.key = 0; b.key < t->keys && is_seen(t, &b); b.key += KEYS) {
				b.keys = lesser(KEYS, t->keys - b.key);
				differentiate_block(t, &b, &m);
				multiply_blocks(t, &(struct product){.m = b.queries,
				                                     .n = t->depth,
				                                     .k = b.keys,
				                                     .a = {m.other, b.queries, true},
				                                     .b = {k_of(t, &b), t->depth, false},
				                                     .c = dq,
				                                     .ldc = t->depth,
				                                     .accumulate = true});
			}
		}
		t->loops->multiply(dq, dq, &t->scale, (size_t)(b.queries * t->depth), 1);
	}
}

/* Adds to OUT, a block of the gradient by K over scale or, if VALUES, of that by V, what queries of batch B give to B's keys. */
static void add_of_queries(const struct attention *t, struct block b, bool values, const struct block_memory *m,
                           void *out)
{
	const int64_t columns = values ? t->value_depth : t->depth;
	for (b.query = 0; b.query < t->queries; b.query += QUERIES) {
		b.queries = lesser(QUERIES, t->queries - b.query);
		if (!is_seen(t, &b))
			continue;
		take_queries(t, &b, m);
		if (values) {
			weigh_block(t, &b, m);
		} else {
			transpose_cotangents(t, &b, m);
			differentiate_block(t, &b, m);
		}
		multiply_blocks(t, &(struct product){.m = b.keys,
		                                     .n = columns,
		                                     .k = b.queries,
		                                     .a = {values ? m->weights : m->other, b.queries, false},
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
	const struct block_memory m = memory_of(t, memory);
	const int64_t blocks = attention_blocks(t->keys, KEYS), columns = values ? t->value_depth : t->depth;
	for (int64_t j = begin; j < end; j++) {
		struct block b = {.key = j % blocks * KEYS};
		b.keys = lesser(KEYS, t->keys - b.key);
		void *const out = element_of(t->out, t->size, (j / blocks * t->keys + b.key) * columns);
		memset(out, 0, (size_t)(b.keys * columns) * t->size);
		for (; find_batch(t, &t->of_k, j / blocks, &b); b.batch++)
			add_of_queries(t, b, values, &m, out);
		if (!values)
			t->loops->multiply(out, out, &t->scale, (size_t)(b.keys * columns), 1);
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

/* Gradients of a batch: DQ of its queries, DK, that over scale, and DV, perhaps NULL, of its keys. */
struct gradients {
	char *dq, *dk, *dv;
};

/* Adds what B gives to the gradients of its batch. */
static void add_of_block(const struct attention *t, const struct block *b, const struct block_memory *m,
                         const struct gradients *of)
{
	const struct product by_k = {.m = b->keys,
	                             .n = t->depth,
	                             .k = b->queries,
	                             .a = {m->other, b->queries, false},
	                             .b = {m->q_rows, 0, false},
	                             .c = element_of(of->dk, t->size, b->key * t->depth),
	                             .ldc = t->depth,
	                             .accumulate = true};
	differentiate_block(t, b, m);
	multiply_blocks(t, &by_k);
	if (of->dv)
		multiply_blocks(t, &(struct product){.m = b->keys,
		                                     .n = t->value_depth,
		                                     .k = b->queries,
		                                     .a = {m->weights, b->queries, false},
		                                     .b = {m->g_rows, 0, false},
		                                     .c = element_of(of->dv, t->size, b->key * t->value_depth),
		                                     .ldc = t->value_depth,
		                                     .accumulate = true});
	multiply_blocks(t, &(struct product){.m = b->queries,
	                                     .n = t->depth,
	                                     .k = b->keys,
	                                     .a = {m->other, b->queries, true},
	                                     .b = {k_of(t, b), t->depth, false},
	                                     .c = element_of(of->dq, t->size, b->query * t->depth),
	                                     .ldc = t->depth,
	                                     .accumulate = true});
}

/* Computes batches BEGIN .. END-1 of the gradients by q, K and perhaps V, which have the batches of the result. */
static void differentiate_batches(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct attention *t = context;
	const struct block_memory m = memory_of(t, memory);
	for (int64_t i = begin; i < end; i++) {
		struct block b = {.batch = i};
		set_matrices(t, &b);
		const int64_t count_q = t->queries * t->depth, count_k = t->keys * t->depth, count_v = t->keys * t->value_depth;
		const struct gradients of = {element_of(t->out, t->size, i * count_q),
		                             element_of(t->out_k, t->size, i * count_k),
		                             t->out_v ? element_of(t->out_v, t->size, i * count_v) : NULL};
		memset(of.dq, 0, (size_t)count_q * t->size);
		memset(of.dk, 0, (size_t)count_k * t->size);
		if (of.dv)
			memset(of.dv, 0, (size_t)count_v * t->size);
		for (b.query = 0; b.query < t->queries; b.query += QUERIES) {
			b.queries = lesser(QUERIES, t->queries - b.query);
			take_queries(t, &b, &m);
			transpose_cotangents(t, &b, &m);
			t->loops->gemm_pack(m.q_rows, &(struct factor){q_of(t, &b), t->depth, false}, b.queries, t->depth);
			t->loops->gemm_pack(m.g_rows, &(struct factor){g_of(t, &b), t->value_depth, false}, b.queries,
			                    t->value_depth);
			for (b.key = 0; b.key < t->keys && is_seen(t, &b); b.key += KEYS) {
				b.keys = lesser(KEYS, t->keys - b.key);
				add_of_block(t, &b, &m, &of);
			}
		}
		t->loops->multiply(of.dq, of.dq, &t->scale, (size_t)count_q, 1);
		t->loops->multiply(of.dk, of.dk, &t->scale, (size_t)count_k, 1);
	}
}

/*
 * True if T makes its gradients batch by batch, which makes each block of weights once. Each thread needs a batch then. The
 * terms, and their order, are those of each gradient alone.
 */
static bool goes_by_batches(const struct attention *t)
{
	return shape_equal(&t->of_q, &t->batch) && shape_equal(&t->of_k, &t->batch) &&
	       (!t->call->team || t->batches >= team_start(t->call->team));
}

/* Adds M's other, the derivative by the scores of B, to the matrix of the mask's gradient at OUT. M's weights are free. */
static void add_to_mask(const struct attention *t, const struct block *b, const struct block_memory *m, char *out)
{
	double sums[KEYS] = {0};
	const int64_t query = t->mask_queries == 1 ? 0 : b->query, key = t->mask_keys == 1 ? 0 : b->key;
	void *const to = element_of(out, t->size, query * t->mask_keys + key);
	if (t->mask_keys > 1 && t->mask_queries > 1) {
		t->loops->transpose(m->weights, b->keys, m->other, b->queries, b->keys, b->queries);
		for (int64_t i = 0; i < b->queries; i++)
			t->loops->accumulate(element_of(to, t->size, i * t->mask_keys),
			                     element_at(m->weights, t->size, i * b->keys), (size_t)b->keys);
		return;
	}
	if (t->mask_keys == 1)
		t->loops->add_columns(sums, m->other, (size_t)b->queries, (size_t)b->keys);
	else
		t->loops->sum.values(sums, NULL, m->other, (size_t)b->queries, (size_t)b->keys);
	for (int64_t i = 0; i < (t->mask_keys == 1 ? b->queries : b->keys); i++) {
		const size_t at = t->mask_keys == 1 && t->mask_queries == 1 ? 0 : (size_t)i;
		element_set(t->dtype, to, at, element_get(t->dtype, to, at) + sums[i]);
	}
}

/* Returns the number of pieces of a matrix of the mask's gradient: blocks of keys, or all as one where they broadcast. */
static int64_t mask_pieces(const struct attention *t) { return attention_blocks(t->mask_keys, KEYS); }

/* Computes pieces BEGIN .. END-1 of the gradient by the mask. */
static void differentiate_mask(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct attention *t = context;
	const struct block_memory m = memory_of(t, memory);
	for (int64_t i = begin; i < end; i++) {
		const int64_t matrix = i / mask_pieces(t), first = i % mask_pieces(t) * KEYS;
		const int64_t columns = lesser(KEYS, t->mask_keys - first);
		const int64_t end_key = t->mask_keys == 1 ? t->keys : first + columns;
		char *const out = element_of(t->out, t->size, matrix * t->mask_queries * t->mask_keys);
		for (int64_t row = 0; row < t->mask_queries; row++)
			memset(element_of(out, t->size, row * t->mask_keys + first), 0, (size_t)columns * t->size);
		struct block b = {.batch = 0};
		for (; find_batch(t, &t->of_mask, matrix, &b); b.batch++)
			for (b.key = first; b.key < end_key; b.key += KEYS)
				for (b.query = 0; b.query < t->queries; b.query += QUERIES) {
					b.keys = lesser(KEYS, end_key - b.key);
					b.queries = lesser(QUERIES, t->queries - b.query);
					if (!is_seen(t, &b))
						continue;
					take_queries(t, &b, &m);
					transpose_cotangents(t, &b, &m);
					differentiate_block(t, &b, &m);
					add_to_mask(t, &b, &m, out);
				}
	}
}

FORWARD(attention)
{
	struct attention t = attention_of(call);
	t.q = v;
	t.k = a;
	t.v = call->b;
	t.mask = call->c;
	t.out = y;
	t.log = keep ? keep[0] : NULL;
	team_run(call->team, t.batches * attention_blocks(t.queries, QUERIES), 1, attend, &t);
}

/* Returns the attention whose derivative CALL makes at OUT, of the arrays NEEDS and the cotangent G. */
static struct attention derived(const struct op_call *call, void *out, const void *g,
                                const void *const needs[MAX_NEEDS])
{
	struct attention t = attention_of(call);
	t.q = needs[0];
	t.k = needs[1];
	t.y = needs[2];
	t.logs = needs[3];
	t.v = needs[4];
	t.mask = needs[5];
	t.g = g;
	t.out = out;
	return t;
}

VJP(attention)
{
	struct attention t = derived(call, dv, g, needs);
	t.out_k = da;
	t.out_v = call->db;
	if (dv && da && goes_by_batches(&t)) {
		team_run(call->team, t.batches, 1, differentiate_batches, &t);
		return;
	}
	if (call->db)
		vjp_attended(call, NULL, call->db, g, needs);
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
	struct attention t = derived(call, da, g, needs);
	team_run(call->team, shape_count(&t.of_k) * attention_blocks(t.keys, KEYS), 1, differentiate_values, &t);
}

/* DA is the derivative by the mask. */
void vjp_masked(const struct op_call *call, void *dv MAYBE_UNUSED, void *da, const void *g,
                const void *const needs[MAX_NEEDS])
{
	struct attention t = derived(call, da, g, needs);
	team_run(call->team, shape_count(&t.of_mask) * mask_pieces(&t), 1, differentiate_mask, &t);
}
