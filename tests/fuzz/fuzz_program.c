/*
 * Reads any bytes as what an external program answers. The first byte chooses the arrays; a byte 0xFF ends an answer.
 * A thread is the program: it writes the next answer for each message that asks for one. Every call either succeeds, or
 * fails with one message, after which no call succeeds.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "external/parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ANSWER_END = 0xFF };

struct client {
	const uint8_t *data;
	size_t left;
	int input, output; /* its own ends */
};

/* Returns how many messages of the LENGTH bytes at TEXT are to be answered. */
static int count_questions(const char *text, size_t length)
{
	static const char *const words[] = {"open 1 ", "forward ", "record ", "backward ", "gradient "};
	int count = 0;
	for (size_t i = 0; i < length; i++)
		for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
			const size_t word = strlen(words[w]);
			count += i + word <= length && !memcmp(text + i, words[w], word) && (i == 0 || text[i - 1] != ' ');
		}
	return count;
}

static void *answer(void *context)
{
	struct client *client = context;
	char text[4096];
	for (ssize_t got; (got = read(client->input, text, sizeof text)) > 0;)
		for (int n = count_questions(text, (size_t)got); n > 0; n--) {
			const uint8_t *end = client->left > 0 ? memchr(client->data, ANSWER_END, client->left) : NULL;
			const size_t length = end ? (size_t)(end - client->data) : client->left;
			if (length > 0 && write(client->output, client->data, length) < 0)
				break;
			client->data += length;
			client->left -= length;
			if (client->left == 0)
				goto end;
			client->data++;
			client->left--;
		}
end:
	close(client->output);
	while (read(client->input, text, sizeof text) > 0)
		;
	close(client->input);
	return NULL;
}

enum { OPERANDS = 2, MOST = 8 }; /* MOST: elements of an array */

/* What one input computes with. */
struct trial {
	struct external_set *set;
	struct external_signature signature;
	struct program_traits traits;
	struct external_call call;
	uint64_t handles[2];
	void *own[OPERANDS], *doperands[OPERANDS]; /* a call may replace DOPERANDS */
	struct diags *diags;
};

static void count(void *context) { ++*(int *)context; }

/* Makes the call, whose other work is done once. */
static enum status call(struct trial *t)
{
	int done = 0;
	t->call.meanwhile = count;
	t->call.context = &done;
	memcpy(t->doperands, t->own, sizeof t->own);
	TRY(external_call(t->set, 0, &t->call, t->diags));
	if (done != 1)
		abort();
	return STATUS_OK;
}

static enum status record(struct trial *t)
{
	for (int i = 0; i < 2; i++) {
		t->call.kind = EXTERNAL_RECORD;
		t->call.recorded = &t->handles[i];
		TRY(call(t));
		if (t->handles[i] == 0)
			abort();
	}
	return STATUS_OK;
}

/* Computes steps of every kind. Returns the first failure. */
static enum status compute(struct trial *t)
{
	TRY(external_open(t->set, 0, &t->signature, &t->traits, t->diags));
	for (int i = 0; i < 3; i++) { /* the second call has its operands */
		t->call.kind = EXTERNAL_FORWARD;
		t->call.number = i;
		TRY(call(t));
		if (i == 1)
			external_forget(t->set);
	}
	const bool records = t->traits.record_bytes >= 0;
	if (records)
		TRY(record(t));
	if (t->traits.backward) {
		t->call.kind = EXTERNAL_BACKWARD;
		t->call.handle = records ? t->handles[0] : 0;
		TRY(call(t));
		t->call.handle = 0;
	}
	if (records)
		TRY(external_release(t->set, 0, 0, t->handles[1], t->diags));
	for (uint32_t i = 0; i < t->signature.count; i++)
		if (t->traits.sums & 1u << i)
			TRY(external_sum(t->set, 0, i, t->own[i], t->diags));
	return STATUS_OK;
}

/* As compute; then, if AGAIN, the same with other types. */
static enum status compute_all(struct trial *t, bool again)
{
	TRY(compute(t));
	if (again) {
		t->signature.gradient_x = false;
		t->call.dx = NULL;
		TRY(compute(t));
	}
	return external_finish(t->set, t->diags);
}

/* Computes with arrays of program memory if SHARES and the program does so, else with others. */
static enum status try(struct trial *t, bool shares, bool again)
{
	double arrays[4 + 2 * OPERANDS][MOST] = {{0.5}}, (*at)[MOST] = arrays;
	void *memory = NULL;
	if (shares) {
		TRY(external_open(t->set, 0, &t->signature, &t->traits, t->diags));
		TRY(external_memory(t->set, sizeof arrays, &memory, t->diags));
		at = memory ? memory : at;
	}
	const void *const operands[] = {at[4], at[5]};
	t->own[0] = at[6];
	t->own[1] = at[7];
	t->call = (struct external_call){.x = at[0],
	                                 .operands = operands,
	                                 .constant = 1,
	                                 .aliased = t->signature.gradients,
	                                 .y = at[1],
	                                 .g = at[2],
	                                 .dx = at[3],
	                                 .doperands = t->doperands};
	const enum status status = compute_all(t, again);
	if (status && !call(t)) /* it has failed before */
		abort();
	external_memory_put(t->set, memory);
	return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {"step"}, *const operand_names[] = {"c", "k"};
	const uint8_t choice = size > 0 ? data[0] : 0;
	const enum dtype dtype = choice & 1 ? DTYPE_F32 : DTYPE_F64;
	const struct type type = {dtype, {.ndim = 1, .dim = {choice >> 1 & 7}}}, operands[] = {type, {.dtype = dtype}};
	struct trial trial = {.signature = {.x = type,
	                                    .y = type,
	                                    .count = choice & 16 ? OPERANDS : 0,
	                                    .names = operand_names,
	                                    .operands = operands,
	                                    .gradient_x = true,
	                                    .gradients = choice & 16 && choice & 32 ? 3 : 0}};
	const struct external_binding binding = {"step", "fuzz"};
	const struct external_bindings bindings = {&binding, 1};
	const struct external_options options = {.timeout = 0.01, .workers = 1}; /* an answer may be too short */
	struct arena arena;
	struct diags diags;
	int in[2], out[2];
	arena_init(&arena, &allocator_system);
	diags_init(&diags, &arena);
	const struct context context = {&allocator_system, &arena, &diags};
	if (pipe(in) != 0 || pipe(out) != 0 || fcntl(in[1], F_SETFL, O_NONBLOCK) || fcntl(out[0], F_SETFL, O_NONBLOCK))
		abort();
	struct client client = {data + (size > 0), size > 0 ? size - 1 : 0, in[0], out[1]};
	signal(SIGPIPE, SIG_IGN);
	pthread_t thread;
	if (external_bind(&context, names, 1, &bindings, &options, &trial.set) ||
	    command_attach(&trial.set->programs[0], &trial.set->programs[0].workers[0], in[1], out[0], &diags) ||
	    pthread_create(&thread, NULL, answer, &client) != 0)
		abort();
	trial.diags = &diags;
	const enum status status = try(&trial, choice & 64, choice & 128);
	if (status ? status != STATUS_PROGRAM || diags.errors < 1 || diags.errors > 2 : diags.errors != 0)
		abort();
	external_close(trial.set);
	pthread_join(thread, NULL);
	arena_free(&arena);
	return 0;
}

#include "replay.h"
