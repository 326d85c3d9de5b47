/*
 * Steps of a shared object. Its functions are called as they are, with the arrays where they lie, so a call costs little
 * more than a call of a function. programs/guard.h puts back what they change.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "io/stream.h"
#include "programs/parts.h"

/* Returns what WRONG, a text of the object, says in a message. */
static const char *error_text(const char *wrong) { return *wrong ? wrong : "it reports an error"; }

enum status shared_object_load(struct program *program, struct diags *diags)
{
	const char *path = program->target;
	if (!strchr(path, '/')) /* dlopen looks for such a name in the system's folders */
		path = arena_printf(program->set->context.arena, "./%s", path);
	TRY_ALLOC(path, diags);
	struct float_state floats;
	if (io_directory() >= 0 && fchdir(io_directory()) != 0) /* another object may have changed it */
		return program_failed(program, -1, diags, "cannot return to the working directory: %s", strerror(errno));
	guard_enter(program, -1, true, &floats); /* its constructors run */
	program->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	guard_leave(program, &floats);
	if (!program->library) {
		const char *why = dlerror();
		return program_failed(program, -1, diags, "cannot load it: %s", why ? why : "for no known reason");
	}
	const struct ckptc_step *step = program->step = dlsym(program->library, "ckptc_step");
	if (!step)
		return program_failed(program, -1, diags, "it exports no variable 'ckptc_step'");
	if (step->version != CKPTC_STEP_VERSION)
		return program_failed(program, -1, diags, "it is made for version %d of ckptc_step.h, but this is version %d",
		                      step->version, CKPTC_STEP_VERSION);
	if (!step->open || !step->forward)
		return program_failed(program, -1, diags, "its ckptc_step lacks '%s'", step->open ? "forward" : "open");
	return STATUS_OK;
}

void shared_object_unload(struct program *program)
{
	struct float_state floats;
	guard_enter(program, -1, true, &floats);
	dlclose(program->library);
	guard_leave(program, &floats);
}

enum status shared_object_hash(const struct program *program, uint64_t *hash, struct diags *diags)
{
	unsigned char block[16 << 10];
	size_t got = sizeof block;
	const int fd = io_open(program->target, O_RDONLY, 0);
	bool good = fd >= 0;
	for (int64_t at = 0; good && got == sizeof block; at += (int64_t)got) {
		good = io_read_at(fd, at, block, sizeof block, &got);
		*hash = good ? hash_bytes(*hash, block, got) : *hash;
	}
	const int error = errno;
	if (fd >= 0)
		close(fd);
	return good ? STATUS_OK : program_failed(program, -1, diags, "cannot read it: %s", strerror(error));
}

static struct ckptc_step_type step_type(const struct type *type)
{
	return (struct ckptc_step_type){.bytes = (int)dtype_size(type->dtype),
	                                .ndim = type->shape.ndim,
	                                .dim = type->shape.dim,
	                                .count = shape_count(&type->shape)};
}

/* Describes PROGRAM's types as ckptc_step.h does. */
static const struct ckptc_step_signature *describe_types(struct program *program)
{
	struct program_types *types = &program->types;
	const struct program_signature *from = &types->signature;
	for (uint32_t i = 0; i < from->count; i++)
		types->step_operands[i] = step_type(&from->operands[i]);
	types->step = (struct ckptc_step_signature){.name = program->name,
	                                            .x = step_type(&from->x),
	                                            .y = step_type(&from->y),
	                                            .operand_count = from->count,
	                                            .operand_names = from->names,
	                                            .operands = types->step_operands,
	                                            .gradient_x = from->gradient_x,
	                                            .gradients = from->gradients};
	return &types->step;
}

static enum status open_context(struct program *program, struct program_worker *worker, struct program_traits *traits,
                                struct diags *diags)
{
	const struct ckptc_step *step = program->step;
	const uint32_t all = (1u << program->types.signature.count) - 1;
	struct ckptc_step_traits said = {.needs_x = 1, .needs_operands = all};
	if (worker == program->workers) /* the types of the other workers are the same */
		describe_types(program);
	struct float_state floats;
	guard_enter(program, -1, true, &floats);
	const char *wrong = step->open(&program->types.step, &said, &worker->context);
	guard_leave(program, &floats);
	if (wrong)
		return program_failed(program, -1, diags, "%s", error_text(wrong));
	*traits = (struct program_traits){.bound = true,
	                                  .backward = step->backward,
	                                  .needs_x = said.needs_x,
	                                  .needs_y = said.needs_y,
	                                  .needs_operands = said.needs_operands,
	                                  .record_bytes = step->record ? said.record_bytes : -1,
	                                  .sums = said.sums};
	if (said.record_bytes < 0 || (said.needs_operands | said.sums) & ~all)
		wrong = "its traits have a negative number of bytes, or a bit for an operand that the step has not";
	else if (step->record && !(step->release && step->backward))
		wrong = "its ckptc_step has 'record', which needs 'release' and 'backward'";
	else if (said.sums && !step->gradient)
		wrong = "its traits have sums, which need 'gradient' in ckptc_step";
	if (!wrong)
		return STATUS_OK;
	guard_enter(program, -1, true, &floats);
	if (step->close)
		step->close(worker->context);
	guard_leave(program, &floats);
	return program_failed(program, -1, diags, "%s", wrong);
}

static enum status call_context(struct program *program, struct program_worker *worker, const struct program_call *call,
                                struct diags *diags)
{
	const struct ckptc_step *step = program->step;
	struct float_state floats;
	const char *wrong = NULL;
	if (call->meanwhile)
		call->meanwhile(call->context);
	guard_enter(program, call->number, false, &floats);
	if (call->kind == PROGRAM_FORWARD)
		wrong = step->forward(worker->context, call->number, call->x, call->operands, call->y);
	else if (call->kind == PROGRAM_RECORD)
		wrong = step->record(worker->context, call->number, call->x, call->operands, call->y, call->recorded);
	else
		wrong = step->backward(worker->context, call->number, call->x, call->operands, call->y, call->g, call->handle,
		                       call->dx, call->doperands);
	guard_leave(program, &floats);
	if (!wrong && call->kind == PROGRAM_RECORD && *call->recorded == 0)
		wrong = "its record has the handle 0";
	return wrong ? program_failed(program, call->number, diags, "%s", error_text(wrong)) : STATUS_OK;
}

static enum status release_record(struct program *program, struct program_worker *worker, uint64_t handle,
                                  struct diags *diags)
{
	struct float_state floats;
	(void)diags;
	guard_enter(program, -1, false, &floats);
	program->step->release(worker->context, handle);
	guard_leave(program, &floats);
	return STATUS_OK;
}

static enum status get_sum(struct program *program, struct program_worker *worker, uint32_t operand, void *sum,
                           struct diags *diags)
{
	struct float_state floats;
	guard_enter(program, -1, false, &floats);
	const char *wrong = program->step->gradient(worker->context, operand, sum);
	guard_leave(program, &floats);
	return wrong ? program_failed(program, -1, diags, "gradient of '%s': %s", program->types.signature.names[operand],
	                              error_text(wrong))
	             : STATUS_OK;
}

static void close_context(struct program *program, struct program_worker *worker)
{
	struct float_state floats;
	guard_enter(program, -1, true, &floats);
	if (worker->opening && program->step->close)
		program->step->close(worker->context);
	guard_leave(program, &floats);
	worker->context = NULL;
}

const struct program_backend shared_object_backend = {
	.open = open_context,
	.call = call_context,
	.release = release_record,
	.sum = get_sum,
	.retire = close_context,
};
