/*
 * The pictures of plan, profile and grad, in SVG or in HTML with a table of figures; at most 1 MiB each:
 *
 *     schedules   step against time, with the states held, and bytes in use, with the budget
 *     policies    by peak and overhead, with their front
 *     curves      of measurements
 */
#ifndef REPORT_PICTURE_H
#define REPORT_PICTURE_H

#include "plan/timeline.h"
#include "report/counters.h"
#include "report/svg.h"

/* The unit of a timeline. */
enum picture_time {
	TIME_PASSES,       /* costs; 1 is a forward pass */
	TIME_COSTS,        /* costs in the unit that they were given in */
	TIME_MICROSECONDS, /* measured */
};

/* A schedule: two panels. */
struct picture_run {
	const char *policy;
	const struct timeline *timeline;
	enum picture_time time;
	int64_t throughout; /* bytes held in addition to the machine's */
	int workers;        /* that run at the same time */
	double share;       /* bytes of all workers, over the timeline's */
	int64_t budget;     /* 0: none */
};

struct picture_series {
	const char *name, *class;
	const double *x, *y;
	size_t count;
};

struct picture_curves {
	const char *heading;
	struct svg_axis x, y; /* low and high are found */
	const struct picture_series *series;
	size_t count;
};

struct picture {
	const char *title, *subtitle;
	bool html;
	const struct policy_row *rows; /* policies, their front marked; drawn where there are two or more */
	size_t row_count;
	const struct picture_run *runs;
	size_t run_count;
	const struct picture_curves *curves;
	size_t curve_count;
};

void picture_draw(const struct picture *picture, const struct text *text);

#endif
