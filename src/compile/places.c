/*
 * Where arrays lie. An out's array is free until the out is made, and an owned in's array after its last read. Arrays
 * of the workspace that have its type lie there if they can. Every other array has a place in the workspace from the
 * launch that makes it to the last that reads it. A value that a loop over whole arrays carries has two such places
 * from the loop's begin on: one is read while the other is written. One of them is the array of the value that the loop
 * begins with, if nothing else reads that from then on. The other is the array of an out, if that is the loop's final.
 *
 * The last tile may have fewer rows. Arrays then share memory in the same way, and the offsets of those in the workspace
 * are found a second time, for its rows (enum row_layout). So it needs no more memory than an array of those rows.
 *
 * Offsets come from a pool, launch by launch. Small arrays may then split the holes of large ones. So arrays are also
 * placed by size, the largest first, each at the lowest bytes that are free while it lives. The smaller layout is taken.
 *
 * Invariant: two values that are live at once share no byte. A body may have tens of thousands of ins, so the values
 * of one type that still lack a place are found by the launch that makes them.
 * Tests: tests/unit/test_place.c
 */

#include <stdlib.h>

#include "base/checked.h"
#include "base/pool.h"
#include "compile/compiler.h"

/* A value of the workspace that may lie in an in's array. The list is sorted by type, then `made`, then `value`. */
struct candidate {
	const struct type *type;
	int64_t made; /* the launch that makes it */
	uint32_t value;
	size_t next; /* its own index; once it has a place, a later index, where the search continues */
};

/* The last kernel op of a group that reads an entry (-1: none), and the first that writes it. */
struct use {
	uint32_t number;       /* of the group: notes.number */
	int32_t read, written; /* small: a long body has many entries */
};
static const int32_t never_written = INT32_MAX - 1, read_otherwise = INT32_MAX; /* a FILL, a GATHER or a scalar */

/* The uses in a group. */
struct notes {
	const struct launch *group;
	uint32_t number;  /* how many groups were noted here */
	bool loops;       /* the group has KERNEL_OP_LOOP */
	struct use *uses; /* by entry */
};

/*
 * A chain of values goes from launch to launch, and the next chain begins at the first again. So a long group keeps its
 * notes while short ones are noted.
 */
enum { SHORT_NOTES, LONG_NOTES, NOTES, LONG_GROUP = 64 };

struct reuser {
	struct compiler *c;
	struct notes notes[NOTES];
	bool *within_loop; /* by launch: it begins a loop over whole arrays, or is in one */
	bool *goes_out;    /* by value: an out, or an in that an out reuses */
	/* NULL without a loop over whole arrays: */
	uint32_t *holder; /* by entry: 1 + the entry in whose array a loop leaves it, or 0 */
	uint32_t *carry;  /* by value: 1 + the index of the carried value whose inner it is, if place 0 may lie elsewhere */
	struct candidate *candidates;
	size_t count;
	uint32_t *first_made; /* by launch: 1 + the first value that it makes, or 0; NULL: no lists yet */
	uint32_t *next_made;  /* by value: 1 + the next value of the same launch, or 0 */
};

static struct use *use_of(struct notes *notes, uint32_t entry)
{
	struct use *use = &notes->uses[entry];
	if (use->number != notes->number)
		*use = (struct use){notes->number, -1, never_written};
	return use;
}

/* Returns the entry in whose array that of ENTRY lies. */
static uint32_t holder_of(const struct reuser *l, uint32_t entry)
{
	while (l->holder && l->holder[entry])
		entry = l->holder[entry] - 1;
	return entry;
}

