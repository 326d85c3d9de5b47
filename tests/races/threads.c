/*
 * Eight threads that use libckptc at once, each with chains of its own, for ThreadSanitizer. Their chains multiply
 * matrices, share operations among members of teams, and run in tiles. All threads must get the same bits.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "ckptc.h"

enum { THREADS = 8, ROUNDS = 2, ROWS = 600, COLUMNS = 24, COUNT = ROWS * COLUMNS };

static const char *const chains[] = {
	"param W: f32[24,24] = normal(0.2, 1); param b: f32[24] = zeros; matmul W; add b; tanh; repeat 3 { matmul W; sin }",
	"param W: f32[24,24] = normal(0.2, 1); layernorm; matmul W; softmax; sub { mean axis=0 }; mse 0.5",
	"roll 1 axis=0; repeat 4 { add { laplacian boundary=zero; mul 0.1 }; tanh }",
	"param Ws: f32[3,24,24] = normal(0.2, 2); for W in Ws { matmul W; gelu }; cumsum; amax axis=1",
};
enum { CHAINS = sizeof chains / sizeof *chains };
static const char *const policies[] = {"save-all", "every:2", "revolve:2", "budget:1M"};

struct worker {
	pthread_t thread;
	float x[COUNT], gradient[CHAINS][COUNT];
	char wrong[600];
};

static int fail(struct worker *w, const char *what, const struct ckptc_error *error)
{
	snprintf(w->wrong, sizeof w->wrong, "%s: %.500s", what, error->message);
	return 1;
}

/* Runs, plans and differentiates chain I. Returns 0, or 1 with w->wrong. */
static int use_chain(struct worker *w, int i, int round)
{
	const struct ckptc_array input = {.dtype = CKPTC_F32, .ndim = 2, .shape = {ROWS, COLUMNS}, .data = w->x};
	const struct ckptc_run_options options = {.policy = policies[(i + round) % 4],
	                                          .plan = {.threads = 2, .tile = round ? 64 : 0}};
	struct ckptc_error error = {0};
	struct ckptc_chain *chain = NULL;
	struct ckptc_result *result = NULL;
	struct ckptc_plan *plan = NULL;
	struct ckptc_array gradient;
	int wrong = 0;
	if (ckptc_chain_new(&chain, chains[i], strlen(chains[i]), NULL, &error))
		return fail(w, chains[i], &error);
	if (ckptc_plan_chain(&plan, chain, &input, options.policy, NULL, &error) ||
	    ckptc_run(&result, chain, &input, &options, &error))
		wrong = fail(w, chains[i], &error);
	ckptc_plan_free(plan);
	ckptc_result_free(result);
	result = NULL;
	if (!wrong && ckptc_grad(&result, chain, &input, &options, &error))
		wrong = fail(w, chains[i], &error);
	if (!wrong && !ckptc_result_gradient(result, &gradient))
		memcpy(w->gradient[i], gradient.data, sizeof w->gradient[i]);
	ckptc_result_free(result);
	ckptc_chain_free(chain);
	return wrong;
}

static void *work(void *context)
{
	struct worker *w = context;
	for (int round = 0; round < ROUNDS; round++)
		for (int i = 0; i < CHAINS; i++)
			if (use_chain(w, i, round))
				return w;
	return NULL;
}

int main(void)
{
	static struct worker workers[THREADS];
	int status = 0;
	for (struct worker *w = workers; w < workers + THREADS; w++) {
		for (int i = 0; i < COUNT; i++)
			w->x[i] = (float)(i % 101) / 50 - 1;
		pthread_create(&w->thread, NULL, work, w);
	}
	for (struct worker *w = workers; w < workers + THREADS; w++) {
		void *failed;
		pthread_join(w->thread, &failed);
		status |= failed != NULL;
		if (failed)
			fprintf(stderr, "%s\n", w->wrong);
	}
	for (struct worker *w = workers; w < workers + THREADS && !status; w++)
		if (memcmp(w->gradient, workers->gradient, sizeof w->gradient) != 0)
			status = fprintf(stderr, "two threads have different gradients\n") > 0;
	return status;
}
