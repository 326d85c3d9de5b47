/* Tests: tests/scripts/check-ranks */
#include "evaluate/neighbours.h"

#include "base/checked.h"
#include "evaluate/wave.h"

enum { TAG_DOWN = 128, TAG_UP, TAG_STATE }; /* of messages; others are those of shares.c and ordered.c */

void neighbours_begin(struct neighbours *n, int64_t tile_row)
{
	n->tile_row = tile_row;
	for (size_t i = 0; i < NEIGHBOURS_ARRAYS; i++)
		n->arrays[i] = (struct right_rows){.offset = -1};
}

/* Returns where N counts the array at OFFSET. Another array may be counted there. */
static struct right_rows *rows_counted_at(struct neighbours *n, int64_t offset)
{
	const uint64_t hash = (uint64_t)offset / ARRAY_ALIGN * UINT64_C(0x9e3779b97f4a7c15);
	return &n->arrays[hash >> 32 & (NEIGHBOURS_ARRAYS - 1)];
}

/* Returns ARRAY's offset; -1 if it is not counted. */
static int64_t counted_offset(const struct neighbours *n, const void *array)
{
	int64_t before = 0;
	for (const struct counted_memory *m = n->memory; m < n->memory + sizeof n->memory / sizeof *n->memory; m++) {
		if ((const char *)array >= m->begin && (const char *)array < m->begin + m->size)
			return before + ((const char *)array - m->begin);
		before += m->size;
	}
	return -1;
}

/* Returns the right rows of ARRAY on either side; n->tiles->exchanged if all are. */
static int64_t right_rows(struct neighbours *n, const void *array)
{
	const int64_t offset = counted_offset(n, array);
	if (offset < 0)
		return n->tiles->exchanged;
	const struct right_rows *place = rows_counted_at(n, offset);
	return place->offset == offset ? place->rows : 0;
}

static void set_right_rows(struct neighbours *n, const void *array, int64_t rows)
{
	const int64_t offset = counted_offset(n, array);
	if (offset >= 0)
		*rows_counted_at(n, offset) = (struct right_rows){offset, rows};
}

void neighbours_written(struct neighbours *n, const void *array, bool right)
{
	if (n)
		set_right_rows(n, array, right ? n->tiles->exchanged : 0);
}

void neighbours_copied(struct neighbours *n, const void *to, const void *from)
{
	if (n)
		set_right_rows(n, to, right_rows(n, from));
}

/* Returns ENTRY's array if it has the rows of the window, else NULL. No other array has as many rows (plan/tiles.c). */
static char *window_of(const struct neighbours *n, const struct program *program, char *const *frame, uint32_t entry)
{
	if (entry == NO_VALUE || program->frame->entries[entry].kind == ENTRY_PARAM)
		return NULL;
	const struct shape *shape = &program->frame->entries[entry].type->shape;
	return shape->ndim > 0 && shape->dim[0] == n->tiles->window ? frame[entry] : NULL;
}

/* Sends SIZE bytes at OWN to rank TO, and receives as many at AROUND from it. */
static enum status exchange_side(const struct neighbours *n, bool up, const char *own, char *around, size_t size,
                                 bool sends)
{
	const int count = n->ranks->count, beside = (n->ranks->index + (up ? 1 : count - 1)) % count;
	const bool end = n->ranks->index == (up ? count - 1 : 0);
	if (end && !n->tiles->wraps)
		return STATUS_OK;
	return sends ? ranks_send(n->ranks, beside, up ? TAG_UP : TAG_DOWN, own, size)
	             : ranks_receive(n->ranks, beside, up ? TAG_DOWN : TAG_UP, around, size);
}

/* Makes all rows of ARRAY, of TYPE, right. */
static enum status exchange(struct neighbours *n, char *array, const struct type *type)
{
	const int64_t row = type_bytes(type) / type->shape.dim[0], halo = n->tiles->exchanged;
	const struct owned_rows own = tiles_owned(n->tiles, n->tile_row, type->shape.dim[0]);
	const size_t size = (size_t)(halo * row);
	char *const first = array + own.first * row, *const end = first + own.count * row;
	wave_run(n->wave);
	for (int sends = 1; sends >= 0; sends--) {
		TRY(exchange_side(n, false, first, first - size, size, sends));
		TRY(exchange_side(n, true, end - size, end, size, sends));
	}
	set_right_rows(n, array, halo);
	return STATUS_OK;
}

