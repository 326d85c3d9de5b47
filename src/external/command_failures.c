/*
 * What is wrong with a command: messages that name what was due, and show the bytes that came instead, with a guess at
 * what its author may have meant.
 * Tests: tests/unit/test_external.c
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "external/command.h"

/* Bytes of what came that a message shows, of that as text, and of what describe_part writes. */
enum { SHOWN = CHANNEL_HEAD, SHOWN_TEXT = 4 * SHOWN + 4, PART_TEXT = SHOWN_TEXT + 120 };

enum status command_fail(const struct exchange *e, double seconds, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	const char *what = arena_vprintf(e->diags->arena, format, arguments);
	va_end(arguments);
	e->command->failed = true;
	process_end(&e->command->channel.process, seconds);
	TRY_ALLOC(what, e->diags);
	const enum status status = external_failed(e->program, e->number, e->diags, "%s", what);
	const struct process *process = &e->command->channel.process;
	return process->last_length > 0 ? diag_hint(e->diags, "its last line on standard error: %s", process->last)
	                                : status;
}

/* Writes to TO, of SHOWN_TEXT bytes, the first of LENGTH bytes FROM as printable text. Returns TO. */
static const char *show_bytes(char *to, const char *from, size_t length)
{
	char *const begin = to;
	for (size_t i = 0; i < length && i < SHOWN; i++)
		to += from[i] >= ' ' && from[i] <= '~' ? (*to = from[i], 1) : sprintf(to, "\\x%02x", (unsigned char)from[i]);
	strcpy(to, length > SHOWN ? "..." : "");
	return begin;
}

static const char *unit_of(const struct exchange *e) { return e->command->text ? "numbers" : "bytes"; }

static long long size_of(const struct exchange *e, const struct type *type)
{
	return e->command->text ? (long long)shape_count(&type->shape) : (long long)type_bytes(type);
}

/* Writes to TO, of SIZE bytes, a text on the part of the awaited line or array that has come: "" if none has. */
static void describe_part(const struct exchange *e, char *to, size_t size)
{
	const struct channel *channel = &e->command->channel;
	const struct asked *asked = &e->command->asked;
	char shown[SHOWN_TEXT];
	*to = '\0';
	if (!asked->word)
		return;
	if (!asked->array && channel->end > channel->begin)
		snprintf(to, size, "'%s', which has no line end",
		         show_bytes(shown, channel->received + channel->begin, channel->end - channel->begin));
	else if (asked->array && (channel->done > 0 || channel->head_length > 0))
		snprintf(to, size, "%lld of the %lld %s of %.40s, '%s%s'", (long long)channel->done, size_of(e, asked->type),
		         unit_of(e), asked->array, show_bytes(shown, channel->head, channel->head_length),
		         !e->command->text && channel->done > SHOWN ? "..." : "");
	else if (asked->array)
		snprintf(to, size, "0 of the %lld %s of %.40s", size_of(e, asked->type), unit_of(e), asked->array);
}

/* True if the bytes of the array that have come look like a line of numbers. */
static bool looks_like_text(const struct channel *channel)
{
	for (size_t i = 0; i < channel->head_length; i++)
		if (!strchr("0123456789+-.eEdDinfaINFA, \t\r\n", channel->head[i]) || !channel->head[i])
			return false;
	return channel->head_length > 0;
}

/* Adds to the failure what the command may have meant by an array that is too short. */
static enum status guess_few(const struct exchange *e, enum status status)
{
	const struct channel *channel = &e->command->channel;
	const struct asked *asked = &e->command->asked;
	char form[TYPE_TEXT];
	if (!asked->array || e->command->text || channel->done == 0)
		return status;
	if (looks_like_text(channel))
		diag_hint_more(e->diags, "arrays travel as bytes unless its answer to 'open' has the word 'text'");
	else if (asked->type->dtype == DTYPE_F64 && 2 * channel->done == type_bytes(asked->type))
		diag_hint_more(e->diags, "%s is %s, of 8 bytes each: did it write floats of 4?", asked->array,
		               type_format(asked->type, form));
	return status;
}

