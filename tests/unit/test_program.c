/*
 * The program compiler and the evaluator against a naive interpreter.
 *
 * Random bodies (bodies.h) run twice: compiled, and one instruction at a time over whole
 * arrays with every operand written out in full. Both use the same kernels, so their
 * results must be equal bit for bit. An abstract run beside them follows which value each
 * byte and each register holds. It finds a value that is overwritten too early even where
 * the numbers would hide it.
 */
#include "evaluate/evaluate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bodies.h"
#include "compile/launch.h"
#include "failing.h"
#include "suite.h"

enum { MOST_INS = 8, GUARD = 256 };

static void *array_new(size_t bytes)
{
	char *block = malloc(bytes + 2 * GUARD + 64);
	memset(block, 0xa5, bytes + 2 * GUARD + 64);
	return block + GUARD;
}

static void array_free(void *array)
{
	if (array)
		free((char *)array - GUARD);
}

static void check_guards(const void *array, size_t bytes)
{
	const unsigned char *at = array;
	for (size_t i = 1; i <= GUARD; i++)
		ck_assert_uint_eq(at[-(ptrdiff_t)i], 0xa5);
	for (size_t i = 0; i < GUARD; i++)
		ck_assert_uint_eq(at[bytes + i], 0xa5);
}

/* ---- the naive interpreter ---- */

struct naive {
	const struct model *m;
	const struct body *body;
	const struct kernels *kernels;
	void **data; /* by value */
	int64_t counters[256];
	struct bound_param params[MOST_PARAMS]; /* with gradients of its own */
};

static size_t bytes_of(const struct type *type) { return (size_t)type_bytes(type); }

static int64_t param_element(const struct naive *n, const struct param_ref *ref)
{
	const struct bound_param *param = &n->params[ref->param];
	int64_t part = 1, rows = 0;
	for (int i = (int)ref->count; i < param->shape->ndim; i++)
		part *= param->shape->dim[i];
	for (uint32_t i = 0; i < ref->count; i++)
		rows = rows * param->shape->dim[i] + ref->index[i].value +
		       (ref->index[i].loop >= 0 ? n->counters[ref->index[i].loop] : 0);
	if (param->streamed)
		return FIRST_ROW * (param->shape->ndim > 1 ? param->shape->dim[1] : 1);
	return rows * part;
}

static const void *value_of(struct naive *n, uint32_t value)
{
	const struct value *v = &n->body->values[value];
	if (v->from != FROM_PARAM)
		return n->data[value];
	return (const char *)n->params[v->param.param].data + (size_t)param_element(n, &v->param) * width_of(v->type);
}

static void *room_for(struct naive *n, uint32_t value)
{
	if (value == NO_VALUE)
		return NULL;
	if (!n->data[value])
		n->data[value] = malloc(bytes_of(n->body->values[value].type) + 1);
	return n->data[value];
}

/* VALUE written out in the shape of TO, by the rules' own words: counted from the last axis, extent 1 stays at 0. */
static void *spread(struct naive *n, uint32_t value, const struct type *to)
{
	const struct type *from = n->body->values[value].type;
	const char *data = value_of(n, value);
	size_t width = width_of(to);
	char *out = malloc(bytes_of(to) + 1);
	for (size_t i = 0; i < count_of(to); i++) {
		size_t rest = i, at = 0, step = 1;
		for (int d = 0; d < to->shape.ndim; d++) {
			size_t place = rest % (size_t)to->shape.dim[to->shape.ndim - 1 - d];
			rest /= (size_t)to->shape.dim[to->shape.ndim - 1 - d];
			if (d >= from->shape.ndim)
				continue;
			size_t extent = (size_t)from->shape.dim[from->shape.ndim - 1 - d];
			at += extent == 1 ? 0 : place * step;
			step *= extent;
		}
		memcpy(out + i * width, data + at * width, width);
	}
	return out;
}

static void *constant(const struct type *type, double number)
{
	char *out = malloc(bytes_of(type) + 1);
	for (size_t i = 0; i < count_of(type); i++)
		if (type->dtype == DTYPE_F64)
			((double *)(void *)out)[i] = number;
		else
			((float *)(void *)out)[i] = (float)number;
	return out;
}

static void naive_element(struct naive *n, const struct instr *instr)
{
	const struct type *to = instr->of.y;
	void *v = instr->v != NO_VALUE ? spread(n, instr->v, to) : NULL;
	void *a = instr->a != NO_VALUE ? spread(n, instr->a, to) : constant(to, instr->scalar);
	void *b = instr->more[0] != NO_VALUE ? spread(n, instr->more[0], to) : constant(to, instr->scalar);
	void *out = malloc(bytes_of(to) + 1), *keep[MAX_KEEPS];
	for (int k = 0; k < MAX_KEEPS; k++)
		keep[k] = malloc(bytes_of(to) + 1);
	struct kernel_args args = {.out = out,
	                           .keep = {keep[0], keep[1]},
	                           .v = v,
	                           .a = a,
	                           .b = b,
	                           .y = instr->y != NO_VALUE ? value_of(n, instr->y) : NULL,
	                           .k = instr->k != NO_VALUE ? value_of(n, instr->k) : NULL,
	                           .l = instr->l != NO_VALUE ? value_of(n, instr->l) : NULL,
	                           .g = instr->g != NO_VALUE ? value_of(n, instr->g) : NULL,
	                           .number = {instr->attrs->number[0], instr->attrs->number[1]},
	                           .n = count_of(to)};
	if (instr->kind == INSTR_VJP_V)
		n->kernels->vjp_v[instr->op][0](&args);
	else if (instr->kind == INSTR_VJP_A)
		n->kernels->vjp_a[instr->op][0](&args);
	else if (instr->kind == INSTR_VJP_B)
		n->kernels->vjp_b[instr->op][0](&args);
	else
		n->kernels->forward[instr->op][0](&args);
	if (instr->out != NO_VALUE)
		memcpy(room_for(n, instr->out), out, bytes_of(to));
	if (instr->out_keep[0] != NO_VALUE || instr->out_keep[1] != NO_VALUE)
		n->kernels->forward_keep[instr->op][0](&args);
	for (int k = 0; k < MAX_KEEPS; k++) {
		if (instr->out_keep[k] != NO_VALUE)
			memcpy(room_for(n, instr->out_keep[k]), keep[k], bytes_of(n->body->values[instr->out_keep[k]].type));
		free(keep[k]);
	}
	free(v);
	free(a);
	free(b);
	free(out);
}

