/*
 * A wave over launches that wait, its stages. Each has a lag L, in rows of the leading axis. All stages compute a part of
 * the rows of an array before the next part, each L rows behind the first.
 *
 *     rows 0 ......................... t-2   t-1    t
 *     stage 2 (lag 2)             done  now
 *     stage 1 (lag 1)                   done  now
 *     stage 0 (lag 0)                         done  now
 *
 * Lags follow from what stages share, in the order in which they came. Let H be the halo by which a stage reads an array.
 * A stage that reads what an earlier one writes has a lag of at least that one's and H more. A stage that writes what an
 * earlier one reads has a lag of at least that one's and that one's H more. Two that write one array have rising lags.
 * So arrays may be reused by the stages that wait, and no work is done twice (Wonnacott 2000, time skewing).
 *
 * A team shares a wave by strips of rows. Where two strips meet, each stage leaves out as many rows as its lag on both
 * sides. Once all strips are done these rows follow, stage by stage. All rows that they read are there, and none has been
 * overwritten, by the same lags. If a stage reads around the ends of the axis, the ends meet as two strips do.
 *
 * A wave may carry rows from one window of an array to the next, TILE rows further on (exec/carried.c). Then each stage of
 * the first window leaves out its last rows, as many as its lag. In the next window it continues from there, once the rows
 * that it still reads have moved to where that window has them. So lags count from the window's input, and stay the
 * same from window to window. They also count from the stages that have run before in the window.
 *
 * Invariant: the bits of a row are those of the stages one after another, for any strips, windows and lags.
 * Tests: tests/unit/test_waves.c
 */
#include "evaluate/wave.h"

#include <string.h>

#include "base/checked.h"
#include "base/system.h"
#include "compile/launch.h"

enum {
	WAVE_STAGES = 128,
	WAVE_ARRAYS = 384,
	WAVE_POINTERS = 4096,   /* in the copies of frames */
	WAVE_USES = 64,         /* of arrays by one stage */
	WAVE_FRAME = 256,       /* pointers of the frame of the program that runs */
	PART_BYTES = 64 << 10,  /* of an array, in the rows that a stage computes at a time */
	COPY_LEAST = 256 << 10, /* bytes of an array whose copy waits */
};

/* A launch that has rows or, if TO is not NULL, a copy of an array. */
struct wave_stage {
	union {
		struct launch_run run;
		const char *from;
	};
	char *to;
	int64_t rows, row; /* of the leading axis; elements of one, or bytes if it is a copy */
	int64_t lag;
};

/* How a stage uses an array: element by element, with rows around (HALO), or all of it at any time (WHOLE). */
struct wave_use {
	const char *base;
	int64_t bytes, row_bytes, halo;
	bool writes, whole;
};

/* An array of the stages that wait. */
struct wave_array {
	const char *base;
	int64_t bytes, row_bytes;
	int64_t written; /* the lag of the last stage that writes it; -1: none */
	int64_t read;    /* the most of lag + halo of the stages that read it; -1: none */
	int64_t last;    /* the most lag of the stages that wait and use it; -1: none does */
	bool whole;      /* a stage reads all of it */
};

struct wave {
	size_t size;          /* of the wave with its registers, as allocated */
	char *memory;         /* of the caller: registers and scratch, which follow the wave */
	int64_t memory_bytes; /* of MEMORY */
	struct wave_stage stages[WAVE_STAGES];
	size_t count;
	struct wave_array arrays[WAVE_ARRAYS];
	size_t array_count;
	char *pointers[WAVE_POINTERS];
	size_t pointer_count;
	char *current[WAVE_FRAME]; /* the frame of the program that runs */
	char **frame;              /* the last copy: of PROGRAM's frame */
	const struct program *program;
	struct wave_use uses[WAVE_USES]; /* of the launch that is being added */
	size_t use_count;
	struct team *team;
	int64_t members;           /* of the team */
	int64_t rows;              /* the most of a stage */
	int64_t most;              /* the most lag of a stage */
	int64_t part;              /* rows that a stage computes at a time */
	int64_t footprint;         /* bytes between the first and the last use of each array, summed */
	int64_t cache;             /* the most that FOOTPRINT may be */
	bool wraps;                /* a stage reads around the ends of the axis: then all have ROWS rows */
	struct wave_window window; /* of a wave that carries rows; else its rows are 0 */
	bool failed;               /* the stages of the window cannot carry rows */
};
_Static_assert(sizeof(struct wave) + ARRAY_ALIGN <= WAVE_LISTS, "a wave has the bytes that programs report");

