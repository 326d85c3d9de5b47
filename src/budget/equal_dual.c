/*
 * The recurrence of equal_steps.c with a price on steps. Let U(x, m) be the least of V(n, m) - x * n over all n. A split by
 * (1) takes k + V(k, m) + V(n-k, m-a), so its parts are separate once each step has a price:
 *
 *     U(x, m) = min( n - 1 + l - x * n over n <= r(m),  U(x - 1, m) + U(x, m - a) )
 *
 * and likewise for (2). So a *node* is a level with the number t of times that its ranges have been advanced over: their price
 * is x - t. At a price of 0 or less one step is the least. So there are few nodes: as many as levels, times x.
 *
 * V(n, m) is at least U(x, m) + x * n for each x, so the highest of these is a bound, the lower convex hull of V. V is
 * nearly convex: the bound is mostly within two executions of the least time. It is the least time itself if the parts of
 * least value can have n steps in all. This is Everett's generalised Lagrange multiplier method, 1963, where the hull's
 * corners are found by the secants of their neighbours.
 *
 * A good schedule follows the estimates at some prices. It tries the k of a split that give one part a length of least value.
 * The *excess* of a schedule is what it takes beyond the bound, a sum over its splits and its leaves. So a schedule that is
 * better than a known one has small excesses everywhere. Each node's ranges of small excess are a *window*, from the values
 * at further prices. The tables of equal_steps.c then find the best schedule within the windows.
 * Tests: tests/unit/test_equal_chain.c
 */
#include "budget/equal_dual.h"

#include <math.h>

#include "base/checked.h"

enum {
	ROUNDS = 200,      /* the most prices that are tried to find the best */
	WINDOW_SHIFTS = 14 /* windows come from so many prices on either side */
};

static const double beyond_all = 1e300; /* a value of nodes without ranges */

static int64_t ways_of(const struct equal_table *t) { return equal_table_has_recorded(t) ? WAYS : 1; }

/* Returns the number of nodes if ranges of the middle are advanced over at most DEPTH - 1 times. */
static size_t nodes_of_depth(const struct equal_table *t, int64_t depth)
{
	return t->count * (size_t)ways_of(t) * ((size_t)depth + 1);
}

/* Returns the index of NODE. Of the ranges that end the chain, those that were never advanced over have a node. */
static size_t node_index(const struct equal_table *t, const struct equal_priced *p, struct equal_node node)
{
	const size_t row = (size_t)node.level * (size_t)ways_of(t) + (size_t)node.way;
	return row * ((size_t)p->depth + 1) + (size_t)(node.place == LAST ? p->depth : node.times);
}

/* Makes BEST the one of lesser value. It gets the lengths of both if their values differ by rounding alone. */
static void take_lesser(struct equal_least *best, struct equal_least other)
{
	const double rounding = 1e-9 + 1e-13 * fabs(best->value);
	if (other.value >= beyond_all || other.value > best->value + rounding)
		return;
	if (other.value < best->value - rounding) {
		*best = other;
		return;
	}
	best->value = fmin(best->value, other.value);
	best->low = lesser(best->low, other.low);
	best->high = greater(best->high, other.high);
}

/*
 * Returns the least value of NODE's ranges that are recorded at once, at PRICE. From two steps on in (2), and from one step
 * on elsewhere, it is linear in the length.
 */
static struct equal_least value_at_once(const struct equal_table *t, struct equal_node node, double price)
{
	const int64_t most = t->levels[node.level].at_once[node.place];
	if (most == 0)
		return (struct equal_least){.value = beyond_all};
	const int64_t least = price > 1 ? most : 1;
	const double time = equal_table_once_by(t, node.place, node.way, least);
	struct equal_least best = {time - price * (double)least, least, price < 1 || price > 1 ? least : most};
	if (node.way == RECORDED && most > 1 && price <= 1)
		take_lesser(&best, (struct equal_least){1 + t->record - 2 * price, 2, 2});
	if (node.way == RECORDED && least > 1)
		take_lesser(&best, (struct equal_least){1 - price, 1, 1});
	return best;
}

