/*
 * The parts of charts. The distance of ticks is 1, 2 or 5 times a power of ten; for bytes a power of two. Ticks of a
 * logarithmic axis are powers of two or ten. Axes have only as many ticks as labels have space, at
 * least 2. A mark has a CSS class for its colour, and others for its use, such as `line` or `area`. Dark pages change
 * the colours alone.
 * Tests: tests/unit/test_picture.c, tests/scripts/check-plots
 */
#include "report/picture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_TICKS = 10 };
/* Pixels: beside a plot; above it, without a legend's lines, and below it. The height of a line of a legend. */
enum { LEFT = 82, RIGHT = 26, ABOVE = 34, BELOW = 48, LINE = 18, MARGIN = 6 };
/* The distance of ticks on an axis: labels of x stand side by side, those of y above one another. */
enum { APART_X = 62, APART_Y = 34 };

/* Returns where VALUE is on axis A: 0 at its low end, 1 at its high end. */
static double axis_share(const struct svg_axis *a, double value)
{
	if (a->log)
		return log(value / a->low) / log(a->high / a->low);
	if (a->bend > 0) {
		double low = asinh(a->low / a->bend);
		return (asinh(value / a->bend) - low) / (asinh(a->high / a->bend) - low);
	}
	return (value - a->low) / (a->high - a->low);
}

double svg_left(double page) { return page + LEFT; }

double svg_right(double page) { return page + SVG_WIDTH - RIGHT; }

double svg_x(const struct svg_panel *panel, double value)
{
	const double left = svg_left(panel->page);
	return left + (svg_right(panel->page) - left) * axis_share(&panel->x, value);
}

double svg_y(const struct svg_panel *panel, double value)
{
	return panel->top + panel->height * (1 - axis_share(&panel->y, value));
}

/* Writes VALUE to BUFFER in the multiple of UNIT that suits LIKE, so that all ticks of an axis have one. */
static const char *value_like(enum svg_unit unit, double value, double like, char buffer[48])
{
	static const struct {
		double base, begin, first; /* a multiple is BASE times the last, from BEGIN on; FIRST is the unit in the last */
		int count;
		const char *names[6];
	} units[] = {[SVG_COUNT] = {1000, 10000, 1, 6, {"", "k", "M", "G", "T", "P"}},
	             [SVG_NUMBER] = {1000, 10000, 1, 6, {"", "k", "M", "G", "T", "P"}},
	             [SVG_PERCENT] = {1, 1, 1, 1, {"%"}},
	             [SVG_BYTES] = {1024, 1024, 1, 6, {" B", " KiB", " MiB", " GiB", " TiB", " PiB"}},
	             [SVG_MS] = {1000, 1000, 1e6, 4, {" ns", " µs", " ms", " s"}}};
	int power = 0;
	value *= units[unit].first;
	like *= units[unit].first;
	for (; power + 1 < units[unit].count && fabs(like) >= units[unit].begin; power++) {
		value /= units[unit].base;
		like /= units[unit].base;
	}
	snprintf(buffer, 48, "%.4g%s", value + 0.0, value != 0 || unit == SVG_PERCENT ? units[unit].names[power] : "");
	return buffer;
}

const char *svg_value(enum svg_unit unit, double value, char buffer[48])
{
	return unit == SVG_BYTES ? text_bytes((int64_t)value, buffer) : value_like(unit, value, value, buffer);
}

/* Writes the label of a tick of AXIS at VALUE to BUFFER. */
static const char *tick_label(const struct svg_axis *axis, double value, char buffer[48])
{
	return value_like(axis->unit, value, axis->log ? value : axis->high, buffer);
}

/* Writes what the label of AXIS adds if the axis is not linear, such as " (logarithmic)", to BUFFER. */
static const char *scale_word(const struct svg_axis *axis, char buffer[80])
{
	char bend[48];
	if (axis->log || axis->bend <= 0)
		snprintf(buffer, 80, "%s", axis->log ? " (logarithmic)" : "");
	else
		snprintf(buffer, 80, " (logarithmic above %s)", svg_value(axis->unit, axis->bend, bend));
	return buffer;
}

