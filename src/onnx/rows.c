/*
 * Arrays with an extent that the model leaves open, such as zeros for each example of a batch. A chain makes them of the
 * rows of an input: each row of `0 * isnan(x[:, :1])` is a zero, whatever x holds.
 * Tests: tests/scripts/check-import
 */
#include "onnx/translate.h"

/* Returns the open symbol whose extent NUMBER is, or NULL. */
static struct symbol *symbol_of(struct importer *im, int64_t number)
{
	for (size_t i = 0; i < im->symbol_count; i++)
		if (!im->symbols[i].extent && im->symbols[i].prime == number)
			return &im->symbols[i];
	return NULL;
}

int rows_in(const struct importer *im, const struct shape *shape)
{
	int axis = -1;
	for (int i = 0; i < shape->ndim; i++) {
		if (!symbol_in(im, (double)shape->dim[i]))
			continue;
		if (axis >= 0 || symbol_factor(im, shape->dim[i]) != 1)
			return -1;
		axis = i;
	}
	return axis;
}

/* Returns the input of the chain whose rows have the extent SYMBOL, or NULL if there is none. */
static struct value *input_with_rows(struct importer *im, const struct symbol *symbol)
{
	for (size_t i = 0; i < im->input_count; i++) {
		struct value *v = dictionary_find(&im->names, im->inputs[i].name);
		bool good = v && v->type.shape.ndim && v->type.shape.dim[0] == symbol->prime;
		for (int k = 1; good && k < v->type.shape.ndim; k++)
			good = v->type.shape.dim[k] > 0;
		if (good)
			return v;
	}
	return NULL;
}

/* Returns as many zeros as SYMBOL's extent. */
static struct value *zeros_for_rows(struct node *n, struct symbol *symbol)
{
	struct value *rows = symbol->zeros ? NULL : input_with_rows(n->importer, symbol);
	struct part parts[MAX_DIMS];
	if (symbol->zeros)
		return symbol->zeros;
	if (!rows)
		return refuse(n, "an array depends on an extent that the model leaves open; --shape gives it");
	for (int i = 0; i < rows->type.shape.ndim; i++)
		parts[i] = (struct part){0, i ? 1 : symbol->prime, 1};
	struct value *zero = reshape(n, part_of(n, rows, parts), &(struct shape){1, {symbol->prime}});
	zero = zero ? binary(n, "mul", number_like(n, zero, 0), unary(n, "isnan", zero)) : NULL;
	if (n->importer->depth == 0)
		symbol->zeros = zero = bind(n, zero, "row_zeros");
	return zero;
}

struct value *fill_rows(struct node *n, struct value *v)
{
	const int axis = rows_in(n->importer, &v->type.shape);
	struct shape column = {v->type.shape.ndim, {0}}, others = v->type.shape;
	for (int i = 0; i < column.ndim; i++)
		column.dim[i] = 1;
	column.dim[axis] = v->type.shape.dim[axis];
	others.dim[axis] = 1;
	struct value *zeros = zeros_for_rows(n, symbol_of(n->importer, column.dim[axis]));
	struct value *made = reshape(n, zeros, &column);
	const double number = v->constant->numbers[0];
	if (made && !dtype_is_integer(v->type.dtype))
		made = convert(n, made, v->type.dtype);
	if (shape_count(&others) != 1)
		made = binary(n, "add", made, filled(n, v->type.dtype, &others, number));
	else
		made = plus(n, made, number);
	if (!made)
		return NULL;
	v->computed = made->computed;
	v->text = made->text;
	v->level = made->level;
	v->is_name = made->is_name;
	v->size = made->size;
	v->maker = made->maker;
	return v;
}
