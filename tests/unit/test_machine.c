/*
 * The machine without hooks counts the iterations of a loop that repeat, and follows forward steps whose effect it
 * knows. With hooks it walks every one. All counters must be the same. Besides: the classes of slots that hold one value.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chains.h"
#include "memory/hooks.h"
#include "memory/machine.h"
#include "scratch.h"
#include "suite.h"

static struct chain chain;
static struct lowered lowered;
static struct compiled_chain compiled;
static struct step_costs costs;

static enum status nothing(void *context, const struct machine_call *call)
{
	(void)call;
	++*(int64_t *)context;
	return STATUS_OK;
}

/* The counters of SCHEDULE. With CALLS every step is walked, and the calls are counted. */
static struct counters count(struct schedule *schedule, enum dtype store, int64_t *calls)
{
	const struct machine_hooks hooks = {.call = nothing, .context = calls};
	const struct machine_options options = {.want_value = true, .store = store, .hooks = calls ? &hooks : NULL};
	struct counters counters;
	ck_assert_int_eq(machine_run(&scratch, &compiled, schedule, &options, &counters), STATUS_OK);
	return counters;
}

static void compare(const char *text, const char *named, enum dtype store)
{
	struct policy policy;
	int64_t calls = 0;
	ck_assert_int_eq(policy_parse(&scratch, &policy, named), STATUS_OK);
	struct schedule *schedule = policy_schedule(&policy, &costs, &allocator_system);
	ck_assert_ptr_nonnull(schedule);
	const struct counters alone = count(schedule, store, NULL), run = count(schedule, store, &calls);
	schedule_free(schedule);
	ck_assert_int_eq(calls, run.evaluations + run.steps);
	ck_assert_msg(alone.steps == run.steps && alone.evaluations == run.evaluations, "%s, %s", text, named);
	ck_assert_msg(alone.peak_bytes == run.peak_bytes, "%s, %s: %lld bytes, not %lld", text, named,
	              (long long)alone.peak_bytes, (long long)run.peak_bytes);
	ck_assert_msg(alone.stored_bytes == run.stored_bytes && alone.checkpoints == run.checkpoints, "%s, %s", text,
	              named);
	ck_assert_msg(alone.spill_writes == run.spill_writes && alone.spill_bytes == run.spill_bytes, "%s, %s", text,
	              named);
	/* Costs of the table are whole numbers, so their sums are exact. */
	const double a[] = {alone.forward_cost, alone.backward_cost, alone.recomputed_cost};
	const double b[] = {run.forward_cost, run.backward_cost, run.recomputed_cost};
	ck_assert_msg(memcmp(a, b, sizeof a) == 0, "%s, %s: costs of %g, %g, not %g, %g", text, named, a[0], a[2], b[0],
	              b[2]);
	ck_assert_msg(alone.spill_reads == run.spill_reads && alone.spill_state == run.spill_state, "%s, %s", text, named);
	/* Every other counter: all are numbers of eight bytes, without padding. */
	ck_assert_msg(memcmp(&alone, &run, sizeof alone) == 0, "%s, %s", text, named);
}

static void make(const char *text)
{
	const struct type input = {.dtype = DTYPE_F64, .shape = {.ndim = 2, .dim = {7, 9}}};
	chain_make(&chain, text, &arena, &diags);
	ck_assert_int_eq(lower(&scratch, &lowered, &chain, NULL, &input, LOWER_STEPS), STATUS_OK);
	ck_assert_int_eq(compiled_make(&scratch, &compiled, &lowered, &policy_save_all, NULL, 0), STATUS_OK);
	ck_assert_int_eq(compiled_costs(&scratch, &compiled, true, 0, &costs), STATUS_OK);
}

static void compare_policies(const char *text)
{
	static const char *const policies[] = {"save-all",  "every:3",   "every:17",      "sqrt",
	                                       "recursive", "revolve:1", "revolve:2",     "revolve:3",
	                                       "revolve:9", "online:3",  "disk-revolve:2"};
	for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
		compare(text, policies[p], DTYPE_COUNT);
		compare(text, policies[p], DTYPE_F16);
	}
}