/* Forgets the stages that wait, and the arrays of stages that have run unless WAVE carries rows. */
static void forget_stages(struct wave *wave)
{
	wave->count = wave->pointer_count = 0;
	wave->array_count = wave->window.rows ? wave->array_count : 0;
	for (size_t i = 0; i < wave->array_count; i++)
		wave->arrays[i].last = -1;
	wave->frame = NULL;
	wave->rows = wave->most = wave->footprint = 0;
	wave->wraps = false;
}

struct wave *wave_open(int64_t bytes, const struct allocator *allocator)
{
	struct wave *wave = allocator_get(allocator, (size_t)bytes, 1);
	if (!wave)
		return NULL;
	const size_t end = sizeof *wave + ARRAY_ALIGN - 1;
	wave->window = (struct wave_window){.rows = 0};
	wave->failed = false;
	forget_stages(wave);
	wave->size = (size_t)bytes;
	wave->memory = (char *)wave + end - ((uintptr_t)wave + end) % ARRAY_ALIGN;
	wave->memory_bytes = bytes - WAVE_LISTS;
	wave->cache = system_cache_bytes() / 4 * 3;
	return wave;
}

void wave_close(struct wave *wave, const struct allocator *allocator)
{
	if (wave)
		allocator_put(allocator, wave, wave->size);
}

/* Runs rows BEGIN .. END-1 of STAGE, as far as it has them. */
static void run_rows(const struct wave_stage *stage, void *memory, int64_t begin, int64_t end)
{
	begin = greater(begin, 0);
	end = lesser(end, stage->rows);
	if (begin < end && stage->to)
		memcpy(stage->to + begin * stage->row, stage->from + begin * stage->row, (size_t)((end - begin) * stage->row));
	else if (begin < end)
		launch_run_rows(&stage->run, memory, (struct row_range){begin, end - begin});
}

struct strips {
	const struct wave *wave;
	int64_t count;
};

static int64_t strip_begin(const struct strips *s, int64_t strip) { return s->wave->rows * strip / s->count; }

/* Runs the stages on strip STRIP, without the rows at the places where it meets others. A team_part. */
static void run_strip(void *context, void *memory, int64_t strip, int64_t next)
{
	const struct strips *s = context;
	const struct wave *wave = s->wave;
	const int64_t begin = strip_begin(s, strip), end = strip_begin(s, next);
	const int64_t cut_begin = wave->wraps || strip > 0, cut_end = wave->wraps || next < s->count;
	for (int64_t t = begin; t - wave->most < end; t += wave->part)
		for (size_t i = 0; i < wave->count; i++) {
			const struct wave_stage *stage = &wave->stages[i];
			run_rows(stage, memory, greater(t - stage->lag, begin + cut_begin * stage->lag),
			         lesser(t - stage->lag + wave->part, end - cut_end * stage->lag));
		}
}

/* Runs the rows that were left out where strip STRIP begins, and where the axis ends if that is strip 0. A team_part. */
static void run_seam(void *context, void *memory, int64_t strip, int64_t next)
{
	const struct strips *s = context;
	const int64_t at = strip_begin(s, strip), rows = s->wave->rows;
	(void)next;
	for (size_t i = 0; i < s->wave->count && (strip > 0 || s->wave->wraps); i++) {
		const struct wave_stage *stage = &s->wave->stages[i];
		run_rows(stage, memory, at - stage->lag, at + stage->lag);
		if (strip == 0)
			run_rows(stage, memory, rows - stage->lag, rows);
	}
}

