/*
 * The rules of numpy.array2string with its defaults: precision 8, a line of 75,
 * three items at either edge beyond 1000 elements, one width for all elements,
 * scientific notation where magnitudes reach 1e8, lie under 1e-4 or span 1e3
 * times more... than a thousand.
 */
#include "io/print.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LINE = 75, THRESHOLD = 1000, EDGE = 3, PRECISION = 8, CELL = 64 };

struct printer {
	struct writer *writer;
	struct diags *diags;
	const double *values;
	const struct shape *shape;
	bool scientific, single, summarised;
	int before, after; /* digits of fixed notation */
	int width;
	int column;
	enum status status;
};

static void put(struct printer *p, const char *text)
{
	if (!p->status)
		p->status = writer_put_text(p->writer, text, p->diags);
}

/* Digits after the point that VALUE needs, at most PRECISION, in either notation. */
static int digits_after(const struct printer *p, double value, bool scientific)
{
	char text[64], shortest[40];
	double back = value;
	if (p->single) { /* the shortest digits of the float */
		number_format(shortest, value, true);
		sscanf(shortest, "%lf", &back);
	}
	snprintf(text, sizeof text, scientific ? "%.*e" : "%.*f", PRECISION, back);
	char *point = strchr(text, '.'), *end = strchr(text, 'e');
	if (!point)
		return 0;
	if (!end)
		end = text + strlen(text);
	while (end > point + 1 && end[-1] == '0')
		end--;
	return (int)(end - point) - 1;
}