static void note_group(const struct reuser *l, struct notes *notes, const struct launch *group)
{
	notes->group = group;
	notes->number++;
	notes->loops = false;
	for (size_t i = 0; i < group->kernel_op_count; i++) {
		const struct kernel_op *m = &group->kernel_ops[i];
		const int32_t at = (int32_t)i;
		for (size_t k = 0; k < KERNEL_OP_ARGS; k++) {
			const struct arg *arg = &m->args[k];
			if (arg->kind != ARG_ARRAY && arg->kind != ARG_SCALAR)
				continue;
			const bool otherwise =
				m->kind == KERNEL_OP_FILL || arg->kind == ARG_SCALAR || (m->kind == KERNEL_OP_GATHER && k == 0);
			const int32_t read = otherwise ? read_otherwise : at;
			struct use *use = use_of(notes, holder_of(l, arg->index));
			if (k < KERNEL_OP_READS)
				use->read = read > use->read ? read : use->read;
			else if (at < use->written)
				use->written = at;
		}
		notes->loops |= m->kind == KERNEL_OP_LOOP;
	}
}

/* Returns the notes of GROUP. */
static struct notes *notes_of(struct reuser *l, const struct launch *group)
{
	struct notes *notes = &l->notes[group->kernel_op_count > LONG_GROUP ? LONG_NOTES : SHORT_NOTES];
	if (notes->group != group)
		note_group(l, notes, group);
	return notes;
}

/* True if LAUNCH, a call, may write its result over the array of entry W. log_softmax reads the cotangent last. */
static bool works_in_place(const struct launch *launch, uint32_t w)
{
	const struct instr *instr = launch->instr;
	if (launch->use || launch->folds || !op_normalizes(instr->op) || instr->op == OP_log_softmax)
		return false;
	if (instr->kind == INSTR_VJP)
		return launch->needs[4] == NO_VALUE && (w == launch->g || w == launch->needs[2]) && w != launch->needs[3];
	return launch->needs[3] == NO_VALUE && w == launch->needs[0];
}

/* Returns the first launch of those that run together with launch AT. */
static int64_t first_joined(const struct compiler *c, int64_t at)
{
	int64_t first = at;
	while (first > 0 && c->launches[first].joined == 0 && at - first < MOST_JOINED)
		first--;
	return first + c->launches[first].joined >= at ? first : at;
}

/* True if a stack of products that LAUNCH is joined to has W as its right factor: each block of lines reads all of it. */
static bool is_right_factor(const struct compiler *c, const struct launch *launch, uint32_t w)
{
	const struct launch *first = &c->launches[first_joined(c, launch - c->launches)];
	return first->joined > 0 && op_is_product(first->instr->op) && w == first->needs[1];
}

/*
 * True if LAUNCH is a group without loops, reads entry W block by block, and not after a kernel op has written OUT; or if
 * it is an operation along an axis, which reads a line of W before it writes that line of OUT. False if LAUNCH is joined
 * to products whose right factor W is.
 */
static bool reads_before(struct reuser *l, const struct launch *launch, uint32_t w, uint32_t out)
{
	if (is_right_factor(l->c, launch, w))
		return false;
	if (launch_is_call(launch) && launch->out == out)
		return works_in_place(launch, w);
	if (launch->kind != LAUNCH_GROUP)
		return false;
	struct notes *notes = notes_of(l, launch);
	return !notes->loops && use_of(notes, holder_of(l, w))->read <= use_of(notes, out)->written;
}

/* Returns V's entry if V is an array of the workspace alone, made and read by launches; else NULL. */
static struct entry *reusable(const struct compiler *c, const struct value_plan *v)
{
	struct entry *w = v->entry == NO_VALUE ? NULL : &c->frame->entries[v->entry];
	const bool own = w && w->kind == ENTRY_WORKSPACE && v->made_in >= 0 && v->last_read >= v->made_in;
	return own && !v->array_final ? w : NULL;
}

/* Returns the last launch that reads the final in a place of carried value K of LOOP. */
static int64_t last_read_of(const struct compiler *c, const struct launch *loop, size_t k)
{
	const struct carry *carries = loop->loop->loop.carries;
	int64_t last = c->values[carries[k].final].last_read;
	for (size_t i = 0; loop->rotates && i < loop->carried_count; i++)
		last = greater(last, c->values[carries[i].final].last_read);
	return last;
}