enum status neighbours_get_state(struct neighbours *n, double *state, size_t size, bool *have)
{
	*have = n && n->ranks->index > 0;
	return *have ? ranks_receive(n->ranks, n->ranks->index - 1, TAG_STATE, state, size) : STATUS_OK;
}

enum status neighbours_pass_state(struct neighbours *n, const double *state, size_t size, bool *passed)
{
	*passed = n && n->ranks->index < n->ranks->count - 1;
	return *passed ? ranks_send(n->ranks, n->ranks->index + 1, TAG_STATE, state, size) : STATUS_OK;
}

/* A launch while its right rows are counted: those that its results have. */
struct counting {
	struct neighbours *n;
	const struct program *program;
	char *const *frame;
	int64_t rows;
};

/* Exchanges ENTRY's array if fewer than HALO of its rows are right on either side. */
static enum status make_right(const struct counting *c, uint32_t entry, int64_t halo)
{
	char *const array = halo > 0 ? window_of(c->n, c->program, c->frame, entry) : NULL;
	return array && right_rows(c->n, array) < halo ? exchange(c->n, array, c->program->frame->entries[entry].type)
	                                               : STATUS_OK;
}

/* Counts a read of ENTRY with HALO rows around a row. */
static void count_read(struct counting *c, uint32_t entry, int64_t halo)
{
	const char *const array = window_of(c->n, c->program, c->frame, entry);
	if (array)
		c->rows = lesser(c->rows, right_rows(c->n, array) - halo);
}

static void count_write(const struct counting *c, uint32_t entry)
{
	const char *const array = window_of(c->n, c->program, c->frame, entry);
	if (array)
		set_right_rows(c->n, array, c->rows);
}

/* Returns the rows that INSTR, an operation or a derivative, reads on either side of a row. */
static int64_t halo_of(const struct instr *instr)
{
	const struct halo forward = op_halo(instr->op, instr->attrs, instr->of.v);
	const struct halo halo = instr->kind == INSTR_VJP ? halo_of_derivative(forward) : forward;
	return greater(halo.before, halo.after);
}

/* Exchanges come first: an array that is exchanged may be read twice. */
static enum status count_group(struct counting *c, const struct launch *launch)
{
	const struct kernel_op *const end = launch->kernel_ops + launch->kernel_op_count;
	for (const struct kernel_op *m = launch->kernel_ops; m < end; m++)
		if (m->kind == KERNEL_OP_GATHER)
			TRY(make_right(c, m->v.index, halo_of(m->instr)));
	for (const struct kernel_op *m = launch->kernel_ops; m < end; m++)
		for (size_t k = 0; k < KERNEL_OP_READS; k++)
			if (m->args[k].kind == ARG_ARRAY)
				count_read(c, m->args[k].index, m->kind == KERNEL_OP_GATHER && k == 0 ? halo_of(m->instr) : 0);
	for (const struct kernel_op *m = launch->kernel_ops; m < end; m++)
		for (size_t k = KERNEL_OP_READS; k < KERNEL_OP_ARGS; k++)
			if (m->args[k].kind == ARG_ARRAY)
				count_write(c, m->args[k].index);
	return STATUS_OK;
}

static enum status count_call(struct counting *c, const struct launch *launch)
{
	const int64_t halo = launch_is_call(launch) ? halo_of(launch->instr) : 0;
	for (int k = 0; k < MAX_NEEDS; k++)
		TRY(make_right(c, launch->needs[k], halo));
	TRY(make_right(c, launch->g, halo));
	for (int k = 0; k < MAX_NEEDS; k++)
		count_read(c, launch->needs[k], halo);
	count_read(c, launch->g, halo);
	count_write(c, launch->out);
	count_write(c, launch->out_a);
	for (int k = 0; k < MAX_KEEPS; k++)
		count_write(c, launch->keep[k]);
	return STATUS_OK;
}

enum status neighbours_launch(struct neighbours *n, const struct program *program, const struct launch *launch,
                              char *const *frame)
{
	if (!n || launch->kind == LAUNCH_LOOP || launch->kind == LAUNCH_WHILE || launch->kind == LAUNCH_END)
		return STATUS_OK;
	struct counting counting = {n, program, frame, n->tiles->exchanged};
	return launch->kind == LAUNCH_GROUP ? count_group(&counting, launch) : count_call(&counting, launch);
}
