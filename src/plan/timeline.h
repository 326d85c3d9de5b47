/*
 * A timeline: what a schedule does, one event after another, from any of three
 * sources: the machine alone (times are costs), a gradient run (times are
 * measured), an abstract interpretation. It is what pictures are drawn from.
 *
 * Its memory is fixed: up to TIMELINE_SEGMENTS events are kept as they are;
 * beyond, what was done is kept as a picture of TIMELINE_COLUMNS by
 * TIMELINE_ROWS cells for each kind, and the bytes in use by their highest in
 * each column.
 */
#ifndef PLAN_TIMELINE_H
#define PLAN_TIMELINE_H

#include "memory/hooks.h"
#include "plan/job.h"
#include "schedule/step_costs.h"

enum { TIMELINE_SEGMENTS = 3000, TIMELINE_COLUMNS = 1024, TIMELINE_ROWS = 256 };

enum event_kind {
	/* These take time: steps BEGIN .. END-1 are run forward, or reversed from END to BEGIN. */
	EVENT_FORWARD,   /* first sweep, nothing kept */
	EVENT_RECORD,    /* first sweep, residuals kept */
	EVENT_RECOMPUTE, /* not the first sweep */
	EVENT_BACKWARD,
	EVENT_SPILL, /* a part of state BEGIN to disk, and back */
	EVENT_FETCH,
	/* These are moments. */
	EVENT_SAVE, /* state BEGIN is held in SLOT from now on */
	EVENT_DROP, /* SLOT is empty from now on */
	EVENT_DISK_SAVE,
	EVENT_DISK_DROP,
	EVENT_START, /* a tile begins: its worker holds nothing yet */
	EVENT_LIVE,  /* the bytes in use by WORKER are LIVE from now on */
};

struct event {
	enum event_kind kind;
	int worker;
	int64_t array, tile; /* which of the stream, which of the array */
	int64_t begin, end;  /* steps */
	int64_t slot;
	int64_t evaluations; /* forward executions of a step in it, as counters count them */
	double from, to;     /* costs, or microseconds from the start of the run */
	int64_t live;        /* bytes in use by WORKER, of its slab */
};

struct timeline_segment {
	enum event_kind kind; /* one that takes time; SAVE and DISK_SAVE: state BEGIN was held FROM .. TO */
	int64_t begin, end;
	double from, to;
	int64_t live;
};

struct timeline_open {
	int64_t state; /* -1: the slot is empty */
	double since;
};

struct timeline {
	int64_t steps;
	double end; /* of the last event */
	bool exact; /* segments are all there is */
	struct timeline_segment *segments;
	size_t count;
	double column;  /* time of a column */
	int64_t *live;  /* by column: the highest; -1: nothing happened in it */
	uint8_t *cells; /* by layer, column, row: a bit; see timeline_cell */
	int64_t peak;
	struct timeline_open *open[2]; /* by slot: memory, disk */
	size_t open_capacity[2];
	struct arena *arena;
};

/* The layers of cells: what runs, and from LAYER_HELD on what is held, in memory and on disk. */
enum timeline_layer {
	LAYER_FORWARD,
	LAYER_RECORD,
	LAYER_RECOMPUTE,
	LAYER_BACKWARD,
	LAYER_HELD,
	LAYER_DISK,
	TIMELINE_LAYERS
};

/* An empty timeline of STEPS steps in ARENA, whose first columns are of COLUMN. STATUS_LIMIT. */
enum status timeline_init(struct timeline *timeline, int64_t steps, double column, struct arena *arena,
                          struct diags *diags);
/* Forgets all events: an empty timeline again, as of timeline_init. */
void timeline_clear(struct timeline *timeline, int64_t steps, double column);
/* EVENTs in order of time; false where memory is short. */
bool timeline_add(struct timeline *timeline, const struct event *event);
/* What is still held is held until the end. */
void timeline_finish(struct timeline *timeline);
/* Whether anything of LAYER happened in a cell. */
bool timeline_cell(const struct timeline *timeline, int layer, int column, int row);

/* What follows one actions after another from the hooks of the machine. */
struct event_context {
	bool by_value;
	int64_t steps;
};
/* The event of CALL, without its times. */
struct event event_of_call(const struct event_context *context, const struct machine_call *call);
/* The event of an action that takes no time; false where it is none. */
bool event_of_action(const struct action *action, struct event *event);

/*
 * The timeline of one tile of JOB, as it is planned: times are costs, a forward
 * pass 1 (executions of steps, where nothing costs anything).
 */
enum status timeline_plan(struct timeline *timeline, struct job *job, const struct job_options *options,
                          struct arena *arena, struct diags *diags);
/*
 * The timeline of SCHEDULE over COSTS alone, in the unit of their times. Its bytes are
 * those of the cost walk, what is fixed included.
 */
enum status timeline_schedule(struct timeline *timeline, struct schedule *schedule, const struct step_costs *costs,
                              struct arena *arena, struct diags *diags);

#endif