/*
 * True if PLACE of a carried value of LOOP may hold the final. The number of iterations decides: of a `repeat while`, both
 * may hold it. If the loop rotates, each place may hold each final.
 */
static bool holds_final(const struct launch *loop, int place)
{
	const int held = loop->iterations > 0 && (loop->iterations - 1) % 2 == 1;
	return place == held || loop->conditional || loop->rotates;
}

/* True if V is the final of an earlier loop, in a place that no other final shares. */
static bool is_left_alone(const struct compiler *c, const struct value_plan *v)
{
	return v->array_final && c->frame->entries[v->entry].kind == ENTRY_CARRIED &&
	       !c->launches[c->launches[v->made_in].match].rotates;
}

/* True if LOOP alone, and only as the init of carry K, reads that init from the loop's begin on, and may write over it. */
static bool ends_in_loop(const struct reuser *l, const struct launch *loop, size_t k)
{
	const struct compiler *c = l->c;
	const struct carry *carries = loop->loop->loop.carries;
	const uint32_t init = array_value(c, carries[k].init);
	const struct value_plan *v = &c->values[init];
	const struct value *value = &c->body->values[init];
	const bool owned = value->from == FROM_PORT && c->owned && c->owned[value->port] && !l->goes_out[init];
	bool ends = (owned || reusable(c, v) || is_left_alone(c, v)) && v->last_read == (int64_t)loop->match &&
	            v->within != (uint32_t)(loop - c->launches) + 1;
	for (size_t i = 0; i < loop->carried_count && ends; i++)
		ends = i == k || array_value(c, carries[i].init) != init;
	return ends;
}

/*
 * Puts places of carried values into the arrays of their inits and finals. In a loop that rotates, finals change places
 * with one another, and keep places of their own.
 */
static void place_carried(struct reuser *l, const struct launch *loop)
{
	struct compiler *c = l->c;
	const struct carry *carries = loop->loop->loop.carries;
	if (loop->rotates || loop->carried_count > MOST_ROTATED)
		return;
	for (size_t k = 0; k < loop->carried_count; k++) {
		struct carried *carried = &loop->carried[k];
		struct value_plan *init = &c->values[array_value(c, carries[k].init)];
		if (ends_in_loop(l, loop, k)) {
			carried->array[1] = init->entry;
			if (holds_final(loop, 1) && !carried->copy_out) {
				init->last_read = (int32_t)greater(init->last_read, last_read_of(c, loop, k));
				l->holder[carried->final] = init->entry + 1;
			}
		}
		const int place = carried->array[1] == NO_VALUE && holds_final(loop, 1);
		if (carried->copy_out && body_goes_on(c->body, carries[k].final) == NO_VALUE)
			carried->array[place] = carried->final;
		else if (!loop->conditional)
			l->carry[carries[k].inner] = (uint32_t)k + 1;
	}
}

/* An array of the workspace that may lie in an in's or an out's: a value's, or place 0 of a carried value. */
struct movable {
	const struct type *type;
	int64_t made, dies;      /* launches */
	uint32_t entry;          /* by which launches read it, up to the last */
	struct carried *carried; /* or NULL */
	bool is_final;           /* a loop leaves its final there */
};

/* Sets M to the array of VALUE or, if that is the inner of a carried value, to place 0. False if it must stay. */
static bool find_movable(const struct reuser *l, uint32_t value, struct movable *m)
{
	struct compiler *c = l->c;
	const struct value_plan *v = &c->values[value];
	const struct entry *entry = reusable(c, v);
	if (entry)
		*m = (struct movable){entry->type, v->made_in, v->last_read, v->entry, NULL, false};
	if (entry || !l->carry || !l->carry[value])
		return entry;
	const struct launch *loop = &c->launches[v->made_in];
	const size_t k = l->carry[value] - 1;
	struct carried *carried = &loop->carried[k];
	const bool left = holds_final(loop, 0);
	const int64_t end = (int64_t)loop->match, dies = left ? greater(end, last_read_of(c, loop, k)) : end;
	*m = (struct movable){c->frame->entries[carried->inner].type, v->made_in, dies, carried->final, carried, left};
	return carried->array[0] == NO_VALUE;
}

