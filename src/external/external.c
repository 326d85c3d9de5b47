/*
 * Binds programs, checks what they are called for, and opens their workers as they are first used.
 * Tests: tests/unit/test_external.c, tests/programs/steps.test
 */
#include "external/external.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/suggest.h"
#include "base/system.h"
#include "external/parts.h"

enum status external_failed(const struct external *program, int64_t number, struct diags *diags, const char *format,
                            ...)
{
	va_list arguments;
	va_start(arguments, format);
	const char *what = arena_vprintf(diags->arena, format, arguments);
	va_end(arguments);
	TRY_ALLOC(what, diags);
	if (number < 0)
		return diag_file(diags, STATUS_PROGRAM, NULL, -1, "program '%s' (%s): %s", program->name, program->target,
		                 what);
	return diag_file(diags, STATUS_PROGRAM, NULL, -1, "program '%s' (%s): step %lld: %s", program->name,
	                 program->target, (long long)number, what);
}

/* Seconds: at least the first, or so many times what the slowest answer so far has taken. */
static const double PATIENCE_LEAST = 5, PATIENCE_TIMES = 3;

double external_patience(double slowest) { return fmax(PATIENCE_LEAST, PATIENCE_TIMES * slowest); }

bool external_returns(const struct external *program, uint32_t operand)
{
	return program->types.signature.gradients & ~program->traits.sums & 1u << operand;
}

bool external_is_object(const char *target)
{
	const size_t length = strlen(target);
	return length > 3 && !strcmp(target + length - 3, ".so");
}

/* Returns the program called NAME, or NULL. */
static struct external *find_program(const struct external_set *set, const char *name)
{
	for (uint32_t i = 0; i < set->count; i++)
		if (!strcmp(set->programs[i].name, name))
			return &set->programs[i];
	return NULL;
}

static enum status bind_program(struct external_set *set, const struct external_binding *binding,
                                const char *const *names, struct diags *diags)
{
	struct external *program = find_program(set, binding->name);
	if (!program) {
		const enum status status =
			diag_file(diags, STATUS_USAGE, NULL, -1, "--program: the chain has no program '%s'", binding->name);
		const char *nearest = suggest_nearest(binding->name, names, set->count);
		return nearest ? diag_hint(diags, "did you mean '%s'?", nearest) : status;
	}
	if (program->target)
		return diag_file(diags, STATUS_USAGE, NULL, -1, "--program: '%s' is bound twice", binding->name);
	if (!binding->target[0])
		return diag_file(diags, STATUS_USAGE, NULL, -1, "--program: no command is given for '%s'", binding->name);
	program->target = binding->target;
	program->backend = external_is_object(program->target) ? &shared_object_backend : &command_backend;
	set->has_objects |= external_is_object(program->target);
	set->has_commands |= !external_is_object(program->target);
	return STATUS_OK;
}

/* Binds the programs of SET, then loads those that are shared objects. */
static enum status bind_all(struct external_set *set, const struct external_bindings *bindings,
                            const char *const *names, struct diags *diags)
{
	for (size_t i = 0; i < bindings->count; i++)
		TRY(bind_program(set, &bindings->list[i], names, diags));
	if (set->has_commands)
		(void)memory_open(&set->memory, set->context.allocator); /* a command that asks for it will fail */
	if (!set->has_objects)
		return STATUS_OK;
	guard_begin(&set->guard, set->options.ended);
	set->watcher = watch_begin(set);
	for (uint32_t i = 0; i < set->count; i++)
		if (set->programs[i].backend == &shared_object_backend)
			TRY(shared_object_load(&set->programs[i], diags));
	return STATUS_OK;
}

enum status external_bind(const struct context *context, const char *const *names, uint32_t count,
                          const struct external_bindings *bindings, const struct external_options *options,
                          struct external_set **set)
{
	struct external_set *made = arena_alloc(context->arena, sizeof *made);
	*set = NULL;
	TRY_ALLOC(made, context->diags);
	*made = (struct external_set){.context = *context, .options = *options, .count = count};
	made->context.diags = NULL;
	made->programs = arena_array(context->arena, count, sizeof *made->programs);
	TRY_ALLOC(made->programs || count == 0, context->diags);
	for (uint32_t i = 0; i < count; i++) {
		struct external_worker *workers = arena_array(context->arena, (size_t)options->workers, sizeof *workers);
		TRY_ALLOC(workers, context->diags);
		made->programs[i] = (struct external){.set = made, .name = names[i], .workers = workers};
	}
	const enum status status = bind_all(made, bindings, names, context->diags);
	if (status)
		external_close(made);
	else
		*set = made;
	return status;
}

