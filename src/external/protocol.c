/*
 * Steps of commands, by the messages of ckptc-program(7).
 *
 * An operand goes by `set`, once if it is constant; x, y and g go with their call. With shared memory every array goes
 * by its offset: an array that lies elsewhere is copied to or from a slot of the worker's own staging segment.
 * Tests: tests/unit/test_external.c
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/system.h"
#include "external/command.h"

enum { PROTOCOL = 1 };
/* Bits of names besides operands, in the lists of `ready`. */
enum { NAME_X = 1 << PROGRAM_OPERANDS, NAME_Y = 2 << PROGRAM_OPERANDS };

/* Returns the number that is all of TEXT, at most 18 digits, or -1. */
static int64_t parse_count(const char *text)
{
	const size_t length = strspn(text, "0123456789");
	return length == 0 || length > 18 || text[length] ? -1 : strtoll(text, NULL, 10);
}

/* Begins an exchange: nothing may have been written since the last answer. It asks for MESSAGE, which WORD answers. */
static enum status open_exchange(const struct exchange *e, const char *message, const char *word)
{
	struct command *command = e->command;
	struct channel *channel = &command->channel;
	if (command->failed)
		return external_failed(e->program, e->number, e->diags, "it has failed before");
	if (command->asked.message && channel_find_surplus(channel) > 0)
		return command_fail_surplus(e, false);
	if (message)
		command->asked = (struct asked){.message = message, .word = word, .number = e->number};
	command->asked.word = word;
	command->begun = clock_seconds();
	channel->patience = external_patience(command->slowest);
	channel->waits = command_note_wait;
	channel->waits_context = e;
	return STATUS_OK;
}

/* Reads the answer's line, and points *REST at the words after its first. `error` stands in place of any answer. */
static enum status read_answer(const struct exchange *e, char **rest)
{
	struct channel *channel = &e->command->channel;
	const char *word = e->command->asked.word;
	if (channel->too_long)
		return command_fail(e, 0, "a message to it would exceed %d KiB", CHANNEL_SENT >> 10);
	const enum channel_end end = channel_read_line(channel);
	if (end)
		return command_fail_read(e, end);
	char *line = channel->line + strspn(channel->line, " \t");
	size_t length = strcspn(line, " \t\r");
	char *after = line + length + strspn(line + length, " \t\r");
	const bool is_text = strlen(channel->line) == channel->line_length;
	if (is_text && length == 5 && !strncmp(line, "error", length))
		return command_fail(e, COMMAND_GRACE_FAILED, "it reports: %s", *after ? after : "an error");
	if (!is_text || length != strlen(word) || strncmp(line, word, length) != 0)
		return command_fail_line(e);
	for (size_t end_of = strlen(after); end_of > 0 && strchr(" \t\r", after[end_of - 1]); end_of--)
		after[end_of - 1] = '\0';
	*rest = after;
	return STATUS_OK;
}

/*
 * Sends what is left of the exchange. A command that has not read all of it failed, whatever it answered, and so did one
 * that has written more.
 */
static enum status close_exchange(const struct exchange *e)
{
	struct command *command = e->command;
	struct channel *channel = &command->channel;
	command->asked.word = NULL;
	command->asked.array = NULL;
	const enum channel_end end = channel_flush(channel);
	if (end)
		return command_fail_read(e, end);
	if (channel->deaf)
		return command_fail_deaf(e);
	command->slowest = fmax(command->slowest, clock_seconds() - command->begun);
	return channel_find_surplus(channel) > 0 ? command_fail_surplus(e, false) : STATUS_OK;
}

/* Opening. */

/* Returns the bit of the name that is the LENGTH bytes at TEXT; 0 if there is none. */
static uint32_t find_name(const struct external_signature *signature, const char *text, size_t length)
{
	if (length == 1 && (*text == 'x' || *text == 'y'))
		return *text == 'x' ? NAME_X : NAME_Y;
	for (uint32_t i = 0; i < signature->count; i++)
		if (strlen(signature->names[i]) == length && !strncmp(signature->names[i], text, length))
			return 1u << i;
	return 0;
}

