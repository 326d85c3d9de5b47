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

/* An operand of einsum: a letter for each axis. */
struct term {
	struct value *v;
	char letters[MAX_DIMS + 1];
	int count;
};

enum { LETTERS = 128, TERMS_MOST = 8 };

static int letter_place(const struct term *t, char letter)
{
	for (int i = 0; i < t->count; i++)
		if (t->letters[i] == letter)
			return i;
	return -1;
}

/* Reads the letters at *AT up to a comma, an arrow or the end. An ellipsis becomes the digits of DOTS axes. */
static bool read_letters(struct node *n, const char **at, int ndim, struct term *t)
{
	for (; **at && **at != ',' && **at != '-'; ++*at) {
		if (**at == ' ')
			continue;
		if (!strncmp(*at, "...", 3)) {
			int letters = 0;
			for (const char *c = *at + 3; *c && *c != ',' && *c != '-'; c++)
				letters += *c != ' ';
			const int dots = ndim - t->count - letters;
			if (dots < 0 || dots > 10 || t->count + dots > MAX_DIMS)
				return refuse(n, "its equation does not fit"), false;
			for (int i = 0; i < dots; i++)
				t->letters[t->count++] = (char)('0' + 10 - dots + i);
			*at += 2;
			continue;
		}
		if (t->count == MAX_DIMS)
			return refuse(n, "its equation does not fit"), false;
		t->letters[t->count++] = **at;
	}
	return true;
}

/* Returns T's array with the axes of LETTERS in their order: missing ones have extent 1, and those not named are summed. */
static struct value *arranged(struct node *n, const struct term *t, const char *letters)
{
	struct value *v = t->v;
	int axes[MAX_DIMS], kept = 0;
	struct shape shape = {0, {0}};
	for (const char *c = letters; *c; c++) {
		const int at = letter_place(t, *c);
		if (at >= 0)
			axes[kept++] = at;
		shape.dim[shape.ndim++] = at >= 0 ? t->v->type.shape.dim[at] : 1;
	}
	return kept == t->count ? reshape(n, transpose(n, v, axes), &shape) : refuse(n, "its equation does not fit");
}

/* Takes the diagonal where a letter of T stands twice. */
static bool take_diagonals(struct node *n, struct term *t)
{
	for (int i = 0; i < t->count; i++)
		for (int k = i + 1; k < t->count; k++)
			if (t->letters[i] == t->letters[k])
				return refuse(n, "a letter of its equation stands twice in one operand"), false;
	return true;
}

/* Sums the axes of T whose letters are in none of KEPT. */
static void sum_others(struct node *n, struct term *t, const char *kept)
{
	struct term left = {.count = 0};
	struct integers axes = {0, arena_array(n->importer->context->arena, MAX_DIMS, sizeof *axes.at)};
	if (!axes.at) {
		t->v = short_of_memory(n);
		return;
	}
	for (int i = 0; i < t->count; i++)
		if (strchr(kept, t->letters[i]))
			left.letters[left.count++] = t->letters[i];
		else
			axes.at[axes.count++] = i;
	if (axes.count)
		t->v = reduced(n, "sum", t->v, &axes, false);
	memcpy(t->letters, left.letters, sizeof left.letters);
	t->count = left.count;
}

/*
 * Returns the product of A and B, whose letters are not in KEPT summed: as a product of matrices, of which the batch has
 * the letters that both and KEPT have.
 */
