/*
 * How a schedule is drawn depends on the number of its timeline's segments (runs of steps, and states held):
 *
 *     to HOVERED             each segment is a path, with its figures in a title
 *     to TIMELINE_SEGMENTS   each layer is one path
 *     more                   the timeline has cells; adjacent cells form a run, and gaps are closed until the runs of
 *                            a layer are at most MOST_RUNS / TIMELINE_LAYERS. So the size of a page is bounded.
 * Tests: tests/unit/test_picture.c, tests/scripts/check-plots
 */
#include "report/picture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Pixels: the heights of plots, and of the titles of a drawing; the space between figures of a drawing. */
enum { STEPS = 230, BYTES = 150, FRONT = 300, CURVES = 210, TITLES = 62, SPACE = 16 };
/* The most segments that are drawn as a path each; runs of cells of a schedule; labels of policies. */
enum { HOVERED = 600, MOST_RUNS = 9000, MOST_LABELS = 64 };

static const struct {
	const char *class, *name;
} layers[TIMELINE_LAYERS] = {{"forward", "forward"},      {"record", "forward, residuals kept"},
                             {"recompute", "recomputed"}, {"backward", "backward"},
                             {"held", "state held"},      {"disk", "state on disk"}};

static int layer_of(enum event_kind kind)
{
	return kind <= EVENT_BACKWARD    ? (int)kind
	       : kind == EVENT_SAVE      ? LAYER_HELD
	       : kind == EVENT_DISK_SAVE ? LAYER_DISK
	                                 : -1;
}

/* How the time axis shows a timeline: its label, and the factor and unit of its times. */
static const struct {
	const char *label;
	enum svg_unit unit;
	double scale;
} times[] = {[TIME_PASSES] = {"time by cost, in forward passes", SVG_NUMBER, 1},
             [TIME_COSTS] = {"time by cost, in the unit of the costs", SVG_NUMBER, 1},
             [TIME_MICROSECONDS] = {"time, measured", SVG_MS, 1e-3}};

static double all_bytes(const struct picture_run *run, int64_t live)
{
	return (double)run->throughout + run->share * (double)live;
}

/* A picture that is being drawn. Its runs share their axes and legends, so that they can be compared. */
struct drawing {
	const struct picture *picture;
	const struct text *text;
	double left, top; /* of the figure */
	double end, most; /* of all runs: the latest time, and the most bytes */
	struct svg_key layers[TIMELINE_LAYERS], bytes[2];
	struct svg_legend steps_legend, bytes_legend;
};

static struct svg_axis time_axis(const struct drawing *d, const struct picture_run *run)
{
	return (struct svg_axis){
		.high = d->end > 0 ? d->end : 1, .unit = times[run->time].unit, .label = times[run->time].label};
}

/* Returns a panel of HEIGHT with LEGEND, at the top of D, and moves D below it. */
static struct svg_panel next_panel(struct drawing *d, const struct svg_legend *legend, double height)
{
	const struct svg_panel panel = {.page = d->left, .top = d->top + svg_above(legend), .height = height};
	d->top = panel.top + height + svg_below();
	return panel;
}

static void put_hover(const struct text *text, const struct picture_run *run, const struct event *s)
{
	const double scale = times[run->time].scale;
	const enum svg_unit unit = times[run->time].unit;
	char from[48], to[48], live[32];
	svg_value(unit, s->from * scale, from);
	svg_value(unit, s->to * scale, to);
	text_bytes((int64_t)all_bytes(run, s->live), live);
	if (layer_of(s->kind) >= LAYER_HELD)
		text_printf(text, "<title>state %lld held%s, %s to %s</title>", (long long)s->begin,
		            s->kind == EVENT_DISK_SAVE ? " on disk" : "", from, to);
	else if (s->end - s->begin == 1)
		text_printf(text, "<title>%s step %lld, %s to %s, %s</title>", layers[s->kind].class, (long long)s->begin, from,
		            to, live);
	else
		text_printf(text, "<title>%s steps %lld to %lld, %s to %s, %s</title>", layers[s->kind].class,
		            (long long)s->begin, (long long)s->end - 1, from, to, live);
}