/* Runs the stages on the rows of the window that they have not computed yet. */
static void run_stages(const struct wave *wave)
{
	const struct wave_window *window = &wave->window;
	const int64_t end = window->last ? greater(wave->rows, window->rows) + wave->most : window->rows;
	for (int64_t t = window->done; t < end; t += wave->part)
		for (size_t i = 0; i < wave->count; i++) {
			const struct wave_stage *stage = &wave->stages[i];
			const int64_t done = window->done ? window->done - stage->lag : 0;
			run_rows(stage, NULL, greater(t - stage->lag, done),
			         lesser(t - stage->lag + wave->part, window->last ? stage->rows : window->rows - stage->lag));
		}
}

void wave_run(struct wave *wave)
{
	if (!wave || wave->count == 0)
		return;
	struct strips strips = {wave, wave->members};
	if (wave->window.rows) {
		if (!wave->window.dry)
			run_stages(wave);
	} else if (wave->count == 1 && !wave->stages[0].to) {
		launch_run_whole(&wave->stages[0].run, wave->team);
	} else {
		team_run(wave->team, strips.count, 1, run_strip, &strips);
		if (wave->most > 0 && (strips.count > 1 || wave->wraps))
			team_run(wave->team, strips.count, 1, run_seam, &strips);
	}
	forget_stages(wave);
}

/* Adds USE to the uses of the launch that is being added. Returns false if they are too many. */
static bool add_use(struct wave *wave, struct wave_use use)
{
	if (wave->use_count == WAVE_USES)
		return false;
	wave->uses[wave->use_count++] = use;
	return true;
}

/* Adds the uses of kernel op M of RUN, whose rows have ROW elements. Returns false if RUN cannot wait. */
static bool note_uses(struct wave *wave, const struct launch_run *run, const struct kernel_op *m, int64_t row,
                      bool *wraps)
{
	const struct entry *entries = run->program->frame->entries;
	bool good = true;
	for (size_t k = 0; k < KERNEL_OP_ARGS && good; k++) {
		const struct arg *arg = &m->args[k];
		if ((arg->kind != ARG_ARRAY && arg->kind != ARG_SCALAR) || entries[arg->index].kind == ENTRY_COUNTER)
			continue;
		const struct type *type = entries[arg->index].type;
		struct wave_use use = {.base = run->frame[arg->index],
		                       .bytes = type_bytes(type),
		                       .row_bytes = arg->bits ? row * arg->bits / 8 : row << arg->shift,
		                       .writes = k >= KERNEL_OP_READS,
		                       .whole = arg->kind == ARG_SCALAR || m->kind == KERNEL_OP_FILL};
		if (entries[arg->index].kind == ENTRY_PARAM) { /* no stage writes it */
			good = !wave->window.rows || m->kind != KERNEL_OP_GATHER || arg != &m->v;
			continue;
		}
		good = !arg->bits || row % 8 == 0;
		if (m->kind == KERNEL_OP_GATHER && arg == &m->v) {
			const bool back = m->instr->kind == INSTR_VJP;
			const struct halo forward = op_halo(m->op, m->instr->attrs, m->instr->of.v);
			const struct halo halo = back ? halo_of_derivative(forward) : forward;
			use.halo = greater(halo.before, halo.after);
			const struct type *gathered =
				back ? m->instr->of.y : m->instr->of.v; /* the array may be of another shape */
			use.row_bytes = use.bytes / greater(gathered->shape.dim[0], 1);
			use.whole = op_scope(m->op, m->instr->attrs, m->instr->of.v, NULL, false) > SCOPE_NEIGHBOUR;
			*wraps |= halo.wraps;
		}
		good = good && add_use(wave, use);
	}
	return good;
}

