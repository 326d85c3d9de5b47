/*
 * The pictures of plan, profile and grad, in SVG or in HTML with the tables of their reports; at most 1 MiB each:
 *
 *     schedules   step by time, with the states held; and bytes in use by time, with the budget
 *     policies    overhead by peak, with the Pareto front
 *     curves      measurements by depth or interval
 *
 * A figure is SVG_WIDTH pixels wide: narrow enough for its texts to be read on a telephone. HTML has an <svg> for each
 * figure and scales it; those that are compared stand side by side where the page is wide enough. A file in SVG has all
 * figures in one drawing.
 *
 * svg.c has the parts of charts: axes, legends, texts; labels.c finds places for labels; picture.c has the figures. CSS
 * classes give the colours of light and dark pages. A chart has no scripts and fetches nothing.
 */
#ifndef REPORT_PICTURE_H
#define REPORT_PICTURE_H

#include "plan/timeline.h"
#include "report/counters.h"
#include "report/profile.h"

#include <stdbool.h>
#include <stddef.h>

/* The colours of light pages, and of graphs. */
#define COLOR_FORWARD "#2a78d6"
#define COLOR_RECOMPUTE "#e06a1f"
#define COLOR_BACKWARD "#158f63"
#define COLOR_HELD "#77756f"
#define COLOR_TEXT "#0b0b0b"
#define COLOR_AXIS "#a3a19b"

enum { SVG_WIDTH = 480 };

/* The unit of an axis decides its ticks and their labels. */
enum svg_unit {
	SVG_COUNT,   /* whole numbers */
	SVG_NUMBER,  /* any numbers */
	SVG_PERCENT, /* values are percents */
	SVG_BYTES,
	SVG_MS, /* values are milliseconds; shown in ns, µs, ms or s */
};

struct svg_axis {
	double low, high; /* low < high; low > 0 if LOG */
	enum svg_unit unit;
	bool log;
	double bend; /* above 0, without LOG: beyond about this value the axis is logarithmic, and low is at most 0 */
	const char *label;
};

/* A plot of a figure, with its heading and legend above it, and the labels of its axes. */
struct svg_panel {
	double page, top; /* the left end of the figure; the top of the plot */
	double height;    /* of the plot */
	struct svg_axis x, y;
};

struct svg_key {
	const char *class, *name;
	enum { KEY_LINE, KEY_DASH, KEY_BAR, KEY_DOT, KEY_RING, KEY_AREA } shape;
};

/* A legend has the keys in lines below the heading. */
struct svg_legend {
	const struct svg_key *keys;
	size_t count;
};

/* Return where VALUE is on the page, in pixels from its left and from its top. */
double svg_x(const struct svg_panel *panel, double value);
double svg_y(const struct svg_panel *panel, double value);
/* Writes VALUE to BUFFER as notes show it: "12 KiB", "40%", "1.5 ms", "20k". Returns BUFFER. */
const char *svg_value(enum svg_unit unit, double value, char buffer[48]);
/* Returns the approximate width of TEXT in pixels, at a font size of 12 pixels. */
double svg_text_width(const char *text);
/* Copies TEXT to BUFFER. If it is wider than WIDTH pixels or longer than 150 bytes, cuts its middle; keeps 4 bytes. */
const char *svg_shorten(const char *text, double width, char buffer[160]);

/* Opens an <svg> of WIDTH by HEIGHT pixels, which the caller ends with "</svg>". TITLE says what it shows. */
void svg_open(const struct text *text, double width, double height, const char *title);
/* Writes the styles of all figures: the rules of a <style> element. */
void svg_put_styles(const struct text *text);
/* Returns the pixels above and below the plot of a panel with LEGEND: heading and legend; ticks and the label. */
double svg_above(const struct svg_legend *legend);
double svg_below(void);
/* Return where the plots of a figure at PAGE begin and end, from left to right. */
double svg_left(double page);
double svg_right(double page);
/* Writes the heading, the legend, the grid, the ticks and the labels of PANEL. */
void svg_axes(const struct text *text, const struct svg_panel *panel, const char *heading,
              const struct svg_legend *legend);
/* Writes a <text> element with STRING escaped. ANCHOR is "start", "middle" or "end". */
void svg_text(const struct text *text, double x, double y, const char *anchor, const char *class, const char *string);

struct box {
	double left, top, right, bottom;
};

/* Labels that are being placed, and what they must not hide: marks, lines and each other. */
struct labels {
	struct box within; /* where labels may be */
	int rings;         /* how far from its mark a label may be */
	bool crossing;     /* the line that leads to a label may cross others */
	struct box *taken;
	size_t count, capacity;
	struct arena *arena;
};
/* No label may overlap BOX. If memory is short, sets the arena's `failed`. */
void labels_avoid(struct labels *labels, struct box box);
/* Writes NAME near the mark at X, Y, where it overlaps nothing. False if no place that it tries is free. */
bool labels_put(const struct text *text, struct labels *labels, double x, double y, const char *name,
                const char *class);

/* The unit of a timeline's times. */
enum picture_time {
	TIME_PASSES,       /* costs; a forward pass is 1 */
	TIME_COSTS,        /* costs in the unit that they were given in */
	TIME_MICROSECONDS, /* measured */
};

/* A schedule, drawn in two panels unless its timeline takes no time. */
struct picture_run {
	const char *policy;
	const struct timeline *timeline;
	enum picture_time time;
	int64_t throughout; /* bytes held outside the slabs, all the time */
	int workers;        /* number of workers that run at the same time */
	double share;       /* slab bytes of all workers, divided by those of one */
	int64_t budget;     /* 0: none */
};

struct picture_point {
	double x, y;      /* a point without a known Y is not drawn */
	double low, high; /* the spread of Y, drawn if LOW < HIGH */
};

struct picture_series {
	const char *name, *class;
	const struct picture_point *points;
	size_t count;
};

struct picture_curves {
	const char *heading;
	struct svg_axis x, y; /* picture_draw finds low and high */
	const struct picture_series *series;
	size_t count; /* only the first 8 series are drawn */
};

struct picture {
	const char *title, *subtitle;
	bool html;
	const struct policy_row *rows; /* policies; HTML has their table, and two or more are drawn with their front */
	size_t row_count;
	const struct picture_run *runs;
	size_t run_count;
	const struct picture_curves *curves;
	size_t curve_count;
	const struct profile_report *profile; /* HTML has its tables; or NULL */
	struct arena *arena;                  /* for the tables of HTML; if memory is short, sets its `failed` */
};

void picture_draw(const struct picture *picture, const struct text *text);

#endif
