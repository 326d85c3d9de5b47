/*
 * Products of matrices.
 * Tests: tests/scripts/check-import
 */
#include "onnx/translate.h"

#include <stdio.h>

#include "base/checked.h"

#define OPERATOR(DOMAIN, NAME, TRANSLATOR, OPERATION) translate translate_##TRANSLATOR;
#include "onnx/operators.def"

void translate_matmul(struct node *n)
{
	struct value *a = needed(n, 0), *b = needed(n, 1);
	give(n, 0, a ? typed(n, binary(n, "matmul", a, b), a->type.dtype) : NULL);
}

void translate_gemm(struct node *n)
{
	struct value *a = needed(n, 0), *b = needed(n, 1), *c = input(n, 2);
	const double alpha = attribute_number(n, "alpha", 1), beta = attribute_number(n, "beta", 1);
	if (!a || !b)
		return;
	const enum dtype dtype = a->type.dtype;
	if (attribute_integer(n, "transA", 0))
		a = unary(n, "transpose", a);
	struct value *y = binary(n, attribute_integer(n, "transB", 0) ? "linear" : "matmul", a, b);
	y = times(n, y, alpha);
	if (c && beta != 0)
		y = binary(n, "add", y, times(n, c, beta));
	give(n, 0, typed(n, y, dtype));
}

void translate_einsum(struct node *n)
{
	const char *equation = attribute_text(n, "equation", "");
	char *const subscripts = arena_alloc(n->importer->context->arena, strlen(equation) + 1), *end = subscripts;
	struct value *v[MAX_VALUES];
	if (n->input_count < 1 || n->input_count > MAX_VALUES) {
		refuse(n, "it has %zu operands", n->input_count);
		return;
	}
	for (size_t i = 0; i < n->input_count; i++)
		v[i] = needed(n, i);
	for (const char *at = equation; subscripts && *at; at++)
		if (*at != ' ')
			*end++ = *at;
	if (!subscripts) {
		(void)short_of_memory(n);
		return;
	}
	*end = '\0';
	give(n, 0, apply_several(n, "einsum", v, (int)n->input_count, "\"%s\"", subscripts));
}

void translate_det(struct node *n)
{
	struct value *v = needed(n, 0);
	if (!v)
		return;
	const int ndim = v->type.shape.ndim;
	if (ndim < 2 || v->type.shape.dim[ndim - 1] != 2 || v->type.shape.dim[ndim - 2] != 2) {
		refuse(n, "its matrices are not 2 by 2");
		return;
	}
	v = once(n, v);
	struct value *rows[2] = {pick(n, v, ndim - 2, 0), pick(n, v, ndim - 2, 1)}, *e[2][2];
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < 2; k++)
			e[i][k] = pick(n, rows[i], ndim - 2, k);
	give(n, 0, binary(n, "sub", binary(n, "mul", e[0][0], e[1][1]), binary(n, "mul", e[0][1], e[1][0])));
}