/* Returns the node of the left part of a split of NODE, and that of the right part. */
static struct equal_node left_of(struct equal_node node)
{
	return (struct equal_node){node.level, node.times + 1, MIDDLE, node.way};
}

static struct equal_node right_of(const struct equal_table *t, struct equal_node node)
{
	return (struct equal_node){t->levels[node.level].right[node.way], node.times, node.place, BEST};
}

/* True if ranges of NODE can be split by its way. */
static bool can_split(const struct equal_table *t, struct equal_node node)
{
	const struct equal_level *level = &t->levels[node.level];
	const int64_t right = level->right[node.way];
	return right >= 0 && level->far[node.place][node.way] > 0 && level->at_once[MIDDLE] > 0 &&
	       t->levels[right].at_once[node.place] > 0;
}

/* Returns the value at P of the left parts of splits of NODE. */
static struct equal_least value_of_left(const struct equal_table *t, const struct equal_priced *p,
                                        struct equal_node node)
{
	const struct equal_node left = left_of(node);
	if (t->levels[node.level].far[node.place][node.way] > 1)
		return left.times < p->depth ? p->least[node_index(t, p, left)]
		                             : value_at_once(t, left, p->price - (double)left.times);
	const double time = equal_table_once_by(t, MIDDLE, node.way, 1);
	return (struct equal_least){time - (p->price - (double)left.times), 1, 1};
}

/* Returns the least value at P of the splits of NODE by its way. */
static struct equal_least value_of_splits(const struct equal_table *t, const struct equal_priced *p,
                                          struct equal_node node)
{
	if (!can_split(t, node))
		return (struct equal_least){.value = beyond_all};
	const struct equal_least left = value_of_left(t, p, node), right = p->least[node_index(t, p, right_of(t, node))];
	if (left.value >= beyond_all || right.value >= beyond_all)
		return (struct equal_least){.value = beyond_all};
	return (struct equal_least){left.value + right.value - (node.way == RECORDED), left.low + right.low,
	                            left.high + right.high};
}

/* Sets the value at P of NODE. Those of its parts are set. */
static void price_node(const struct equal_table *t, const struct equal_priced *p, struct equal_node node)
{
	struct equal_least *least = &p->least[node_index(t, p, node)];
	*least = value_at_once(t, node, p->price - (double)node.times);
	take_lesser(least, value_of_splits(t, p, node));
	if (node.way == BEST && equal_table_has_recorded(t)) {
		node.way = RECORDED;
		take_lesser(least, p->least[node_index(t, p, node)]);
	}
}

/* Sets the values at P, from its price and depth. */
static void price_all(const struct equal_table *t, const struct equal_priced *p)
{
	for (int64_t level = (int64_t)t->count; level-- > 0;)
		for (int64_t times = p->depth; times-- > 0;)
			for (int way = (int)ways_of(t); way-- > 0;)
				price_node(t, p, (struct equal_node){level, times, MIDDLE, (enum equal_way)way});
	for (int64_t level = (int64_t)t->count; level-- > 0;)
		for (int way = (int)ways_of(t); way-- > 0;)
			price_node(t, p, (struct equal_node){level, 0, LAST, (enum equal_way)way});
}

/* Sets P to PRICE, with its values, also of DEEPER prices below 0. TOO_LARGE: they are more than MOST nodes. */
static enum equal_result set_price(const struct equal_table *t, struct equal_priced *p, double price, int64_t deeper,
                                   size_t most)
{
	if (price > (double)most)
		return EQUAL_TOO_LARGE;
	p->price = price;
	p->depth = greater((int64_t)ceil(price), 1) + deeper;
	const size_t count = nodes_of_depth(t, p->depth);
	if (count > most)
		return EQUAL_TOO_LARGE;
	if (count > p->count) {
		allocator_put(t->allocator, p->least, p->count * sizeof *p->least);
		p->least = allocator_get(t->allocator, count, sizeof *p->least);
		p->count = p->least ? count : 0;
	}
	if (!p->least)
		return EQUAL_NO_MEMORY;
	p->set += count;
	price_all(t, p);
	return EQUAL_SOLVED;
}

static struct equal_least root_at(const struct equal_table *t, const struct equal_priced *p)
{
	return p->least[node_index(t, p, (struct equal_node){0, 0, LAST, BEST})];
}

