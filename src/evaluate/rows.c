/*
 * Runs launches on rows. A call gets types with fewer rows, and its arrays from the first of them on.
 *
 * Invariant: the bits of a row are those of the whole launch. A row of the result follows from the same row of each array
 * alone, or a group reads others at their places in whole arrays.
 * Tests: tests/unit/test_waves.c, tests/cases/joined.test
 */
#include "evaluate/rows.h"

#include "evaluate/blocks.h"
#include "ops/lines.h"

void launch_call_begin(struct launch_call *c)
{
	const struct launch_run *run = &c->run;
	const struct launch *launch = run->launch;
	const struct instr *instr = launch->instr;
	const struct type *v = instr->of.v;
	const struct type *computes = op_indices(instr->op) == NEED_V ? instr->of.y : v;
	c->call = (struct op_call){.op = instr->op,
	                           .attrs = own_attrs(run->own, instr, &c->attrs),
	                           .v = v,
	                           .a = instr->of.a,
	                           .y = instr->of.y,
	                           .first = run->first,
	                           .whole = v->shape.ndim ? v->shape.dim[0] : 1,
	                           .scratch = run->memory,
	                           .iteration = run->iteration,
	                           .stream = run->stream,
	                           .kernels = run->kernels[computes->dtype == DTYPE_F64]};
	for (int k = 0; k < MAX_NEEDS; k++)
		c->needs[k] = frame_at(run->frame, launch->needs[k]);
	for (int k = 0; k < MAX_KEEPS; k++)
		c->keep[k] = frame_at(run->frame, launch->keep[k]);
	c->call.b = c->needs[4];
	c->call.c = c->needs[5];
	c->call.c_type = instr->of.c;
	c->g = frame_at(run->frame, launch->g);
	c->out = frame_at(run->frame, launch->out);
	c->out_a = frame_at(run->frame, launch->out_a);
}

/*
 * Returns *TYPE with COUNT rows. If it has LINES lines, the axes between become 1, so that the last keeps its number; a list is
 * one line.
 */
static struct type type_of_lines(const struct type *type, int64_t count, int64_t lines)
{
	struct type with = *type;
	int64_t rows = with.shape.dim[0];
	if (lines && with.shape.ndim == 1)
		return with;
	for (int i = 1; rows < lines; i++) {
		rows *= with.shape.dim[i];
		with.shape.dim[i] = 1;
	}
	with.shape.dim[0] = count;
	return with;
}

/* Returns the bytes of ROWS rows of an array of TYPE, which has ALL rows, those of the launch: its shape may have others. */
static int64_t bytes_of_rows(const struct type *type, int64_t rows, int64_t all)
{
	const enum dtype dtype = dtype_compute(type->dtype);
	const int64_t elements = rows * (shape_count(&type->shape) / all);
	return dtype_bits(dtype) ? elements * dtype_bits(dtype) / 8 : elements * (int64_t)dtype_size(dtype);
}

/* Returns ARRAY, of ENTRY, from ROW on. */
static void *from_row(const struct launch_run *run, uint32_t entry, const void *array, int64_t row)
{
	if (!array)
		return NULL;
	const int64_t all = run->lines ? run->lines : run->launch->instr->of.v->shape.dim[0];
	return (char *)writable(array) + bytes_of_rows(run->program->frame->entries[entry].type, row, all);
}

/* Moves the arrays of C that WHICH marks to ROW. */
static void move_arrays(struct launch_call *c, unsigned which, int64_t row)
{
	static const unsigned marks[MAX_NEEDS] = {STREAMED_V, STREAMED_A, STREAMED_Y, STREAMED_V, STREAMED_V, STREAMED_C};
	const struct launch_run *run = &c->run;
	const struct launch *launch = run->launch;
	for (int k = 0; k < MAX_NEEDS; k++)
		if (which & marks[k])
			c->needs[k] = from_row(run, launch->needs[k], c->needs[k], row);
	c->call.b = c->needs[4];
	c->call.c = c->needs[5];
	for (int k = 0; k < MAX_KEEPS; k++)
		if (which & STREAMED_V)
			c->keep[k] = from_row(run, launch->keep[k], c->keep[k], row);
	if (which & (launch->instr->kind == INSTR_VJP ? STREAMED_V : STREAMED_Y))
		c->out = from_row(run, launch->out, c->out, row);
	if (which & launch_by_operand(launch))
		c->out_a = from_row(run, launch->out_a, c->out_a, row);
	if (which & STREAMED_Y)
		c->g = from_row(run, launch->g, c->g, row);
	if (which & STREAMED_V)
		c->call.first += row * (shape_count(&c->call.v->shape) / (run->lines ? run->lines : c->call.v->shape.dim[0]));
}

void launch_call_cut(struct launch_call *c, unsigned which, struct row_range rows)
{
	const struct type **const types[] = {&c->call.v, &c->call.a, &c->call.y, &c->call.c_type};
	if (rows.first > 0)
		move_arrays(c, which, rows.first);
	for (int i = 0; i < 4; i++) {
		if (!(which >> i & 1) || !*types[i])
			continue;
		c->cut[i] = type_of_lines(*types[i], rows.count, c->run.lines);
		*types[i] = &c->cut[i];
	}
}

void launch_call_run(const struct launch_call *c)
{
	if (c->run.launch->instr->kind == INSTR_VJP)
		op_vjp_get(c->call.op)(&c->call, c->out, c->out_a, c->g, c->needs);
	else
		op_forward_get(c->call.op)(&c->call, c->out, c->needs[0], c->needs[1], c->keep);
}

/* Runs ROWS of a launch with registers or scratch at MEMORY. */
typedef void rows_function(const struct launch_run *run, void *memory, struct row_range rows);

static void run_group_rows(const struct launch_run *run, void *memory, struct row_range rows)
{
	const int64_t row = run->launch->count / (run->lines ? run->lines : run->launch->rows);
	group_run_part(run, memory, rows.first * row, (rows.first + rows.count) * row);
}

static void run_call_rows(const struct launch_run *run, void *memory, struct row_range rows)
{
	struct launch_call c;
	c.run = *run;
	launch_call_begin(&c);
	c.call.scratch = memory;
	launch_call_cut(&c, STREAMED_V | STREAMED_A | STREAMED_Y, rows);
	launch_call_run(&c);
}

void launch_run_rows(const struct launch_run *run, void *memory, struct row_range rows)
{
	rows_function *const function = run->launch->kind == LAUNCH_GROUP ? run_group_rows : run_call_rows;
	function(run, memory ? memory : run->memory, rows);
}

void launch_run_whole(const struct launch_run *run, struct team *team)
{
	struct launch_call c;
	if (run->launch->kind == LAUNCH_GROUP) {
		group_run(run, team);
		return;
	}
	c.run = *run;
	launch_call_begin(&c);
	c.call.team = team;
	launch_call_run(&c);
}