static void naive_general(struct naive *n, const struct instr *instr)
{
	const struct type *v = instr->of.v;
	int64_t scratch = op_scratch(instr->op, instr->attrs, v, instr->of.a, instr->of.y,
	                             instr->kind == INSTR_VJP ? SCRATCH_BACK : SCRATCH_FORWARD);
	struct op_call call = {.op = instr->op,
	                       .attrs = instr->attrs,
	                       .v = v,
	                       .a = instr->of.a,
	                       .y = instr->of.y,
	                       .first = FIRST_ROW * (v->shape.ndim > 1 ? v->shape.dim[1] : 1),
	                       .whole = v->shape.dim[0] + FIRST_ROW + 2,
	                       .scratch = aligned_alloc(64, ((size_t)scratch + 127) / 64 * 64),
	                       .kernels = n->kernels};
	if (instr->kind == INSTR_VJP) {
		const uint32_t reads[MAX_NEEDS] = {instr->v, instr->a, instr->y, instr->k, instr_fifth(instr)};
		const void *needs[MAX_NEEDS];
		for (int i = 0; i < MAX_NEEDS; i++)
			needs[i] = reads[i] == NO_VALUE ? NULL : value_of(n, reads[i]);
		op_vjp_get(instr->op)(&call, room_for(n, instr->out), NULL, value_of(n, instr->g), needs);
	} else {
		void *keep[MAX_KEEPS] = {room_for(n, instr->out_keep[0]), room_for(n, instr->out_keep[1])};
		op_forward_get(instr->op)(&call, room_for(n, instr->out), value_of(n, instr->v),
		                          instr->a == NO_VALUE ? NULL : value_of(n, instr->a), keep);
	}
	free(call.scratch);
}

static void naive_accumulate(struct naive *n, const struct instr *instr)
{
	struct bound_param *param = &n->params[instr->param.param];
	const struct type *type = n->body->values[instr->v].type;
	int64_t at = param_element(n, &instr->param);
	char *sum = (char *)param->gradient + (size_t)at * width_of(type);
	if (param->streamed)
		n->kernels->loops->accumulate(sum, value_of(n, instr->v), count_of(type));
	else
		n->kernels->loops->accumulate_long(sum, (char *)param->tails + (size_t)at * width_of(type) / 2,
		                                   value_of(n, instr->v), NULL, count_of(type));
}

static void naive_step(struct naive *n, const struct instr *instr)
{
	const struct type *to = instr->out != NO_VALUE ? n->body->values[instr->out].type : NULL;
	switch (instr->kind) {
	case INSTR_OP:
		(op_table[instr->op].class == OP_CLASS_GENERAL ? naive_general : naive_element)(n, instr);
		return;
	case INSTR_VJP:
		naive_general(n, instr);
		return;
	case INSTR_VJP_V:
	case INSTR_VJP_A:
	case INSTR_VJP_B:
		naive_element(n, instr);
		return;
	case INSTR_ADD: {
		char *out = room_for(n, instr->out);
		struct kernel_args args = {
			.out = out, .v = value_of(n, instr->v), .a = value_of(n, instr->a), .n = count_of(to)};
		n->kernels->forward[OP_add][0](&args);
		return;
	}
	case INSTR_ZERO:
		memset(room_for(n, instr->out), 0, bytes_of(to));
		return;
	case INSTR_SUM_TO: {
		const struct type *from = n->body->values[instr->v].type;
		void *scratch = malloc(bytes_of(from) + 1);
		sum_to_shape(n->kernels, room_for(n, instr->out), to, value_of(n, instr->v), from, scratch);
		free(scratch);
		return;
	}
	case INSTR_ACCUMULATE:
		naive_accumulate(n, instr);
		return;
	case INSTR_LOOP:
	case INSTR_WHILE:
	case INSTR_END:
	case INSTR_CHECK:
		return;
	}
}

static void naive_run(struct naive *n, size_t first, size_t end);

static void naive_loop(struct naive *n, const struct instr *loop, size_t at)
{
	const struct carry *carries = loop->loop.carries;
	for (uint32_t k = 0; k < loop->loop.carry_count; k++)
		memcpy(room_for(n, carries[k].inner), value_of(n, carries[k].init),
		       bytes_of(n->body->values[carries[k].inner].type));
	for (int64_t iteration = 0; iteration < loop->loop.iterations; iteration++) {
		void *results[8];
		n->counters[loop->level] = iteration;
		naive_run(n, at + 1, loop->loop.match);
		for (uint32_t k = 0; k < loop->loop.carry_count; k++) {
			size_t bytes = bytes_of(n->body->values[carries[k].inner].type);
			results[k] = malloc(bytes + 1);
			memcpy(results[k], value_of(n, carries[k].result), bytes);
		}
		for (uint32_t k = 0; k < loop->loop.carry_count; k++) {
			memcpy(n->data[carries[k].inner], results[k], bytes_of(n->body->values[carries[k].inner].type));
			free(results[k]);
		}
	}
	for (uint32_t k = 0; k < loop->loop.carry_count; k++)
		memcpy(room_for(n, carries[k].final), n->data[carries[k].inner],
		       bytes_of(n->body->values[carries[k].final].type));
}

