/*
 * A timeline: the events of a schedule in the order of time, for pictures. They come from the machine alone (times are
 * costs), from a gradient pass (times are measured), or from a walk of the costs.
 *
 * Its memory does not grow with the number of events, only with that of slots. The first TIMELINE_SEGMENTS segments
 * (events with a duration, held states) are kept as they are. These and all later ones, except disk accesses, mark a
 * layer of TIMELINE_COLUMNS by TIMELINE_ROWS cells. Of the bytes in use each column keeps the highest.
 */
#ifndef PLAN_TIMELINE_H
#define PLAN_TIMELINE_H

#include "memory/hooks.h"
#include "plan/job.h"
#include "schedule/step_costs.h"

enum { TIMELINE_SEGMENTS = 3000, TIMELINE_COLUMNS = 1024, TIMELINE_ROWS = 256 };

enum event_kind {
	/* Events with a duration, on steps BEGIN .. END-1; a backward pass goes from END to BEGIN. */
	EVENT_FORWARD,   /* first sweep, without residuals */
	EVENT_RECORD,    /* first sweep, with residuals */
	EVENT_RECOMPUTE, /* a repeated forward pass */
	EVENT_BACKWARD,
	EVENT_SPILL, /* the state of disk slot SLOT is written */
	EVENT_FETCH, /* the state of disk slot SLOT is read back */
	/* Events without a duration. A timeline ignores EVENT_START and EVENT_LIVE. */
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
	int64_t array, tile; /* index in the stream; index in the array */
	int64_t begin, end;  /* steps */
	int64_t slot;
	int64_t evaluations; /* forward executions of steps, as counters count them */
	double from, to;     /* costs, or microseconds from the start of the run */
	int64_t live;        /* bytes in use of WORKER's slab; from a walk of the costs, all bytes */
};

struct timeline {
	int64_t steps;
	double end; /* the latest end of an event */
	bool exact; /* no segment was left out */
	/* Events with a duration, and held states: SAVE or DISK_SAVE, state BEGIN from FROM to TO. */
	struct event *segments;
	size_t count;
	double column;         /* time of a column */
	int64_t *live;         /* by column: the highest bytes; -1: no event */
	uint8_t *cells;        /* a bit for each layer, column and row (timeline_cell) */
	int64_t peak;          /* the highest bytes of all */
	struct event *open[2]; /* by slot, in memory and on disk: state BEGIN, held since FROM; BEGIN -1: empty */
	size_t open_count[2], open_capacity[2];
	struct arena *arena;
};

/* The layers of cells: running steps; from LAYER_HELD on, states in memory and on disk. */
enum timeline_layer {
	LAYER_FORWARD,
	LAYER_RECORD,
	LAYER_RECOMPUTE,
	LAYER_BACKWARD,
	LAYER_HELD,
	LAYER_DISK,
	TIMELINE_LAYERS
};

/* Makes an empty timeline of STEPS steps; a column at first spans the time COLUMN (1 if COLUMN is 0). STATUS_LIMIT. */
enum status timeline_init(const struct context *context, struct timeline *timeline, int64_t steps, double column);
/* Removes all events. STEPS and COLUMN are as for timeline_init. */
void timeline_clear(struct timeline *timeline, int64_t steps, double column);
/*
 * Adds EVENT. The caller adds events in the order of time. A save or drop happens at the end of the events added so
 * far, whatever its own times are. False if out of memory.
 */
bool timeline_add(struct timeline *timeline, const struct event *event);
/* Ends the spans of states that are still held. */
void timeline_finish(struct timeline *timeline);
/* True if the cell at COLUMN and ROW has an event of LAYER. */
bool timeline_cell(const struct timeline *timeline, int layer, int column, int row);

/* Returns the event of CALL, a call of COMPILED's programs, without its times. */
struct event event_of_call(const struct compiled_chain *compiled, const struct machine_call *call);
/* Sets *EVENT to the event, without times, of ACTION if that fills or empties a slot. False for other actions. */
bool event_of_action(const struct action *action, struct event *event);

/*
 * Initialises TIMELINE and fills it from one planned full tile of JOB. Time is cost, in units of the forward pass. If
 * all forward costs are 0, each event takes 1. Disk accesses take no time.
 */
enum status timeline_plan(struct timeline *timeline, struct job *job);
/*
 * Initialises TIMELINE and fills it from SCHEDULE over COSTS alone, in their unit of time. Its bytes are those of the
 * cost walk, with the fixed bytes. Disk accesses take time, but add no events with a duration.
 */
enum status timeline_schedule(const struct context *context, struct timeline *timeline, struct schedule *schedule,
                              const struct step_costs *costs);

#endif
