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

/* Pixels: the left end and the width of plots; the heights of the page's head, and above and below a plot. */
enum { LEFT = 96, PLOT = 780, HEAD = 64, HEADING = 40, FOOT = 62 };
/* The heights of plots, in pixels. */
enum { STEPS = 280, BYTES = 190, FRONT = 340, CURVES = 230 };
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

static struct svg_axis time_axis(const struct picture_run *run)
{
	const double end = run->timeline->end * times[run->time].scale;
	return (struct svg_axis){.high = end > 0 ? end : 1, .unit = times[run->time].unit, .label = times[run->time].label};
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

static bool has_layer(const struct svg_panel *panel, const struct timeline *t, int layer)
{
	for (size_t i = 0; i < t->count; i++)
		if (layer_of(t->segments[i].kind) == layer)
			return true;
	return !t->exact && cell_runs(NULL, panel, t, 1, layer, 0) > 0;
}

static double put_steps(const struct text *text, const struct picture_run *run, double top)
{
	const struct timeline *t = run->timeline;
	struct svg_panel panel = {LEFT,  top + HEADING,  PLOT,
	                          STEPS, time_axis(run), {.high = (double)t->steps, .unit = SVG_COUNT, .label = "step"}};
	struct svg_key keys[TIMELINE_LAYERS];
	size_t count = 0;
	for (int layer = 0; layer < TIMELINE_LAYERS; layer++)
		if (has_layer(&panel, t, layer))
			keys[count++] =
				(struct svg_key){layers[layer].class, layers[layer].name, layer >= LAYER_HELD ? KEY_BAR : KEY_LINE};
	svg_axes(text, &panel, run->policy, keys, count);
	for (int i = 0; i < TIMELINE_LAYERS; i++) /* states first, so that steps lie on top */
		(t->exact ? put_segments : put_cells)(text, &panel, run, (LAYER_HELD + i) % TIMELINE_LAYERS);
	return HEADING + STEPS + FOOT;
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

static double put_bytes(const struct text *text, const struct picture_run *run, double top)
{
	const struct timeline *t = run->timeline;
	double peak = all_bytes(run, t->peak), high = fmax(fmax(peak, (double)run->budget) * 1.06, 64);
	struct svg_panel panel = {LEFT, top + HEADING, PLOT, BYTES, time_axis(run), {.high = high, .unit = SVG_BYTES}};
	struct svg_key keys[2] = {{"live", "bytes in use", KEY_AREA}, {"budget", "budget", KEY_DASH}};
	char heading[200], a[32], b[32];
	panel.y.label = "bytes";
	if (run->budget)
		snprintf(heading, sizeof heading, "at most %s of %s", text_bytes((int64_t)peak, a), text_bytes(run->budget, b));
	else
		snprintf(heading, sizeof heading, "at most %s", text_bytes((int64_t)peak, a));
	if (run->workers > 1)
		snprintf(heading + strlen(heading), 60, ", %d workers in step", run->workers);
	svg_axes(text, &panel, heading, keys, run->budget ? 2 : 1);
	double floor = svg_y(&panel, 0);
	text_printf(text, "<path class=\"live area soft\" d=\"M%d %.1f", LEFT, floor);
	put_levels(text, &panel, run);
	text_printf(text, "V%.1fz\"/>\n<path class=\"live line\" d=\"M%d %.1f", floor, LEFT, floor);
	put_levels(text, &panel, run);
	text_put(text, "\"/>\n");
	if (run->budget)
		text_printf(text, "<path class=\"budget line dash\" d=\"M%d %.1fh%d\"/>\n", LEFT,
		            svg_y(&panel, (double)run->budget), PLOT);
	return HEADING + BYTES + FOOT;
}

struct box {
	double left, top, right, bottom;
};

struct labels {
	struct box taken[4 * MOST_LABELS];
	size_t count;
	struct box within;
};

static void mark_taken(struct labels *labels, struct box box)
{
	if (labels->count < sizeof labels->taken / sizeof *labels->taken)
		labels->taken[labels->count++] = box;
}

/* Writes NAME near the mark at X, Y where it overlaps no box of LABELS. If no place that it tries is free, false. */
static bool put_label(const struct text *text, struct labels *labels, double x, double y, const char *name,
                      const char *class)
{
	static const struct {
		int dx, dy, anchor; /* 0 start, 1 middle, 2 end */
	} ways[] = {{10, 0, 0}, {-10, 0, 2}, {7, -13, 0}, {7, 13, 0}, {-7, -13, 2}, {-7, 13, 2}, {0, -15, 1}, {0, 17, 1}};
	static const char *const anchors[] = {"start", "middle", "end"};
	enum { WAYS = sizeof ways / sizeof *ways, RINGS = 6 };
	double width = svg_text_width(name);
	for (int i = 0; i < WAYS * RINGS; i++) {
		double far = 1 + 0.9 * (i / WAYS), dx = ways[i % WAYS].dx * far, dy = ways[i % WAYS].dy * far;
		int anchor = ways[i % WAYS].anchor;
		double left = x + dx - width * anchor / 2, base = y + dy + 4;
		struct box box = {left - 4, base - 12, left + width + 4, base + 4};
		bool free = box.left >= labels->within.left && box.right <= labels->within.right &&
		            box.top >= labels->within.top && box.bottom <= labels->within.bottom;
		for (size_t k = 0; k < labels->count && free; k++)
			free = box.left >= labels->taken[k].right || box.right <= labels->taken[k].left ||
			       box.top >= labels->taken[k].bottom || box.bottom <= labels->taken[k].top;
		if (!free)
			continue;
		mark_taken(labels, box);
		if (i >= WAYS)
			text_printf(text, "<path class=\"axis\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", x, y, x + dx,
			            base - 4 + 5 * ((dy < 0) - (dy > 0)));
		svg_text(text, x + dx, base, anchors[anchor], class, name);
		return true;
	}
	return false;
}

static double row_x(const struct svg_panel *panel, const struct policy_row *row)
{
	return svg_x(panel, (double)row->counters.peak_bytes);
}

static double row_y(const struct svg_panel *panel, const struct policy_row *row)
{
	return svg_y(panel, row_overhead(row));
}

/* Draws the front as stairs: for each number of bytes, the least overhead of the policies that fit. */
static void put_front_line(const struct text *text, const struct svg_panel *panel, const struct picture *picture)
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
		last = next ? next : last;
	} while (next);
	if (last)
		text_put(text, "\"/>\n");
}