static struct term contract(struct node *n, struct term *a, struct term *b, const char *kept)
{
	char batch[MAX_DIMS + 1] = "", rows[MAX_DIMS + 1] = "", columns[MAX_DIMS + 1] = "", inner[MAX_DIMS + 1] = "";
	struct term made = {.count = 0};
	int batches = 0, row_count = 0, column_count = 0, inners = 0;
	for (int i = 0; i < a->count; i++) {
		const char c = a->letters[i];
		if (letter_place(b, c) < 0)
			rows[row_count++] = c;
		else if (strchr(kept, c))
			batch[batches++] = c;
		else
			inner[inners++] = c;
	}
	for (int i = 0; i < b->count; i++)
		if (letter_place(a, b->letters[i]) < 0)
			columns[column_count++] = b->letters[i];
	char left[3 * MAX_DIMS + 1], right[3 * MAX_DIMS + 1];
	snprintf(left, sizeof left, "%s%s%s", batch, rows, inner);
	snprintf(right, sizeof right, "%s%s%s", batch, inner, columns);
	struct value *x = arranged(n, a, left), *y = arranged(n, b, right);
	if (!x || !y || batches + row_count + column_count > MAX_DIMS)
		return made;
	struct shape x_shape = {batches + 2, {0}}, y_shape = {batches + 2, {0}}, shape = {0, {0}};
	for (int i = 0; i < batches; i++) {
		x_shape.dim[i] = x->type.shape.dim[i];
		y_shape.dim[i] = y->type.shape.dim[i];
		shape.dim[shape.ndim++] = greater(x_shape.dim[i], y_shape.dim[i]);
		made.letters[made.count++] = batch[i];
	}
	x_shape.dim[batches] = x_shape.dim[batches + 1] = y_shape.dim[batches] = y_shape.dim[batches + 1] = 1;
	for (int i = 0; i < row_count; i++) {
		x_shape.dim[batches] *= x->type.shape.dim[batches + i];
		shape.dim[shape.ndim++] = x->type.shape.dim[batches + i];
		made.letters[made.count++] = rows[i];
	}
	for (int i = 0; i < inners; i++) {
		x_shape.dim[batches + 1] *= x->type.shape.dim[batches + row_count + i];
		y_shape.dim[batches] *= y->type.shape.dim[batches + i];
	}
	for (int i = 0; i < column_count; i++) {
		y_shape.dim[batches + 1] *= y->type.shape.dim[batches + inners + i];
		shape.dim[shape.ndim++] = y->type.shape.dim[batches + inners + i];
		made.letters[made.count++] = columns[i];
	}
	made.v = reshape(n, binary(n, "matmul", reshape(n, x, &x_shape), reshape(n, y, &y_shape)), &shape);
	return made;
}

/* Appends to OUT the letters that stand once in TERMS, in the order of the alphabet, after those of an ellipsis. */
static void imply_result(const struct term *terms, size_t count, struct term *out)
{
	for (int c = '0'; c < LETTERS && out->count < MAX_DIMS; c++) {
		int stands = 0;
		for (size_t i = 0; i < count; i++)
			for (int k = 0; k < terms[i].count; k++)
				stands += terms[i].letters[k] == c;
		if (stands == 1 || (stands && c <= '9'))
			out->letters[out->count++] = (char)c;
	}
}

void translate_einsum(struct node *n)
{
	struct term terms[TERMS_MOST] = {{0}}, out = {.count = 0};
	const char *at = attribute_text(n, "equation", "");
	if (n->input_count < 1 || n->input_count > TERMS_MOST) {
		refuse(n, "it has %zu operands", n->input_count);
		return;
	}
	for (size_t i = 0; i < n->input_count; i++) {
		terms[i].v = needed(n, i);
		if (!terms[i].v || !read_letters(n, &at, terms[i].v->type.shape.ndim, &terms[i]) ||
		    !take_diagonals(n, &terms[i]))
			return;
		if (terms[i].count != terms[i].v->type.shape.ndim || (*at != ',') != (i + 1 == n->input_count)) {
			refuse(n, "its equation does not fit");
			return;
		}
		at += *at == ',';
	}
	if (!strncmp(at, "->", 2)) {
		at += 2;
		int dots = 0;
		for (size_t i = 0; i < n->input_count; i++) {
			int digits = 0;
			for (int k = 0; k < terms[i].count; k++)
				digits += terms[i].letters[k] <= '9';
			dots = digits > dots ? digits : dots;
		}
		int letters = 0;
		for (const char *c = at; *c; c++)
			letters += *c != ' ' && *c != '.';
		if (!read_letters(n, &at, letters + dots, &out))
			return;
	} else {
		imply_result(terms, n->input_count, &out);
	}
	for (size_t i = 0; i < n->input_count; i++) {
		/* Letters that this operand must keep: those of the result and of operands to come. */
		char kept[LETTERS * 2] = "";
		size_t length = 0;
		for (int k = 0; k < out.count; k++)
			kept[length++] = out.letters[k];
		for (size_t j = i + 1; j < n->input_count; j++)
			for (int k = 0; k < terms[j].count && length < sizeof kept - 1; k++)
				kept[length++] = terms[j].letters[k];
		if (i == 0)
			sum_others(n, &terms[0], kept);
		else {
			char both[LETTERS * 2 + MAX_DIMS + 1];
			snprintf(both, sizeof both, "%s%s", kept, terms[0].letters);
			sum_others(n, &terms[i], both);
			terms[0] = contract(n, &terms[0], &terms[i], kept);
		}
		if (!terms[0].v) {
			refuse(n, "its equation does not fit");
			return;
		}
	}
	give(n, 0, arranged(n, &terms[0], out.letters));
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