/* The widest advance of DejaVu Sans and Liberation Sans, from the space on, in percent of the font size. */
static const unsigned char advances[] = {32, 40, 46, 84, 64, 95, 78, 27, 39, 39, 50, 84, 32, 36,  32, 34, 64, 64, 64,
                                         64, 64, 64, 64, 64, 64, 64, 34, 34, 84, 84, 84, 56, 102, 68, 69, 72, 77, 67,
                                         61, 78, 75, 29, 50, 67, 56, 86, 75, 79, 67, 79, 72, 67,  61, 73, 68, 99, 69,
                                         67, 69, 39, 34, 39, 84, 56, 50, 61, 63, 55, 63, 62, 35,  63, 63, 28, 28, 58,
                                         28, 97, 63, 61, 63, 63, 41, 52, 39, 63, 59, 82, 59, 59,  52, 64, 34, 64, 84};

double svg_text_width(const char *text)
{
	enum { FONT = 12, WIDE = 102 };
	double width = 0;
	for (; *text; text++) {
		const unsigned char c = (unsigned char)*text;
		if ((c & 0xc0) != 0x80) /* each character that is not ASCII is as wide as the widest that is */
			width += FONT / 100.0 * (c >= ' ' && c <= '~' ? advances[c - ' '] : WIDE);
	}
	return width;
}

const char *svg_shorten(const char *text, double width, char buffer[160])
{
	size_t length = strlen(text), keep = length < 150 ? length : 150;
	snprintf(buffer, 160, "%s", keep == length ? text : "");
	while (keep > 4 && (keep < length || svg_text_width(buffer) > width)) {
		size_t head = keep / 2, tail = length - (keep - head);
		/* Do not cut within a character. */
		while (head > 0 && (text[head] & 0xc0) == 0x80)
			head--;
		while (tail < length && (text[tail] & 0xc0) == 0x80)
			tail++;
		snprintf(buffer, 160, "%.*s…%s", (int)head, text, text + tail);
		if (svg_text_width(buffer) <= width)
			break;
		keep--;
	}
	return buffer;
}

/* Returns the least usual distance of ticks that is at least ROUGH; of counts and bytes, at least 1. */
static double tick_step(double rough, enum svg_unit unit)
{
	double step = 1, power = pow(10, floor(log10(rough)));
	while (unit == SVG_BYTES && step < rough)
		step *= 2;
	if (unit == SVG_BYTES)
		return step;
	step = rough <= power ? power : rough <= 2 * power ? 2 * power : rough <= 5 * power ? 5 * power : 10 * power;
	return unit == SVG_COUNT && step < 1 ? 1 : step;
}

static size_t log_ticks(const struct svg_axis *axis, double length, double apart, double *ticks)
{
	double base = axis->unit == SVG_BYTES || axis->unit == SVG_COUNT ? 2 : 10, factor = base;
	const double most = fmin(length / apart, MOST_TICKS - 2);
	while (log(axis->high / axis->low) / log(factor) > most)
		factor *= base;
	size_t count = 0;
	double tick = pow(factor, ceil(log(axis->low) / log(factor) - 1e-9));
	for (; count < MOST_TICKS && tick <= axis->high * (1 + 1e-9); tick *= factor)
		ticks[count++] = tick;
	return count;
}

/* Sets TICKS to 0, then 1, 2 and 5 times powers of ten, at least APART pixels from each other. Returns how many. */
static size_t bent_ticks(const struct svg_axis *axis, double length, double apart, double *ticks)
{
	size_t count = 0;
	ticks[count++] = 0;
	double power = pow(10, floor(log10(axis->bend)));
	for (int i = 0; count < MOST_TICKS; i++) {
		static const int parts[] = {1, 2, 5};
		double tick = parts[i % 3] * power * pow(10, floor(i / 3.0));
		if (tick > axis->high)
			break;
		if ((axis_share(axis, tick) - axis_share(axis, ticks[count - 1])) * length >= apart)
			ticks[count++] = tick;
	}
	return count;
}