/* Labels are placed in this order. Marks are drawn in the reverse order, so that the knee lies on top. */
enum rank { RANK_KNEE, RANK_FRONT, RANK_OTHER, RANKS };
static const struct {
	const char *mark, *radius, *title, *label;
} ranks[RANKS] = {{"knee area", "6.5", ", knee of the Pareto front", "name halo"},
                  {"front area", "5", ", on the Pareto front", "name halo"},
                  {"other ring page", "5", "", "note halo"}};

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

static void put_labels(const struct text *text, const struct svg_panel *panel, const struct picture *picture)
{
	struct labels labels = {
		.within = {panel->left, panel->top - 6, panel->left + panel->width + 20, panel->top + panel->height}};
	char names[160], shown[160];
	enum rank own;
	for (size_t i = 0; i < picture->row_count && i < 3 * (size_t)MOST_LABELS; i++) {
		const struct policy_row *row = &picture->rows[i];
		double x = row_x(panel, row), y = row_y(panel, row);
		if (!row->least_bytes)
			mark_taken(&labels, (struct box){x - 6, y - 6, x + 6, y + 6});
	}
	size_t put = 0;
	for (enum rank rank = 0; rank < RANKS; rank++)
		for (size_t i = 0; i < picture->row_count && put < MOST_LABELS; i++) {
			const struct policy_row *row = &picture->rows[i];
			if (!names_at(panel, picture, i, false, &own, names) || rank != own)
				continue;
			if (rank == RANK_KNEE)
				snprintf(names + strlen(names), 160 - strlen(names), " (knee)");
			put += put_label(text, &labels, row_x(panel, row), row_y(panel, row), svg_shorten(names, 300, shown),
			                 ranks[rank].label);
		}
}