static void naive_run(struct naive *n, size_t first, size_t end)
{
	for (size_t i = first; i < end; i++) {
		const struct instr *instr = &n->body->instrs[i];
		if (instr->kind == INSTR_LOOP) {
			naive_loop(n, instr, i);
			i = instr->loop.match;
		} else {
			naive_step(n, instr);
		}
	}
}

/* ---- the abstract run: which value lies where ---- */

enum { NOTHING_THERE = UINT32_MAX - 1, ANYTHING_THERE = UINT32_MAX - 2 };

struct watch {
	const struct program *program;
	const struct body *body;
	/* By 64 bytes of the workspace, and of the arrays of ins and outs behind it: the value, as of its latest making. */
	uint32_t *holds;
	int64_t size;   /* of all these */
	int64_t *place; /* by entry: offset there, or -1 for params */
	uint32_t *root; /* by value: a final is its inner, an inner what was put into it */
	uint32_t *cell; /* by value: what is found where it lies */
	uint32_t registers[512];
	uint32_t seed;
};

static int64_t entry_bytes(const struct watch *w, uint32_t entry)
{
	return type_bytes(w->program->frame->entries[entry].type);
}

static void put_at(struct watch *w, int64_t offset, int64_t bytes, uint32_t value)
{
	ck_assert_msg(offset % 64 == 0 && offset + bytes <= w->size, "seed %u: out of the workspace", w->seed);
	ck_assert_msg(offset >= w->program->frame->registers[LAYOUT_ALL], "seed %u: over the frame", w->seed);
	for (int64_t i = 0; i * 64 < bytes; i++)
		w->holds[offset / 64 + i] = value;
}

static void see_at(const struct watch *w, int64_t offset, int64_t bytes, uint32_t value)
{
	for (int64_t i = 0; i * 64 < bytes; i++)
		ck_assert_msg(w->holds[offset / 64 + i] == value || w->holds[offset / 64 + i] == ANYTHING_THERE,
		              "seed %u: value %u is not where it is read: %u is", w->seed, value, w->holds[offset / 64 + i]);
}

/* An array is known by the entry that made it: a carried place passes from entry to entry. */
static void write_entry(struct watch *w, uint32_t entry)
{
	if (entry == NO_VALUE)
		return;
	w->cell[entry] = entry;
	if (w->place[entry] >= 0)
		put_at(w, w->place[entry], entry_bytes(w, entry), entry);
}

static void read_entry(const struct watch *w, uint32_t entry)
{
	if (entry != NO_VALUE && w->place[entry] >= 0)
		see_at(w, w->place[entry], entry_bytes(w, entry), w->cell[entry]);
}

static void watch_arg(const struct watch *w, const struct arg *arg)
{
	if (arg->kind == ARG_ARRAY)
		read_entry(w, arg->index);
	if (arg->kind == ARG_REGISTER && arg->value < w->body->value_count)
		ck_assert_msg(w->registers[arg->index] == w->root[arg->value], "seed %u: register %u holds %u, not %u", w->seed,
		              arg->index, w->registers[arg->index], w->root[arg->value]);
	else if (arg->kind == ARG_REGISTER)
		ck_assert_msg(w->registers[arg->index] == arg->value, "seed %u: register %u holds %u, not the filled %u",
		              w->seed, arg->index, w->registers[arg->index], arg->value);
}

static void watch_kernel_op(struct watch *w, const struct kernel_op *m)
{
	const struct arg *reads[] = {&m->v, &m->a, &m->y, &m->k, &m->l, &m->g},
					 *writes[] = {&m->out, &m->keep[0], &m->keep[1]};
	if (m->a.kind == ARG_SCALAR)
		read_entry(w, m->a.index);
	for (int i = 0; i < 6; i++)
		watch_arg(w, reads[i]);
	for (int i = 0; i < 3; i++) {
		if (writes[i]->kind == ARG_NONE)
			continue;
		for (int k = 0; k < 6; k++)
			if (writes[i]->kind == ARG_REGISTER && reads[k]->kind == ARG_REGISTER &&
			    writes[i]->index == reads[k]->index)
				ck_assert_msg(writes[i]->bits == reads[k]->bits && writes[i]->shift == reads[k]->shift,
				              "seed %u: %s in place of another type", w->seed, op_table[m->op].name);
		for (int k = 0; k < i; k++)
			ck_assert_msg(writes[k]->kind != writes[i]->kind || writes[k]->index != writes[i]->index,
			              "seed %u: two results in one place", w->seed);
		if (writes[i]->kind == ARG_ARRAY)
			write_entry(w, writes[i]->index);
		else if (writes[i]->value < w->body->value_count)
			w->registers[writes[i]->index] = w->root[writes[i]->value];
		else
			w->registers[writes[i]->index] = writes[i]->value;
	}
}

static void watch_group(struct watch *w, const struct launch *launch)
{
	int64_t left[64];
	int depth = 0;
	ck_assert_uint_lt(launch->registers, 512);
	for (uint32_t i = 0; i < launch->registers; i++)
		w->registers[i] = NOTHING_THERE;
	put_at(w, w->program->frame->registers[LAYOUT_ALL], (int64_t)launch->registers * launch->register_bytes[LAYOUT_ALL],
	       NOTHING_THERE);
	for (size_t i = 0; i < launch->kernel_op_count; i++) {
		const struct kernel_op *m = &launch->kernel_ops[i];
		if (m->kind == KERNEL_OP_LOOP && m->iterations == 0) {
			i = m->match;
		} else if (m->kind == KERNEL_OP_LOOP) {
			left[depth++] = m->iterations;
		} else if (m->kind == KERNEL_OP_END) {
			if (--left[depth - 1] > 0)
				i = m->match;
			else
				depth--;
		} else {
			watch_kernel_op(w, m);
		}
	}
}

