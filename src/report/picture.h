/*
 * The pictures of plan, profile and grad, in SVG or in HTML with a table of figures; at most 1 MiB each:
 *
 *     schedules   step against time, with the states held, and bytes in use, with the budget
 *     policies    by peak and overhead, with their front
 *     curves      of measurements
 *
 * svg.c has the parts of charts: pages, panels with axes, legends, marks. Colours are CSS classes, with a set for light
 * and for dark pages. A chart has no scripts and fetches nothing. Lengths are pixels of a page 900 wide.
 */
#ifndef REPORT_PICTURE_H
#define REPORT_PICTURE_H

#include "plan/timeline.h"
#include "report/counters.h"

#include <stdbool.h>
#include <stddef.h>

enum { SVG_WIDTH = 900 };

/* The unit of an axis decides its ticks and their labels. */
enum svg_unit {
	SVG_COUNT,   /* whole numbers */
	SVG_NUMBER,  /* any */
	SVG_PERCENT, /* values are percents */
	SVG_BYTES,
	SVG_MS, /* values are milliseconds, shown in ns to s */
};

struct svg_axis {
	double low, high; /* low < high; above 0 where log */
	enum svg_unit unit;
	bool log;
	double bend; /* above 0: from about this value on the axis is logarithmic; low is at most 0 */
	const char *label;
};

struct svg_panel {
	double left, top, width, height; /* of the plot, its heading and labels not counted */
	struct svg_axis x, y;
};

/* A row of a legend. */
struct svg_key {
	const char *class, *name;
	enum { KEY_LINE, KEY_DASH, KEY_BAR, KEY_DOT, KEY_RING, KEY_AREA } shape;
};

/* Where a value stands on the page. */
double svg_x(const struct svg_panel *panel, double value);
double svg_y(const struct svg_panel *panel, double value);
/* A value as a tick or a note shows it: "12 KiB", "40%", "1.5 ms", "20k". */
const char *svg_value(enum svg_unit unit, double value, char buffer[48]);
/* The approximate width of TEXT in pixels, at a size of 12 pixels. */
double svg_text_width(const char *text);
/* TEXT with its middle left out where it is wider than WIDTH; in BUFFER, at most 160 bytes. */
const char *svg_shorten(const char *text, double width, char buffer[160]);

/* Begins a page, which "</svg>" ends. */
void svg_begin(const struct text *text, double height, const char *title, const char *subtitle);
/* The heading, the grid, ticks and labels of PANEL, and the legend of KEYS beside the heading. */
void svg_axes(const struct text *text, const struct svg_panel *panel, const char *heading, const struct svg_key *keys,
              size_t key_count);
/* <text>, escaped. ANCHOR: start, middle or end. */
void svg_text(const struct text *text, double x, double y, const char *anchor, const char *class, const char *string);

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

struct picture_point {
	double x, y;
};

struct picture_series {
	const char *name, *class;
	const struct picture_point *points;
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