static enum status fail_ended(const struct exchange *e, const char *when)
{
	struct process *process = &e->command->channel.process;
	process_end(process, COMMAND_GRACE_FAILED);
	const int status = process->status, code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
	const int number = WIFSIGNALED(status) ? WTERMSIG(status) : code > 128 ? code - 128 : 0;
	const char *name = sigdescr_np(number);
	if (process->forced)
		return command_fail(e, 0, "it closed its standard output, but did not end, %s", when);
	if (WIFSIGNALED(status))
		return command_fail(e, 0, "it was ended by signal %d (%s) %s", number, name ? name : "unknown", when);
	if (name)
		return command_fail(e, 0, "it ended with exit status %d, as a shell does after signal %d (%s), %s", code,
		                    number, name, when);
	return command_fail(e, 0, "it ended with exit status %d%s %s", code,
	                    code == 127   ? " (no such command)"
	                    : code == 126 ? " (it cannot be executed)"
	                                  : "",
	                    when);
}

static const char all_read[] = "before it had read all that was sent";

enum status command_fail_deaf(const struct exchange *e) { return fail_ended(e, all_read); }

enum status command_fail_read(const struct exchange *e, enum channel_end end)
{
	const struct channel *channel = &e->command->channel;
	const struct asked *asked = &e->command->asked;
	char text[TYPE_TEXT], part[PART_TEXT], when[PART_TEXT + 40] = "before it answered";
	const char *form = asked->type ? type_format(asked->type, text) : "";
	const int error = errno;
	describe_part(e, part, sizeof part);
	if (*part)
		snprintf(when, sizeof when, "after %s", part);
	switch (end) {
	case CHANNEL_ENDED:
		return guess_few(e, fail_ended(e, when));
	case CHANNEL_TIMEOUT:
		if (!*part)
			return command_fail(e, 0, "for %g s it has neither read nor written: it stopped %s", channel->timeout,
			                    asked->word ? when : all_read);
		return guess_few(e, command_fail(e, 0, "for %g s nothing has come after %s", channel->timeout, part));
	case CHANNEL_LONG:
		return command_fail(e, 0, "%s of its answer is longer than %d bytes", asked->array ? "a number" : "a line",
		                    (asked->array ? CHANNEL_NUMBER : CHANNEL_LINE) - 1);
	case CHANNEL_NO_NUMBER:
		return command_fail(e, 0, "'%s' is no number, in its line of %s", channel->word, asked->array);
	case CHANNEL_FEW:
	case CHANNEL_MANY:
		return command_fail(e, 0, "its line of %s has %s numbers than its type %s: %lld", asked->array,
		                    end == CHANNEL_FEW ? "fewer" : "more", form, (long long)channel->done);
	default:
		return command_fail(e, 0, "the pipes to it failed: %s", strerror(error));
	}
}

enum status command_fail_line(const struct exchange *e)
{
	const struct channel *channel = &e->command->channel;
	const struct asked *asked = &e->command->asked;
	const bool is_text = strlen(channel->line) == channel->line_length;
	char shown[SHOWN_TEXT];
	return command_fail(e, 0, "it answered '%s' to '%s', where '%s' is due",
	                    is_text ? channel->line + strspn(channel->line, " \t")
	                            : show_bytes(shown, channel->line, channel->line_length),
	                    asked->message, asked->word);
}

/* Adds the array NAME of TYPE to the text of an answer, if it is part of that. Returns its bytes. */
static int64_t add_part(char *to, size_t size, bool is_part, const char *name, const struct type *type)
{
	const size_t used = strlen(to);
	if (is_part)
		snprintf(to + used, size - used, ", %.40s (%lld bytes)", name, (long long)type_bytes(type));
	return type_bytes(type);
}

/*
 * Writes to PARTS, of SIZE bytes, the arrays of the answer to command->asked. Returns the bytes of those that are no part
 * of it, but might be if the chain wanted all gradients; *BYTES are those of the answer.
 */