static void watch_launch(struct watch *w, const struct launch *launch)
{
	for (int i = 0; i < MAX_NEEDS; i++)
		read_entry(w, launch->needs[i]);
	read_entry(w, launch->g);
	put_at(w, w->program->frame->registers[LAYOUT_ALL], 0, NOTHING_THERE);
	for (int i = 0; i < MAX_NEEDS; i++)
		for (int k = 0; k < 4; k++) {
			uint32_t made = (uint32_t[]){launch->out, launch->out_a, launch->keep[0], launch->keep[1]}[k];
			if (made != NO_VALUE && launch->needs[i] != NO_VALUE && w->place[made] >= 0 &&
			    w->place[made] < w->program->workspace)
				ck_assert_msg(w->place[made] != w->place[launch->needs[i]], "seed %u: a call in place", w->seed);
		}
	write_entry(w, launch->out);
	write_entry(w, launch->out_a);
	write_entry(w, launch->keep[0]);
	write_entry(w, launch->keep[1]);
}

static int64_t place_of(const struct watch *w, const struct carried *c, int which)
{
	return c->array[which] == NO_VALUE ? c->offset[which][LAYOUT_ALL] : w->place[c->array[which]];
}

static int64_t other_place(const struct watch *w, const struct carried *c, int64_t place)
{
	return place_of(w, c, place == place_of(w, c, 0));
}

static void watch_begin(struct watch *w, const struct launch *loop)
{
	for (size_t i = 0; i < loop->carried_count; i++) {
		const struct carried *c = &loop->carried[i];
		read_entry(w, c->init);
		w->place[c->inner] = w->place[c->init];
		w->cell[c->inner] = w->cell[c->init];
		if (c->written)
			w->place[c->result] = place_of(w, c, 0);
	}
}

/* As the evaluator exchanges them: first what is copied, then the pointers. */
static void watch_exchange(struct watch *w, const struct launch *loop)
{
	for (size_t i = 0; i < loop->carried_count; i++) {
		const struct carried *c = &loop->carried[i];
		read_entry(w, c->result);
		if (!c->written)
			put_at(w, other_place(w, c, w->place[c->inner]), c->bytes, c->inner);
	}
	for (size_t i = 0; i < loop->carried_count; i++) {
		const struct carried *c = &loop->carried[i];
		int64_t made = other_place(w, c, w->place[c->inner]);
		if (c->written)
			made = w->place[c->result];
		w->place[c->inner] = made;
		if (c->written)
			w->place[c->result] = other_place(w, c, made);
		w->cell[c->inner] = c->written ? w->cell[c->result] : c->inner;
	}
	for (size_t i = 0; i < loop->carried_count; i++)
		read_entry(w, loop->carried[i].inner);
}

static void watch_finish(struct watch *w, const struct launch *loop, bool none)
{
	for (size_t i = 0; i < loop->carried_count; i++) {
		const struct carried *c = &loop->carried[i];
		uint32_t from = none ? c->init : c->inner;
		read_entry(w, from);
		if (c->copy_out) {
			write_entry(w, c->final);
		} else if (none) {
			w->place[c->final] = place_of(w, c, 0);
			write_entry(w, c->final);
		} else {
			w->place[c->final] = w->place[from];
			w->cell[c->final] = w->cell[from];
		}
	}
}

static void watch_launches(struct watch *w)
{
	int64_t left[64];
	int depth = 0;
	for (size_t i = 0; i < w->program->launch_count; i++) {
		const struct launch *launch = &w->program->launches[i];
		if (launch->kind == LAUNCH_GROUP) {
			watch_group(w, launch);
		} else if (launch->kind == LAUNCH_LOOP) {
			watch_begin(w, launch);
			left[depth++] = launch->iterations;
			if (launch->iterations == 0) {
				watch_finish(w, launch, true);
				i = launch->match;
				depth--;
			}
		} else if (launch->kind == LAUNCH_END) {
			const struct launch *loop = &w->program->launches[launch->match];
			watch_exchange(w, loop);
			if (--left[depth - 1] > 0) {
				i = launch->match;
			} else {
				watch_finish(w, loop, false);
				depth--;
			}
		} else {
			watch_launch(w, launch);
		}
	}
}

static void check_places(const struct program *program, uint32_t seed)
{
	const struct body *body = program->body;
	const struct frame_plan *frame = program->frame;
	const int64_t array = (program->widest + 63) / 64 * 64;
	struct watch w = {.program = program, .body = body, .seed = seed};
	w.size = program->workspace + array * (int64_t)(body->in_count + body->out_count);
	w.holds = calloc((size_t)w.size / 64 + 1, sizeof *w.holds);
	w.place = calloc(frame->count + 1, sizeof *w.place);
	w.cell = calloc(frame->count + 1, sizeof *w.cell);
	w.root = calloc(body->value_count + 1, sizeof *w.root);
	for (int64_t i = 0; i < w.size / 64; i++)
		w.holds[i] = i < program->workspace / 64 ? NOTHING_THERE : ANYTHING_THERE;
	for (size_t i = 0; i < frame->count; i++) {
		const struct entry *entry = &frame->entries[i];
		const int64_t in = program->workspace + array * (int64_t)entry->port,
					  out = in + array * (int64_t)body->in_count;
		w.place[i] = entry->kind == ENTRY_WORKSPACE ? entry->offset[LAYOUT_ALL]
		             : entry->kind == ENTRY_IN      ? in
		             : entry->kind == ENTRY_OUT     ? out
		                                            : -1;
		w.cell[i] = (uint32_t)i;
	}
	/* In a group a final goes by the register of its inner. */
	for (uint32_t i = 0; i < body->value_count; i++)
		w.root[i] = i;
	for (size_t i = 0; i < body->instr_count; i++)
		for (uint32_t k = 0; body->instrs[i].kind == INSTR_LOOP && k < body->instrs[i].loop.carry_count; k++)
			w.root[body->instrs[i].loop.carries[k].final] = body->instrs[i].loop.carries[k].inner;
	watch_launches(&w);
	free(w.holds);
	free(w.place);
	free(w.cell);
	free(w.root);
}