/* A corner of the hull: its length and time, and the price at which it was found. */
struct corner {
	double n, time, price;
};

/*
 * Sets DUAL's first price and its bound: by secants of the corners around the length, and at times by halves. MOST: the most
 * nodes at one price. About MOST_SET values are set in all.
 */
static enum equal_result find_price(struct equal_dual *d, size_t most, size_t most_set)
{
	const struct equal_table *t = d->table;
	struct equal_priced *p = &d->priced[0];
	const double n = (double)d->steps, most_price = n + 3;
	struct corner below = {0}, above = {.n = -1};
	double price = 2; /* most corners of large budgets are there, or just above */
	size_t set = 0;
	d->bound = 0;
	for (int round = 0; round < ROUNDS && (set < most_set || above.n < 0); round++) {
		const enum equal_result result = set_price(t, p, price, 0, most);
		if (result != EQUAL_SOLVED)
			return result;
		const struct equal_least root = root_at(t, p);
		set += nodes_of_depth(t, p->depth);
		if (root.value >= beyond_all)
			return EQUAL_INFEASIBLE;
		const double low = (double)root.low, high = (double)root.high;
		d->bound = fmax(d->bound, root.value + price * n);
		if (low <= n && n <= high)
			return EQUAL_SOLVED;
		if (high < n)
			below = (struct corner){high, root.value + price * high, price};
		else
			above = (struct corner){low, root.value + price * low, price};
		if (above.n < 0) {
			if (price >= most_price)
				return EQUAL_INFEASIBLE;
			price = fmin(price < 4 ? price + 1 : 2 * price, most_price);
		} else {
			const double secant = (above.time - below.time) / (above.n - below.n);
			const bool secant_known = below.n > 0 && (round % 4 != 3 || above.price - below.price < 1e-6);
			const double next = secant_known ? secant : (below.price + above.price) / 2;
			if (!(next > below.price && next < above.price))
				return EQUAL_SOLVED;
			price = next;
		}
	}
	return EQUAL_SOLVED;
}

enum equal_result equal_dual_solve(struct equal_dual *d, const struct equal_table *t, size_t most_cells)
{
	static const double shifts[EQUAL_PRICES - 1] = {1, -1, 0.25, -0.25, 0.04, -0.04, 0.004, -0.004};
	const size_t each = sizeof(struct equal_least) / sizeof(int32_t);
	*d = (struct equal_dual){.table = t, .steps = t->steps, .count = 1};
	enum equal_result result = find_price(d, most_cells / each, most_cells / 2);
	const size_t used = nodes_of_depth(t, d->priced[0].depth + 2) * each;
	for (int i = 0; i + 1 < EQUAL_PRICES && result == EQUAL_SOLVED; i++) {
		const double price = d->priced[0].price + shifts[i];
		if (price < 0.1 || used * (size_t)(d->count + 1) > most_cells)
			continue;
		result = set_price(t, &d->priced[d->count++], price, 0, most_cells / each);
	}
	return result;
}

size_t equal_dual_values(const struct equal_dual *d)
{
	size_t set = 0;
	for (int i = 0; i < d->count; i++)
		set += d->priced[i].set;
	return set;
}

void equal_dual_free(struct equal_dual *d)
{
	for (int i = 0; i < d->count; i++)
		allocator_put(d->table->allocator, d->priced[i].least, d->priced[i].count * sizeof *d->priced[i].least);
	d->count = 0;
}

/* Returns the estimate of N steps of NODE at P. */
static double estimate_at(const struct equal_table *t, const struct equal_priced *p, struct equal_node node, int64_t n)
{
	const double price = p->price - (double)node.times;
	const struct equal_least least =
		node.times < p->depth ? p->least[node_index(t, p, node)] : value_at_once(t, node, price);
	return least.value + price * (double)n;
}

double equal_dual_estimate(const struct equal_dual *d, struct equal_node node, int64_t n)
{
	const struct equal_table *t = d->table;
	if (n <= t->levels[node.level].at_once[node.place])
		return equal_table_once_by(t, node.place, node.way, n);
	double best = 0;
	for (int i = 0; i < d->count; i++)
		best = fmax(best, estimate_at(t, &d->priced[i], node, n));
	return best;
}

