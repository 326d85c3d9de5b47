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

#include "programs/parts.h"

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

/* Computes steps of every kind. Returns the first failure. */
static enum status compute(struct program_set *set, const struct program_signature *signature, struct diags *diags)
{
	double arrays[6][8] = {{0.5}};
	const void *const operands[] = {arrays[0]};
	void *doperands[] = {arrays[1]};
	struct program_traits traits;
	uint64_t handle = 1;
	struct program_call call = {.x = arrays[2],
	                            .operands = operands,
	                            .constant = 1,
	                            .y = arrays[3],
	                            .g = arrays[4],
	                            .dx = arrays[5],
	                            .doperands = doperands,
	                            .recorded = &handle};
	TRY(programs_open(set, 0, signature, &traits, diags));
	TRY(programs_call(set, 0, &call, diags));
	if (traits.record_bytes >= 0) {
		call.kind = PROGRAM_RECORD;
		TRY(programs_call(set, 0, &call, diags));
		if (handle == 0)
			abort();
	}
	if (traits.backward) {
		call.kind = PROGRAM_BACKWARD;
		call.handle = traits.record_bytes >= 0 ? handle : 0;
		TRY(programs_call(set, 0, &call, diags));
	}
	if (traits.record_bytes >= 0)
		TRY(programs_release(set, 0, 0, handle, diags));
	if (traits.sums)
		TRY(programs_sum(set, 0, 0, arrays[1], diags));
	return programs_finish(set, diags);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {"step"}, *const operand_names[] = {"c"};
	const uint8_t choice = size > 0 ? data[0] : 0;
	const struct type type = {choice & 1 ? DTYPE_F32 : DTYPE_F64, {.ndim = 1, .dim = {choice >> 1 & 7}}};
	const struct program_signature signature = {.x = type,
	                                            .y = type,
	                                            .count = choice >> 4 & 1,
	                                            .names = operand_names,
	                                            .operands = &type,
	                                            .gradient_x = true,
	                                            .gradients = choice >> 5 & 1};
	const struct program_binding binding = {"step", "fuzz"};
	const struct program_options options = {.timeout = 0.01, .workers = 1}; /* an answer may be too short */
	struct program_set *set;
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
	if (programs_bind(&context, names, 1, &binding, 1, &options, &set) ||
	    command_attach(&set->programs[0], &set->programs[0].workers[0], in[1], out[0], &diags) ||
	    pthread_create(&thread, NULL, answer, &client) != 0)
		abort();
	const enum status status = compute(set, &signature, &diags);
	if (status ? status != STATUS_PROGRAM || diags.errors != 1 : diags.errors != 0)
		abort();
	programs_close(set);
	pthread_join(thread, NULL);
	arena_free(&arena);
	return 0;
}

#include "replay.h"
