/*
 * Random chains for tests of lowering. They use every statement, and each is right: a name is known where it stands, and
 * the current value keeps the shape of the input, [6,4]. Its dtype changes from f32 to f64 where it meets q.
 */
#ifndef TESTS_RANDOM_CHAINS_H
#define TESTS_RANDOM_CHAINS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { RANDOM_TEXT = 4096, RANDOM_NAMES = 3 };

struct random_chain {
	uint64_t seed;
	char text[RANDOM_TEXT];
	size_t used;
	bool known[RANDOM_NAMES];
	int variable; /* of the innermost `for` or `repeat ... as` around: its number; -1 outside of all */
	bool counts;  /* that is a `repeat`, whose variable is the number of the iteration */
	int arrays;   /* that loops have collected */
};

static inline uint32_t random_draw(struct random_chain *c, uint32_t below)
{
	c->seed = c->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(c->seed >> 33) % below;
}

__attribute__((format(printf, 2, 3))) static inline void random_put(struct random_chain *c, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	c->used += (size_t)vsnprintf(c->text + c->used, sizeof c->text - c->used, format, arguments);
	va_end(arguments);
}

/* A name that is known here: x at least. */
static inline const char *random_name(struct random_chain *c)
{
	static const char *const names[RANDOM_NAMES] = {"a", "b", "c"};
	const uint32_t i = random_draw(c, RANDOM_NAMES + 1);
	return i < RANDOM_NAMES && c->known[i] ? names[i] : "x";
}

/* A name to bind. */
static inline void random_put_name(struct random_chain *c)
{
	const uint32_t name = random_draw(c, RANDOM_NAMES + 2);
	if (name < RANDOM_NAMES)
		c->known[name] = true;
	if (name < RANDOM_NAMES)
		random_put(c, "name %c", (int)('a' + name));
	else if (name == RANDOM_NAMES || c->variable < 0)
		random_put(c, "name x");
	else {
		random_put(c, "name r%d", c->variable);
		c->counts = false;
	}
}

static inline void random_put_operand(struct random_chain *c)
{
	random_put(c, "%s ", random_draw(c, 2) ? "add" : "mul");
	if (c->variable >= 0 && random_draw(c, 2))
		random_put(c, "r%d", c->variable);
	else
		random_put(c, "%s", random_name(c));
}

static void random_block(struct random_chain *c, int depth);

static inline void random_loop(struct random_chain *c, int depth)
{
	bool known[RANDOM_NAMES];
	const int variable = c->variable;
	const bool counts = c->counts;
	const uint32_t kind = random_draw(c, 4), count = random_draw(c, 5);
	memcpy(known, c->known, sizeof known);
	if (kind == 1)
		random_put(c, "repeat %u as r%d", count, depth);
	else if (kind == 0)
		random_put(c, "repeat %u", count);
	else if (kind == 2)
		random_put(c, "for r%d in w", depth);
	else
		random_put(c, "for r%d in %s", depth, random_name(c));
	/* Where q meets it, the value is f64 in each iteration, so its type stays. */
	const int array = count > 0 && kind != 2 && random_draw(c, 3) == 0 ? c->arrays++ : -1;
	if (array >= 0)
		random_put(c, " { mul q; collect d%d every=%d; %s", array, array % 2 + 1, array % 3 ? "checkpoint" : "sub");
	c->variable = kind < 1 ? variable : depth;
	c->counts = kind < 1 ? counts : kind == 1;
	random_block(c, depth);
	c->variable = variable;
	c->counts = kind < 1 ? c->counts : counts;
	if (array >= 0 && (count > 1 || kind == 3)) /* two iterations have a part */
		random_put(c, "}; add d%d[0]", array);
	else if (array >= 0)
		random_put(c, "}");
	if (kind < 2 && count == 0) /* names nothing */
		memcpy(c->known, known, sizeof known);
}

static inline void random_statement(struct random_chain *c, int depth)
{
	const uint32_t kind = random_draw(c, depth > 0 ? 20 : 10);
	switch (kind) {
	case 0:
	case 1:
	case 2:
		random_put(c, "%s", kind == 0 ? "sin" : kind == 1 ? "floor" : "mul 0.5");
		break;
	case 3:
	case 4:
		random_put_name(c);
		break;
	case 5:
		random_put_operand(c);
		break;
	case 6:
		if (c->variable >= 0 && c->counts && random_draw(c, 2))
			random_put(c, "add %s[r%d]", random_name(c), c->variable);
		else
			random_put(c, "add %s[%d]", random_name(c), (int)random_draw(c, 12) - 6);
		break;
	case 7:
		random_put(c, "mul %s", random_draw(c, 3) ? random_draw(c, 2) ? "p" : "w[-2]" : "q");
		break;
	case 8:
		random_put(c, "use %s", random_name(c));
		break;
	case 9:
		random_put(c, "dropout 0.5");
		break;
	case 19:
	case 10:
	case 11:
		random_loop(c, depth - 1);
		break;
	case 12:
		random_put(c, "sub ");
		random_block(c, depth - 1);
		break;
	case 13:
	case 16:
		random_put(c, "%s %s", kind == 13 ? "twice" : "both", kind == 13 ? "" : random_name(c));
		random_block(c, depth - 1);
		break;
	case 17: /* binds a; and b, as a was */
		random_put(c, "shift %s", random_name(c));
		c->known[0] = c->known[1] = true;
		break;
	case 18: /* reads and binds c */
		if (!c->known[2])
			random_put(c, "name c; ");
		random_put(c, "turns");
		c->known[2] = true;
		break;
	case 14:
		random_put(c, "mix %s", random_draw(c, 2) ? "3" : random_name(c));
		break;
	default:
		random_put(c, "checkpoint ");
		random_block(c, depth - 1);
		break;
	}
}

static void random_block(struct random_chain *c, int depth)
{
	random_put(c, " { ");
	for (uint32_t left = random_draw(c, 4); left > 0; left--) {
		random_statement(c, depth);
		random_put(c, "; ");
	}
	random_put(c, "}");
}

/* The text of the chain of SEED. It has loops within loops, and fits by its depth. */
static inline const char *random_chain_text(struct random_chain *c, uint64_t seed)
{
	*c = (struct random_chain){.seed = seed, .variable = -1};
	random_put(c, "param w: f32[3,4]\nconst p: f32[4]\nconst q: f64[4]\n"
	              "def twice(v) { add v; name t; mul v; repeat 2 { dropout 0.5 }; add t }\n"
	              "def both(u, v) { twice { mul v; repeat 2 { add u; name u } } }\n"
	              "def mix(v) { name t; cos; mul v; name t; sub t }\n"
	              "def shift(v) { name t; mul v; export t as a, v as b; add b }\n"
	              "def turn() { name t; sin; sub c; export t as c }\n"
	              "def turns() { turn; repeat 2 { turn; checkpoint { add c; export c } }; mul c }\n");
	for (int left = 6; left > 0; left--) {
		random_statement(c, 2);
		random_put(c, "\n");
	}
	return c->text;
}

#endif