static void put_segments(const struct text *text, const struct svg_panel *panel, const struct picture_run *run,
                         int layer)
{
	const struct timeline *t = run->timeline;
	const double scale = times[run->time].scale;
	bool each = t->count <= HOVERED, open = false;
	double at_x = -1, at_y = -1;
	for (size_t i = 0; i < t->count; i++) {
		const struct event *s = &t->segments[i];
		if (layer_of(s->kind) != layer)
			continue;
		const bool back = s->kind == EVENT_BACKWARD;
		const double x = svg_x(panel, s->from * scale), y = svg_y(panel, (double)(back ? s->end : s->begin));
		if (each || !open)
			text_printf(text, "<path class=\"%s %s\" d=\"", layers[layer].class, layer >= LAYER_HELD ? "bar" : "line");
		open = true;
		if (each || fabs(x - at_x) > 0.05 || fabs(y - at_y) > 0.05)
			text_printf(text, "M%.1f %.1f", x, y);
		at_x = svg_x(panel, s->to * scale);
		at_y = svg_y(panel, (double)(back ? s->begin : s->end));
		text_printf(text, "L%.1f %.1f", at_x, at_y);
		if (each) {
			text_put(text, "\">");
			put_hover(text, run, s);
			text_put(text, "</path>\n");
		}
	}
	if (open && !each)
		text_put(text, "\"/>\n");
}

/*
 * Returns the number of runs of cells of LAYER, where gaps of up to GAP cells are closed. Draws the runs if TEXT is not
 * NULL. Runs of held states are horizontal, runs of steps vertical.
 */
static size_t cell_runs(const struct text *text, const struct svg_panel *panel, const struct timeline *t, double scale,
                        int layer, int gap)
{
	bool along = layer >= LAYER_HELD;
	int columns = (int)fmin(ceil(t->end / t->column), TIMELINE_COLUMNS);
	int lines = along ? TIMELINE_ROWS : columns, length = along ? columns : TIMELINE_ROWS;
	double height = panel->height / TIMELINE_ROWS, low = panel->top + panel->height;
	size_t runs = 0;
	for (int line = 0; line < lines; line++)
		for (int i = 0; i < length;) {
			if (!timeline_cell(t, layer, along ? i : line, along ? line : i)) {
				i++;
				continue;
			}
			int end = i + 1;
			for (int k = end; k < length && k <= end + gap; k++)
				if (timeline_cell(t, layer, along ? k : line, along ? line : k))
					end = k + 1;
			double x = svg_x(panel, (along ? i : line) * t->column * scale);
			double right = svg_x(panel, fmin((along ? end : line + 1) * t->column, t->end) * scale);
			double width = right - x + (along ? 0 : 0.3), top = low - (along ? line + 1 : end) * height;
			double tall = along ? height : (end - i) * height;
			if (text)
				text_printf(text, "M%.1f %.1fh%.1fv%.1fh-%.1fz", x, top, width, tall, width);
			runs++;
			i = end;
		}
	return runs;
}

static void put_cells(const struct text *text, const struct svg_panel *panel, const struct picture_run *run, int layer)
{
	int gap = 0;
	const double scale = times[run->time].scale;
	while (gap < TIMELINE_ROWS &&
	       cell_runs(NULL, panel, run->timeline, scale, layer, gap) > MOST_RUNS / TIMELINE_LAYERS)
		gap = 2 * gap + 1;
	if (cell_runs(NULL, panel, run->timeline, scale, layer, gap) == 0)
		return;
	text_printf(text, "<path class=\"%s area%s\" d=\"", layers[layer].class, layer >= LAYER_HELD ? " bars" : "");
	cell_runs(text, panel, run->timeline, scale, layer, gap);
	text_put(text, "\"/>\n");
}

static bool has_layer(const struct picture *picture, int layer)
{
	const struct svg_panel any = {.height = 1, .x.high = 1, .y.high = 1};
	for (size_t i = 0; i < picture->run_count; i++) {
		const struct timeline *t = picture->runs[i].timeline;
		for (size_t k = 0; k < t->count; k++)
			if (layer_of(t->segments[k].kind) == layer)
				return true;
		if (!t->exact && cell_runs(NULL, &any, t, 1, layer, 0) > 0)
			return true;
	}
	return false;
}