/* Reads LIST, names that commas separate, to MASK. ALLOWED are the bits that may be in it. */
static enum status parse_names(const struct exchange *e, const char *list, uint32_t allowed, uint32_t *mask)
{
	*mask = 0;
	while (*list) {
		const size_t length = strcspn(list, ",");
		const uint32_t bit = find_name(&e->program->types.signature, list, length) & allowed;
		if (!bit)
			return command_fail(e, 0, "in its 'ready', '%.*s' is the name of no array that is possible there",
			                    (int)length, list);
		*mask |= bit;
		list += length + (list[length] == ',');
	}
	return STATUS_OK;
}

/* Reads one word of `ready` after its version. */
static enum status parse_trait(const struct exchange *e, const char *word, struct program_traits *traits)
{
	struct command *command = e->command;
	const uint32_t operands = (1u << e->program->types.signature.count) - 1;
	uint32_t names;
	if (!strcmp(word, "backward")) {
		traits->backward = true;
	} else if (!strcmp(word, "memory")) {
		command->memory = true;
	} else if (!strcmp(word, "text")) {
		command->text = true;
	} else if (!strncmp(word, "needs=", 6)) {
		TRY(parse_names(e, word + 6, operands | NAME_X | NAME_Y, &names));
		traits->needs_x = names & NAME_X;
		traits->needs_y = names & NAME_Y;
		traits->needs_operands = names & operands;
	} else if (!strncmp(word, "sums=", 5)) {
		TRY(parse_names(e, word + 5, operands, &traits->sums));
	} else if (!strncmp(word, "record=", 7)) {
		traits->record_bytes = parse_count(word + 7);
		if (traits->record_bytes < 0)
			return command_fail(e, 0, "its 'ready' has '%s': a number of bytes, of at most 18 digits, is due", word);
	} else {
		return command_fail(e, 0, "its 'ready' has the word '%s', which protocol %d does not know", word, PROTOCOL);
	}
	return STATUS_OK;
}

/* Reads the words after `ready`. */
static enum status parse_ready(const struct exchange *e, char *words, struct program_traits *traits)
{
	struct command *command = e->command;
	char *left = NULL, *word = strtok_r(words, " \t", &left);
	*traits = PROGRAM_TRAITS_UNBOUND;
	traits->bound = true;
	traits->backward = false;
	traits->needs_operands = (1u << e->program->types.signature.count) - 1;
	command->memory = command->text = false;
	if (!word || parse_count(word) != PROTOCOL)
		return command_fail(e, 0, "it speaks version '%s' of the protocol, but this ckptc speaks version %d",
		                    word ? word : "", PROTOCOL);
	while ((word = strtok_r(NULL, " \t", &left)))
		TRY(parse_trait(e, word, traits));
	if (command->memory && command->text)
		return command_fail(e, 0, "its 'ready' has both 'memory' and 'text'");
	if (command->memory && e->program->set->memory.fd < 0)
		return command_fail(e, 0, "it asks for shared memory, which this system does not have");
	if (traits->record_bytes >= 0 && !traits->backward)
		return command_fail(e, 0, "its 'ready' has 'record' without 'backward'");
	return STATUS_OK;
}

/* Gives every array a slot of COMMAND's staging segment, whose pages are used only by arrays that are copied. */
static enum status make_staging(const struct exchange *e)
{
	const struct external_signature *s = &e->program->types.signature;
	const struct type *types[SLOTS] = {&s->x, &s->y, &s->y, &s->x};
	struct command *command = e->command;
	int64_t bytes = 0;
	for (uint32_t i = 0; i < s->count; i++)
		types[SLOT_OPERAND + i] = types[SLOT_D_OPERAND + i] = types[SLOT_D_OTHER + i] = &s->operands[i];
	for (int i = 0; i < SLOTS; i++) {
		command->slots[i] = bytes;
		bytes += types[i] ? round_up(type_bytes(types[i]), ARRAY_ALIGN) : 0;
	}
	memory_put(&e->program->set->memory, command->staging);
	command->staging = memory_get(&e->program->set->memory, (size_t)bytes);
	TRY_ALLOC(command->staging, e->diags);
	return STATUS_OK;
}