static size_t ticks_of(const struct svg_axis *axis, double length, double apart, double *ticks)
{
	if (axis->log)
		return log_ticks(axis, length, apart, ticks);
	if (axis->bend > 0)
		return bent_ticks(axis, length, apart, ticks);
	double most = floor(length / apart);
	most = most > MOST_TICKS - 2 ? MOST_TICKS - 2 : most < 2 ? 2 : most;
	double rough = (axis->high - axis->low) / most;
	double step = tick_step(rough, axis->unit);
	size_t count = 0;
	for (double i = ceil(axis->low / step - 1e-9); i * step <= axis->high + step * 1e-9 && count < MOST_TICKS; i++)
		ticks[count++] = i * step + 0.0; /* never -0 */
	return count;
}

void svg_text(const struct text *text, double x, double y, const char *anchor, const char *class, const char *string)
{
	text_printf(text, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor, class);
	text_xml(text, string);
	text_put(text, "</text>\n");
}

static const char styles[] =
	".page{fill:#fff}\n"
	"text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans',sans-serif;fill:#52514e}\n"
	".title{font-size:17px;font-weight:600;fill:#0b0b0b}\n"
	".heading{font-size:13px;font-weight:600;fill:#0b0b0b}\n"
	".name{fill:#0b0b0b}\n"
	".grid{stroke:#e6e5e1;fill:none}\n"
	".axis{stroke:#a3a19b;fill:none}\n"
	".line{stroke:currentColor;fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}\n"
	".dash{stroke-dasharray:6 4;stroke-linecap:butt}\n"
	".area{fill:currentColor;stroke:none}\n"
	".soft{opacity:.22}.bars{opacity:.5}\n"
	".bar{stroke:currentColor;stroke-width:3;stroke-linecap:butt;fill:none;opacity:.5}\n"
	".ring{stroke:currentColor;stroke-width:2}\n"
	".stair{opacity:.5}\n"
	".forward{color:" COLOR_FORWARD "}.record{color:#7a4fd0}.recompute{color:" COLOR_RECOMPUTE "}\n"
	".backward{color:" COLOR_BACKWARD "}.held{color:" COLOR_HELD "}.disk{color:#b3308c}.live{color:#2a78d6}\n"
	".budget{color:#d03b3b}.front{color:#2a78d6}.other{color:#9b9993}.knee{color:#e06a1f}\n"
	"@media (prefers-color-scheme:dark){\n"
	".page{fill:#1a1a19}\n"
	"text{fill:#c3c2b7}.title,.heading,.name{fill:#fff}\n"
	".grid{stroke:#333230}.axis{stroke:#6f6d68}\n"
	".forward{color:#4a94f0}.record{color:#a78bfa}.recompute{color:#f0823c}.backward{color:#2fb583}\n"
	".held{color:#a3a19a}.disk{color:#e070bd}.live{color:#4a94f0}.budget{color:#f06a6a}\n"
	".front{color:#4a94f0}.other{color:#7d7b76}.knee{color:#f0823c}\n"
	"}\n";

void svg_put_styles(const struct text *text) { text_put(text, styles); }

void svg_open(const struct text *text, double width, double height, const char *title)
{
	text_printf(text,
	            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
	            "style=\"max-width:100%%;height:auto\" role=\"img\" aria-label=\"",
	            width, height, width, height);
	text_xml(text, title);
	text_put(text, "\">\n");
}