/* ---- both, compared ---- */

static void compare(const void *is, const void *wanted, const struct type *type, uint32_t seed, size_t out)
{
	if (dtype_bits(type->dtype)) {
		ck_assert_msg(memcmp(is, wanted, bytes_of(type)) == 0, "seed %u: mask of out %zu differs", seed, out);
		return;
	}
	size_t width = width_of(type);
	for (size_t i = 0; i < count_of(type); i++) {
		double a = width == 8 ? ((const double *)is)[i] : (double)((const float *)is)[i];
		double b = width == 8 ? ((const double *)wanted)[i] : (double)((const float *)wanted)[i];
		if (isnan(a) && isnan(b))
			continue;
		ck_assert_msg(memcmp((const char *)is + i * width, (const char *)wanted + i * width, width) == 0,
		              "seed %u: out %zu, element %zu: %.17g, should be %.17g", seed, out, i, a, b);
	}
}

static void run_compiled(const struct model *m, const struct program *program, void *const *ins, void *const *outs)
{
	size_t bytes = (size_t)program->workspace;
	char *block = aligned_alloc(64, bytes + 128);
	memset(block, 0xff, bytes + 128);
	struct evaluation e = {.program = program,
	                       .ins = (const void *const *)ins,
	                       .outs = outs,
	                       .params = m->params,
	                       .counters = m->counters,
	                       .workspace = block,
	                       .first_row = FIRST_ROW,
	                       .outside = FIRST_ROW + 2};
	evaluate(&e);
	for (size_t i = 0; i < 128; i++)
		ck_assert_uint_eq((unsigned char)block[bytes + i], 0xff);
	/* Once more on what is left there: nothing may depend on it. */
	free(block);
}

static void run_naive(struct model *m, struct naive *n, void *const *ins)
{
	*n = (struct naive){.m = m, .body = &m->body, .kernels = kernels_get(m->dtype)};
	n->data = calloc(m->body.value_count, sizeof *n->data);
	memcpy(n->counters, m->counters, sizeof n->counters);
	memcpy(n->params, m->params, sizeof n->params);
	for (size_t i = 0; i < MOST_PARAMS; i++) {
		size_t count = m->params[i].data ? (size_t)shape_count(m->params[i].shape) + 1 : 0;
		if (m->params[i].gradient)
			n->params[i].gradient = calloc(count, 8);
		if (m->params[i].tails)
			n->params[i].tails = calloc(count, 4);
	}
	for (size_t i = 0; i < m->body.in_count; i++)
		memcpy(room_for(n, m->body.ins[i].value), ins[i], bytes_of(m->body.values[m->body.ins[i].value].type));
	naive_run(n, 0, m->body.instr_count);
}

static void compare_params(const struct model *m, const struct naive *n, uint32_t seed)
{
	for (size_t i = 0; i < MOST_PARAMS; i++) {
		if (!m->params[i].gradient)
			continue;
		const struct type type = bound_type(&m->params[i]);
		compare(m->params[i].gradient, n->params[i].gradient, &type, seed, 100 + i);
		free(n->params[i].gradient);
		if (m->params[i].tails)
			ck_assert_mem_eq(m->params[i].tails, n->params[i].tails, bytes_of(&type) / 2);
		free(n->params[i].tails);
	}
}

static void compare_both(struct model *m, uint32_t seed)
{
	struct body *body = &m->body;
	struct program program;
	void *ins[MOST_INS], *outs[MOST_INS] = {NULL};
	bool owned[MOST_INS];
	ck_assert(!m->arena.failed);
	for (size_t i = 0; i < MOST_INS; i++)
		owned[i] = (seed + i) % 3 == 0;
	for (size_t i = 0; i < body->in_count; i++) {
		const struct type *type = body->values[body->ins[i].value].type;
		ins[i] = array_new(bytes_of(type));
		if (type->dtype == DTYPE_BITS) {
			memset(ins[i], 0x5a, bytes_of(type));
			if (count_of(type) % 8)
				((unsigned char *)ins[i])[bytes_of(type) - 1] &= (unsigned char)((1u << count_of(type) % 8) - 1);
		} else {
			fill_array(m, ins[i], type);
		}
	}
	for (size_t i = 0; i < body->out_count; i++)
		if (body->values[body->outs[i].value].from == FROM_INSTR)
			outs[i] = array_new(bytes_of(body->values[body->outs[i].value].type));
	struct naive naive;
	run_naive(m, &naive, ins);
	if (seed % 2)
		ck_assert(body_drop_carries(body));
	ck_assert_int_eq(program_compile(&m->context, &program, body, owned, NULL), STATUS_OK);
	ck_assert_int_eq(program.workspace % 64, 0);
	check_places(&program, seed);
	run_compiled(m, &program, ins, outs);
	for (size_t i = 0; i < body->out_count; i++) {
		const struct type *type = body->values[body->outs[i].value].type;
		if (!outs[i])
			continue;
		check_guards(outs[i], bytes_of(type));
		compare(outs[i], naive.data[body->outs[i].value], type, seed, i);
		array_free(outs[i]);
	}
	compare_params(m, &naive, seed);
	for (size_t i = 0; i < body->in_count; i++) {
		uint32_t value = body->ins[i].value;
		check_guards(ins[i], bytes_of(body->values[value].type));
		ck_assert(owned[i] || memcmp(ins[i], naive.data[value], bytes_of(body->values[value].type)) == 0);
		array_free(ins[i]);
	}
	for (size_t i = 0; i < body->value_count; i++)
		free(naive.data[i]);
	free(naive.data);
}

