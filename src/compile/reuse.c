/*
 * Arrays that serve others: which values of the workspace lie in an out's array
 * before it is made, or in an in's that the program owns after its last read.
 *
 * Invariant: a value is lent one place at most, and no place to two that are live at
 * once. Bodies may have tens of thousands of ins, so those of a type that are still
 * without a place are found by where they are made.
 */
#include <stdlib.h>

#include "compile/compiler.h"

/* A value of the workspace that may lie in an in's array; by type, then by where it is made, then by value. */
struct offer {
	const struct type *type;
	int64_t made;
	uint32_t value;
	size_t next; /* itself; once it has a place, one after it, from where to look on */
};

/* What the kernel_ops of a group do with an entry: the last read, and the first write. */
struct use {
	size_t number; /* of the group */
	int64_t read, written;
};
static const int64_t never_written = INT64_MAX - 1, read_otherwise = INT64_MAX;

struct lender {
	struct compiler *c;
	const struct launch *group; /* whose uses are noted */
	size_t number;
	bool loops;        /* it has kernel_ops that loop */
	struct use *uses;  /* by entry */
	bool *within_loop; /* by launch */
	bool *goes_out;    /* by value */
	struct offer *offers;
	size_t count;
};

static struct use *use_of(struct lender *l, uint32_t entry)
{
	struct use *use = &l->uses[entry];
	if (use->number != l->number)
		*use = (struct use){l->number, -1, never_written};
	return use;
}

static void note_read(struct lender *l, uint32_t entry, int64_t kernel_op)
{
	struct use *use = use_of(l, entry);
	use->read = kernel_op > use->read ? kernel_op : use->read;
}

static void note_write(struct lender *l, const struct arg *arg, int64_t kernel_op)
{
	struct use *use = arg->kind == ARG_ARRAY ? use_of(l, arg->index) : NULL;
	if (use && kernel_op < use->written)
		use->written = kernel_op;
}

static void note_group(struct lender *l, const struct launch *group)
{
	l->group = group;
	l->number++;
	l->loops = false;
	for (size_t i = 0; i < group->kernel_op_count; i++) {
		const struct kernel_op *m = &group->kernel_ops[i];
		const struct arg *reads[] = {&m->v, &m->a, &m->y, &m->k, &m->l, &m->g};
		const int64_t kernel_op = (int64_t)i;
		for (size_t k = 0; k < sizeof reads / sizeof *reads; k++)
			if (reads[k]->kind == ARG_ARRAY)
				note_read(l, reads[k]->index, m->kind == KERNEL_OP_FILL ? read_otherwise : kernel_op);
		if (m->scalar_entry >= 0)
			note_read(l, (uint32_t)m->scalar_entry, read_otherwise);
		note_write(l, &m->out, kernel_op);
		for (int k = 0; k < MAX_KEEPS; k++)
			note_write(l, &m->keep[k], kernel_op);
		l->loops |= m->kind == KERNEL_OP_LOOP;
	}
}

/* Whether no kernel_op of GROUP reads entry W after one has written entry OUT. */
static bool reads_before(struct lender *l, const struct launch *group, uint32_t w, uint32_t out)
{
	if (l->group != group)
		note_group(l, group);
	return !l->loops && use_of(l, w)->read <= use_of(l, out)->written;
}

/* The entry of workspace value I where it has an array of its own of TYPE (NULL: any), from launch FROM on; or NULL. */
static struct entry *reusable(const struct compiler *c, size_t i, const struct type *type, int64_t from)
{
	struct entry *w = c->entry[i] == NO_VALUE ? NULL : &c->frame->entries[c->entry[i]];
	bool fits = w && w->kind == ENTRY_WORKSPACE && c->made_in[i] >= from && c->last_read[i] >= c->made_in[i] &&
	            !c->array_final[i] && c->same_as[i] == NO_VALUE && (!type || type_equal(w->type, type));
	return fits ? w : NULL;
}

/*
 * An out's array is there from the begin, and nothing is in it until the launch
 * that makes it: till then it serves arrays of its type that live and die before, or
 * die in that launch where that is a group that has read each block of them by the
 * time it writes the out's. Few outs are looked at, for the time that takes.
 */
enum { OUTS_LENT = 8 };

static void reuse_out(struct lender *l, uint32_t value)
{
	struct compiler *c = l->c;
	const int64_t made = c->made_in[value];
	const struct entry *out = &c->frame->entries[c->entry[value]];
	int64_t from = 0;
	if (out->kind != ENTRY_OUT || made < 0 || out->type->dtype == DTYPE_BITS || c->array_final[value] ||
	    c->same_as[value] != NO_VALUE || l->within_loop[made])
		return;
	const struct launch *last = &c->launches[made];
	for (size_t i = 0; i < c->body->value_count; i++) {
		struct entry *w = reusable(c, i, out->type, from);
		if (!w || c->made_in[i] >= made || c->last_read[i] > made)
			continue;
		if (c->last_read[i] == made &&
		    (last->kind != LAUNCH_GROUP || !reads_before(l, last, c->entry[i], c->entry[value])))
			continue;
		from = c->last_read[i] + 1;
		w->kind = ENTRY_OUT;
		w->port = out->port;
	}
}