static void put_key(const struct text *text, const struct svg_key *key, double x, double y)
{
	static const struct {
		const char *format; /* takes the class and a place, which is moved by DX and DY */
		double dx, dy;
	} shapes[] = {
		[KEY_LINE] = {"<path class=\"%s line\" d=\"M%.1f %.1fh18\"/>\n", 0, -4},
		[KEY_DASH] = {"<path class=\"%s line dash\" d=\"M%.1f %.1fh18\"/>\n", 0, -4},
		[KEY_BAR] = {"<path class=\"%s bar\" d=\"M%.1f %.1fh18\"/>\n", 0, -4},
		[KEY_DOT] = {"<circle class=\"%s area\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"/>\n", 9, -4},
		[KEY_RING] = {"<circle class=\"%s ring page\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>\n", 9, -4},
		[KEY_AREA] = {"<rect class=\"%s area soft\" x=\"%.1f\" y=\"%.1f\" width=\"18\" height=\"10\"/>\n", 0, -9},
	};
	text_printf(text, shapes[key->shape].format, key->class, x + shapes[key->shape].dx, y + shapes[key->shape].dy);
	svg_text(text, x + 24, y, "start", "note", key->name);
}

/* Writes LEGEND if DRAWN, with its first line at Y. Returns the number of its lines. */
static int put_legend(const struct text *text, const struct svg_legend *legend, double page, double y, bool drawn)
{
	enum { SAMPLE = 24, GAP = 14 };
	const double begin = page + MARGIN, end = page + SVG_WIDTH - MARGIN;
	double x = begin;
	int lines = 0;
	for (size_t i = 0; i < legend->count; i++) {
		const double width = SAMPLE + svg_text_width(legend->keys[i].name);
		if (i == 0 || x + width > end) {
			x = begin;
			y += lines++ ? LINE : 0;
		}
		if (drawn)
			put_key(text, &legend->keys[i], x, y);
		x += width + GAP;
	}
	return lines;
}

double svg_above(const struct svg_legend *legend) { return ABOVE + LINE * put_legend(NULL, legend, 0, 0, false); }

double svg_below(void) { return BELOW; }

/* Writes the grid and the ticks of PANEL. */
static void put_grid(const struct text *text, const struct svg_panel *panel)
{
	const double left = svg_left(panel->page), width = svg_right(panel->page) - left;
	const double bottom = panel->top + panel->height;
	double ticks[MOST_TICKS];
	char label[48];
	size_t count = ticks_of(&panel->y, panel->height, APART_Y, ticks);
	for (size_t i = 0; i < count; i++) {
		double y = svg_y(panel, ticks[i]);
		text_printf(text, "<path class=\"grid\" d=\"M%.1f %.1fh%.1f\"/>\n", left, y, width);
		svg_text(text, left - 8, y + 4, "end", "tick", tick_label(&panel->y, ticks[i], label));
	}
	count = ticks_of(&panel->x, width, APART_X, ticks);
	for (size_t i = 0; i < count; i++) {
		double x = svg_x(panel, ticks[i]);
		text_printf(text, "<path class=\"grid\" d=\"M%.1f %.1fv%.1f\"/>\n", x, panel->top, panel->height);
		svg_text(text, x, bottom + 17, "middle", "tick", tick_label(&panel->x, ticks[i], label));
	}
	text_printf(text, "<path class=\"axis\" d=\"M%.1f %.1fv%.1fh%.1f\"/>\n", left, panel->top, panel->height, width);
}

void svg_axes(const struct text *text, const struct svg_panel *panel, const char *heading,
              const struct svg_legend *legend)
{
	static const double bold = 1.25; /* headings are bold and larger */
	const double left = svg_left(panel->page), right = svg_right(panel->page), top = panel->top - svg_above(legend);
	char label[160], shown[160], scale[80];
	svg_text(text, panel->page + MARGIN, top + 18, "start", "heading",
	         svg_shorten(heading, (SVG_WIDTH - 2 * MARGIN) / bold, shown));
	put_legend(text, legend, panel->page, top + 18 + LINE, true);
	put_grid(text, panel);
	snprintf(label, sizeof label, "%s%s", panel->x.label, scale_word(&panel->x, scale));
	svg_text(text, (left + right) / 2, panel->top + panel->height + 35, "middle", "note", label);
	text_printf(text, "<text class=\"note\" text-anchor=\"middle\" transform=\"translate(%.1f %.1f) rotate(-90)\">",
	            panel->page + 14, panel->top + panel->height / 2);
	text_xml(text, panel->y.label);
	text_put(text, scale_word(&panel->y, scale));
	text_put(text, "</text>\n");
}