/* Puts M into the array of entry TO, an in or an out. */
static void move_array(struct reuser *l, const struct movable *m, uint32_t to)
{
	struct entry *entries = l->c->frame->entries;
	if (m->is_final) {
		l->holder[m->entry] = to + 1;
		for (int i = 0; i < NOTES; i++)
			l->notes[i].group = NULL;
	}
	if (m->carried) {
		m->carried->array[0] = to;
		return;
	}
	entries[m->entry].kind = entries[to].kind;
	entries[m->entry].port = entries[to].port;
}

/* True if the array of entry A fits in that of entry B on fewer rows, too: the caller's arrays have these alone. */
static bool rows_fit(const struct compiler *c, uint32_t a, uint32_t b)
{
	return !c->body->cut || c->frame->entries[a].streamed == c->frame->entries[b].streamed;
}

/* Only the arrays of the first MOST_OUTS outs are reused, since each takes a pass over the values. */
enum { MOST_OUTS = 8 };

/*
 * Puts arrays of the workspace into the array of out VALUE, which is unused until the launch that makes VALUE or, if a
 * loop leaves it there, until the loop begins. They have VALUE's type, live one after another and die before that
 * launch. The last may also die in it if reads_before allows. Does nothing if VALUE is of bits, or if a loop makes it.
 */
static void reuse_out(struct reuser *l, uint32_t value)
{
	struct compiler *c = l->c;
	const struct value_plan *goes = &c->values[value];
	const struct entry *out = &c->frame->entries[goes->entry];
	int64_t from = 0;
	uint32_t before = NO_VALUE; /* the entry that was there before FROM */
	if (out->kind != ENTRY_OUT || goes->made_in < 0 || dtype_bits(out->type->dtype) || l->within_loop[goes->made_in])
		return;
	const int64_t made = goes->array_final ? (int64_t)c->launches[goes->made_in].match : goes->made_in;
	for (uint32_t v = 0; v < c->body->value_count; v++) {
		struct movable m;
		if (!find_movable(l, v, &m) || m.made >= made || m.dies > made || !type_equal(m.type, out->type) ||
		    !rows_fit(c, m.entry, goes->entry))
			continue;
		if (m.made < from &&
		    (m.made < from - 1 || before == NO_VALUE || !reads_before(l, &c->launches[m.made], before, m.entry)))
			continue;
		if (m.dies == made && !reads_before(l, &c->launches[made], m.entry, goes->entry))
			continue;
		from = m.dies + 1;
		before = m.entry;
		move_array(l, &m, goes->entry);
	}
}

static int compare_types(const struct type *a, const struct type *b)
{
	int order = a == b ? 0 : ((int)a->dtype - (int)b->dtype) * (MAX_DIMS + 1) + a->shape.ndim - b->shape.ndim;
	for (int i = 0; a != b && !order && i < a->shape.ndim; i++)
		order = (a->shape.dim[i] > b->shape.dim[i]) - (a->shape.dim[i] < b->shape.dim[i]);
	return order;
}

static int compare_candidates(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;
	int order = compare_types(a->type, b->type);
	if (!order)
		order = (a->made > b->made) - (a->made < b->made);
	return order ? order : (a->value > b->value) - (a->value < b->value);
}

