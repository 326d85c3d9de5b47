/*
 * Steps of a shared object. Its functions are called as they are, with the arrays where they lie, so a call costs little
 * more than a call of a function. external/guard.h puts back what they change.
 *
 * The object runs in the process of ckptc, since a call must not take longer than a microsecond. A parent process
 * that supervises would see every end of the object's process. But signals, the exit status and locks would belong to
 * the wrong process: a journal could stay locked after its command was killed. So calls have guards, cli/ends.c
 * handles the ends, cli/interposed.c replaces functions of the C library, and watch.c looks for calls that take long.
 * Tests: tests/unit/test_external.c, tests/programs/hostile.test
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "external/parts.h"
#include "io/stream.h"

/*
 * Ends CALL. TEXT is NULL, or the error that the function returned. ABOUT is "", or stands before that in the message.
 */
static enum status end_call(struct object_call *call, const char *text, const char *about, struct diags *diags)
{
	text = text ? guard_copy_text(call, text, diags->arena) : NULL;
	guard_leave(call);
	return text ? external_failed(call->program, call->number, diags, "%s%s", about, text) : STATUS_OK;
}

/* Returns the bytes of the variable or function at ADDRESS; SIZE_MAX if its object does not say. */
static size_t symbol_size(const void *address)
{
	Dl_info info;
	void *symbol = NULL;
	const bool found = dladdr1(address, &info, &symbol, RTLD_DL_SYMENT) && symbol;
	const size_t size = found ? (size_t)((const ElfW(Sym) *)symbol)->st_size : 0;
	return size ? size : SIZE_MAX;
}

enum status shared_object_load(struct external *program, struct diags *diags)
{
	const char *path = program->target;
	if (!strchr(path, '/')) /* dlopen looks for such a name in the system's folders */
		path = arena_printf(program->set->context.arena, "./%s", path);
	TRY_ALLOC(path, diags);
	struct object_call call = {program, program->workers, "its constructors have", .number = -1, .all = true};
	if (io_directory() >= 0 && fchdir(io_directory()) != 0) /* another object may have changed it */
		return external_failed(program, -1, diags, "cannot return to the working directory: %s", strerror(errno));
	guard_enter(&call); /* its constructors run */
	program->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	guard_leave(&call);
	if (!program->library) {
		const char *why = dlerror();
		return external_failed(program, -1, diags, "cannot load it: %s", why ? why : "for no known reason");
	}
	const struct ckptc_step *step = program->step = dlsym(program->library, "ckptc_step");
	if (!step)
		return external_failed(program, -1, diags, "it exports no variable 'ckptc_step'");
	const size_t size = symbol_size(step);
	if (size < sizeof *step)
		return external_failed(program, -1, diags,
		                       "its 'ckptc_step' has %zu bytes; a variable of the type struct ckptc_step has %zu", size,
		                       sizeof *step);
	if (step->version != CKPTC_STEP_VERSION)
		return external_failed(program, -1, diags, "it is made for version %d of ckptc_step.h, but this is version %d",
		                       step->version, CKPTC_STEP_VERSION);
	if (!step->open || !step->forward)
		return external_failed(program, -1, diags, "its ckptc_step lacks '%s'", step->open ? "forward" : "open");
	return STATUS_OK;
}

void shared_object_unload(struct external *program)
{
	struct object_call call = {program, program->workers, "its destructors have", .number = -1, .all = true};
	if (!program->library)
		return;
	guard_enter(&call);
	dlclose(program->library);
	guard_leave(&call);
	program->library = NULL;
}

enum status shared_object_hash(const struct external *program, uint64_t *hash, struct diags *diags)
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
	return good ? STATUS_OK : external_failed(program, -1, diags, "cannot read it: %s", strerror(error));
}

static struct ckptc_step_type step_type(const struct type *type)
{
	return (struct ckptc_step_type){.bytes = (int)dtype_size(type->dtype),
	                                .ndim = type->shape.ndim,
	                                .dim = type->shape.dim,
	                                .count = shape_count(&type->shape)};
}

