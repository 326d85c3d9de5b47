/*
 * An array as NumPy's str() shows it with the default print options:
 *   - at most eight digits after the point, and fewer where they read back the same;
 *   - lines of 75 characters, and one width for all elements;
 *   - three items at either edge of an axis if there are more than 1000 elements;
 *   - scientific notation if the greatest magnitude reaches 1e8, the least lies under 1e-4,
 *     or their ratio in the array's type exceeds 1000.
 * The elements that will be shown are first measured, then printed.
 */
#include "io/print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 75, THRESHOLD = 1000, EDGE = 3, PRECISION = 8, CELL = 64 };

struct printer {
	struct writer *writer;
	struct diags *diags;
	const double *values;
	const struct shape *shape;
	enum dtype dtype;
	bool scientific, summarised;
	double most, least; /* magnitudes: of all, and of those that are not 0 */
	int before, after;  /* characters before the point, digits after it */
	int exponent;       /* digits of the longest exponent */
	int special;        /* characters of the longest of nan, inf, -inf */
	char line[2 * LINE + CELL];
	int used;
	enum status status;
};

static void print_text(struct printer *p, const char *text)
{
	if (!p->status)
		p->status = writer_put_text(p->writer, text, p->diags);
}

/* The parts of a number that is shown. */
struct spelled {
	bool negative;
	char whole[40];               /* digits before the point */
	char fraction[PRECISION + 1]; /* digits after it, without zeros at the end */
	char exponent[8];             /* digits of the exponent, two at least */
};

static void spell_parts(const struct printer *p, double value, struct spelled *s)
{
	char text[64];
	double size = fabs(value);
	(p->scientific ? number_format_scientific : number_format_as)(text, size, p->dtype);
	const char *point = strchr(text, '.');
	if (point && strspn(point + 1, "0123456789") > PRECISION)
		snprintf(text, sizeof text, p->scientific ? "%.*e" : "%.*f", PRECISION, size);
	size_t whole = strspn(text, "0123456789"), fraction = text[whole] ? strspn(text + whole + 1, "0123456789") : 0;
	const char *digits = text + whole + 1, *e = strchr(text, 'e');
	while (fraction > 0 && digits[fraction - 1] == '0')
		fraction--;
	s->negative = signbit(value);
	snprintf(s->whole, sizeof s->whole, "%.*s", (int)whole, text);
	snprintf(s->fraction, sizeof s->fraction, "%.*s", (int)fraction, fraction ? digits : "");
	snprintf(s->exponent, sizeof s->exponent, "%02d", e ? abs(atoi(e + 1)) % 10000 : 0);
}

/* Calls VISIT for visit_shown element that is shown. */
static void visit_shown(struct printer *p, int axis, int64_t offset, void (*visit)(struct printer *, double))
{
	const struct shape *s = p->shape;
	int64_t inner = 1;
	if (axis == s->ndim) {
		visit(p, p->values[offset]);
		return;
	}
	for (int i = axis + 1; i < s->ndim; i++)
		inner *= s->dim[i];
	for (int64_t i = 0; i < s->dim[axis]; i++) {
		if (p->summarised && s->dim[axis] > 2 * EDGE && i == EDGE)
			i = s->dim[axis] - EDGE;
		visit_shown(p, axis + 1, offset + i * inner, visit);
	}
}

/* The ratio of the greatest magnitude to the least, rounded to the type in which NumPy divides. */
static double spread(const struct printer *p)
{
	if (p->dtype == DTYPE_F64)
		return p->most / p->least;
	float narrow = (float)p->most / (float)p->least;
	values_round(&narrow, DTYPE_F32, 1, p->dtype);
	return (double)narrow;
}

static void measure_magnitude(struct printer *p, double value)
{
	double size = fabs(value);
	if (!isfinite(value)) {
		int n = value < 0 ? 4 : 3;
		p->special = n > p->special ? n : p->special;
	} else if (size > 0) {
		p->most = size > p->most ? size : p->most;
		p->least = size < p->least ? size : p->least;
	}
}

static void measure_digits(struct printer *p, double value)
{
	struct spelled s;
	if (!isfinite(value))
		return;
	spell_parts(p, value, &s);
	int before = (int)strlen(s.whole) + s.negative, after = (int)strlen(s.fraction), exponent = (int)strlen(s.exponent);
	p->before = before > p->before ? before : p->before;
	p->after = after > p->after ? after : p->after;
	p->exponent = exponent > p->exponent ? exponent : p->exponent;
}

/* Characters of an element after the point; in fixed notation blanks replace trailing zeros. */
static int width_after_point(const struct printer *p) { return p->after + (p->scientific ? 2 + p->exponent : 0); }

static char *fill_with(char *to, char with, int count)
{
	if (count > 0)
		memset(to, with, (size_t)count);
	return to + (count > 0 ? count : 0);
}

static char *append_text(char *to, const char *text)
{
	size_t length = strlen(text);
	memcpy(to, text, length + 1);
	return to + length;
}