static bool list_candidates(struct reuser *l)
{
	const struct compiler *c = l->c;
	struct movable m;
	size_t most = 0;
	for (uint32_t i = 0; i < c->body->value_count; i++)
		most += find_movable(l, i, &m);
	l->candidates = arena_array(&l->c->scratch_arena, most + 1, sizeof *l->candidates);
	if (!l->candidates)
		return false;
	for (uint32_t i = 0; i < c->body->value_count; i++)
		if (find_movable(l, i, &m))
			l->candidates[l->count++] = (struct candidate){m.type, m.made, i, 0};
	qsort(l->candidates, l->count, sizeof *l->candidates, compare_candidates);
	for (size_t i = 0; i <= l->count; i++)
		l->candidates[i].next = i;
	return true;
}

/* Returns the index of the first candidate of TYPE made in launch FROM or later; if none, where it would stand. */
static size_t first_candidate(const struct reuser *l, const struct type *type, int64_t from)
{
	const struct candidate wanted = {.type = type, .made = from};
	size_t low = 0, high = l->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (compare_candidates(&l->candidates[middle], &wanted) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Returns the next candidate after AT, of the same type, that the launch of AT may write over entry W. A group may do so
 * once it has read W, and its candidates stand in the order in which it writes them.
 */
static size_t next_in_launch(struct reuser *l, size_t at, uint32_t w)
{
	const struct candidate *from = &l->candidates[at];
	const struct launch *launch = &l->c->launches[from->made];
	if (launch->kind != LAUNCH_GROUP)
		return at + 1;
	struct notes *notes = notes_of(l, launch);
	size_t low = at + 1, high = low;
	for (size_t step = 1;
	     high < l->count && l->candidates[high].made == from->made &&
	     compare_types(l->candidates[high].type, from->type) == 0 &&
	     use_of(notes, l->c->values[l->candidates[high].value].entry)->written < use_of(notes, holder_of(l, w))->read;
	     step *= 2) {
		low = high + 1;
		high += step;
	}
	return low;
}

/*
 * Puts values of the workspace into the array of in PORT, after its last read, which is in no loop: nobody reads it
 * after this program. They have its type and live one after another. The launch of the last read may make the first
 * if reads_before allows.
 */
static void reuse_in(struct reuser *l, uint32_t port)
{
	struct compiler *c = l->c;
	const uint32_t value = c->body->ins[port].value, in = c->values[value].entry;
	int64_t read = c->values[value].last_read;
	uint32_t before = in; /* the entry that was there until READ */
	if (in == NO_VALUE || c->frame->entries[in].kind != ENTRY_IN || read < 0 || l->within_loop[read])
		return;
	const struct type *type = c->frame->entries[in].type;
	if (dtype_bits(type->dtype))
		return;
	for (size_t at = first_candidate(l, type, read);;) {
		/* Go to the next candidate that lacks a place, or to the end. Halve the path of later searches. */
		for (; l->candidates[at].next != at; at = l->candidates[at].next)
			l->candidates[at].next = l->candidates[l->candidates[at].next].next;
		const struct candidate *candidate = &l->candidates[at];
		struct movable m;
		if (at == l->count || compare_types(candidate->type, type) != 0 || !find_movable(l, candidate->value, &m))
			return;
		if (!rows_fit(c, m.entry, in)) {
			at++;
			continue;
		}
		if (candidate->made == read && !reads_before(l, &c->launches[read], before, m.entry)) {
			at = next_in_launch(l, at, before);
			continue;
		}
		move_array(l, &m, in);
		c->out->takes_cotangent |= c->body->ins[port].kind == PORT_COTANGENT;
		l->candidates[at].next = at + 1;
		const int64_t taken = m.dies;
		at = taken > read ? first_candidate(l, type, taken) : at + 1;
		before = taken > read ? m.entry : before;
		read = greater(read, taken);
	}
}

/* Returns the last launch of those that run together with launch AT. */
static int64_t last_joined(const struct compiler *c, int64_t at)
{
	const int64_t first = first_joined(c, at);
	return first + c->launches[first].joined;
}

/* Lists the values by the launch that makes them, each list ascending. False if out of memory. */
static bool list_makers(struct reuser *l)
{
	struct compiler *c = l->c;
	l->first_made = arena_array(&c->scratch_arena, c->launch_count + 1, sizeof *l->first_made);
	l->next_made = arena_array(&c->scratch_arena, c->body->value_count + 1, sizeof *l->next_made);
	if (!l->first_made || !l->next_made)
		return false;
	for (size_t v = c->body->value_count; v-- > 0;) {
		if (c->values[v].made_in < 0)
			continue;
		l->next_made[v] = l->first_made[c->values[v].made_in];
		l->first_made[c->values[v].made_in] = (uint32_t)v + 1;
	}
	return true;
}

/* Returns the first value over which launch AT may write value V: one made in the launches FIRST .. AT-1; or NO_VALUE. */
static uint32_t place_over(struct reuser *l, uint32_t v, int64_t first, int64_t at)
{
	struct compiler *c = l->c;
	const struct entry *entry = reusable(c, &c->values[v]);
	uint32_t place = NO_VALUE;
	for (int64_t launch = first; launch < at; launch++)
		for (uint32_t w = l->first_made[launch]; w && w - 1 < place; w = l->next_made[w - 1]) {
			const struct value_plan *value = &c->values[w - 1];
			const struct entry *other = reusable(c, value);
			if (other && value->last_read == at && value->over == NO_VALUE && type_equal(other->type, entry->type) &&
			    reads_before(l, &c->launches[at], value->entry, c->values[v].entry))
				place = w - 1;
		}
	return place;
}

/*
 * Lets results of joined launches be written over each other, where the launch that makes one is the last that reads the
 * other. A chain of them has the place of its first, which lives as long as they do. False if out of memory.
 */
static bool write_over(struct reuser *l)
{
	struct compiler *c = l->c;
	for (uint32_t v = 0; v < c->body->value_count; v++) {
		const int64_t at = c->values[v].made_in;
		if (!reusable(c, &c->values[v]) || at == first_joined(c, at))
			continue;
		if (!l->first_made && !list_makers(l))
			return false;
		const uint32_t place = place_over(l, v, first_joined(c, at), at);
		c->values[v].place = place;
		if (place != NO_VALUE)
			c->values[place].over = v;
	}
	return true;
}

/* Finds the loops over whole arrays, and allocates the lists for what they carry. False if out of memory. */
static bool find_loops(struct reuser *l)
{
	const struct compiler *c = l->c;
	int depth = 0;
	bool any = false;
	for (size_t i = 0; i < c->launch_count; i++) {
		depth += (c->launches[i].kind == LAUNCH_LOOP) - (c->launches[i].kind == LAUNCH_END);
		any |= l->within_loop[i] = depth > 0;
	}
	if (!any)
		return true;
	l->holder = arena_array(&l->c->scratch_arena, c->frame->count + 1, sizeof *l->holder);
	l->carry = arena_array(&l->c->scratch_arena, c->body->value_count + 1, sizeof *l->carry);
	return l->holder && l->carry;
}

static bool reuse_arrays(struct compiler *c)
{
	struct reuser l = {.c = c};
	l.within_loop = arena_array(&c->scratch_arena, c->launch_count + 1, sizeof *l.within_loop);
	l.goes_out = arena_array(&c->scratch_arena, c->body->value_count + 1, sizeof *l.goes_out);
	if (!l.within_loop || !l.goes_out)
		return false;
	for (size_t i = 0; i < NOTES; i++) {
		l.notes[i].uses = arena_array(&c->scratch_arena, c->frame->count + 1, sizeof *l.notes[i].uses);
		if (!l.notes[i].uses)
			return false;
	}
	if (!find_loops(&l))
		return false;
	for (size_t i = 0; i < c->body->out_count; i++) {
		const uint32_t value = c->body->outs[i].value, port = body_goes_on(c->body, value);
		l.goes_out[value] = true;
		if (port != NO_VALUE)
			l.goes_out[c->body->ins[port].value] = true;
	}
	for (size_t i = c->launch_count; i-- > 0;) /* backwards: a loop may prolong the life of an earlier one's final */
		if (c->launches[i].kind == LAUNCH_LOOP)
			place_carried(&l, &c->launches[i]);
	for (uint32_t i = 0; i < c->body->out_count && i < MOST_OUTS; i++) {
		const uint32_t value = c->body->outs[i].value;
		/* A value that is several outs counts once. */
		if (c->values[value].entry != NO_VALUE && c->frame->entries[c->values[value].entry].port == i &&
		    body_goes_on(c->body, value) == NO_VALUE)
			reuse_out(&l, value);
	}
	if (!c->owned)
		return write_over(&l);
	if (!list_candidates(&l))
		return false;
	for (uint32_t i = 0; i < c->body->in_count; i++)
		if (c->owned[i] && !l.goes_out[c->body->ins[i].value])
			reuse_in(&l, i);
	return write_over(&l);
}

/* An array that has a place from launch MADE through launch DIES. */
struct placed {
	int64_t bytes, made, dies;
	int64_t *offset;               /* in the layout */
	uint32_t next_made, next_dead; /* 1 + the next array with the same `made`, or the same `dies`; or 0 */
};

/* Returns the last launch that reads VALUE, or a value that is written over it. */
static int64_t last_over(const struct compiler *c, uint32_t value)
{
	while (c->values[value].over != NO_VALUE)
		value = c->values[value].over;
	return greater(c->values[value].made_in, c->values[value].last_read);
}

/* Returns the bytes of the array of ENTRY in LAYOUT. */
static int64_t bytes_in(const struct compiler *c, const struct entry *entry, enum row_layout layout)
{
	const struct type type = type_of_rows(entry->type, entry->streamed, layout_rows(c, layout));
	return type_bytes(&type);
}

/*
 * Lists the arrays of the workspace in LAYOUT and returns their number. A carried value has at most two: one is free after the
 * loop, and the other holds the final until its last read.
 */
static size_t list_placed(struct compiler *c, enum row_layout layout, struct placed *list)
{
	size_t count = 0;
	for (size_t i = 0; i < c->body->value_count; i++) {
		const struct value_plan *value = &c->values[i];
		struct entry *entry = value->entry == NO_VALUE ? NULL : &c->frame->entries[value->entry];
		if (entry && entry->kind == ENTRY_WORKSPACE && value->made_in >= 0 && value->place == NO_VALUE)
			list[count++] = (struct placed){bytes_in(c, entry, layout),
			                                first_joined(c, value->made_in),
			                                last_joined(c, last_over(c, (uint32_t)i)),
			                                &entry->offset[layout],
			                                0,
			                                0};
	}
	for (size_t i = 0; i < c->launch_count; i++) {
		struct launch *loop = &c->launches[i];
		for (size_t k = 0; loop->kind == LAUNCH_LOOP && k < loop->carried_count; k++) {
			struct carried *carried = &loop->carried[k];
			const int64_t end = (int64_t)loop->match, read = last_read_of(c, loop, k);
			const int64_t bytes = bytes_in(c, &c->frame->entries[carried->inner], layout);
			for (int place = 0; place < 2; place++)
				if (carried->array[place] == NO_VALUE)
					list[count++] = (struct placed){bytes,
					                                (int64_t)i,
					                                holds_final(loop, place) ? greater(end, read) : end,
					                                &carried->offset[place][layout],
					                                0,
					                                0};
		}
	}
	return count;
}

/* Returns how many arrays the workspace has at most. */
static size_t most_placed(const struct compiler *c)
{
	size_t most = c->frame->count + 1;
	for (size_t i = 0; i < c->launch_count; i++)
		most += c->launches[i].kind == LAUNCH_LOOP ? 2 * c->launches[i].carried_count : 0;
	return most;
}

enum { MOST_BY_SIZE = 64 /* arrays: placing them by size takes the square of their number */ };

/* Larger arrays come first, then those that are made earlier, then those that die earlier. */
static int compare_sizes(const void *left, const void *right)
{
	const struct placed *a = left, *b = right;
	int order = (b->bytes > a->bytes) - (b->bytes < a->bytes);
	if (!order)
		order = (a->made > b->made) - (a->made < b->made);
	return order ? order : (a->dies > b->dies) - (a->dies < b->dies);
}

/* Sorts COUNT arrays by size, and sets AT of each to the lowest offset that is free while it lives. Returns the bytes. */
static int64_t place_by_size(struct placed *list, size_t count, int64_t *at)
{
	int64_t peak = 0;
	qsort(list, count, sizeof *list, compare_sizes);
	for (size_t i = 0; i < count; i++) {
		at[i] = 0;
		for (size_t k = 0; k < i;) {
			const bool meets = list[k].made <= list[i].dies && list[i].made <= list[k].dies &&
			                   at[k] < at[i] + list[i].bytes && at[i] < at[k] + list[k].bytes;
			if (meets)
				at[i] = at[k] + round_up(list[k].bytes, ARRAY_ALIGN);
			k = meets ? 0 : k + 1;
		}
		peak = greater(peak, at[i] + round_up(list[i].bytes, ARRAY_ALIGN));
	}
	return peak;
}

/* Sets the offsets of the arrays of the workspace in LAYOUT, and *WORKSPACE to its bytes. */
static bool lay_out(struct compiler *c, enum row_layout layout, int64_t *workspace)
{
	const int64_t begin = c->frame->registers[layout] + c->register_bytes[layout];
	struct placed *list = arena_array(&c->scratch_arena, most_placed(c), sizeof *list);
	uint32_t *made = arena_array(&c->scratch_arena, c->launch_count + 1, sizeof *made);
	uint32_t *dead = arena_array(&c->scratch_arena, c->launch_count + 1, sizeof *dead);
	if (!list || !made || !dead)
		return false;
	const size_t count = list_placed(c, layout, list);
	for (size_t i = count; i-- > 0;) {
		list[i].next_made = made[list[i].made];
		made[list[i].made] = (uint32_t)i + 1;
		list[i].next_dead = dead[list[i].dies];
		dead[list[i].dies] = (uint32_t)i + 1;
	}
	struct pool pool;
	bool good = true;
	pool_init(&pool, c->arena->allocator);
	for (size_t l = 0; l < c->launch_count && good; l++) {
		for (uint32_t i = made[l]; i && good; i = list[i - 1].next_made) {
			const int64_t offset = pool_get(&pool, list[i - 1].bytes);
			*list[i - 1].offset = begin + offset;
			good = offset >= 0;
		}
		for (uint32_t i = dead[l]; i && good; i = list[i - 1].next_dead)
			good = pool_put(&pool, *list[i - 1].offset - begin, list[i - 1].bytes);
	}
	if (good && count <= MOST_BY_SIZE) {
		int64_t at[MOST_BY_SIZE];
		const int64_t peak = place_by_size(list, count, at);
		for (size_t i = 0; i < count && peak < pool.peak; i++)
			*list[i].offset = begin + at[i];
		pool.peak = lesser(peak, pool.peak);
	}
	for (size_t v = 0; v < c->body->value_count; v++) {
		uint32_t first = (uint32_t)v;
		while (c->values[first].place != NO_VALUE)
			first = c->values[first].place;
		if (first != v)
			c->frame->entries[c->values[v].entry].offset[layout] =
				c->frame->entries[c->values[first].entry].offset[layout];
	}
	*workspace = begin + pool.peak;
	pool_free(&pool);
	return good;
}

bool place_arrays(struct compiler *c)
{
	for (size_t i = 0; i < c->body->value_count; i++)
		c->values[i].place = c->values[i].over = NO_VALUE;
	return reuse_arrays(c) && lay_out(c, LAYOUT_ALL, &c->out->workspace) &&
	       (!c->body->rest || lay_out(c, LAYOUT_REST, &c->out->rest));
}
