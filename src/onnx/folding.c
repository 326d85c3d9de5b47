/*
 * Arithmetic of constants: it is a chain, which the evaluator runs while the model is read. So a folded node has the
 * value that the chain would compute. All is computed in f64 and then rounded to the type that the model says.
 * Tests: tests/scripts/check-import
 */
#include "onnx/translate.h"

#include "ckptc.h"

bool fold_can(const struct value *value)
{
	return is_foldable(value) && shape_count(&value->type.shape) <= NUMBERS_MOST;
}

/* Sets ARRAY to the elements of VALUE. */
static bool set_array(struct node *node, const struct value *value, struct ckptc_array *array)
{
	const struct tensor *tensor = value->constant;
	const int64_t count = shape_count(&tensor->type.shape);
	*array = (struct ckptc_array){.dtype = CKPTC_F64, .ndim = tensor->type.shape.ndim, .data = tensor->numbers};
	for (int i = 0; i < array->ndim; i++)
		array->shape[i] = tensor->type.shape.dim[i];
	if (!tensor->splat)
		return true;
	double *numbers = arena_array(node->importer->context->arena, (size_t)count + 1, sizeof *numbers);
	for (int64_t i = 0; numbers && i < count; i++)
		numbers[i] = tensor->numbers[0];
	array->data = numbers;
	return numbers != NULL;
}

/* Runs the chain TEXT, whose input is the first of INPUTS. Returns the result's tensor. */
static const struct tensor *run(struct node *node, const char *text, const struct ckptc_array *inputs, int count,
                                const struct type *type)
{
	static const char *const names[] = {"a", "b", "c", "d"};
	const struct allocator *allocator = node->importer->context->allocator;
	const struct ckptc_allocator given = {allocator->resize, allocator->context};
	const struct ckptc_chain_options options = {.allocator = &given};
	struct ckptc_chain *chain;
	struct ckptc_result *result = NULL;
	struct ckptc_error error;
	struct ckptc_array value;
	const struct tensor *tensor = NULL;
	int status = ckptc_chain_new(&chain, text, strlen(text), &options, &error);
	for (int i = 1; i < count && !status; i++)
		status = ckptc_chain_bind(chain, names[i], &inputs[i], &error);
	status = status ? status : ckptc_run(&result, chain, inputs, NULL, &error);
	if (!status && !ckptc_result_value(result, &value)) {
		const int64_t elements = shape_count(&type->shape);
		double *numbers = arena_array(node->importer->context->arena, (size_t)elements + 1, sizeof *numbers);
		if (numbers && ckptc_array_bytes(&value) == elements * (int64_t)dtype_size((enum dtype)value.dtype)) {
			convert_from_file(numbers, DTYPE_F64, value.data, (enum dtype)value.dtype, (size_t)elements);
			tensor = tensor_make(node->importer, type->dtype, &type->shape, numbers, false);
		}
	}
	if (status == CKPTC_LIMIT)
		short_of_memory(node);
	else if (status)
		refuse(node, "its constants give no value: %s", error.message);
	ckptc_result_free(result);
	ckptc_chain_free(chain);
	return tensor;
}

struct value *fold_formula(struct node *node, const char *formula, struct value *const *operands, int count,
                           const struct type *type)
{
	struct arena *arena = node->importer->context->arena;
	struct ckptc_array arrays[MAX_VALUES];
	const char *text = "";
	for (int i = 0; i < count && text; i++) {
		if (!set_array(node, operands[i], &arrays[i]))
			return short_of_memory(node);
		text = arena_printf(arena, "%sinput %c\n", text, "abcd"[i]);
	}
	text = text ? arena_printf(arena, "%suse (%s)\n", text, formula) : NULL;
	if (!text)
		return short_of_memory(node);
	const struct tensor *tensor = run(node, text, arrays, count, type);
	if (tensor)
		return constant(node, tensor);
	return node->reason ? NULL : short_of_memory(node);
}