static void put_steps(struct drawing *d, const struct picture_run *run)
{
	const struct timeline *t = run->timeline;
	struct svg_panel panel = next_panel(d, &d->steps_legend, STEPS);
	panel.x = time_axis(d, run);
	panel.y = (struct svg_axis){.high = (double)t->steps, .unit = SVG_COUNT, .label = "step"};
	svg_axes(d->text, &panel, run->policy, &d->steps_legend);
	for (int i = 0; i < TIMELINE_LAYERS; i++) /* states first, so that steps lie on top */
		(t->exact ? put_segments : put_cells)(d->text, &panel, run, (LAYER_HELD + i) % TIMELINE_LAYERS);
}

static void put_level(const struct text *text, const struct svg_panel *panel, double to, double bytes)
{
	text_printf(text, "V%.1fH%.1f", svg_y(panel, bytes), svg_x(panel, to));
}

/* Writes the path of the bytes in use, from left to right. The caller begins the path, and may close it to an area. */
static void put_levels(const struct text *text, const struct svg_panel *panel, const struct picture_run *run)
{
	const struct timeline *t = run->timeline;
	double scale = times[run->time].scale, last = all_bytes(run, 0);
	if (t->exact) {
		for (size_t i = 0; i < t->count; i++)
			if (t->segments[i].kind <= EVENT_FETCH)
				put_level(text, panel, t->segments[i].to * scale, all_bytes(run, t->segments[i].live));
		return;
	}
	for (int c = 0; c < TIMELINE_COLUMNS && c * t->column < t->end; c++) {
		last = t->live[c] >= 0 ? all_bytes(run, t->live[c]) : last;
		put_level(text, panel, fmin((c + 1) * t->column, t->end) * scale, last);
	}
}

static void put_bytes(struct drawing *d, const struct picture_run *run)
{
	const struct text *text = d->text;
	struct svg_panel panel = next_panel(d, &d->bytes_legend, BYTES);
	const int64_t peak = (int64_t)all_bytes(run, run->timeline->peak);
	char heading[200], a[32], b[32];
	panel.x = time_axis(d, run);
	panel.y = (struct svg_axis){.high = d->most, .unit = SVG_BYTES, .label = "bytes"};
	if (run->budget)
		snprintf(heading, sizeof heading, "at most %s of %s", text_bytes(peak, a), text_bytes(run->budget, b));
	else
		snprintf(heading, sizeof heading, "at most %s", text_bytes(peak, a));
	if (run->workers > 1)
		snprintf(heading + strlen(heading), 60, ", %d workers in step", run->workers);
	svg_axes(text, &panel, heading, &d->bytes_legend);
	const double floor = svg_y(&panel, 0), left = svg_left(panel.page);
	text_printf(text, "<path class=\"live area soft\" d=\"M%.1f %.1f", left, floor);
	put_levels(text, &panel, run);
	text_printf(text, "V%.1fz\"/>\n<path class=\"live line\" d=\"M%.1f %.1f", floor, left, floor);
	put_levels(text, &panel, run);
	text_put(text, "\"/>\n");
	if (run->budget)
		text_printf(text, "<path class=\"budget line dash\" d=\"M%.1f %.1fH%.1f\"/>\n", left,
		            svg_y(&panel, (double)run->budget), svg_right(panel.page));
}

static double row_x(const struct svg_panel *panel, const struct policy_row *row)
{
	return svg_x(panel, (double)row->counters.peak_bytes);
}

static double row_y(const struct svg_panel *panel, const struct policy_row *row)
{
	return svg_y(panel, row_overhead(row));
}

/* Keeps labels off the line from X, Y to TO_X, TO_Y, which is horizontal or vertical. */
static void avoid_line(struct labels *labels, double x, double y, double to_x, double to_y)
{
	enum { AROUND = 2 };
	labels_avoid(labels, (struct box){fmin(x, to_x) - AROUND, fmin(y, to_y) - AROUND, fmax(x, to_x) + AROUND,
	                                  fmax(y, to_y) + AROUND});
}