/* Writes an element as it is shown, in the width of all elements. */
static void format_cell(const struct printer *p, double value, char text[CELL])
{
	struct spelled s;
	char *out = text, number[32];
	if (!isfinite(value)) {
		const char *name = isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
		append_text(fill_with(out, ' ', p->before + 1 + width_after_point(p) - (int)strlen(name)), name);
		return;
	}
	spell_parts(p, value, &s);
	out = fill_with(out, ' ', p->before - s.negative - (int)strlen(s.whole));
	if (!p->scientific) {
		out = append_text(append_text(append_text(append_text(out, s.negative ? "-" : ""), s.whole), "."), s.fraction);
		out = fill_with(out, ' ', p->after - (int)strlen(s.fraction));
		*out = '\0';
		return;
	}
	/* NumPy fills up the width with digits of the exact value. */
	snprintf(number, sizeof number, "%#.*e", p->after, value);
	char *e = strchr(number, 'e'), sign = e[1];
	int digits = (int)strlen(e + 2);
	*e = '\0';
	out = append_text(out, number);
	*out++ = 'e';
	*out++ = sign;
	append_text(fill_with(out, '0', p->exponent - digits), e + 2);
}

/* Ends the line without trailing blanks, and begins the next one, indented for DEPTH open brackets. */
static void break_line(struct printer *p, int depth)
{
	while (p->used > 0 && p->line[p->used - 1] == ' ')
		p->used--;
	p->line[p->used] = '\0';
	print_text(p, p->line);
	print_text(p, "\n");
	memset(p->line, ' ', (size_t)depth);
	p->used = depth;
}

/* Puts WORD on the line, or on the next one if too little space is left for it and the closing brackets. */
static void put_word(struct printer *p, const char *word, int depth)
{
	int length = (int)strlen(word), most = LINE - depth;
	if (p->used + length > most && p->used > depth)
		break_line(p, depth);
	memcpy(p->line + p->used, word, (size_t)length);
	p->used += length;
}

static void print_row(struct printer *p, int depth, int64_t offset, int64_t count)
{
	char text[CELL];
	for (int64_t i = 0; i < count; i++) {
		if (p->summarised && count > 2 * EDGE && i == EDGE) {
			put_word(p, "...", depth);
			p->line[p->used++] = ' ';
			i = count - EDGE;
		}
		format_cell(p, p->values[offset + i], text);
		put_word(p, text, depth);
		if (i + 1 < count)
			p->line[p->used++] = ' ';
	}
}

static void flush_line(struct printer *p)
{
	p->line[p->used] = '\0';
	print_text(p, p->line);
	p->used = 0;
}

/* Separates two blocks of AXIS by a line end, and by an empty line for visit_shown axis further in but one. */
static void next_block(struct printer *p, int axis)
{
	flush_line(p);
	for (int i = axis + 1; i < p->shape->ndim; i++)
		print_text(p, "\n");
	memset(p->line, ' ', (size_t)axis + 1);
	p->used = axis + 1;
}

static void print_axis(struct printer *p, int axis, int64_t offset)
{
	const struct shape *s = p->shape;
	int64_t inner = 1;
	p->line[p->used++] = '[';
	if (axis + 1 == s->ndim) {
		print_row(p, axis + 1, offset, s->dim[axis]);
		p->line[p->used++] = ']';
		return;
	}
	for (int i = axis + 1; i < s->ndim; i++)
		inner *= s->dim[i];
	for (int64_t i = 0; i < s->dim[axis]; i++) {
		if (i > 0)
			next_block(p, axis);
		if (p->summarised && s->dim[axis] > 2 * EDGE && i == EDGE) {
			memcpy(p->line + p->used, "...", 3);
			p->used += 3;
			next_block(p, axis);
			i = s->dim[axis] - EDGE;
		}
		print_axis(p, axis + 1, offset + i * inner);
	}
	p->line[p->used++] = ']';
}

/* A 0-d array is shown as the number itself. */
static enum status print_scalar(struct printer *p)
{
	char text[CELL];
	/* It shows its shortest digits, also of a whole number; the value decides the notation. */
	const double value = p->values[0];
	number_format_scientific(text, value, p->dtype);
	if (isfinite(value) && (value == 0 || fabs(value) >= 1e-4))
		number_format_as(text, strtod(text, NULL), DTYPE_F64);
	print_text(p, text);
	if (!strpbrk(text, ".enif"))
		print_text(p, ".0");
	print_text(p, "\n");
	return p->status;
}

enum status print_array(struct writer *writer, const double *values, struct diags *diags)
{
	struct printer p = {.writer = writer,
	                    .diags = diags,
	                    .values = values,
	                    .shape = &writer->type.shape,
	                    .dtype = writer->type.dtype,
	                    .summarised = writer->count > THRESHOLD,
	                    .least = INFINITY};
	if (p.shape->ndim == 0)
		return print_scalar(&p);
	if (writer->count == 0) {
		print_text(&p, "[]\n");
		return p.status;
	}
	visit_shown(&p, 0, 0, measure_magnitude);
	p.scientific = p.most >= 1e8 || (p.most > 0 && (p.least < 1e-4 || spread(&p) > 1e3));
	visit_shown(&p, 0, 0, measure_digits);
	if (p.special > p.before + 1 + width_after_point(&p))
		p.before = p.special - 1 - width_after_point(&p);
	print_axis(&p, 0, 0);
	flush_line(&p);
	print_text(&p, "\n");
	return p.status;
}