/* The best of the splits that are tried. */
struct trial {
	const struct equal_dual *dual;
	struct equal_node node;
	int64_t n, most; /* k is 1 .. MOST */
	int64_t k;
	double time;
};

/* Tries the split at K, or at the nearest that is allowed. */
static void try_split(struct trial *trial, int64_t k)
{
	const struct equal_node node = trial->node;
	k = greater(lesser(k, trial->most), 1);
	const double left = equal_dual_estimate(trial->dual, left_of(node), k);
	const double right = equal_dual_estimate(trial->dual, right_of(trial->dual->table, node), trial->n - k);
	const double time = (double)(k - (node.way == RECORDED)) + left + right;
	if (time < trial->time - 1e-9) {
		trial->time = time;
		trial->k = k;
	}
}

int64_t equal_dual_split(const struct equal_dual *d, struct equal_node node, int64_t n, double *time)
{
	const struct equal_table *t = d->table;
	const int64_t most = lesser(t->levels[node.level].far[node.place][node.way], n - 1);
	struct trial trial = {d, node, n, most, 0, beyond_all};
	if (can_split(t, node) && most > 0) {
		const struct equal_node left = left_of(node), right = right_of(t, node);
		for (int i = 0; i < d->count; i++) {
			const struct equal_priced *p = &d->priced[i];
			const struct equal_least *ends = &p->least[node_index(t, p, right)];
			if (node.times < p->depth) {
				try_split(&trial, n - ends->high);
				try_split(&trial, n - ends->low);
			}
			if (left.times >= p->depth)
				continue;
			ends = &p->least[node_index(t, p, left)];
			try_split(&trial, ends->high);
			try_split(&trial, ends->low);
		}
		try_split(&trial, t->levels[node.level].at_once[MIDDLE]);
		try_split(&trial, n - t->levels[right.level].at_once[node.place]);
		try_split(&trial, 1);
	}
	*time = trial.time;
	return trial.k;
}

/* Windows. */

/* What a node's ranges may exceed: what the path to it exceeds at least, and the lengths that are left. */
struct window {
	double path, low, high;
};

struct windows {
	const struct equal_dual *dual;
	const struct equal_priced *base;
	struct window *nodes; /* by index at BASE */
	double excess;
};

/* Lowers the path of NODE to PATH. */
static void reach_node(struct windows *w, struct equal_node node, double path)
{
	if (node.place == MIDDLE && node.times >= w->base->depth)
		return;
	struct window *to = &w->nodes[node_index(w->dual->table, w->base, node)];
	to->path = fmin(to->path, path);
}

/* Passes the path of NODE on to its parts. */
static void follow_node(struct windows *w, struct equal_node node)
{
	const struct equal_table *t = w->dual->table;
	const size_t at = node_index(t, w->base, node);
	const double path = w->nodes[at].path, value = w->base->least[at].value;
	if (path > w->excess)
		return;
	const struct equal_least split = value_of_splits(t, w->base, node);
	if (split.value < beyond_all) {
		reach_node(w, left_of(node), path + split.value - value);
		reach_node(w, right_of(t, node), path + split.value - value);
	}
	if (node.way == BEST && equal_table_has_recorded(t)) {
		node.way = RECORDED;
		reach_node(w, node, path + w->base->least[node_index(t, w->base, node)].value - value);
	}
}

/* Calls DO of all nodes in the order in which ranges come to them. */
static void visit_nodes(struct windows *w, const struct equal_priced *p,
                        void (*visit)(struct windows *w, const struct equal_priced *p, struct equal_node node))
{
	const struct equal_table *t = w->dual->table;
	for (int64_t level = 0; level < (int64_t)t->count; level++) {
		for (int way = 0; way < ways_of(t); way++)
			visit(w, p, (struct equal_node){level, 0, LAST, (enum equal_way)way});
		for (int64_t times = 0; times < w->base->depth; times++)
			for (int way = 0; way < ways_of(t); way++)
				visit(w, p, (struct equal_node){level, times, MIDDLE, (enum equal_way)way});
	}
}