/* Adds the uses of RUN's launch, a call: its arrays by rows. */
static bool note_arrays_of_call(struct wave *wave, const struct launch_run *run)
{
	const struct launch *launch = run->launch;
	const uint32_t *const needs = launch->needs, *const keep = launch->keep;
	const uint32_t entries[] = {needs[0],  needs[1],    needs[2],      needs[3], needs[4], needs[5],
	                            launch->g, launch->out, launch->out_a, keep[0],  keep[1]};
	enum { READS = MAX_NEEDS + 1, USES = READS + 2 + MAX_KEEPS };
	bool good = true;
	for (int i = 0; i < USES && good; i++) {
		if (entries[i] == NO_VALUE || run->program->frame->entries[entries[i]].kind == ENTRY_PARAM)
			continue;
		const int64_t bytes = type_bytes(run->program->frame->entries[entries[i]].type);
		good = add_use(wave, (struct wave_use){.base = run->frame[entries[i]],
		                                       .bytes = bytes,
		                                       .row_bytes = bytes / launch->rows,
		                                       .writes = i >= READS});
	}
	return good;
}

/*
 * Returns the array of WAVE that shares bytes with USE, or NULL. *OTHER: it is cut into rows in another way, or there are
 * several. The array and the use may have different numbers of rows.
 */
static struct wave_array *array_of(struct wave *wave, const struct wave_use *use, bool *other)
{
	struct wave_array *found = NULL;
	for (size_t i = 0; i < wave->array_count; i++) {
		struct wave_array *array = &wave->arrays[i];
		if (use->base >= array->base + array->bytes || array->base >= use->base + use->bytes)
			continue;
		*other |=
			found || array->base != use->base || (array->row_bytes != use->row_bytes && !use->whole && !array->whole);
		found = array;
	}
	return found;
}

/* Returns the lag of a stage of ROWS rows with the uses that are being added; -1: it cannot join the other stages. */
static int64_t lag_of(struct wave *wave, int64_t rows)
{
	const bool carries = wave->window.rows > 0;
	/* The last rows that a stage lacks would be missing in the next window. */
	int64_t lag = greater(wave->window.rows - rows, 0);
	bool apart = false;
	for (const struct wave_use *use = wave->uses; use < wave->uses + wave->use_count; use++) {
		const struct wave_array *array = array_of(wave, use, &apart);
		if (carries && !use->writes) /* the input has the rows of the window, and no more */
			lag = greater(lag, use->halo);
		apart |= carries && use->whole;
		if (!array)
			continue;
		apart |= (use->whole && array->written >= 0) || (array->whole && use->writes);
		if (array->written >= 0)
			lag = greater(lag, array->written + (use->writes ? 0 : use->halo));
		if (use->writes)
			lag = greater(lag, array->read);
	}
	return apart ? -1 : lag;
}

char **wave_frame(struct wave *wave, void *memory, size_t count)
{
	const struct wave_use use = {.base = memory, .bytes = (int64_t)(count * sizeof(char *))};
	bool other = false;
	if (wave && count <= WAVE_FRAME)
		return wave->current;
	if (wave && array_of(wave, &use, &other))
		wave_run(wave);
	return memory;
}

/* Returns how many more rows of ARRAY, NULL if it is a new one, must stay in the cache once a stage at LAG has USE. */
static int64_t more_rows(const struct wave *wave, const struct wave_use *use, const struct wave_array *array,
                         int64_t lag)
{
	return array && array->last >= 0 ? greater(lag - array->last, 0) : wave->part + use->halo;
}

/* Adds the uses by a stage of lag LAG to the arrays of WAVE. There is capacity. */
static void add_arrays(struct wave *wave, int64_t lag)
{
	for (const struct wave_use *use = wave->uses; use < wave->uses + wave->use_count; use++) {
		bool other = false;
		struct wave_array *array = array_of(wave, use, &other);
		if (!array) {
			array = &wave->arrays[wave->array_count++];
			*array = (struct wave_array){use->base, use->bytes, use->row_bytes, -1, -1, -1, use->whole};
		}
		wave->footprint += more_rows(wave, use, array, lag) * use->row_bytes;
		array->last = greater(lag, array->last);
		array->bytes = greater(array->bytes, use->bytes);
		array->whole |= use->whole;
		if (use->writes)
			array->written = greater(lag, array->written);
		else
			array->read = greater(lag + use->halo, array->read);
	}
}

