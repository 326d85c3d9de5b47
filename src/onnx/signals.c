/*
 * Windows and Fourier transforms of signals. A transform of a known length is a product with a matrix of cosines and sines.
 * Tests: tests/scripts/check-import
 */
#include "onnx/translate.h"

#include <math.h>

#define OPERATOR(DOMAIN, NAME, TRANSLATOR, OPERATION) translate translate_##TRANSLATOR;
#include "onnx/operators.def"

static const double pi = 3.14159265358979323846;

void translate_window(struct node *n)
{
	double size;
	enum dtype dtype;
	const char *kind = operation_of(n);
	if (!needed(n, 0) || !input_number(n, 0, "size", &size))
		return;
	if (!model_dtype((int32_t)attribute_integer(n, "output_datatype", 1), &dtype) || !(size >= 0) ||
	    size > NUMBERS_MOST) {
		refuse(n, "its size or type is none of a chain");
		return;
	}
	const int64_t count = (int64_t)size;
	const double period = attribute_integer(n, "periodic", 1) ? size : size - 1;
	double *numbers = arena_array(n->importer->context->arena, (size_t)count + 1, sizeof *numbers);
	for (int64_t i = 0; numbers && i < count; i++) {
		const double at = 2 * pi * (double)i / period;
		numbers[i] = !strcmp(kind, "hann")      ? (1 - cos(at)) / 2
		             : !strcmp(kind, "hamming") ? 25.0 / 46 - 21.0 / 46 * cos(at)
		                                        : 0.42 - 0.5 * cos(at) + 0.08 * cos(2 * at);
	}
	give(n, 0, numbers ? numbers_of(n, dtype, numbers, NULL, count) : short_of_memory(n));
}

/* A transform of COUNT complex numbers, or real ones if PER is 1, to COLUMNS complex ones of LENGTH. */
struct transform {
	int64_t count, columns, length;
	int per;
	bool inverse;
};

/*
 * Returns the matrix of T. A row is a part of a number of the input, a column one of the result: each element is a cosine
 * or a sine.
 */
static struct value *transform_matrix(struct node *n, const struct transform *t)
{
	const struct shape shape = {2, {t->count * t->per, t->columns * 2}};
	double *numbers =
		arena_array(n->importer->context->arena, (size_t)(shape.dim[0] * shape.dim[1]) + 1, sizeof *numbers);
	const double turn = (t->inverse ? 2 : -2) * pi / (double)t->length, scale = t->inverse ? 1 / (double)t->length : 1;
	if (!numbers)
		return short_of_memory(n);
	for (int64_t i = 0; i < t->count && i < t->length; i++)
		for (int64_t k = 0; k < t->columns; k++) {
			const double angle = turn * (double)(i * k % t->length);
			double *at = &numbers[i * t->per * shape.dim[1] + 2 * k];
			at[0] = scale * cos(angle);
			at[1] = scale * sin(angle);
			if (t->per == 2) {
				at[shape.dim[1]] = -at[1];
				at[shape.dim[1] + 1] = at[0];
			}
		}
	return numbers_of(n, DTYPE_F64, numbers, &shape, 0);
}

/* Returns the matrix that makes COLUMNS real numbers of the COUNT complex ones of the first half of their transform. */
static struct value *half_matrix(struct node *n, int64_t count, int64_t columns)
{
	const struct shape shape = {2, {count * 2, columns}};
	double *numbers =
		arena_array(n->importer->context->arena, (size_t)(shape.dim[0] * shape.dim[1]) + 1, sizeof *numbers);
	for (int64_t i = 0; numbers && i < count && i <= columns / 2; i++)
		for (int64_t k = 0; k < columns; k++) {
			const double angle = 2 * pi * (double)(i * k % columns) / (double)columns;
			const double weight = (i == 0 || 2 * i == columns ? 1 : 2) / (double)columns;
			numbers[2 * i * columns + k] = weight * cos(angle);
			numbers[(2 * i + 1) * columns + k] = -weight * sin(angle);
		}
	return numbers ? numbers_of(n, DTYPE_F64, numbers, &shape, 0) : short_of_memory(n);
}