/* Draws the front as stairs: for each number of bytes, the least overhead of the policies that fit. */
static void put_front_line(const struct text *text, const struct svg_panel *panel, const struct picture *picture,
                           struct labels *labels)
{
	const struct policy_row *last = NULL, *next;
	do {
		next = NULL;
		for (size_t i = 0; i < picture->row_count; i++) {
			const struct policy_row *row = &picture->rows[i];
			const int64_t bytes = row->counters.peak_bytes;
			const bool falls = !last || (bytes > last->counters.peak_bytes && row_overhead(row) < row_overhead(last));
			if (!row->least_bytes && row->pareto && falls && (!next || bytes < next->counters.peak_bytes))
				next = row;
		}
		if (next)
			text_printf(text, last ? "H%.1fV%.1f" : "<path class=\"front line stair\" d=\"M%.1f %.1f",
			            row_x(panel, next), row_y(panel, next));
		if (next && last) {
			avoid_line(labels, row_x(panel, last), row_y(panel, last), row_x(panel, next), row_y(panel, last));
			avoid_line(labels, row_x(panel, next), row_y(panel, last), row_x(panel, next), row_y(panel, next));
		}
		last = next ? next : last;
	} while (next);
	if (last)
		text_put(text, "\"/>\n");
}

/* Labels are placed in this order. Marks are drawn in the reverse order, so that the knee lies on top. */
enum rank { RANK_KNEE, RANK_FRONT, RANK_OTHER, RANKS };
static const struct {
	const char *mark, *radius, *title, *label;
} ranks[RANKS] = {{"knee area", "6.5", ", knee of the Pareto front", "name"},
                  {"front area", "5", ", on the Pareto front", "name"},
                  {"other ring page", "5", "", "note"}};

static enum rank rank_of(const struct policy_row *row)
{
	return row->knee ? RANK_KNEE : row->pareto ? RANK_FRONT : RANK_OTHER;
}

/* True if the marks of A and B are one: of the same figures if EXACT, else within a pixel of each other. */
static bool coincide(const struct svg_panel *panel, const struct policy_row *a, const struct policy_row *b, bool exact)
{
	if (a->least_bytes || b->least_bytes)
		return false;
	if (exact)
		return a->counters.peak_bytes == b->counters.peak_bytes && a->counters.evaluations == b->counters.evaluations &&
		       fabs(row_overhead(a) - row_overhead(b)) < 1e-9;
	return fabs(row_x(panel, a) - row_x(panel, b)) <= 1 && fabs(row_y(panel, a) - row_y(panel, b)) <= 1;
}

/*
 * The policies of one mark, or of one label. Returns their names, cut to fit, and sets *RANK to the best of theirs.
 * Returns NULL if row I is infeasible or an earlier row has the mark.
 */
static const char *names_at(const struct svg_panel *panel, const struct picture *picture, size_t i, bool exact,
                            enum rank *rank, char names[160])
{
	size_t used = 0;
	char one[160];
	*rank = RANK_OTHER;
	for (size_t k = 0; k < picture->row_count; k++) {
		const struct policy_row *row = &picture->rows[k];
		if (!coincide(panel, &picture->rows[i], row, exact))
			continue;
		if (k < i)
			return NULL;
		*rank = rank_of(row) < *rank ? rank_of(row) : *rank;
		int n = snprintf(names + used, 160 - used, "%s%s", used ? ", " : "", svg_shorten(row->policy, 150, one));
		used = used + (size_t)n < 140 ? used + (size_t)n : 140;
	}
	names[used] = 0;
	return used ? names : NULL;
}

static void put_mark(const struct text *text, const struct svg_panel *panel, const struct policy_row *row,
                     const char *names, enum rank rank)
{
	char bytes[32];
	text_printf(text, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%s\"><title>", ranks[rank].mark,
	            row_x(panel, row), row_y(panel, row), ranks[rank].radius);
	text_xml(text, names);
	text_printf(text, ": peak %s, overhead %.1f%%, %lld evaluations%s</title></circle>\n",
	            text_bytes(row->counters.peak_bytes, bytes), row_overhead(row), (long long)row->counters.evaluations,
	            ranks[rank].title);
}

