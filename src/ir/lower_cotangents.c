/*
 * The last step of a chain of which several outputs are differentiated (language/cotangents.c): the sum of the products of
 * outputs and their cotangents.
 *
 * Outputs that stream leave one number for each row, so that tiles cut the step as they cut the stages before it. Others, such
 * as losses, leave one number, and so do outputs of other rows. Both kinds together are summed over the rows.
 * Tests: tests/cases/outputs.test
 */
#include "ir/lowering.h"

#include "io/array.h"

#include <string.h>

/* The sums so far: of a number for each row, and of numbers. NO_VALUE: there is none. */
struct products {
	uint32_t rows, numbers;
};

/* Makes *VALUE its sum over the axes from FIRST on. */
static enum status sum_from(struct lowering *l, int first, struct span span, uint32_t *value)
{
	const int ndim = l->body->values[*value].type->shape.ndim;
	struct node node = {.kind = NODE_OP, .op = OP_sum, .span = span};
	struct attrs attrs;
	attrs_default(&attrs, OP_sum);
	attrs.has_axis = first > 0;
	for (int i = first; i < ndim && first > 0; i++)
		attrs.axis[attrs.axis_count++] = i;
	node.attrs = byte_set_keep(&l->kept, &attrs, attrs_size(&attrs, OP_sum), NULL);
	TRY_ALLOC(node.attrs, l->context->diags);
	return first < ndim ? lowering_op_on(l, &node, *value, NO_VALUE, value) : STATUS_OK;
}

/* Makes *TO the result of OP on it and VALUE; VALUE itself if *TO is NO_VALUE. */
static enum status join_value(struct lowering *l, enum op op, uint32_t value, struct span span, uint32_t *to)
{
	const struct node node = {.kind = NODE_OP, .op = op, .span = span};
	if (*to != NO_VALUE)
		return lowering_op_on(l, &node, *to, value, to);
	*to = value;
	return STATUS_OK;
}

/*
 * Gives the array of COTANGENT, *C, the shape of the output, Y, if it is a text that may have it. Fails with STATUS_DATA if it
 * has another one.
 */
static enum status fit_shape(struct lowering *l, const struct cotangent *cotangent, uint32_t y, struct span span,
                             uint32_t *c)
{
	const struct param *param = &l->chain->params[cotangent->param];
	const struct shape *wanted = &l->body->values[y].type->shape;
	struct shape shape = l->body->values[*c].type->shape;
	struct attrs attrs;
	char a[TYPE_TEXT], b[TYPE_TEXT];
	if (shape_equal(wanted, &shape))
		return STATUS_OK;
	if (!param->columns || !text_fit(&shape, param->columns, wanted))
		return diag_file(l->context->diags, STATUS_DATA, param->name, -1, "the cotangent is %s, and %s is %s",
		                 shape_format(&shape, a),
		                 cotangent->output ? cotangent->output->name : "the chain's last value",
		                 shape_format(wanted, b));
	memset(&attrs, 0, sizeof attrs); /* bytes are compared */
	attrs_default(&attrs, OP_reshape);
	attrs.shape = *wanted;
	const struct node node = {.kind = NODE_OP,
	                          .op = OP_reshape,
	                          .span = span,
	                          .attrs = byte_set_keep(&l->kept, &attrs, attrs_size(&attrs, OP_reshape), NULL)};
	TRY_ALLOC(node.attrs, l->context->diags);
	return lowering_op_on(l, &node, *c, NO_VALUE, c);
}

/* Adds the product of COTANGENT and its output to PRODUCTS. */
static enum status add_product(struct lowering *l, const struct cotangent *cotangent, struct span span,
                               struct products *products)
{
	const struct param_ref ref = {.param = cotangent->param};
	const uint32_t slot = cotangent->output ? cotangent->output->variable + 1 : 0;
	if (l->env.now[slot] == NO_VALUE && !l->state.slots[slot].type)
		return LOWERING_FAIL(l, STATUS_CHAIN, cotangent->output->span, "output '%s' is no array",
		                     cotangent->output->name);
	uint32_t y = lowering_read_slot(l, slot), c = lowering_param(l, &ref);
	TRY_ALLOC(y != NO_VALUE && c != NO_VALUE, l->context->diags);
	TRY(fit_shape(l, cotangent, y, span, &c));
	const enum dtype dtype = dtype_compute(l->body->values[y].dtype);
	bool rows = l->body->values[y].streamed;
	if (rows && products->rows != NO_VALUE &&
	    l->body->values[products->rows].type->shape.dim[0] != l->body->values[y].type->shape.dim[0]) {
		lowering_need_whole(l, span, "its outputs have different rows");
		rows = false;
	}
	TRY(lowering_convert(l, &y, dtype, span));
	TRY(lowering_convert(l, &c, dtype, span));
	TRY(join_value(l, OP_mul, c, span, &y));
	TRY(sum_from(l, rows ? 1 : 0, span, &y));
	return join_value(l, OP_add, y, span, rows ? &products->rows : &products->numbers);
}

enum status lower_cotangents(struct lowering *l, const struct node *node)
{
	struct products products = {NO_VALUE, NO_VALUE};
	for (size_t i = 0; i < l->chain->cotangent_count; i++)
		TRY(add_product(l, &l->chain->cotangents[i], node->span, &products));
	if (products.rows != NO_VALUE && products.numbers != NO_VALUE) {
		TRY(sum_from(l, 0, node->span, &products.rows));
		TRY(join_value(l, OP_add, products.numbers, node->span, &products.rows));
	}
	lowering_write_slot(l, 0, products.rows == NO_VALUE ? products.numbers : products.rows);
	return STATUS_OK;
}
