/*
 * Arrays in Fortran order. They are transposed by squares of the first and the last axis, so
 * that the reads and the writes of a square stay in the cache. The axes between are counted
 * through as an odometer counts.
 */
#include "io/npy.h"

enum { SQUARE = 32 };

/* to[i * to_step + k] = from[i + k * from_step], for ROWS of i and COLUMNS of k. */
#define TRANSPOSE(NAME, T)                                                                                             \
	static void NAME(void *to, int64_t to_step, const void *from, int64_t from_step, int64_t rows, int64_t columns)    \
	{                                                                                                                  \
		for (int64_t i0 = 0; i0 < rows; i0 += SQUARE)                                                                  \
			for (int64_t k0 = 0; k0 < columns; k0 += SQUARE)                                                           \
				for (int64_t i = i0; i < rows && i < i0 + SQUARE; i++)                                                 \
					for (int64_t k = k0; k < columns && k < k0 + SQUARE; k++)                                          \
						((T *)to)[i * to_step + k] = ((const T *)from)[i + k * from_step];                             \
	}
TRANSPOSE(transpose_1, uint8_t)
TRANSPOSE(transpose_2, uint16_t)
TRANSPOSE(transpose_4, uint32_t)
TRANSPOSE(transpose_8, uint64_t)
#undef TRANSPOSE

/* SHAPE has two or more axes. */
static void transpose(const struct shape *shape, size_t size, const char *from, char *to)
{
	void (*plane)(void *, int64_t, const void *, int64_t, int64_t, int64_t) = size == 1   ? transpose_1
	                                                                          : size == 2 ? transpose_2
	                                                                          : size == 4 ? transpose_4
	                                                                                      : transpose_8;
	int last = shape->ndim - 1;
	int64_t from_step[MAX_DIMS], to_step[MAX_DIMS], index[MAX_DIMS] = {0}, step = 1;
	for (int i = 0; i <= last; i++, step *= shape->dim[i - 1])
		from_step[i] = step;
	step = 1;
	for (int i = last; i >= 0; step *= shape->dim[i], i--)
		to_step[i] = step;
	int64_t read = 0, write = 0;
	for (;;) {
		plane(to + (size_t)write * size, to_step[0], from + (size_t)read * size, from_step[last], shape->dim[0],
		      shape->dim[last]);
		int i = last - 1;
		for (; i > 0; i--) {
			read += from_step[i];
			write += to_step[i];
			if (++index[i] < shape->dim[i])
				break;
			read -= from_step[i] * shape->dim[i];
			write -= to_step[i] * shape->dim[i];
			index[i] = 0;
		}
		if (i <= 0)
			return;
	}
}

/* SHAPE without its extents of 1, which move no element. */
static struct shape squeeze(const struct shape *shape)
{
	struct shape squeezed = {.ndim = 0};
	for (int i = 0; i < shape->ndim; i++)
		if (shape->dim[i] != 1)
			squeezed.dim[squeezed.ndim++] = shape->dim[i];
	return squeezed;
}

bool npy_order_matters(const struct shape *shape) { return squeeze(shape).ndim > 1 && shape_count(shape) > 0; }

void npy_transpose(const struct shape *shape, size_t size, const char *from, char *to)
{
	const struct shape squeezed = squeeze(shape);
	transpose(&squeezed, size, from, to);
}