enum status external_identify(const struct external_set *set, uint64_t *targets, uint64_t *objects, struct diags *diags)
{
	*targets = *objects = HASH_START;
	for (uint32_t i = 0; set && i < set->count; i++) {
		const struct external *program = &set->programs[i];
		if (!program->target)
			continue;
		*targets = hash_bytes(*targets, program->name, strlen(program->name) + 1);
		*targets = hash_bytes(*targets, program->target, strlen(program->target) + 1);
		if (external_is_object(program->target))
			TRY(shared_object_hash(program, objects, diags));
	}
	return STATUS_OK;
}

bool external_bound(const struct external_set *set, uint32_t program) { return set->programs[program].backend; }

/* Fails if two arrays of a message would have one name. */
static enum status check_operand_names(const struct external *program, const struct external_signature *signature,
                                       struct diags *diags)
{
	static const char *const reserved[] = {"x", "y", "g", "dx", "gradients"};
	for (uint32_t i = 0; i < signature->count; i++) {
		const char *name = signature->names[i];
		bool clash = false;
		for (size_t r = 0; r < sizeof reserved / sizeof *reserved; r++)
			clash |= !strcmp(name, reserved[r]);
		for (uint32_t j = 0; j < signature->count; j++)
			clash |= i != j &&
			         (!strcmp(name, signature->names[j]) || (name[0] == 'd' && !strcmp(name + 1, signature->names[j])));
		if (clash)
			return diag_file(diags, STATUS_CHAIN, NULL, -1,
			                 "program '%s': messages to it cannot call an operand '%s', which means another array",
			                 program->name, name);
	}
	return STATUS_OK;
}

static bool same_signature(const struct external_signature *a, const struct external_signature *b)
{
	bool same = type_equal(&a->x, &b->x) && type_equal(&a->y, &b->y) && a->count == b->count &&
	            a->gradient_x == b->gradient_x && a->gradients == b->gradients;
	for (uint32_t i = 0; same && i < a->count; i++)
		same = type_equal(&a->operands[i], &b->operands[i]);
	return same;
}

static void keep_signature(struct external_types *types, const struct external_signature *signature)
{
	types->signature = *signature;
	for (uint32_t i = 0; i < signature->count; i++) {
		types->operands[i] = signature->operands[i];
		types->names[i] = signature->names[i];
	}
	types->signature.operands = types->operands;
	types->signature.names = types->names;
}

static void retire_workers(struct external *program)
{
	for (int i = 0; i < program->set->options.workers; i++) {
		if (program->backend->retire)
			program->backend->retire(program, &program->workers[i]);
		program->workers[i].opening = 0;
	}
}

static bool same_traits(const struct program_traits *a, const struct program_traits *b)
{
	return a->backward == b->backward && a->needs_x == b->needs_x && a->needs_y == b->needs_y &&
	       a->needs_operands == b->needs_operands && a->record_bytes == b->record_bytes && a->sums == b->sums;
}

/* Returns in *WORKER that of INDEX, which knows the program's types. */
static enum status ready_worker(struct external *program, int index, struct external_worker **worker,
                                struct diags *diags)
{
	struct external_worker *ready = *worker = &program->workers[index];
	struct program_traits traits;
	if (ready->opening == program->opening)
		return STATUS_OK;
	TRY(program->backend->open(program, ready, &traits, diags));
	ready->opening = program->opening;
	if (index == 0)
		program->traits = traits;
	else if (!same_traits(&program->traits, &traits))
		return external_failed(program, -1, diags, "two workers of it have different traits");
	return STATUS_OK;
}

enum status external_open(struct external_set *set, uint32_t index, const struct external_signature *signature,
                          struct program_traits *traits, struct diags *diags)
{
	struct external *program = &set->programs[index];
	struct external_worker *first;
	TRY(check_operand_names(program, signature, diags));
	if (program->opening == 0 || !same_signature(signature, &program->types.signature)) {
		retire_workers(program);
		keep_signature(&program->types, signature);
		program->opening++;
	}
	TRY(ready_worker(program, 0, &first, diags));
	*traits = program->traits;
	return STATUS_OK;
}