/* Describes PROGRAM's types as ckptc_step.h does. */
static const struct ckptc_step_signature *describe_types(struct external *program)
{
	struct external_types *types = &program->types;
	const struct external_signature *from = &types->signature;
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

static void call_close(struct external *program, struct external_worker *worker)
{
	struct object_call call = {program, worker, "its function 'close' has", .number = -1, .all = true};
	if (!program->step->close)
		return;
	guard_enter(&call);
	program->step->close(worker->context);
	guard_leave(&call);
}

static void close_context(struct external *program, struct external_worker *worker)
{
	if (worker->opening)
		call_close(program, worker);
	worker->context = NULL;
}

/* Returns what is wrong with the traits SAID, or NULL. */
static const char *check_traits(const struct ckptc_step *step, const struct ckptc_step_traits *said, uint32_t all)
{
	if (said->record_bytes < 0 || (said->needs_operands | said->sums) & ~all)
		return "its traits have a negative number of bytes, or a bit for an operand that the step has not";
	if (step->record && !(step->release && step->backward))
		return "its ckptc_step has 'record', which needs 'release' and 'backward'";
	return said->sums && !step->gradient ? "its traits have sums, which need 'gradient' in ckptc_step" : NULL;
}

static enum status open_context(struct external *program, struct external_worker *worker, struct program_traits *traits,
                                struct diags *diags)
{
	const struct ckptc_step *step = program->step;
	const uint32_t all = (1u << program->types.signature.count) - 1;
	struct ckptc_step_traits said = {.needs_x = 1, .needs_operands = all};
	struct object_call call = {program, worker, "its function 'open' has", .number = -1, .all = true};
	if (worker == program->workers) /* the types of the other workers are the same */
		describe_types(program);
	guard_enter(&call);
	TRY(end_call(&call, step->open(&program->types.step, &said, &worker->context), "", diags));
	*traits = (struct program_traits){.bound = true,
	                                  .backward = step->backward,
	                                  .needs_x = said.needs_x,
	                                  .needs_y = said.needs_y,
	                                  .needs_operands = said.needs_operands,
	                                  .record_bytes = step->record ? said.record_bytes : -1,
	                                  .sums = said.sums};
	const char *wrong = check_traits(step, &said, all);
	if (!wrong)
		return STATUS_OK;
	call_close(program, worker);
	return external_failed(program, -1, diags, "%s", wrong);
}

static enum status call_context(struct external *program, struct external_worker *worker,
                                const struct external_call *call, struct diags *diags)
{
	static const char *const names[] = {[EXTERNAL_FORWARD] = "its function 'forward' has",
	                                    [EXTERNAL_RECORD] = "its function 'record' has",
	                                    [EXTERNAL_BACKWARD] = "its function 'backward' has"};
	const struct ckptc_step *step = program->step;
	struct object_call guarded = {program, worker, names[call->kind], .number = call->number};
	const char *wrong;
	if (call->meanwhile)
		call->meanwhile(call->context);
	guard_enter(&guarded);
	if (call->kind == EXTERNAL_FORWARD)
		wrong = step->forward(worker->context, call->number, call->x, call->operands, call->y);
	else if (call->kind == EXTERNAL_RECORD)
		wrong = step->record(worker->context, call->number, call->x, call->operands, call->y, call->recorded);
	else
		wrong = step->backward(worker->context, call->number, call->x, call->operands, call->y, call->g, call->handle,
		                       call->dx, call->doperands);
	if (!wrong && call->kind == EXTERNAL_RECORD && *call->recorded == 0)
		wrong = "its record has the handle 0";
	return end_call(&guarded, wrong, "", diags);
}

static enum status release_record(struct external *program, struct external_worker *worker, uint64_t handle,
                                  struct diags *diags)
{
	struct object_call call = {program, worker, "its function 'release' has", .number = -1};
	(void)diags;
	guard_enter(&call);
	program->step->release(worker->context, handle);
	guard_leave(&call);
	return STATUS_OK;
}

static enum status get_sum(struct external *program, struct external_worker *worker, uint32_t operand, void *sum,
                           struct diags *diags)
{
	struct object_call call = {program, worker, "its function 'gradient' has", .number = -1};
	const char *about = arena_printf(diags->arena, "gradient of '%s': ", program->types.signature.names[operand]);
	TRY_ALLOC(about, diags);
	guard_enter(&call);
	return end_call(&call, program->step->gradient(worker->context, operand, sum), about, diags);
}

const struct external_backend shared_object_backend = {
	.open = open_context,
	.call = call_context,
	.release = release_record,
	.sum = get_sum,
	.retire = close_context,
};