static int64_t list_parts(const struct exchange *e, char *parts, size_t size, int64_t *bytes)
{
	const struct external_signature *s = &e->program->types.signature;
	const char *message = e->command->asked.message;
	int64_t others = 0;
	*parts = '\0';
	*bytes = 0;
	if (!strcmp(message, "forward") || !strcmp(message, "record"))
		*bytes = add_part(parts, size, true, "y", &s->y);
	if (strcmp(message, "backward") != 0)
		return 0;
	*(s->gradient_x ? bytes : &others) += add_part(parts, size, s->gradient_x, "dx", &s->x);
	for (uint32_t i = 0; i < s->count; i++) {
		const bool is_part = external_returns(e->program, i);
		char name[44];
		snprintf(name, sizeof name, "d%.40s", s->names[i]);
		*(is_part ? bytes : &others) += add_part(parts, size, is_part, name, &s->operands[i]);
	}
	return others;
}

/* Adds to the failure which answer was due, and what COUNT bytes after it may have been meant for. */
static enum status guess_many(const struct exchange *e, enum status status, int64_t count)
{
	const struct external_signature *s = &e->program->types.signature;
	const struct command *command = e->command;
	const bool backward = !strcmp(command->asked.message, "backward");
	char parts[400];
	int64_t bytes;
	const int64_t others = list_parts(e, parts, sizeof parts, &bytes);
	if (command->memory)
		diag_hint_more(e->diags, "its answer is a line alone: arrays lie in the shared memory");
	else if (backward && others > 0 && s->gradient_x && !s->gradients && count <= others)
		diag_hint_more(e->diags, "gradients=x: its answer is 'ok'%s alone, without cotangents of operands", parts);
	else if (*parts && s->y.dtype == DTYPE_F32 && count == bytes)
		diag_hint_more(e->diags, "its answer is 'ok'%s: numbers of f32 have 4 bytes", parts);
	else if (backward && others > 0)
		diag_hint_more(e->diags, "its answer is 'ok'%s: those that 'open' lists after gradients=%s", parts,
		               e->program->traits.sums ? ", without those of sums=" : "");
	else
		diag_hint_more(e->diags, "its answer is a line%s", parts);
	return status;
}

enum status command_fail_surplus(const struct exchange *e, bool last)
{
	struct channel *channel = &e->command->channel;
	const struct asked *asked = &e->command->asked;
	const struct exchange of = {e->program, e->command, last ? -1 : asked->number, e->diags};
	char answer[40] = "last answer";
	char shown[SHOWN_TEXT];
	bool all;
	const int64_t count = channel_count_surplus(channel, 0.5, &all);
	show_bytes(shown, channel->head, channel->head_length);
	if (!last)
		snprintf(answer, sizeof answer, "answer to '%s'", asked->message);
	const enum status status =
		command_fail(&of, 0, "it wrote more than its %s: '%s%s', %s%lld byte%s", answer, shown,
	                 count > SHOWN ? "..." : "", all ? "" : "at least ", (long long)count, count == 1 ? "" : "s");
	return last ? status : guess_many(&of, status, count);
}

enum status command_check_end(const struct exchange *e)
{
	struct process *process = &e->command->channel.process;
	process_end(process, COMMAND_GRACE);
	const bool good = process->forced || (WIFEXITED(process->status) && WEXITSTATUS(process->status) == 0);
	return good ? STATUS_OK : fail_ended(e, "after its last answer");
}

void command_note_wait(const void *exchange, double seconds)
{
	const struct exchange *e = exchange;
	const struct asked *asked = &e->command->asked;
	const struct process *process = &e->command->channel.process;
	char step[40] = "", part[PART_TEXT], what[PART_TEXT + 80], text[PART_TEXT + 500];
	if (!process->pass)
		return;
	describe_part(e, part, sizeof part);
	if (!asked->word)
		snprintf(what, sizeof what, "for %.0f s it has not read what was sent", seconds);
	else if (*part)
		snprintf(what, sizeof what, "for %.0f s nothing has come after %s", seconds, part);
	else
		snprintf(what, sizeof what, "for %.0f s nothing has come: its answer to '%s' is due, the line '%s'", seconds,
		         asked->message, asked->word);
	if (e->number >= 0)
		snprintf(step, sizeof step, "step %lld: ", (long long)e->number);
	snprintf(text, sizeof text, "ckptc: note: program '%.100s' (%.200s): %s%s", e->program->name, e->program->target,
	         step, what);
	diag_escape(text, process->pass, process->pass_context);
	process->pass(process->pass_context, "\n", 1);
}