void translate_stft(struct node *n)
{
	struct value *v = needed(n, 0), *window = input(n, 2);
	double step = 0, given_length = 0;
	const bool one_sided = attribute_integer(n, "onesided", 1);
	if (!v || !input_number(n, 1, "frame_step", &step) ||
	    (input(n, 3) && !input_number(n, 3, "frame_length", &given_length)))
		return;
	const int parts = v->type.shape.ndim == 3 ? (int)v->type.shape.dim[2] : 1;
	const int64_t all = v->type.shape.ndim > 1 ? v->type.shape.dim[1] : 0, stride = to_integer(step);
	const int64_t length = input(n, 3) ? to_integer(given_length) : window ? shape_count(&window->type.shape) : all;
	const int64_t made = one_sided ? length / 2 + 1 : length;
	if (v->type.shape.ndim < 2 || v->type.shape.ndim > 3 || (parts != 1 && parts != 2) || length < 1 || length > all ||
	    stride < 1 || symbol_in(n->importer, (double)all) || length * made * 2 * parts > NUMBERS_MOST ||
	    ((all - length) / stride + 1) * length > NUMBERS_MOST ||
	    (window && (window->type.shape.ndim != 1 || window->type.shape.dim[0] != length))) {
		refuse(n, "its signal, frames and window do not fit");
		return;
	}
	const int64_t frames = (all - length) / stride + 1;
	const struct shape places = {2, {frames, length}}, column = {2, {length, 1}};
	const struct shape flat = {3, {v->type.shape.dim[0], frames, length * parts}};
	const struct shape back = {4, {v->type.shape.dim[0], frames, made, 2}};
	double *numbers = arena_array(n->importer->context->arena, (size_t)(frames * length) + 1, sizeof *numbers);
	for (int64_t k = 0; numbers && k < frames * length; k++)
		numbers[k] = (double)(k / length * stride + k % length);
	if (!numbers) {
		short_of_memory(n);
		return;
	}
	const enum dtype dtype = v->type.dtype;
	v = taken(n, numbers_of(n, DTYPE_I64, numbers, &places, 0), v, 1);
	if (window && v)
		v = binary(n, "mul", v, v->type.shape.ndim == 4 ? reshape(n, window, &column) : window);
	const struct transform t = {length, made, length, parts, false};
	v = binary(n, "matmul", convert(n, reshape(n, v, &flat), DTYPE_F64), transform_matrix(n, &t));
	give(n, 0, reshape(n, convert(n, v, dtype), &back));
}

void translate_dft(struct node *n)
{
	struct value *v = needed(n, 0);
	double given_length = 0, given_axis = n->version < 20 ? (double)attribute_integer(n, "axis", 1) : -2;
	const bool inverse = attribute_integer(n, "inverse", 0), one_sided = attribute_integer(n, "onesided", 0);
	int axis;
	if (!v || (input(n, 1) && !input_number(n, 1, "dft_length", &given_length)) ||
	    (n->version >= 20 && input(n, 2) && !input_number(n, 2, "axis", &given_axis)))
		return;
	if (!resolve_axis(n, to_integer(given_axis), v->type.shape.ndim, &axis))
		return;
	const int last = v->type.shape.ndim - 1, parts = (int)v->type.shape.dim[last];
	const bool real = inverse && one_sided;
	const int64_t count = v->type.shape.dim[axis];
	const int64_t length = input(n, 1) ? to_integer(given_length) : real ? 2 * (count - 1) : count;
	const int64_t made = one_sided && !real ? length / 2 + 1 : length;
	if (axis == last || (real && parts != 2) || (parts != 1 && parts != 2) || length < 1 ||
	    count * made * 2 * parts > NUMBERS_MOST || symbol_in(n->importer, (double)count)) {
		refuse(n, "its axes or its length do not fit");
		return;
	}
	/* The axis moves beside that of the parts, and both become one. */
	v = exchange(n, v, axis, last - 1);
	if (!v)
		return;
	struct shape flat = v->type.shape, back = v->type.shape;
	flat.ndim--;
	flat.dim[last - 1] = count * parts;
	back.dim[last - 1] = made;
	back.dim[last] = real ? 1 : 2;
	const struct transform t = {count, made, length, parts, inverse};
	/* Sums whose terms cancel are made in f64. */
	const enum dtype dtype = v->type.dtype;
	v = convert(n, reshape(n, v, &flat), DTYPE_F64);
	struct value *y = binary(n, "matmul", v, real ? half_matrix(n, count, made) : transform_matrix(n, &t));
	y = convert(n, y, dtype);
	give(n, 0, exchange(n, reshape(n, y, &back), axis, last - 1));
}