START_TEST(counted_as_run)
{
	static const char *const chains[] = {
		"repeat 200 { sin }",
		"repeat 200 { sin; gelu; mul 1.1 }",
		"exp; repeat 150 { laplacian; sin }; tanh; repeat 60 { roll 1 axis=0; cos }; sum",
		"repeat 12 { repeat 15 { sin; roll 1 axis=1 }; gelu; repeat 3 { tanh } }",
		"repeat 7 { repeat 7 { repeat 7 { sin }; laplacian }; exp }",
		"repeat 90 { add { laplacian; mul 0.1 }; sin }",
		"repeat 40 { add { roll 1 axis=0; sin; roll 1 axis=1 }; mul { cos } }",
		"add { repeat 100 { sin; roll 1 axis=0 } }; repeat 50 { tanh }",
		"name x; repeat 80 { sin; add x; roll 1 axis=0; gelu }",
		"repeat 50 { name x; sin; roll 1 axis=0; tanh; add x }",
	};
	for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
		scratch_setup();
		make(chains[i]);
		compare_policies(chains[i]);
		scratch_teardown();
	}
}
END_TEST

/*
 * Returns COUNT groups of stages. They are those of GROUPS, where '|' separates them and '@' stands for a number. SEED draws
 * them; with SEED 0 they follow in turn.
 */
static const char *write_out(const char *groups, size_t count, uint64_t seed)
{
	static char text[1 << 20];
	uint64_t random = seed;
	size_t used = 0, kinds = 1;
	for (const char *at = groups; *at; at++)
		kinds += *at == '|';
	for (size_t i = 0; i < count; i++) {
		const char *at = groups;
		random = random * 6364136223846793005u + 1442695040888963407u;
		for (size_t skip = (seed ? (size_t)(random >> 33) : i) % kinds; skip > 0; at++)
			skip -= *at == '|';
		ck_assert_uint_lt(used, sizeof text - 1000);
		for (; *at && *at != '|'; at++)
			if (*at == '@')
				used += (size_t)snprintf(text + used, sizeof text - used, "%zu", i);
			else
				text[used++] = *at;
		text[used++] = '\n';
		text[used] = '\0';
	}
	return text;
}

/* A loop amid so many names that the state's mark is large, and amid so many that it has none. */
START_TEST(counted_among_names)
{
	for (size_t names = 60; names <= 130; names += 70) {
		scratch_setup();
		const char *before = arena_printf(&arena, "%s", write_out("name h@; sin", names, 0));
		const char *loop =
			"repeat 90 { sin; roll 1 axis=0; add h3 }; repeat 30 { repeat 9 { tanh; gelu }; roll 1 axis=1 }";
		make(arena_printf(&arena, "%s\n%s\n%s", before, loop, write_out("add h@", names, 0)));
		compare_policies(loop);
		scratch_teardown();
	}
}
END_TEST

/* Steps that no loop repeats. Forward steps whose effect is known are not walked. */
START_TEST(written_out)
{
	static const struct {
		const char *before, *groups;
	} chains[] = {
		{"", "sin"},
		{"", "sin|mul 1.1"},
		{"", "sin|roll 1 axis=0|gelu|add { laplacian }|tanh|mul 2"},
		{"", "name h@; sin; roll 1 axis=0; add h@|exp; name k@; tanh; roll 1 axis=1; mul k@"},
		{"", "slice axis=0 start=1; gelu; pad 1 0 axis=0|sin|roll 2 axis=1; slice axis=1 stop=4; sin; pad 0 5 axis=1"},
		{"name a", "repeat 3 { sin }; roll 1 axis=1|repeat 9 { tanh; roll 1 axis=0 }|name a; gelu|add a"},
		{"param w: f64[9]", "param w@: f64[9]; mul w@|add w|tanh"},
		{"name a; sin; name b; sin", "use a|use b|sin; name a|cos; name b|mul { add a; sub b }|roll 1 axis=0|add b"},
		{"name a; sin; name b; sin; use a; add b; sin; use b; sin; name a; cos; name c; gelu; mul c; mul a; mul b",
	     "sin"},
		{"name a; amax axis=0; name b; use a",
	     "sin; name a|name v; amax axis=0; name b; use v|mul { add a; sub b }|use a; cos|add b; roll 1 axis=0|add a"},
	};
	enum { SEEDS = SANITIZED ? 20 : 60 };
	for (size_t i = 0; i < sizeof chains / sizeof *chains; i++)
		for (uint64_t seed = 0; seed < SEEDS; seed++) {
			scratch_setup();
			const char *text = write_out(chains[i].groups, seed ? 5 + seed % 20 : 90, seed);
			/* Without cotangents, forward steps have the peak. */
			make(arena_printf(&arena, "%s\n%s\n%s", chains[i].before, text, seed % 2 ? "stop_gradient" : ""));
			compare_policies(text);
			scratch_teardown();
		}
}
END_TEST