static void put_open(const struct exchange *e)
{
	const struct external_signature *s = &e->program->types.signature;
	struct channel *channel = &e->command->channel;
	char type[TYPE_TEXT];
	channel_add(channel, "open %d %s x=%s", PROTOCOL, e->program->name, type_format(&s->x, type));
	for (uint32_t i = 0; i < s->count; i++)
		channel_add(channel, " %s=%s", s->names[i], type_format(&s->operands[i], type));
	channel_add(channel, " y=%s gradients=%s", type_format(&s->y, type), s->gradient_x ? "x" : "");
	bool some = s->gradient_x;
	for (uint32_t i = 0; i < s->count; i++) {
		if (!(s->gradients & 1u << i))
			continue;
		channel_add(channel, "%s%s", some ? "," : "", s->names[i]);
		some = true;
	}
	channel_end_line(channel);
}

/* Makes the command of WORKER, which does not run yet. */
static enum status make_command(struct external *program, struct external_worker *worker, struct diags *diags)
{
	struct external_set *set = program->set;
	struct command *command = worker->context = allocator_get(set->context.allocator, 1, sizeof *command);
	TRY_ALLOC(command, diags);
	memset(command, 0, sizeof *command);
	command->channel.timeout = set->options.timeout;
	command->channel.process.pass = set->options.pass;
	command->channel.process.pass_context = set->options.pass_context;
	return STATUS_OK;
}

static enum status start_worker(struct external *program, struct external_worker *worker, struct diags *diags)
{
	TRY(make_command(program, worker, diags));
	struct command *command = worker->context;
	const int error = process_start(&command->channel.process, program->target, program->set->memory.fd);
	command->failed = error != 0;
	return error ? external_failed(program, -1, diags, "cannot start it: %s", strerror(error)) : STATUS_OK;
}

enum status command_attach(struct external *program, struct external_worker *worker, int input, int output,
                           struct diags *diags)
{
	TRY(make_command(program, worker, diags));
	struct process *process = &((struct command *)worker->context)->channel.process;
	process->input = input;
	process->output = output;
	process->errors = -1;
	return STATUS_OK;
}

static enum status open_command(struct external *program, struct external_worker *worker, struct program_traits *traits,
                                struct diags *diags)
{
	char *words;
	if (!worker->context)
		TRY(start_worker(program, worker, diags));
	struct command *command = worker->context;
	const struct exchange e = {program, command, -1, diags};
	memset(command->sent, 0, sizeof command->sent);
	TRY(open_exchange(&e, "open", "ready"));
	put_open(&e);
	TRY(read_answer(&e, &words));
	TRY(parse_ready(&e, words, traits));
	TRY(close_exchange(&e));
	if (worker == program->workers)
		program->shares = command->memory;
	return command->memory ? make_staging(&e) : STATUS_OK;
}

/* Calls by pipe. */

static const char *const call_words[] = {"forward", "record", "backward"};

/* Returns where CALL wants the gradient by operand I, or NULL. */
static void *gradient_of(const struct external_call *call, int i)
{
	return call->doperands ? call->doperands[i] : NULL;
}

/* True if CALL reads operand I. With a handle these are constant operands alone: a record need not hold them. */
static bool reads_operand(const struct external *program, const struct external_call *call, uint32_t i)
{
	if (call->kind != EXTERNAL_BACKWARD)
		return true;
	return (program->traits.needs_operands & 1u << i) &&
	       (!call->handle || ((call->constant & 1u << i) && call->operands && call->operands[i]));
}