static const int64_t sizes[] = {0, 1, 7, 511, 512, 513, 5000};

/* Under a sanitizer, which makes them ten times as slow, a few bodies go through the same code. */
#ifdef __SANITIZE_ADDRESS__
enum { PROGRAMS = 8 };
#else
enum { PROGRAMS = 40 };
#endif

static uint32_t programs(void) { return getenv("CKPTC_NIGHTLY") ? 4000 : PROGRAMS; }

/* Kinds of body: element-wise alone; with loops; with general operations too. */
START_TEST(random_bodies)
{
	int64_t size = sizes[_i % 7];
	enum dtype dtype = _i / 7 % 2 ? DTYPE_F64 : DTYPE_F32;
	int kind = _i / 14;
	const char *from = getenv("CKPTC_SEED");
	uint32_t first = from ? (uint32_t)strtoul(from, NULL, 10) : 0, end = from ? first + 1 : programs();
	for (uint32_t seed = first; seed < end; seed++) {
		static const int64_t columns[] = {0, 1, 3, 8, 16};
		int64_t c = columns[seed % 5];
		struct model m;
		model_init(&m, seed + 1000 * (uint32_t)_i, dtype, c ? (size + c - 1) / c : size, c);
		m.loops = kind > 0;
		m.general = kind > 1 && size > 0;
		add_instrs(&m, 1 + (int)(seed / 3), 0);
		add_outs(&m);
		compare_both(&m, seed);
		model_free(&m);
	}
}
END_TEST

/* ---- bodies by hand ---- */

static struct launch *compile_by_hand(struct model *m, struct program *program, uint32_t out)
{
	body_add_out(&m->body, PORT_SLOT, 0, out);
	ck_assert_int_eq(program_compile(&m->context, program, &m->body, NULL, NULL), STATUS_OK);
	return program->launches;
}

/* A thousand affine operations are one launch of one step, and no array between them. */
START_TEST(affine_run)
{
	struct model m;
	struct program program;
	model_init(&m, 1, DTYPE_F32, 5000, 0);
	uint32_t v = m.visible[0];
	for (int i = 0; i < 1000; i++)
		v = hand_op(&m, i % 2 ? OP_mul : OP_add, v, NO_VALUE, i % 2 ? 0.875 : 1.25);
	const struct launch *launches = compile_by_hand(&m, &program, v);
	ck_assert_uint_eq(program.launch_count, 1);
	ck_assert_uint_eq(launches->kernel_op_count, 1);
	ck_assert_int_eq(launches->kernel_ops[0].kind, KERNEL_OP_RUN);
	ck_assert_uint_eq(launches->kernel_ops[0].step_count, 1000);
	ck_assert_uint_eq(launches->registers, 0);
	ck_assert_int_le(program.workspace, 4096);
	ck_assert(program.libraries == 0);
	model_free(&m);
}
END_TEST

/* More than a run can hold: split, and still no array. */
START_TEST(long_run)
{
	struct model m;
	model_init(&m, 1, DTYPE_F64, 513, 0);
	uint32_t v = m.visible[0];
	for (int i = 0; i < 9000; i++)
		v = hand_op(&m, i % 2 ? OP_mul : OP_add, v, NO_VALUE, i % 2 ? 0.875 : 1.25);
	body_add_out(&m.body, PORT_SLOT, 0, v);
	compare_both(&m, 0);
	model_free(&m);
}
END_TEST

/* A loop of cheap operations is within the run, whatever the number of iterations. */
START_TEST(loop_in_run)
{
	struct model m;
	struct program program;
	uint32_t inner, deep;
	model_init(&m, 1, DTYPE_F32, 100, 0);
	size_t begin = hand_loop(&m, 100, 1, m.visible[0], &inner);
	uint32_t v = hand_op(&m, OP_add, inner, NO_VALUE, 0.5);
	size_t second = hand_loop(&m, 50, 2, v, &deep);
	v = hand_end(&m, second, hand_op(&m, OP_mul, deep, NO_VALUE, 0.999));
	v = hand_op(&m, OP_neg, hand_end(&m, begin, v), NO_VALUE, 0);
	const struct launch *launches = compile_by_hand(&m, &program, v);
	ck_assert_uint_eq(program.launch_count, 1);
	ck_assert_uint_le(launches->kernel_op_count, 3);
	ck_assert_int_eq(launches->kernel_ops[0].kind, KERNEL_OP_RUN);
	m.body.out_count = 0;
	body_add_out(&m.body, PORT_SLOT, 0, v);
	compare_both(&m, 0);
	model_free(&m);
}
END_TEST