static double put_front(const struct text *text, const struct picture *picture, double top)
{
	static const struct svg_key keys[] = {
		{"front", "on the Pareto front", KEY_DOT}, {"knee", "knee", KEY_DOT}, {"other", "not on the front", KEY_RING}};
	double least = HUGE_VAL, most = 64, overhead = 1;
	char names[160];
	enum rank own;
	for (size_t i = 0; i < picture->row_count; i++)
		if (!picture->rows[i].least_bytes) {
			least = fmin(least, fmax((double)picture->rows[i].counters.peak_bytes, 1));
			most = fmax(most, (double)picture->rows[i].counters.peak_bytes);
			overhead = fmax(overhead, row_overhead(&picture->rows[i]));
		}
	struct svg_axis x = {.high = most * 1.05, .unit = SVG_BYTES, .label = "peak bytes"};
	struct svg_axis y = {
		.low = -overhead * 0.03, .high = overhead * 1.08, .unit = SVG_PERCENT, .label = "overhead by recomputation"};
	if (most / least > 12) {
		x.log = true;
		x.low = least / 1.3;
		x.high = most * 1.3;
	}
	if (overhead > 150) {
		y.bend = 20;
		y.low = -3;
		y.high = overhead * 1.2;
	}
	const struct svg_panel panel = {LEFT, top + HEADING, PLOT, FRONT, x, y};
	svg_axes(text, &panel, "policies", keys, 3);
	put_front_line(text, &panel, picture);
	for (enum rank rank = RANKS; rank-- > 0;)
		for (size_t i = 0; i < picture->row_count; i++)
			if (names_at(&panel, picture, i, true, &own, names) && own == rank)
				put_mark(text, &panel, &picture->rows[i], names, rank);
	put_labels(text, &panel, picture);
	return HEADING + FRONT + FOOT;
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
	text_printf(text, "<circle class=\"%s area\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>", s->class,
	            svg_x(panel, point->x), svg_y(panel, point->y));
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

static double put_curves(const struct text *text, const struct picture_curves *curves, double top)
{
	struct svg_panel panel = {LEFT, top + HEADING, PLOT, CURVES, curves->x, curves->y};
	struct svg_key keys[8] = {0};
	size_t count = curves->count < 8 ? curves->count : 8;
	find_range(curves, &panel.x, &panel.y);
	for (size_t i = 0; i < count; i++)
		keys[i] = (struct svg_key){curves->series[i].class, curves->series[i].name, KEY_LINE};
	svg_axes(text, &panel, curves->heading, keys, count);
	for (size_t i = 0; i < count; i++)
		put_series(text, &panel, &curves->series[i]);
	return HEADING + CURVES + FOOT;
}

static void put_tables(const struct picture *picture, const struct text *text)
{
	struct report report = {.text = text, .format = REPORT_HTML, .arena = picture->arena};
	if (picture->row_count)
		report_policies(&report, picture->rows, picture->row_count);
	if (picture->profile)
		report_profile(&report, picture->profile);
}

void picture_draw(const struct picture *picture, const struct text *text)
{
	double y = HEAD, height = HEAD + (double)picture->curve_count * (HEADING + CURVES + FOOT);
	height += picture->row_count > 1 ? HEADING + FRONT + FOOT : 0;
	for (size_t i = 0; i < picture->run_count; i++)
		height += picture->runs[i].timeline->end > 0 ? HEADING + STEPS + FOOT + HEADING + BYTES + FOOT : 0;
	if (picture->html) {
		text_put(text, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		               "<meta name=\"viewport\" content=\"width=device-width\">\n"
		               "<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
		text_xml(text, picture->title);
		text_put(text,
		         "</title>\n<style>\n"
		         "body{margin:16px auto;max-width:900px;background:#fff;color:#0b0b0b;font:14px system-ui,sans-serif}\n"
		         "div{overflow-x:auto}\n" /* a narrow page scrolls: scaled texts would be too small to read */
		         "table{border-collapse:collapse;margin:16px 20px}\n"
		         "th,td{padding:4px 12px;text-align:left;border-bottom:1px solid #8884}\n"
		         ".number{text-align:right}\npre,p{margin:16px 20px}\n"
		         "@media (prefers-color-scheme:dark){body{background:#1a1a19;color:#fff}}\n"
		         "</style>\n</head>\n<body>\n<div>\n");
	}
	svg_begin(text, height, picture->title, picture->subtitle);
	if (picture->row_count > 1)
		y += put_front(text, picture, y);
	for (size_t i = 0; i < picture->run_count; i++) {
		if (picture->runs[i].timeline->end <= 0)
			continue;
		y += put_steps(text, &picture->runs[i], y);
		y += put_bytes(text, &picture->runs[i], y);
	}
	for (size_t i = 0; i < picture->curve_count; i++)
		y += put_curves(text, &picture->curves[i], y);
	text_put(text, "</svg>\n");
	if (!picture->html)
		return;
	put_tables(picture, text);
	text_put(text, "</div>\n</body>\n</html>\n");
}