/* So many segments that the marks are forgotten: for good if few steps were followed, or to begin again. */
START_TEST(written_out_long)
{
	scratch_setup();
	make(write_out("sin", 100000, 0));
	compare("sin", "every:8", DTYPE_COUNT);
	compare("sin", "every:20", DTYPE_COUNT);
	compare("sin", "sqrt", DTYPE_COUNT);
	scratch_teardown();
}
END_TEST

/* Slots that hold one value form a class, known by its lowest slot. The test numbers the values, and steps pass them. */
START_TEST(classes_go_by_the_lowest)
{
	static const char *const chains[] = {
		"sin; name a; add a; name b; name c; mul b; sub c; add a; name a; mul { add b; add c; add a }",
		"name a; name b; name c; sin; name b; add a; name a; name c; mul b; mul c; add x",
		"use x; name a; use a; add x; name x; name b; identity; name c; mul a; mul b; mul c; use b; add c; add a",
		"name c; name b; name a; use c; sin; name a; use b; add a; add c; use b; name a; mul c; mul a; mul b",
		"repeat 3 { sin; name a; add a; name b; mul { add a; add b }; use b }; add a; use a; add b; sub x",
		"name b; repeat 4 { name a; sin; add b; name b; mul a; use b }; add a; name a; add b; mul a",
		"def f(u) { name a; mul u; name b; add a; use b; add a }; name g; f g; name h; f h; add g; use h; f x; mul h",
		"name a; repeat 2 { add { name b; mul a }; name b; use b; name a; add b }; name c; mul a; mul b; mul c",
	};
	for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
		enum { SLOTS = 16 };
		int64_t value[SLOTS] = {0}, levels[MAX_LOOPS], next = 1;
		scratch_setup();
		make(chains[i]);
		ck_assert_int_le(lowered.slot_count, SLOTS);
		for (uint32_t slot = chain.names_input ? 2 : 1; slot < SLOTS; slot++)
			value[slot] = next++;
		int64_t aliases = 0;
		for (int64_t index = 0; index < lowered.steps; index++) {
			const struct step *step = lowered_step(&lowered, index, levels);
			int64_t after[SLOTS];
			struct slot_walk walk = slot_walk_begin(step->live_in);
			for (const struct slot_map *entry; (entry = slot_walk_next(&walk));) {
				uint32_t lowest = 0;
				while (value[lowest] != value[entry->slot])
					lowest++;
				ck_assert_msg(entry->class == lowest, "%s: step %lld, slot %u: class %u, not %u", chains[i],
				              (long long)index, entry->slot, entry->class, lowest);
				aliases += entry->class != entry->slot;
			}
			memcpy(after, value, sizeof after);
			for (size_t k = 0; k < step->body->out_count; k++) {
				const struct value *out = &step->body->values[step->body->outs[k].value];
				int64_t *to = &after[step_slot(step, &step->body->outs[k])];
				*to = out->from == FROM_PORT ? value[step_slot(step, &step->body->ins[out->port])] : next++;
				for (size_t same = 0; same < k; same++)
					if (step->body->outs[same].value == step->body->outs[k].value)
						*to = after[step_slot(step, &step->body->outs[same])];
			}
			memcpy(value, after, sizeof value);
		}
		ck_assert_msg(aliases > 0, "%s: no array has two names", chains[i]);
		scratch_teardown();
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("machine");
	TCase *tcase = suite_make_case(suite, "machine");
	tcase_set_timeout(tcase, 600);
	tcase_add_test(tcase, counted_as_run);
	tcase_add_test(tcase, counted_among_names);
	tcase_add_test(tcase, written_out);
	tcase_add_test(tcase, written_out_long);
	tcase_add_test(tcase, classes_go_by_the_lowest);
	return suite_run(suite);
}