static void put_labels(const struct text *text, const struct svg_panel *panel, const struct picture *picture,
                       struct labels *labels)
{
	enum { WIDEST = 240, RADIUS = 6, KNEE_RINGS = 40, OTHER_RINGS = 8 };
	char names[160], shown[160];
	enum rank own;
	for (size_t i = 0; i < picture->row_count; i++) {
		const struct policy_row *row = &picture->rows[i];
		double x = row_x(panel, row), y = row_y(panel, row);
		if (!row->least_bytes)
			labels_avoid(labels, (struct box){x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS});
	}
	size_t put = 0;
	for (enum rank rank = 0; rank < RANKS; rank++) {
		labels->rings = rank == RANK_KNEE ? KNEE_RINGS : OTHER_RINGS;
		for (size_t i = 0; i < picture->row_count && put < MOST_LABELS; i++) {
			const struct policy_row *row = &picture->rows[i];
			if (!names_at(panel, picture, i, false, &own, names) || rank != own)
				continue;
			svg_shorten(names, WIDEST, shown);
			if (rank == RANK_KNEE)
				snprintf(shown + strlen(shown), sizeof shown - strlen(shown), " (knee)");
			bool found = false;
			for (int crossing = 0; !found && crossing <= (rank == RANK_KNEE); crossing++) { /* the knee has a label */
				labels->crossing = crossing;
				found = labels_put(text, labels, row_x(panel, row), row_y(panel, row), shown, ranks[rank].label);
			}
			put += found;
		}
	}
}

/* Sets the axes of PANEL to the ranges of the feasible rows. Figures of very different sizes have logarithmic axes. */
static void set_front_axes(struct svg_panel *panel, const struct picture *picture)
{
	double least = HUGE_VAL, most = 64, overhead = 1;
	for (size_t i = 0; i < picture->row_count; i++)
		if (!picture->rows[i].least_bytes) {
			least = fmin(least, fmax((double)picture->rows[i].counters.peak_bytes, 1));
			most = fmax(most, (double)picture->rows[i].counters.peak_bytes);
			overhead = fmax(overhead, row_overhead(&picture->rows[i]));
		}
	panel->x = (struct svg_axis){.high = most * 1.05, .unit = SVG_BYTES, .label = "peak bytes"};
	panel->y = (struct svg_axis){
		.low = -overhead * 0.03, .high = overhead * 1.12, .unit = SVG_PERCENT, .label = "overhead by recomputation"};
	if (most / least > 12) {
		panel->x.log = true;
		panel->x.low = least / 1.3;
		panel->x.high = most * 1.3;
	}
	if (overhead > 150) {
		panel->y.bend = 20;
		panel->y.low = -3;
		panel->y.high = overhead * 1.6; /* space for a label above the highest mark */
		panel->y.label = "overhead";    /* with the word for its scale it must fit */
	}
}

static const struct svg_key front_keys[] = {
	{"front", "on the Pareto front", KEY_DOT}, {"knee", "knee", KEY_DOT}, {"other", "not on the front", KEY_RING}};
static const struct svg_legend front_legend = {front_keys, sizeof front_keys / sizeof *front_keys};

static void put_front(struct drawing *d)
{
	const struct picture *picture = d->picture;
	struct svg_panel panel = next_panel(d, &front_legend, FRONT);
	struct labels labels = {
		.arena = picture->arena,
		.within = {svg_left(panel.page) + 2, panel.top - 6, panel.page + SVG_WIDTH - 4, panel.top + panel.height - 2}};
	char names[160];
	enum rank own;
	set_front_axes(&panel, picture);
	svg_axes(d->text, &panel, "policies", &front_legend);
	put_front_line(d->text, &panel, picture, &labels);
	for (enum rank rank = RANKS; rank-- > 0;)
		for (size_t i = 0; i < picture->row_count; i++)
			if (names_at(&panel, picture, i, true, &own, names) && own == rank)
				put_mark(d->text, &panel, &picture->rows[i], names, rank);
	put_labels(d->text, &panel, picture, &labels);
}

static void find_range(const struct picture_curves *curves, struct svg_axis *x, struct svg_axis *y)
{
	double low = HUGE_VAL, high = -HUGE_VAL, bottom = 0, top = 0;
	for (size_t i = 0; i < curves->count; i++)
		for (size_t k = 0; k < curves->series[i].count; k++) {
			const struct picture_point *p = &curves->series[i].points[k];
			if (isnan(p->y))
				continue;
			low = fmin(low, p->x);
			high = fmax(high, p->x);
			bottom = fmin(bottom, p->low < p->high ? p->low : p->y);
			top = fmax(top, p->low < p->high ? p->high : p->y);
		}
	x->low = x->log ? fmax(low, 1e-9) : 0;
	x->high = high > x->low ? high : x->low + 1;
	if (x->log) {
		x->low /= 1.1;
		x->high *= 1.1;
	}
	y->low = bottom * 1.1;
	y->high = top > y->low ? top * 1.1 : y->low + 1;
}

