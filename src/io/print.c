/*
 * An array as NumPy's str() shows it with the default print options:
 *   - at most eight digits after the point, and fewer if those of all elements then read back the same;
 *   - lines of at most 75 characters, and one width for all elements;
 *   - of an axis of more than six items only three at either edge, if there are more than 1000 elements;
 *   - scientific notation if the greatest magnitude reaches 1e8, the least (of those not 0) lies under 1e-4, or their
 *     ratio in the array's type exceeds 1000.
 * The elements that will be shown are first measured, then printed. A 0-d array is a number by itself (print_scalar).
 * Tests: tests/unit/test_text.c
 */
#include "io/formats.h"

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
	double most, least; /* greatest and least magnitude of the shown elements that are finite and not 0 */
	int before, after;  /* most characters before the point, most digits after it */
	int exponent;       /* digits of the longest exponent */
	int special;        /* characters of the longest of nan, inf, -inf */
	char line[2 * LINE + CELL];
	int used;
	enum status status;
};

/* The parts of a finite number that is shown. */
struct spelled {
	char integer[40];             /* the sign, and the digits before the point */
	char fraction[PRECISION + 1]; /* digits after it, without zeros at the end */
	int exponent;                 /* digits of the exponent, two at least */
};

static void spell_parts(const struct printer *p, double value, struct spelled *s)
{
	char text[64];
	(p->scientific ? number_format_scientific : number_format)(text, value, p->dtype);
	const char *point = strchr(text, '.');
	if (point && strspn(point + 1, "0123456789") > PRECISION)
		snprintf(text, sizeof text, p->scientific ? "%.*e" : "%.*f", PRECISION, value);
	size_t whole = strspn(text, "-0123456789"), fraction = text[whole] ? strspn(text + whole + 1, "0123456789") : 0;
	const char *digits = text + whole + 1, *e = strchr(text, 'e');
	while (fraction > 0 && digits[fraction - 1] == '0')
		fraction--;
	snprintf(s->integer, sizeof s->integer, "%.*s", (int)whole, text);
	snprintf(s->fraction, sizeof s->fraction, "%.*s", (int)fraction, fraction ? digits : "");
	s->exponent = e ? (int)strlen(e + 2) : 2;
}

/* Returns the number of elements in one item of AXIS. */
static int64_t elements_below(const struct printer *p, int axis)
{
	int64_t count = 1;
	for (int i = axis + 1; i < p->shape->ndim; i++)
		count *= p->shape->dim[i];
	return count;
}

/* Calls VISIT for each element that is shown. */
static void visit_shown(struct printer *p, int axis, int64_t offset, void (*visit)(struct printer *, double))
{
	if (axis == p->shape->ndim) {
		visit(p, p->values[offset]);
		return;
	}
	const int64_t extent = p->shape->dim[axis], inner = elements_below(p, axis);
	for (int64_t i = 0; i < extent; i++) {
		if (p->summarised && extent > 2 * EDGE && i == EDGE)
			i = extent - EDGE;
		visit_shown(p, axis + 1, offset + i * inner, visit);
	}
}

/* Returns the ratio of the greatest magnitude to the least, rounded to the type in which NumPy divides. */
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
	int before = (int)strlen(s.integer), after = (int)strlen(s.fraction);
	p->before = before > p->before ? before : p->before;
	p->after = after > p->after ? after : p->after;
	p->exponent = s.exponent > p->exponent ? s.exponent : p->exponent;
}

/* Returns the characters of an element after the point. In fixed notation blanks replace trailing zeros. */
static int width_after_point(const struct printer *p) { return p->after + (p->scientific ? 2 + p->exponent : 0); }

/* Writes VALUE as it is shown, in the common width of all elements. */
static void format_cell(const struct printer *p, double value, char text[CELL])
{
	if (!isfinite(value)) {
		const char *name = isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
		snprintf(text, CELL, "%*s", p->before + 1 + width_after_point(p), name);
	} else if (p->scientific) { /* NumPy fills up the width with digits of the exact value */
		char number[32];
		snprintf(number, sizeof number, "%#.*e", p->after, value);
		const char *e = strchr(number, 'e');
		snprintf(text, CELL, "%*.*se%c%0*d", p->before + 1 + p->after, (int)(e - number), number, e[1], p->exponent,
		         atoi(e + 2));
	} else {
		struct spelled s;
		spell_parts(p, value, &s);
		snprintf(text, CELL, "%*s.%-*s", p->before, s.integer, p->after, s.fraction);
	}
}

/* Writes the line without trailing blanks, and COUNT line ends. The next line is indented for DEPTH open brackets. */
static void break_line(struct printer *p, int count, int depth)
{
	while (p->used > 0 && p->line[p->used - 1] == ' ')
		p->used--;
	memset(p->line + p->used, '\n', (size_t)count);
	p->line[p->used + count] = '\0';
	if (!p->status)
		p->status = writer_put_text(p->writer, p->line, p->diags);
	memset(p->line, ' ', (size_t)depth);
	p->used = depth;
}

/* Puts WORD on the line, or on the next one if too little space is left for it and the closing brackets. */
static void put_word(struct printer *p, const char *word, int depth)
{
	int length = (int)strlen(word), most = LINE - depth;
	if (p->used + length > most && p->used > depth)
		break_line(p, 1, depth);
	memcpy(p->line + p->used, word, (size_t)length);
	p->used += length;
}

/* Separates two elements by a blank, and two blocks by a line end for each axis within them. */
static void separate_elements(struct printer *p, int axis)
{
	const int inner = p->shape->ndim - 1 - axis;
	if (inner > 0)
		break_line(p, inner, axis + 1);
	else
		p->line[p->used++] = ' ';
}

static void print_axis(struct printer *p, int axis, int64_t offset)
{
	const int64_t extent = p->shape->dim[axis], inner = elements_below(p, axis);
	char text[CELL];
	p->line[p->used++] = '[';
	for (int64_t i = 0; i < extent; i++) {
		if (i > 0)
			separate_elements(p, axis);
		if (p->summarised && extent > 2 * EDGE && i == EDGE) {
			put_word(p, "...", axis + 1);
			separate_elements(p, axis);
			i = extent - EDGE;
		}
		if (axis + 1 < p->shape->ndim) {
			print_axis(p, axis + 1, offset + i * inner);
		} else {
			format_cell(p, p->values[offset + i], text);
			put_word(p, text, axis + 1);
		}
	}
	p->line[p->used++] = ']';
}

/*
 * Prints a 0-d array as the number itself: its shortest digits, also of a whole number. The value decides the notation.
 */
static enum status print_scalar(const struct printer *p)
{
	char text[CELL];
	const double value = p->values[0];
	number_format_scientific(text, value, p->dtype);
	if (isfinite(value) && (value == 0 || fabs(value) >= 1e-4))
		number_format(text, strtod(text, NULL), DTYPE_F64);
	strcat(text, strpbrk(text, ".enif") ? "\n" : ".0\n");
	return writer_put_text(p->writer, text, p->diags);
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
	if (writer->count == 0)
		return writer_put_text(writer, "[]\n", diags);
	visit_shown(&p, 0, 0, measure_magnitude);
	p.scientific = p.most >= 1e8 || (p.most > 0 && (p.least < 1e-4 || spread(&p) > 1e3));
	visit_shown(&p, 0, 0, measure_digits);
	if (p.special > p.before + 1 + width_after_point(&p))
		p.before = p.special - 1 - width_after_point(&p);
	print_axis(&p, 0, 0);
	break_line(&p, 1, 0);
	return p.status;
}