/* True if the command must get operand I again. Records that it has it. */
static bool must_send(struct command *command, const struct external_call *call, uint32_t i)
{
	const void *constant = call->constant & 1u << i ? call->operands[i] : NULL;
	const bool must = !constant || command->sent[i] != constant;
	command->sent[i] = constant;
	return must;
}

/* Appends the first words of CALL's line. */
static void add_call(struct channel *channel, const struct external_call *call)
{
	channel_add(channel, "%s %lld", call_words[call->kind], (long long)call->number);
	if (call->handle)
		channel_add(channel, " %llu", (unsigned long long)call->handle);
}

/* Queues CALL with its arrays. */
static void put_call(const struct exchange *e, const struct external_call *call)
{
	const struct external_signature *s = &e->program->types.signature;
	const struct program_traits *traits = &e->program->traits;
	struct command *command = e->command;
	struct channel *channel = &command->channel;
	const bool backward = call->kind == EXTERNAL_BACKWARD;
	for (uint32_t i = 0; i < s->count; i++)
		if (reads_operand(e->program, call, i) && must_send(command, call, i)) {
			channel_add(channel, "set %s", s->names[i]);
			channel_end_line(channel);
			channel_put_array(channel, call->operands[i], &s->operands[i], command->text);
		}
	add_call(channel, call);
	channel_end_line(channel);
	if (!backward || (!call->handle && traits->needs_x))
		channel_put_array(channel, call->x, &s->x, command->text);
	if (backward && !call->handle && traits->needs_y)
		channel_put_array(channel, call->y, &s->y, command->text);
	if (backward)
		channel_put_array(channel, call->g, &s->y, command->text);
}

static enum status read_array(const struct exchange *e, void *to, const char *name, const struct type *type)
{
	e->command->asked.array = name;
	e->command->asked.type = type;
	const enum channel_end end = channel_read_array(&e->command->channel, to, type, e->command->text);
	return end ? command_fail_read(e, end) : STATUS_OK;
}

/* Reads the arrays of an answer. */
static enum status read_results(const struct exchange *e, const struct external_call *call)
{
	const struct external_signature *s = &e->program->types.signature;
	if (call->kind != EXTERNAL_BACKWARD)
		return read_array(e, call->y, "y", &s->y);
	if (s->gradient_x)
		TRY(read_array(e, call->dx, "dx", &s->x));
	for (int i = 0; i < (int)s->count; i++) {
		char name[32];
		snprintf(name, sizeof name, "d%s", s->names[i]);
		if (external_returns(e->program, (uint32_t)i))
			TRY(read_array(e, gradient_of(call, i), name, &s->operands[i]));
	}
	return STATUS_OK;
}

/* Calls by shared memory. */

/* Returns the offset of the array of TYPE at AT, or of SLOT, to which it is copied if COPY. */
static long long place_array(const struct exchange *e, const void *at, const struct type *type, int slot, bool copy)
{
	struct shared_memory *memory = &e->program->set->memory;
	const size_t bytes = (size_t)type_bytes(type);
	const int64_t offset = at ? memory_offset(memory, at, bytes) : -1;
	char *staged = e->command->staging + e->command->slots[slot];
	if (offset >= 0)
		return offset;
	if (at && copy)
		memcpy(staged, at, bytes);
	return memory_offset(memory, staged, bytes);
}

/* Copies the array of SLOT to AT, unless AT is NULL or is itself shared. */
static void fetch(const struct exchange *e, void *at, const struct type *type, int slot)
{
	const size_t bytes = (size_t)type_bytes(type);
	if (at && memory_offset(&e->program->set->memory, at, bytes) < 0)
		memcpy(at, e->command->staging + e->command->slots[slot], bytes);
}