/* Draws a bar from the least to the largest measurement of POINT. */
static void put_spread(const struct text *text, const struct svg_panel *panel, const struct picture_point *point)
{
	const double x = svg_x(panel, point->x), low = svg_y(panel, point->low), high = svg_y(panel, point->high);
	text_printf(text, "M%.1f %.1fh8M%.1f %.1fV%.1fM%.1f %.1fh8", x - 4, low, x, low, high, x - 4, high);
}

static void put_point(const struct text *text, const struct svg_panel *panel, const struct picture_series *s,
                      const struct picture_point *point)
{
	char x[48], y[48], low[48], high[48];
	text_printf(text, "<circle class=\"%s area\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"><title>", s->class,
	            svg_x(panel, point->x), svg_y(panel, point->y), s->count > 1 ? 4 : 6);
	text_xml(text, s->name);
	text_printf(text, " at %s: %s", svg_value(panel->x.unit, point->x, x), svg_value(panel->y.unit, point->y, y));
	if (point->low < point->high)
		text_printf(text, ", measured %s to %s", svg_value(panel->y.unit, point->low, low),
		            svg_value(panel->y.unit, point->high, high));
	text_put(text, "</title></circle>\n");
}

static void put_series(const struct text *text, const struct svg_panel *panel, const struct picture_series *s)
{
	const char *move = "M";
	text_printf(text, "<path class=\"%s line\" d=\"", s->class);
	for (size_t k = 0; k < s->count; k++)
		if (!isnan(s->points[k].y)) {
			text_printf(text, "%s%.1f %.1f", move, svg_x(panel, s->points[k].x), svg_y(panel, s->points[k].y));
			move = "L";
		}
	text_printf(text, "\"/>\n<path class=\"%s line bars\" d=\"", s->class);
	for (size_t k = 0; k < s->count; k++)
		if (!isnan(s->points[k].y) && s->points[k].low < s->points[k].high)
			put_spread(text, panel, &s->points[k]);
	text_put(text, "\"/>\n");
	for (size_t k = 0; k < s->count; k++)
		if (!isnan(s->points[k].y))
			put_point(text, panel, s, &s->points[k]);
}

enum { MOST_SERIES = 8 };

/* Sets KEYS to those of CURVES, and returns the legend that has them. */
static struct svg_legend legend_of_curves(const struct picture_curves *curves, struct svg_key keys[MOST_SERIES])
{
	const size_t count = curves->count < MOST_SERIES ? curves->count : MOST_SERIES;
	for (size_t i = 0; i < count; i++)
		keys[i] = (struct svg_key){curves->series[i].class, curves->series[i].name,
		                           curves->series[i].count > 1 ? KEY_LINE : KEY_DOT};
	return (struct svg_legend){keys, count};
}

static void put_curves(struct drawing *d, const struct picture_curves *curves)
{
	struct svg_key keys[MOST_SERIES];
	const struct svg_legend legend = legend_of_curves(curves, keys);
	struct svg_panel panel = next_panel(d, &legend, CURVES);
	panel.x = curves->x;
	panel.y = curves->y;
	find_range(curves, &panel.x, &panel.y);
	svg_axes(d->text, &panel, curves->heading, &legend);
	for (size_t i = 0; i < legend.count; i++)
		put_series(d->text, &panel, &curves->series[i]);
}

/* A figure: the front (RUN and CURVES are NULL), a run, or curves. */
struct figure {
	const struct picture_run *run;
	const struct picture_curves *curves;
};

static double height_of(const struct drawing *d, const struct figure *figure)
{
	struct svg_key keys[MOST_SERIES];
	if (figure->curves) {
		const struct svg_legend legend = legend_of_curves(figure->curves, keys);
		return svg_above(&legend) + CURVES + svg_below();
	}
	if (figure->run)
		return svg_above(&d->steps_legend) + STEPS + svg_above(&d->bytes_legend) + BYTES + 2 * svg_below();
	return svg_above(&front_legend) + FRONT + svg_below();
}