static void visit_path(struct windows *w, const struct equal_priced *p, struct equal_node node)
{
	(void)p;
	follow_node(w, node);
}

/* Narrows NODE's window: the excess of n steps is at least their estimate at P beyond NODE's value. */
static void visit_narrow(struct windows *w, const struct equal_priced *p, struct equal_node node)
{
	const struct equal_table *t = w->dual->table;
	const size_t at = node_index(t, w->base, node);
	struct window *to = &w->nodes[at];
	if (to->path > w->excess)
		return;
	const double shift = p->price - w->base->price, value = w->base->least[at].value;
	const double left = w->excess - to->path + value - estimate_at(t, p, node, 0);
	if (shift > 0)
		to->high = fmin(to->high, left / shift);
	else
		to->low = fmax(to->low, left / shift);
}

/* Narrows all windows by the values at further prices, for which P has memory. */
static enum equal_result narrow_windows(struct windows *w, struct equal_priced *p)
{
	enum equal_result result = EQUAL_SOLVED;
	for (int i = 0; i < 2 * WINDOW_SHIFTS && result == EQUAL_SOLVED; i++) {
		const double price = w->base->price + ldexp(i % 2 ? -1 : 1, 1 - i / 2);
		if (price < 0.1)
			continue;
		result = set_price(w->dual->table, p, price, 0, SIZE_MAX);
		if (result == EQUAL_SOLVED)
			visit_nodes(w, p, visit_narrow);
	}
	return result;
}

/* Sets the rows of TABLE to the windows of all nodes of a level. */
static void set_window_rows(const struct windows *w, struct equal_table *table)
{
	for (int64_t level = 0; level < (int64_t)table->count; level++)
		for (int place = 0; place < PLACES; place++) {
			int64_t from = INT64_MAX, to = 0;
			for (int way = 0; way < ways_of(table); way++)
				for (int64_t times = 0; times < (place == LAST ? 1 : w->base->depth); times++) {
					const struct equal_node node = {level, times, (enum equal_place)place, (enum equal_way)way};
					const struct window *window = &w->nodes[node_index(table, w->base, node)];
					if (window->path > w->excess || window->high < window->low)
						continue;
					from = lesser((int64_t)ceil(window->low), from);
					to = greater((int64_t)floor(window->high), to);
				}
			table->levels[level].from[place] = to > 0 ? from : 1;
			table->levels[level].to[place] = to;
		}
}

size_t equal_dual_window_work(const struct equal_dual *d, double time)
{
	const double excess = fmin(fmax(time - d->bound, 0), (double)d->steps);
	return 2 * WINDOW_SHIFTS * nodes_of_depth(d->table, d->priced[0].depth + (int64_t)excess);
}

bool equal_dual_windows(const struct equal_dual *d, struct equal_table *table, double time)
{
	const double rounding = 1e-6 + 1e-10 * d->bound, price = d->priced[0].price;
	const double excess = time - root_at(table, &d->priced[0]).value - price * (double)d->steps + rounding;
	struct equal_priced base = {0}, p = {0};
	struct windows w = {.dual = d, .base = &base, .excess = excess};
	enum equal_result result = set_price(table, &base, price, (int64_t)ceil(excess) + 1, SIZE_MAX);
	const size_t count = nodes_of_depth(table, base.depth);
	w.nodes = allocator_get(table->allocator, count, sizeof *w.nodes);
	if (result == EQUAL_SOLVED && w.nodes) {
		for (size_t i = 0; i < count; i++)
			w.nodes[i] = (struct window){beyond_all, 1 - rounding, (double)d->steps + rounding};
		reach_node(&w, (struct equal_node){0, 0, LAST, BEST}, 0);
		visit_nodes(&w, &base, visit_path);
		result = narrow_windows(&w, &p);
		set_window_rows(&w, table);
	}
	const bool done = result == EQUAL_SOLVED && w.nodes;
	allocator_put(table->allocator, p.least, p.count * sizeof *p.least);
	allocator_put(table->allocator, base.least, base.count * sizeof *base.least);
	allocator_put(table->allocator, w.nodes, count * sizeof *w.nodes);
	return done;
}