/* Tells the command the size of the shared memory, if that has grown. */
static void put_size(const struct exchange *e)
{
	const int64_t size = memory_size(&e->program->set->memory);
	if (size != e->command->announced) {
		channel_add(&e->command->channel, "memory %lld", (long long)size);
		channel_end_line(&e->command->channel);
	}
	e->command->announced = size;
}

/* Replaces the arrays that may be aliased with the command's own slots: other slots than in the last call. */
static void alias(struct command *command, const struct external_call *call)
{
	const int first = command->other ? SLOT_D_OTHER : SLOT_D_OPERAND;
	for (int i = 0; i < PROGRAM_OPERANDS; i++)
		if (call->aliased >> i & 1)
			call->doperands[i] = command->staging + command->slots[first + i];
	command->other ^= call->aliased != 0;
}

/* Queues CALL with the offsets of its arrays, and copies those that it reads. */
static void put_shared_call(const struct exchange *e, const struct external_call *call)
{
	const struct external_signature *s = &e->program->types.signature;
	const struct program_traits *traits = &e->program->traits;
	struct channel *channel = &e->command->channel;
	const bool backward = call->kind == EXTERNAL_BACKWARD, reads = !backward || !call->handle;
	put_size(e);
	alias(e->command, call);
	add_call(channel, call);
	if (!backward || (reads && traits->needs_x))
		channel_add(channel, " x=%lld", place_array(e, call->x, &s->x, SLOT_X, true));
	for (int i = 0; i < (int)s->count; i++)
		if (reads_operand(e->program, call, (uint32_t)i)) {
			const bool copy = must_send(e->command, call, (uint32_t)i);
			channel_add(channel, " %s=%lld", s->names[i],
			            place_array(e, call->operands[i], &s->operands[i], SLOT_OPERAND + i, copy));
		}
	if (!backward || (reads && traits->needs_y))
		channel_add(channel, " y=%lld", place_array(e, call->y, &s->y, SLOT_Y, backward));
	if (backward)
		channel_add(channel, " g=%lld", place_array(e, call->g, &s->y, SLOT_G, true));
	if (backward && s->gradient_x)
		channel_add(channel, " dx=%lld", place_array(e, call->dx, &s->x, SLOT_DX, false));
	for (int i = 0; backward && i < (int)s->count; i++)
		if (external_returns(e->program, (uint32_t)i))
			channel_add(channel, " d%s=%lld", s->names[i],
			            place_array(e, gradient_of(call, i), &s->operands[i], SLOT_D_OPERAND + i, false));
	channel_end_line(channel);
}

static void fetch_results(const struct exchange *e, const struct external_call *call)
{
	const struct external_signature *s = &e->program->types.signature;
	if (call->kind != EXTERNAL_BACKWARD) {
		fetch(e, call->y, &s->y, SLOT_Y);
		return;
	}
	if (s->gradient_x)
		fetch(e, call->dx, &s->x, SLOT_DX);
	for (int i = 0; i < (int)s->count; i++)
		if (external_returns(e->program, (uint32_t)i))
			fetch(e, gradient_of(call, i), &s->operands[i], SLOT_D_OPERAND + i);
}

/* Reads the word after `ok`: a handle after `record`, else none. */
static enum status parse_handle(const struct exchange *e, const struct external_call *call, const char *word)
{
	const int64_t handle = parse_count(word);
	if (call->kind != EXTERNAL_RECORD)
		return *word ? command_fail(e, 0, "it answered 'ok %s', where 'ok' alone is due", word) : STATUS_OK;
	if (handle <= 0)
		return command_fail(e, 0, "it answered 'ok %s' to 'record': a handle above 0, of at most 18 digits, is due",
		                    word);
	*call->recorded = (uint64_t)handle;
	return STATUS_OK;
}