/* Two loops, the inner of which carries what the outer one does: as a name that is bound in both. */
static void compare_carried(bool read_after, bool read_in_turn)
{
	struct model m;
	uint32_t inner, deep;
	model_init(&m, 1, DTYPE_F32, 100, 0);
	const size_t begin = hand_loop(&m, 5, 1, m.visible[0], &inner);
	const size_t second = hand_loop(&m, 5, 2, inner, &deep);
	const uint32_t named = hand_op(&m, OP_sin, read_in_turn ? deep : m.visible[0], NO_VALUE, 0);
	const uint32_t final = hand_end(&m, begin, hand_end(&m, second, named));
	body_add_out(&m.body, PORT_SLOT, 0, hand_op(&m, OP_neg, read_after ? final : m.visible[0], NO_VALUE, 0));
	const uint32_t kept = read_after || read_in_turn;
	ck_assert(body_drop_carries(&m.body));
	ck_assert_uint_eq(m.body.instrs[begin].loop.carry_count, kept);
	ck_assert_uint_eq(m.body.instrs[second].loop.carry_count, kept);
	ck_assert_uint_eq(m.body.instrs[m.body.instrs[begin].loop.match].loop.carry_count, kept);
	compare_both(&m, 0);
	model_free(&m);
}

/* A loop carries the values that a later iteration or later instructions read, and no others. */
START_TEST(carries_dropped)
{
	for (int i = 0; i < 4; i++)
		compare_carried(i & 1, i & 2);
}
END_TEST

/* Loops in registers, of which some iterations are made at once: three nested ones around so many operations. */
static void compare_run(int operations, int iterations, int inner_turns, uint32_t seed)
{
	struct model m;
	uint32_t outer, inner, deep;
	model_init(&m, 1, DTYPE_F64, 40, 0);
	uint32_t v = hand_op(&m, OP_add, m.visible[0], NO_VALUE, 0.5);
	const size_t begin = hand_loop(&m, 2, 1, v, &outer);
	const size_t second = hand_loop(&m, iterations, 2, outer, &inner);
	v = hand_op(&m, OP_neg, inner, NO_VALUE, 0);
	const size_t third = hand_loop(&m, inner_turns, 3, v, &deep);
	v = deep;
	for (int i = 0; i < operations; i++)
		v = hand_op(&m, i % 2 ? OP_mul : OP_add, v, NO_VALUE, i % 2 ? 0.75 : i);
	v = hand_end(&m, begin, hand_end(&m, second, hand_end(&m, third, v)));
	body_add_out(&m.body, PORT_SLOT, 0, v);
	compare_both(&m, seed);
	model_free(&m);
}

START_TEST(run_iterations)
{
	static const int operations[] = {1, 2, 3, 15, 16, 17, 31, 32, 70}, iterations[] = {1, 2, 7, 16, 33};
	uint32_t seed = 0;
	for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
		for (size_t j = 0; j < sizeof iterations / sizeof *iterations; j++)
			for (size_t k = 0; k < sizeof iterations / sizeof *iterations; k++)
				compare_run(operations[i], iterations[j], iterations[k], seed++);
}
END_TEST

/* As many steps as a run holds, and a few more and less, with the ends of three loops as the last. */
START_TEST(run_full)
{
	for (int operations = RUN_MAX_STEPS - 8; operations < RUN_MAX_STEPS + 2; operations++)
		compare_run(operations, 2, 2, (uint32_t)operations);
}
END_TEST

/* What a loop starts from is read through all of its first iteration, and is its result where there is no iteration. */
START_TEST(init_lives)
{
	for (int iterations = 0; iterations < 4; iterations++) {
		struct model m;
		uint32_t inner;
		model_init(&m, 1, DTYPE_F32, 20, 8);
		uint32_t v = hand_op(&m, OP_softmax, m.visible[0], NO_VALUE, 0);
		size_t begin = hand_loop(&m, iterations, 1, v, &inner);
		uint32_t u = hand_op(&m, OP_softmax, hand_op(&m, OP_cumsum, inner, NO_VALUE, 0), NO_VALUE, 0);
		v = hand_end(&m, begin, hand_op(&m, OP_add, inner, u, 0));
		u = hand_op(&m, OP_softmax, hand_op(&m, OP_cumsum, v, NO_VALUE, 0), NO_VALUE, 0);
		v = hand_op(&m, OP_add, v, u, 0);
		body_add_out(&m.body, PORT_SLOT, 0, v);
		compare_both(&m, (uint32_t)iterations);
		model_free(&m);
	}
}
END_TEST

/* A loop in a loop over whole arrays: the inner one's places are its own. */
START_TEST(nested_loops)
{
	for (int iterations = 0; iterations < 16; iterations++) {
		struct model m;
		uint32_t inner, deep;
		model_init(&m, 1, DTYPE_F64, 20, 8);
		uint32_t before = hand_op(&m, OP_cumsum, m.visible[0], NO_VALUE, 0);
		size_t begin = hand_loop(&m, iterations / 4, 1, before, &inner);
		size_t second = hand_loop(&m, iterations % 4, 2, inner, &deep);
		uint32_t v = hand_end(&m, second, hand_op(&m, OP_cumsum, deep, NO_VALUE, 0));
		/* and one that starts from a value made before both */
		second = hand_loop(&m, iterations % 4, 2, before, &deep);
		uint32_t u = hand_end(&m, second, hand_op(&m, OP_softmax, deep, NO_VALUE, 0));
		v = hand_op(&m, OP_mul, v, u, 0);
		v = hand_end(&m, begin, hand_op(&m, OP_softmax, v, NO_VALUE, 0));
		body_add_out(&m.body, PORT_SLOT, 0, hand_op(&m, OP_cumsum, v, NO_VALUE, 0));
		compare_both(&m, (uint32_t)iterations);
		model_free(&m);
	}
}
END_TEST

/* Deep nests compile at once: time is not exponential in the depth. */
START_TEST(deep_nest)
{
	struct model m;
	struct program program;
	size_t begin[200];
	model_init(&m, 1, DTYPE_F32, 10, 0);
	uint32_t v = m.visible[0], inner;
	for (int i = 0; i < 200; i++) {
		begin[i] = hand_loop(&m, 1, i + 1, v, &inner);
		v = inner;
	}
	v = hand_op(&m, OP_sin, v, NO_VALUE, 0);
	for (int i = 200; i-- > 0;)
		v = hand_end(&m, begin[i], v);
	compile_by_hand(&m, &program, v);
	ck_assert_uint_eq(program.launch_count, 1);
	model_free(&m);
}
END_TEST