static const char *title_of(const struct figure *figure)
{
	return figure->curves ? figure->curves->heading : figure->run ? figure->run->policy : "policies";
}

static void draw_figure(struct drawing *d, const struct figure *figure)
{
	if (figure->curves)
		put_curves(d, figure->curves);
	if (figure->run) {
		put_steps(d, figure->run);
		put_bytes(d, figure->run);
	}
	if (!figure->curves && !figure->run)
		put_front(d);
}

/* Figures that stand side by side where there is space: the front and a run, or several runs, or curves. */
enum { MOST_FIGURES = 8, MOST_ROWS = 3 };
struct figure_row {
	struct figure figures[MOST_FIGURES];
	size_t count;
};

static void add_figure(struct figure_row *row, const struct picture_run *run, const struct picture_curves *curves)
{
	if (row->count < MOST_FIGURES)
		row->figures[row->count++] = (struct figure){run, curves};
}

static void arrange_figures(const struct picture *picture, struct figure_row rows[MOST_ROWS])
{
	size_t runs = 0;
	for (size_t i = 0; i < picture->run_count; i++)
		runs += picture->runs[i].timeline->end > 0;
	memset(rows, 0, MOST_ROWS * sizeof *rows);
	if (picture->row_count > 1)
		add_figure(&rows[0], NULL, NULL);
	for (size_t i = 0; i < picture->run_count; i++)
		if (picture->runs[i].timeline->end > 0)
			add_figure(&rows[runs > 1], &picture->runs[i], NULL);
	for (size_t i = 0; i < picture->curve_count; i++)
		add_figure(&rows[2], NULL, &picture->curves[i]);
}

/* Sets what the runs of D share. */
static void share_axes(struct drawing *d)
{
	const struct picture *picture = d->picture;
	size_t count = 0;
	bool budget = false;
	d->most = 64;
	for (size_t i = 0; i < picture->run_count; i++) {
		const struct picture_run *run = &picture->runs[i];
		const double bytes = fmax(all_bytes(run, run->timeline->peak), (double)run->budget);
		d->end = fmax(d->end, run->timeline->end * times[run->time].scale);
		d->most = fmax(d->most, bytes * 1.06);
		budget |= run->budget > 0;
	}
	for (int layer = 0; layer < TIMELINE_LAYERS; layer++)
		if (has_layer(picture, layer))
			d->layers[count++] =
				(struct svg_key){layers[layer].class, layers[layer].name, layer >= LAYER_HELD ? KEY_BAR : KEY_LINE};
	d->steps_legend = (struct svg_legend){d->layers, count};
	d->bytes[0] = (struct svg_key){"live", "bytes in use", KEY_AREA};
	d->bytes[1] = (struct svg_key){"budget", "budget", KEY_DASH};
	d->bytes_legend = (struct svg_legend){d->bytes, budget ? 2 : 1};
}

/* Draws ROW from the top of D on, in COLUMNS; only measures it if TEXT is NULL. Returns its height. */
static double draw_row(struct drawing *d, const struct figure_row *row, size_t columns, bool drawn)
{
	const double begin = d->top;
	for (size_t i = 0; i < row->count; i += columns) {
		double height = 0;
		const double top = d->top;
		for (size_t k = i; k < row->count && k < i + columns; k++) {
			height = fmax(height, height_of(d, &row->figures[k]));
			d->left = (double)(k - i) * SVG_WIDTH;
			d->top = top;
			if (drawn)
				draw_figure(d, &row->figures[k]);
		}
		d->top = top + height + SPACE;
	}
	return d->top - begin;
}