static void cell(const struct printer *p, double value, char text[CELL])
{
	double back = value;
	char shortest[40];
	if (isnan(value) || isinf(value)) {
		snprintf(text, CELL, "%*s", p->width, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
		return;
	}
	if (p->single) {
		number_format(shortest, value, true);
		sscanf(shortest, "%lf", &back);
	}
	if (p->scientific) {
		snprintf(text, CELL, "%*.*e", p->width, p->after, back);
		return;
	}
	char body[CELL];
	snprintf(body, sizeof body, "%.*f", p->after, back);
	/* Trailing zeros are blanks, the point stays. */
	char *point = strchr(body, '.');
	if (!point) {
		size_t n = strlen(body);
		body[n] = '.';
		body[n + 1] = '\0';
	} else {
		for (char *end = body + strlen(body) - 1; end > point && *end == '0'; end--)
			*end = ' ';
	}
	snprintf(text, CELL, "%*s", p->width, body);
}

/* Visits what is shown along axis AXIS at OFFSET. */
static void measure(struct printer *p, int axis, int64_t offset, double *most, double *least)
{
	const struct shape *s = p->shape;
	if (axis == s->ndim) {
		double value = p->values[offset], size = fabs(value);
		if (!isfinite(value))
			return;
		if (size > *most)
			*most = size;
		if (size > 0 && size < *least)
			*least = size;
		return;
	}
	int64_t inner = 1;
	for (int i = axis + 1; i < s->ndim; i++)
		inner *= s->dim[i];
	for (int64_t i = 0; i < s->dim[axis]; i++) {
		if (p->summarised && s->dim[axis] > 2 * EDGE && i == EDGE)
			i = s->dim[axis] - EDGE;
		measure(p, axis + 1, offset + i * inner, most, least);
	}
}

static void widths(struct printer *p, int axis, int64_t offset)
{
	const struct shape *s = p->shape;
	if (axis == s->ndim) {
		double value = p->values[offset];
		char text[CELL];
		if (!isfinite(value)) {
			int n = isnan(value) ? 3 : value < 0 ? 4 : 3;
			p->width = n > p->width ? n : p->width;
			return;
		}
		int n = digits_after(p, value, p->scientific);
		p->after = n > p->after ? n : p->after;
		n = p->scientific ? 0
		                  : snprintf(text, sizeof text, "%.0f", signbit(value) ? -floor(fabs(value)) : floor(value));
		if (!p->scientific && signbit(value) && text[0] != '-')
			n++;
		p->before = n > p->before ? n : p->before;
		return;
	}
	int64_t inner = 1;
	for (int i = axis + 1; i < s->ndim; i++)
		inner *= s->dim[i];
	for (int64_t i = 0; i < s->dim[axis]; i++) {
		if (p->summarised && s->dim[axis] > 2 * EDGE && i == EDGE)
			i = s->dim[axis] - EDGE;
		widths(p, axis + 1, offset + i * inner);
	}
}

static void widest_scientific(struct printer *p, int axis, int64_t offset)
{
	const struct shape *s = p->shape;
	if (axis == s->ndim) {
		char text[CELL];
		if (isfinite(p->values[offset])) {
			int n = snprintf(text, sizeof text, "%.*e", p->after, p->values[offset]);
			p->width = n > p->width ? n : p->width;
		}
		return;
	}
	int64_t inner = 1;
	for (int i = axis + 1; i < s->ndim; i++)
		inner *= s->dim[i];
	for (int64_t i = 0; i < s->dim[axis]; i++) {
		if (p->summarised && s->dim[axis] > 2 * EDGE && i == EDGE)
			i = s->dim[axis] - EDGE;
		widest_scientific(p, axis + 1, offset + i * inner);
	}
}

static void indent(struct printer *p, int depth)
{
	put(p, "\n");
	for (int i = 0; i < depth; i++)
		put(p, " ");
	p->column = depth;
}

static void print_axis(struct printer *p, int axis, int64_t offset)
{
	const struct shape *s = p->shape;
	int64_t inner = 1;
	for (int i = axis + 1; i < s->ndim; i++)
		inner *= s->dim[i];
	bool last = axis + 1 == s->ndim;
	put(p, "[");
	p->column++;
	for (int64_t i = 0; i < s->dim[axis]; i++) {
		char text[CELL];
		bool cut = p->summarised && s->dim[axis] > 2 * EDGE && i == EDGE;
		if (!last) {
			if (i)
				for (int k = axis + 1; k < s->ndim; k++)
					k + 1 < s->ndim ? put(p, "\n") : indent(p, axis + 1);
			if (cut) {
				put(p, "...");
				for (int k = axis + 1; k < s->ndim; k++)
					k + 1 < s->ndim ? put(p, "\n") : indent(p, axis + 1);
				i = s->dim[axis] - EDGE;
			}
			print_axis(p, axis + 1, offset + i * inner);
			continue;
		}
		if (cut) {
			put(p, p->column + 5 > LINE ? "" : " ");
			if (p->column + 5 > LINE)
				indent(p, axis + 1);
			else
				p->column++;
			put(p, "...");
			p->column += 3;
			i = s->dim[axis] - EDGE;
		}
		cell(p, p->values[offset + i], text);
		int width = (int)strlen(text);
		if (i) {
			if (p->column + 1 + width + (i + 1 == s->dim[axis] ? axis + 1 : 0) > LINE) {
				indent(p, axis + 1);
			} else {
				put(p, " ");
				p->column++;
			}
		}
		put(p, text);
		p->column += width;
	}
	put(p, "]");
	p->column++;
}

enum status print_array(struct writer *writer, const double *values, struct diags *diags)
{
	struct printer p = {.writer = writer,
	                    .diags = diags,
	                    .values = values,
	                    .shape = &writer->type.shape,
	                    .single = dtype_compute(writer->type.dtype) == DTYPE_F32,
	                    .summarised = writer->count > THRESHOLD};
	char text[CELL];
	if (p.shape->ndim == 0) {
		number_format(text, values[0], p.single);
		put(&p, text);
		if (!strpbrk(text, ".enif"))
			put(&p, ".0");
		put(&p, "\n");
		return p.status;
	}
	if (writer->count == 0) {
		put(&p, "[]\n");
		return p.status;
	}
	double most = 0, least = INFINITY;
	measure(&p, 0, 0, &most, &least);
	p.scientific = most >= 1e8 || (isfinite(least) && (least < 1e-4 || most / least > 1e3));
	widths(&p, 0, 0);
	if (p.scientific)
		widest_scientific(&p, 0, 0);
	else if (p.before + 1 + p.after > p.width)
		p.width = p.before + 1 + p.after;
	print_axis(&p, 0, 0);
	put(&p, "\n");
	return p.status;
}