/* Many groups: what the compiler takes grows with the body, not with its square. */
START_TEST(many_groups)
{
	enum { GROUPS = 4000 };
	struct model m;
	struct program program;
	struct failing counted = {0};
	const struct allocator allocator = failing_allocator(&counted);
	struct arena arena;
	model_init(&m, 1, DTYPE_F32, 16, 8);
	arena_init(&arena, &allocator);
	const struct context context = {&allocator, &arena, &m.diags};
	uint32_t v = m.visible[0];
	for (int i = 0; i < GROUPS; i++)
		v = hand_op(&m, OP_sin, hand_op(&m, OP_softmax, v, NO_VALUE, 0), NO_VALUE, 0);
	body_add_out(&m.body, PORT_SLOT, 0, v);
	ck_assert_int_eq(program_compile(&context, &program, &m.body, NULL, NULL), STATUS_OK);
	ck_assert_uint_eq(program.launch_count, 2 * GROUPS);
	ck_assert_uint_lt(counted.most, GROUPS * 8192);
	arena_free(&arena);
	ck_assert_uint_eq(counted.live, 0);
	model_free(&m);
}
END_TEST

/* What nobody reads is not computed. */
START_TEST(dead_dropped)
{
	struct model m;
	struct program program;
	model_init(&m, 1, DTYPE_F32, 20, 8);
	uint32_t v = m.visible[0];
	hand_op(&m, OP_softmax, hand_op(&m, OP_sin, v, NO_VALUE, 0), NO_VALUE, 0);
	v = hand_op(&m, OP_add, v, NO_VALUE, 1);
	hand_op(&m, OP_exp, v, NO_VALUE, 0);
	compile_by_hand(&m, &program, v);
	ck_assert_uint_eq(program.launch_count, 1);
	ck_assert_uint_eq(program.launches[0].kernel_op_count, 1);
	model_free(&m);
}
END_TEST

/* A SUM at the end leaves its sums where a tiled run wants them, and the value where it does not. */
START_TEST(sums_at_end)
{
	for (int way = 0; way < 3; way++) {
		const bool tiled = way > 0, ends = way > 1;
		struct model m;
		struct program program;
		model_init(&m, 1, DTYPE_F64, 20, 8);
		uint32_t v = hand_op(&m, OP_neg, m.visible[0], NO_VALUE, 0);
		v = hand_op(&m, OP_mean, v, NO_VALUE, 0);
		m.body.values[v].type = m.body.instrs[m.body.instr_count - 1].of.y = m.number;
		m.body.values[v].streamed = false;
		compile_by_hand(&m, &program, v);
		double x[160], y = -77, state[3], sum = 0; /* the sum, its error, its scale */
		for (int i = 0; i < 160; i++)
			sum += x[i] = i * 0.25;
		const void *ins[] = {x, NULL, NULL, NULL};
		void *outs[] = {&y};
		void *workspace = aligned_alloc(64, (size_t)program.workspace + 64);
		struct evaluation e = {.program = &program,
		                       .ins = ins,
		                       .outs = outs,
		                       .params = m.params,
		                       .counters = m.counters,
		                       .workspace = workspace,
		                       .first_row = 20,
		                       .fold = tiled ? state : NULL,
		                       .fold_ends = ends};
		evaluate(&e);
		ck_assert(ends ? y == -77 : y == -sum / 160);
		ck_assert(!tiled || state[0] + state[1] == -sum);
		free(workspace);
		model_free(&m);
	}
}
END_TEST

/* Each allocation that fails is reported, and leaves nothing behind. */
START_TEST(memory_short)
{
	struct model m;
	model_init(&m, 5, DTYPE_F32, 50, 8);
	m.loops = m.general = true;
	add_instrs(&m, 400, 0);
	add_outs(&m);
	enum status status = STATUS_LIMIT;
	for (size_t n = 1; status != STATUS_OK; n++) {
		struct failing failing = {.fail_at = n, .on = true};
		const struct allocator allocator = failing_allocator(&failing);
		struct arena arena;
		struct diags diags;
		struct program program;
		arena_init(&arena, &allocator);
		diags_init(&diags, &m.arena);
		const struct context context = {&allocator, &arena, &diags};
		status = program_compile(&context, &program, &m.body, NULL, NULL);
		ck_assert(status == STATUS_OK || status == STATUS_LIMIT);
		arena_free(&arena);
		ck_assert_uint_eq(failing.live, 0);
		ck_assert_uint_lt(n, 100000);
	}
	model_free(&m);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("program");
	TCase *random = suite_make_case(suite, "random"), *hand = suite_make_case(suite, "by hand");
	tcase_set_timeout(random, 3600);
	tcase_set_timeout(hand, 60);
	tcase_add_loop_test(random, random_bodies, 0, 3 * 14);
	tcase_add_test(hand, affine_run);
	tcase_add_test(hand, long_run);
	tcase_add_test(hand, loop_in_run);
	tcase_add_test(hand, init_lives);
	tcase_add_test(hand, nested_loops);
	tcase_add_test(hand, carries_dropped);
	tcase_add_test(hand, run_iterations);
	tcase_add_test(hand, run_full);
	tcase_add_test(hand, deep_nest);
	tcase_add_test(hand, many_groups);
	tcase_add_test(hand, dead_dropped);
	tcase_add_test(hand, sums_at_end);
	tcase_add_test(hand, memory_short);
	return suite_run(suite);
}