enum status external_call(struct external_set *set, int worker, const struct external_call *call, struct diags *diags)
{
	struct external *program = &set->programs[call->program];
	struct external_worker *ready;
	TRY(ready_worker(program, worker, &ready, diags));
	const double begun = clock_seconds();
	const enum status status = program->backend->call(program, ready, call, diags);
	ready->seconds += clock_seconds() - begun;
	return status;
}

double external_seconds(const struct external_set *set)
{
	double seconds = 0;
	for (uint32_t i = 0; set && i < set->count; i++)
		for (int w = 0; w < set->options.workers; w++)
			seconds += set->programs[i].workers[w].seconds;
	return seconds;
}

enum status external_release(struct external_set *set, int worker, uint32_t index, uint64_t handle, struct diags *diags)
{
	struct external *program = &set->programs[index];
	return program->backend->release(program, &program->workers[worker], handle, diags);
}

/* Adds COUNT values FROM to TO, in the dtype of both. */
static void add_values(void *to, const void *from, int64_t count, enum dtype dtype)
{
	for (int64_t i = 0; i < count; i++)
		if (dtype == DTYPE_F32)
			((float *)to)[i] += ((const float *)from)[i];
		else
			((double *)to)[i] += ((const double *)from)[i];
}

enum status external_sum(struct external_set *set, uint32_t index, uint32_t operand, void *sum, struct diags *diags)
{
	struct external *program = &set->programs[index];
	const struct type *type = &program->types.operands[operand];
	const size_t bytes = (size_t)type_bytes(type);
	void *part = NULL;
	enum status status = program->backend->sum(program, &program->workers[0], operand, sum, diags);
	for (int i = 1; !status && i < set->options.workers; i++) {
		if (program->workers[i].opening != program->opening) /* it has not been called */
			continue;
		part = part ? part : allocator_get(set->context.allocator, 1, bytes);
		status = part ? program->backend->sum(program, &program->workers[i], operand, part, diags) : diag_memory(diags);
		if (!status)
			add_values(sum, part, shape_count(&type->shape), type->dtype);
	}
	allocator_put(set->context.allocator, part, bytes);
	return status;
}

enum status external_memory(struct external_set *set, size_t size, void **memory, struct diags *diags)
{
	bool wanted = false;
	for (uint32_t i = 0; i < set->count; i++)
		wanted |= set->programs[i].shares;
	*memory = wanted ? memory_get(&set->memory, size) : NULL;
	return *memory || !wanted ? STATUS_OK : diag_memory(diags);
}

void external_memory_put(struct external_set *set, void *memory)
{
	if (memory)
		memory_put(&set->memory, memory);
}

void external_forget(struct external_set *set) { set->forgotten++; }

enum status external_finish(struct external_set *set, struct diags *diags)
{
	for (uint32_t i = 0; set && i < set->count; i++) {
		struct external *program = &set->programs[i];
		if (program->backend)
			retire_workers(program); /* a shared object may end the process as it closes */
		for (int w = 0; program->backend && program->backend->end_input && w < set->options.workers; w++)
			program->backend->end_input(&program->workers[w]);
	}
	for (uint32_t i = 0; set && i < set->count; i++) {
		struct external *program = &set->programs[i];
		for (int w = 0; program->backend && program->backend->finish && w < set->options.workers; w++)
			TRY(program->backend->finish(program, &program->workers[w], diags));
		shared_object_unload(program); /* which may end the process, too */
	}
	return STATUS_OK;
}

void external_close(struct external_set *set)
{
	for (uint32_t i = 0; set && i < set->count; i++) {
		struct external *program = &set->programs[i];
		if (program->backend)
			retire_workers(program);
		for (int w = 0; program->backend && program->backend->hang_up && w < set->options.workers; w++)
			program->backend->hang_up(&program->workers[w]);
	}
	for (uint32_t i = 0; set && i < set->count; i++) {
		struct external *program = &set->programs[i];
		for (int w = 0; program->backend && program->backend->close && w < set->options.workers; w++)
			program->backend->close(program, &program->workers[w]);
		shared_object_unload(program);
	}
	if (set)
		watch_end(set->watcher);
	if (set && set->has_objects)
		guard_end(&set->guard);
	if (set && set->has_commands)
		memory_close(&set->memory);
}