/* Copies RUN's frame, unless the last copy is of it and MOVED is false. Returns false if there is no capacity. */
static bool copy_frame(struct wave *wave, struct launch_run *run, bool moved)
{
	const size_t count = run->program->frame->count;
	if (!moved && wave->frame && wave->program == run->program) {
		run->frame = wave->frame;
		return true;
	}
	if (wave->pointer_count + count > WAVE_POINTERS)
		return false;
	wave->frame = memcpy(wave->pointers + wave->pointer_count, run->frame, count * sizeof *run->frame);
	wave->pointer_count += count;
	wave->program = run->program;
	run->frame = wave->frame;
	return true;
}

/* Returns the footprint of WAVE once a stage with the uses that are being added has joined at LAG. */
static int64_t footprint_with(struct wave *wave, int64_t lag)
{
	int64_t footprint = wave->footprint;
	for (const struct wave_use *use = wave->uses; use < wave->uses + wave->use_count; use++) {
		bool other = false;
		const struct wave_array *array = array_of(wave, use, &other);
		footprint += more_rows(wave, use, array, lag) * use->row_bytes;
	}
	return footprint;
}

/* True if a stage of ROWS rows at LAG may join, which reads around the ends if it WRAPS. */
static bool may_join(struct wave *wave, int64_t rows, int64_t lag, bool wraps)
{
	if (wave->count == 0)
		return true;
	wraps |= wave->wraps;
	/* A strip has at least the rows that it leaves out at its ends. */
	const bool strips = 2 * greater(wave->most, lag) * wave->members <= lesser(rows, wave->rows);
	return lag >= 0 && wave->count < WAVE_STAGES && wave->array_count + wave->use_count <= WAVE_ARRAYS &&
	       footprint_with(wave, lag) <= wave->cache && (!wraps || wave->rows == rows) &&
	       (strips || (wave->members == 1 && !wraps));
}

/* Fills the uses of RUN. Returns false if it cannot wait, or is not worth it. */
static bool list_uses(struct wave *wave, const struct launch_run *run, bool *wraps)
{
	const struct launch *launch = run->launch;
	wave->use_count = 0;
	if ((!wave->window.rows && !launch->waits) || launch->memory > wave->memory_bytes)
		return false;
	if (launch->kind != LAUNCH_GROUP)
		return note_arrays_of_call(wave, run);
	for (size_t i = 0; i < launch->kernel_op_count; i++)
		if (!note_uses(wave, run, &launch->kernel_ops[i], launch->count / launch->rows, wraps))
			return false;
	*wraps &= !wave->window.rows; /* rows near the ends of a window may be wrong */
	return true;
}

/* Lets STAGE wait, whose uses are being added; after the stages that wait have run, if it cannot join them. */
static bool join_wave(struct wave *wave, struct wave_stage *stage, bool wraps, bool moved, struct team *team)
{
	stage->lag = lag_of(wave, stage->rows);
	wave->failed |= wave->window.rows && (stage->lag < 0 || wave->array_count + wave->use_count > WAVE_ARRAYS);
	if (wave->failed)
		return wave->window.dry;
	if (!may_join(wave, stage->rows, stage->lag, wraps) || (!stage->to && !copy_frame(wave, &stage->run, moved))) {
		wave_run(wave);
		stage->lag = wave->window.rows ? stage->lag : 0;
		if (!stage->to && !copy_frame(wave, &stage->run, true)) {
			wave->failed |= wave->window.rows > 0;
			return wave->window.dry;
		}
	}
	if (wave->count == 0) {
		wave->team = team;
		wave->members = team ? team_start(team) : 1;
		wave->part = greater(1, PART_BYTES / (stage->to ? stage->row : 4 * stage->row));
	}
	if (!stage->to)
		stage->run.memory = wave->memory;
	add_arrays(wave, stage->lag);
	wave->stages[wave->count++] = *stage;
	wave->rows = greater(wave->rows, stage->rows);
	wave->most = greater(wave->most, stage->lag);
	wave->wraps |= wraps;
	return true;
}