static enum status call_command(struct external *program, struct external_worker *worker,
                                const struct external_call *call, struct diags *diags)
{
	struct command *command = worker->context;
	const struct exchange e = {program, command, call->number, diags};
	char *rest;
	if (command->forgotten != program->set->forgotten)
		memset(command->sent, 0, sizeof command->sent);
	command->forgotten = program->set->forgotten;
	TRY(open_exchange(&e, call_words[call->kind], "ok"));
	if (command->memory)
		put_shared_call(&e, call);
	else
		put_call(&e, call);
	channel_start(&command->channel);
	if (command->memory && call->kind != EXTERNAL_BACKWARD)
		memory_ready_next(&program->set->memory, call->y, (size_t)type_bytes(&program->types.signature.y));
	if (call->meanwhile)
		call->meanwhile(call->context);
	TRY(read_answer(&e, &rest));
	TRY(parse_handle(&e, call, rest));
	if (!command->memory)
		TRY(read_results(&e, call));
	TRY(close_exchange(&e));
	if (command->memory)
		fetch_results(&e, call);
	return STATUS_OK;
}

static enum status release_command(struct external *program, struct external_worker *worker, uint64_t handle,
                                   struct diags *diags)
{
	struct command *command = worker->context;
	const struct exchange e = {program, command, -1, diags};
	TRY(open_exchange(&e, NULL, NULL));
	channel_add(&command->channel, "release %llu", (unsigned long long)handle);
	channel_end_line(&command->channel);
	return close_exchange(&e);
}

static enum status sum_command(struct external *program, struct external_worker *worker, uint32_t operand, void *sum,
                               struct diags *diags)
{
	struct command *command = worker->context;
	const struct exchange e = {program, command, -1, diags};
	const struct external_signature *s = &program->types.signature;
	const int slot = SLOT_D_OPERAND + (int)operand;
	char *rest;
	TRY(open_exchange(&e, "gradient", "ok"));
	if (command->memory)
		put_size(&e);
	channel_add(&command->channel, "gradient %s", s->names[operand]);
	if (command->memory)
		channel_add(&command->channel, " d%s=%lld", s->names[operand],
		            place_array(&e, sum, &s->operands[operand], slot, false));
	channel_end_line(&command->channel);
	TRY(read_answer(&e, &rest));
	if (*rest)
		return command_fail(&e, 0, "it answered 'ok %s' to 'gradient', where 'ok' alone is due", rest);
	if (!command->memory)
		TRY(read_array(&e, sum, s->names[operand], &s->operands[operand]));
	TRY(close_exchange(&e));
	if (command->memory)
		fetch(&e, sum, &s->operands[operand], slot);
	return STATUS_OK;
}

/* The end. */

static void hang_up_command(struct external_worker *worker)
{
	struct command *command = worker->context;
	if (command)
		process_hang_up(&command->channel.process);
}

static void close_command(struct external *program, struct external_worker *worker)
{
	struct command *command = worker->context;
	if (!command)
		return;
	process_end(&command->channel.process, COMMAND_GRACE);
	memory_put(&program->set->memory, command->staging);
	allocator_put(program->set->context.allocator, command, sizeof *command);
	worker->context = NULL;
}

static void end_input(struct external_worker *worker)
{
	struct command *command = worker->context;
	if (command && !command->failed)
		process_close_input(&command->channel.process);
}

static enum status finish_command(struct external *program, struct external_worker *worker, struct diags *diags)
{
	struct command *command = worker->context;
	if (!command || command->failed)
		return STATUS_OK;
	const struct exchange e = {program, command, -1, diags};
	const size_t surplus = channel_await_end(&command->channel, COMMAND_GRACE);
	command->failed = true; /* further calls fail */
	return surplus > 0 ? command_fail_surplus(&e, true) : command_check_end(&e);
}

const struct external_backend command_backend = {
	.open = open_command,
	.call = call_command,
	.release = release_command,
	.sum = sum_command,
	.hang_up = hang_up_command,
	.end_input = end_input,
	.finish = finish_command,
	.close = close_command,
};
