/*
 * Element-wise operations on single numbers, for formulas of numbers alone. They are f64.
 * Tests: tests/unit/test_ops.c
 */
#include "ops/kernels.h"
#include "ops/op.h"

#include <math.h>
#include <string.h>

bool op_of_numbers(enum op op, double v, const double *a, double *result)
{
	struct attrs attrs;
	if (op_table[op].class == OP_CLASS_GENERAL || op == OP_use || op_table[op].operands != (a != NULL))
		return false;
	if (op == OP_pow) {
		*result = pow(v, *a);
		return true;
	}
	memset(&attrs, 0, sizeof attrs);
	attrs_default(&attrs, op);
	int least, most;
	op_positionals(op, &least, &most);
	if (least > 0)
		return false; /* it needs further arguments */
	const struct kernel_args args = {
		.out = result, .v = &v, .scalar = a ? *a : 0, .number = {attrs.number[0], attrs.number[1]}, .n = 1};
	kernels_get(DTYPE_F64)->forward[op][1](&args);
	return true;
}