bool wave_add(struct wave *wave, const struct launch_run *run, bool moved, struct team *team)
{
	const struct launch *launch = run->launch;
	struct wave_stage stage = {.run = *run, .rows = launch->rows};
	bool wraps = false;
	if (!list_uses(wave, run, &wraps)) {
		wave_run(wave);
		wave->failed = wave->window.rows > 0;
		return wave->window.dry;
	}
	stage.row = launch->count / launch->rows;
	return join_wave(wave, &stage, wraps, moved, team);
}

bool wave_copy(struct wave *wave, char *to, const char *from, const struct type *type, struct team *team)
{
	const int64_t rows = type->shape.ndim > 0 ? type->shape.dim[0] : 1, bytes = type_bytes(type);
	if (!wave || (!wave->window.rows && (rows < 2 || bytes < COPY_LEAST || bytes % rows)))
		return false;
	struct wave_stage stage = {.from = from, .to = to, .rows = rows, .row = bytes / rows};
	wave->uses[0] = (struct wave_use){.base = from, .bytes = bytes, .row_bytes = stage.row};
	wave->uses[1] = (struct wave_use){.base = to, .bytes = bytes, .row_bytes = stage.row, .writes = true};
	wave->use_count = 2;
	return join_wave(wave, &stage, false, false, team);
}

/* True if LAUNCH, a group of PROGRAM, writes arrays of streamed rows alone. */
static bool makes_streamed_rows(const struct program *program, const struct launch *launch)
{
	const struct body *body = program->body;
	for (size_t k = 0; k < launch->kernel_op_count; k++)
		for (size_t out = KERNEL_OP_READS; out < KERNEL_OP_ARGS; out++) {
			const struct arg *arg = &launch->kernel_ops[k].args[out];
			if (arg->kind == ARG_ARRAY && (arg->value >= body->value_count || !body->values[arg->value].streamed))
				return false;
		}
	return true;
}

int64_t wave_window_bytes(const struct program *program)
{
	const uint8_t streamed = STREAMED_V | STREAMED_Y;
	int64_t bytes = program->launch_count > 0 ? WAVE_LISTS : 0;
	bool calls = false;
	for (size_t i = 0; i < program->launch_count; i++) {
		const struct launch *launch = &program->launches[i];
		if ((launch->kind == LAUNCH_LOOP && !launch->conditional) || launch->kind == LAUNCH_END)
			continue;
		if (!launch->rows || (launch->kind == LAUNCH_GROUP ? !makes_streamed_rows(program, launch)
		                                                   : (launch->streamed & streamed) != streamed))
			return 0;
		bytes = greater(bytes, WAVE_LISTS + launch->memory);
		calls |= launch->kind != LAUNCH_GROUP;
	}
	return calls && bytes > program->wave ? 0 : bytes;
}

void wave_begin_window(struct wave *wave, const struct wave_window *window)
{
	wave->window = *window;
	wave->failed = false;
	wave->array_count = 0;
	forget_stages(wave);
}

int64_t wave_lag(const struct wave *wave, const void *array)
{
	for (size_t i = 0; i < wave->array_count; i++)
		if (wave->arrays[i].base == array)
			return greater(wave->arrays[i].written, 0);
	return 0;
}

int64_t wave_depth(const struct wave *wave)
{
	int64_t most = 0;
	for (size_t i = 0; i < wave->array_count; i++)
		most = greater(most, greater(wave->arrays[i].read, wave->arrays[i].written));
	return wave->failed || wave->array_count == 0 ? -1 : most;
}

void wave_move_window(struct wave *wave, int64_t rows)
{
	for (size_t i = 0; i < wave->array_count; i++) {
		const struct wave_array *array = &wave->arrays[i];
		char *const base = (char *)(uintptr_t)array->base;
		/* An array may have fewer rows than the window. Stages have left out more of its rows than it lacks. */
		const int64_t first = wave->window.rows - array->read;
		const int64_t end = lesser(wave->window.rows, array->bytes / array->row_bytes);
		if (array->read > 0 && first < end)
			memmove(base + (first - rows) * array->row_bytes, base + first * array->row_bytes,
			        (size_t)((end - first) * array->row_bytes));
	}
}
