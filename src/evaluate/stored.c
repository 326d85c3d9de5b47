/* Tests: tests/cases/stored.test */
#include "evaluate/stored.h"

#include "base/checked.h"

/* An operand_rows.read. */
static bool read_param_rows(void *context, const struct operand_part *part, void *to)
{
	struct stored_operand *operand = context;
	const int64_t size = operand->size, stride = operand->columns * size;
	return stored_read_part(&operand->read,
	                        &(struct stored_part){part->row * stride + part->column * size, part->count,
	                                              part->length * size, stride, part->pitch * size},
	                        to);
}

/* An operand_rows.write. */
static bool write_gradient_rows(void *context, const struct operand_part *part, const void *from)
{
	const struct stored_operand *operand = context;
	const int64_t stride = operand->columns * operand->size;
	return operand->gradient->put(operand->gradient->context, operand->param, part->row * stride, from,
	                              (size_t)(part->count * stride));
}

void stored_set_blocks(struct stored_operand *operand, const struct type *type, int threads)
{
	operand->rows = (struct operand_rows){.read = read_param_rows,
	                                      .write = operand->gradient ? write_gradient_rows : NULL,
	                                      .context = operand,
	                                      .threads = threads};
	operand->columns = type->shape.dim[type->shape.ndim - 1];
	operand->size = (int64_t)dtype_size(type->dtype);
}

enum status stored_multiply(struct stored_operand *operand, const struct op_call *call, void *y, const void *v,
                            struct diags *diags)
{
	product_from_rows(call, y, v, &operand->rows); /* stored_read_end says what has failed */
	return stored_read_end(&operand->read, diags);
}

enum status stored_multiply_back(struct stored_operand *operand, const struct op_call *call, void *dv,
                                 const struct derivative_arrays *of, struct diags *diags)
{
	const bool good = product_back_by_rows(call, dv, of->v, of->g, &operand->rows);
	if (dv)
		TRY(stored_read_end(&operand->read, diags));
	return good ? STATUS_OK : operand->gradient->end(operand->gradient->context, operand->param, diags);
}

bool stored_in_parts(const struct stored_operand *operand) { return operand->buffer; }

const void *stored_part(const struct stored_operand *operand, int64_t at)
{
	const struct part_buffer *buffer = operand->buffer;
	return buffer->holder == operand && buffer->begin <= at && at < buffer->end ? buffer->memory + (at - buffer->begin)
	                                                                            : NULL;
}

enum status stored_read_parts(struct stored_operand *operand, int64_t at, struct team *team, struct diags *diags)
{
	struct part_buffer *buffer = operand->buffer;
	const int64_t all = operand->read.array->bytes, bytes = lesser(operand->most, all - at);
	*buffer = (struct part_buffer){buffer->memory, operand, at, at + bytes};
	const bool good = stored_read_bytes(&operand->read, at, bytes, buffer->memory, team);
	return good && at + bytes < all ? STATUS_OK : stored_read_end(&operand->read, diags);
}
