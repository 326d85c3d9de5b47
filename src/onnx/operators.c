/*
 * The table of operators.
 * Tests: tests/scripts/check-import
 */
#include "onnx/translate.h"

#define OPERATOR(DOMAIN, NAME, TRANSLATOR, OPERATION) translate translate_##TRANSLATOR;
#include "onnx/operators.def"

const struct operator_row operator_table[] = {
#define OPERATOR(DOMAIN, NAME, TRANSLATOR, OPERATION) {DOMAIN, #NAME, translate_##TRANSLATOR, OPERATION},
#include "onnx/operators.def"
};
const size_t operator_count = sizeof operator_table / sizeof *operator_table;

const struct operator_row *operator_find(const char *domain, const char *name)
{
	for (size_t i = 0; i < operator_count; i++)
		if (!strcmp(operator_table[i].name, name) && !strcmp(operator_table[i].domain, domain))
			return &operator_table[i];
	return NULL;
}

const char *operation_of(const struct node *node)
{
	const char *own = node->proto->domain ? node->proto->domain : "";
	return operator_find(!strcmp(own, "ai.onnx") ? "" : own, node->proto->op_type)->operation;
}