/* Draws all figures in one <svg>. */
static void draw_svg(struct drawing *d, const struct figure_row rows[MOST_ROWS])
{
	enum { COLUMNS = 3 };
	const struct picture *picture = d->picture;
	size_t columns = 1;
	char shown[160];
	for (int i = 0; i < MOST_ROWS; i++)
		columns = rows[i].count > columns ? rows[i].count : columns;
	columns = columns < COLUMNS ? columns : COLUMNS;
	const double width = (double)columns * SVG_WIDTH, room = width - 40;
	d->top = TITLES;
	for (int i = 0; i < MOST_ROWS; i++)
		draw_row(d, &rows[i], columns, false);
	const double height = d->top;
	svg_open(d->text, width, height, picture->title);
	text_put(d->text, "<title>");
	text_xml(d->text, picture->title);
	text_put(d->text, "</title>\n<style>\n");
	svg_put_styles(d->text);
	text_printf(d->text, "</style>\n<rect class=\"page\" width=\"%.0f\" height=\"%.0f\"/>\n", width, height);
	svg_text(d->text, 8, 28, "start", "title", svg_shorten(picture->title, room / 1.6, shown));
	if (picture->subtitle)
		svg_text(d->text, 8, 48, "start", "note", svg_shorten(picture->subtitle, room, shown));
	d->top = TITLES;
	for (int i = 0; i < MOST_ROWS; i++)
		draw_row(d, &rows[i], columns, true);
	text_put(d->text, "</svg>\n");
}

static void put_tables(const struct picture *picture, const struct text *text)
{
	struct report report = {.text = text, .format = REPORT_HTML, .arena = picture->arena};
	if (picture->row_count)
		report_policies(&report, picture->rows, picture->row_count);
	if (picture->profile)
		report_profile(&report, picture->profile);
}

/*
 * The styles of a page. Figures are scaled to their columns, which are as many as fit. Tables are as wide as the page at most: on
 * a narrow page letters are smaller and headings of numbers stand upright.
 */
static const char page_styles[] =
	"body{margin:0 auto;padding:8px clamp(8px,2vw,24px);max-width:1240px;background:#fff;color:#0b0b0b;"
	"font:14px system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans',sans-serif}\n"
	"h1{font-size:18px;margin:12px 0 4px;overflow-wrap:anywhere}\n"
	"p,pre{margin:8px 0;white-space:pre-line;overflow-wrap:anywhere}\n"
	".row{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(360px,100%),1fr));gap:8px 16px}\n"
	"svg{display:block;width:100%;max-width:540px!important}\n"
	"table{border-collapse:collapse;max-width:100%;margin:12px 0;font-size:clamp(9px,.8vw + 6px,14px)}\n"
	"th,td{padding:.3em clamp(2px,.6vw,10px);text-align:left;vertical-align:bottom;max-width:36vw;"
	"overflow-wrap:break-word;border-bottom:1px solid #8884}\n"
	".number{text-align:right}td.number{white-space:nowrap}\n"
	"@media(max-width:700px){th.number{writing-mode:vertical-rl;transform:rotate(180deg);text-align:left;"
	"white-space:nowrap}}\n"
	"@media(prefers-color-scheme:dark){body{background:#1a1a19;color:#fff}}\n";

/* Draws each figure in an <svg> of its own, with the tables of the report below them. */
static void draw_page(struct drawing *d, const struct figure_row rows[MOST_ROWS])
{
	const struct text *text = d->text;
	const struct picture *picture = d->picture;
	text_put(text, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	               "<meta name=\"viewport\" content=\"width=device-width\">\n"
	               "<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
	text_xml(text, picture->title);
	text_put(text, "</title>\n<style>\n");
	svg_put_styles(text);
	text_put(text, page_styles);
	text_put(text, "</style>\n</head>\n<body>\n<h1>");
	text_xml(text, picture->title);
	text_put(text, "</h1>\n<p>");
	text_xml(text, picture->subtitle ? picture->subtitle : "");
	text_put(text, "</p>\n");
	for (int i = 0; i < MOST_ROWS; i++) {
		text_put(text, rows[i].count ? "<div class=\"row\">\n" : "");
		for (size_t k = 0; k < rows[i].count; k++) {
			const struct figure *figure = &rows[i].figures[k];
			d->left = d->top = 0;
			svg_open(text, SVG_WIDTH, height_of(d, figure), title_of(figure));
			draw_figure(d, figure);
			text_put(text, "</svg>\n");
		}
		text_put(text, rows[i].count ? "</div>\n" : "");
	}
	put_tables(picture, text);
	text_put(text, "</body>\n</html>\n");
}

void picture_draw(const struct picture *picture, const struct text *text)
{
	struct figure_row rows[MOST_ROWS];
	struct drawing drawing = {.picture = picture, .text = text};
	share_axes(&drawing);
	arrange_figures(picture, rows);
	(picture->html ? draw_page : draw_svg)(&drawing, rows);
}