static void reuse_outs(struct lender *l)
{
	const struct compiler *c = l->c;
	for (uint32_t i = 0; i < c->body->out_count && i < OUTS_LENT; i++) {
		const uint32_t value = c->body->outs[i].value;
		/* Of a value that goes out twice, once. */
		if (c->entry[value] != NO_VALUE && c->frame->entries[c->entry[value]].port == i &&
		    body_goes_on(c->body, value) == NO_VALUE)
			reuse_out(l, value);
	}
}

static int compare_types(const struct type *a, const struct type *b)
{
	if (a == b)
		return 0;
	if (a->dtype != b->dtype)
		return a->dtype < b->dtype ? -1 : 1;
	if (a->shape.ndim != b->shape.ndim)
		return a->shape.ndim < b->shape.ndim ? -1 : 1;
	for (int i = 0; i < a->shape.ndim; i++)
		if (a->shape.dim[i] != b->shape.dim[i])
			return a->shape.dim[i] < b->shape.dim[i] ? -1 : 1;
	return 0;
}

static int compare_offers(const void *left, const void *right)
{
	const struct offer *a = left, *b = right;
	int order = compare_types(a->type, b->type);
	if (!order)
		order = (a->made > b->made) - (a->made < b->made);
	return order ? order : (a->value > b->value) - (a->value < b->value);
}

static bool list_offers(struct lender *l)
{
	const struct compiler *c = l->c;
	l->offers = arena_array(&l->c->scratch_arena, c->body->value_count + 1, sizeof *l->offers);
	if (!l->offers)
		return false;
	for (uint32_t i = 0; i < c->body->value_count; i++) {
		const struct entry *w = reusable(c, i, NULL, 0);
		if (w)
			l->offers[l->count++] = (struct offer){w->type, c->made_in[i], i, 0};
	}
	qsort(l->offers, l->count, sizeof *l->offers, compare_offers);
	for (size_t i = 0; i <= l->count; i++)
		l->offers[i].next = i;
	return true;
}

/* The first offer of TYPE, or of one after it, that is made in launch FROM or later. */
static size_t first_offer(const struct lender *l, const struct type *type, int64_t from)
{
	const struct offer wanted = {.type = type, .made = from};
	size_t low = 0, high = l->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (compare_offers(&l->offers[middle], &wanted) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The first from AT on that has no place yet; COUNT: none. What it passes will be passed at once. */
static size_t free_offer(struct lender *l, size_t at)
{
	size_t found = at;
	while (l->offers[found].next != found)
		found = l->offers[found].next;
	while (at != found) {
		size_t next = l->offers[at].next;
		l->offers[at].next = found;
		at = next;
	}
	return found;
}

/*
 * An in's array that nobody reads again serves arrays of its type that are made
 * after its last read, or in it, by a group that has read each block by then.
 */
static void reuse_in(struct lender *l, uint32_t port)
{
	struct compiler *c = l->c;
	const uint32_t value = c->body->ins[port].value, in = c->entry[value];
	const int64_t read = c->last_read[value];
	if (in == NO_VALUE || c->frame->entries[in].kind != ENTRY_IN || read < 0 || l->within_loop[read])
		return;
	const struct type *type = c->frame->entries[in].type;
	const struct launch *last = &c->launches[read];
	if (type->dtype == DTYPE_BITS)
		return;
	for (size_t at = first_offer(l, type, read);;) {
		at = free_offer(l, at);
		const struct offer *offer = &l->offers[at];
		if (at == l->count || compare_types(offer->type, type) != 0)
			return;
		const uint32_t entry = c->entry[offer->value];
		if (offer->made == read && (last->kind != LAUNCH_GROUP || !reads_before(l, last, in, entry))) {
			at++;
			continue;
		}
		c->frame->entries[entry].kind = ENTRY_IN;
		c->frame->entries[entry].port = port;
		c->out->takes_cotangent |= c->body->ins[port].kind == PORT_COTANGENT;
		l->offers[at].next = at + 1;
		const int64_t taken = c->last_read[offer->value];
		at = taken > read ? first_offer(l, type, taken + 1) : at + 1;
	}
}

bool reuse_arrays(struct compiler *c)
{
	struct lender l = {.c = c};
	l.within_loop = arena_array(&c->scratch_arena, c->launch_count + 1, sizeof *l.within_loop);
	l.goes_out = arena_array(&c->scratch_arena, c->body->value_count + 1, sizeof *l.goes_out);
	l.uses = arena_array(&c->scratch_arena, c->body->value_count + c->body->out_count + 1, sizeof *l.uses);
	if (!l.within_loop || !l.goes_out || !l.uses)
		return false;
	int depth = 0;
	for (size_t i = 0; i < c->launch_count; i++) {
		depth += (c->launches[i].kind == LAUNCH_LOOP) - (c->launches[i].kind == LAUNCH_END);
		l.within_loop[i] = depth > 0;
	}
	reuse_outs(&l);
	if (!c->owned)
		return true;
	if (!list_offers(&l))
		return false;
	for (size_t i = 0; i < c->body->out_count; i++) {
		const uint32_t value = c->body->outs[i].value, port = body_goes_on(c->body, value);
		l.goes_out[value] = true;
		if (port != NO_VALUE)
			l.goes_out[c->body->ins[port].value] = true;
	}
	for (uint32_t i = 0; i < c->body->in_count; i++)
		if (c->owned[i] && !l.goes_out[c->body->ins[i].value])
			reuse_in(&l, i);
	return true;
}
