/*
 * What the words that begin statements mean: one row for each kind of statement. `ckptc help WORD` prints a row.
 *
 * Rows stand in the order of enum statement_kind.
 * Tests: tests/cases/cli.test
 */
#include "language/syntax.h"

const struct statement_info statement_table[STATEMENT_COUNT] = {
	[STATEMENT_INPUT] = {"input", "input NAME [: TYPE]", "an input; the first one is the value at the start",
                         "input x: f32[*,256]"},
	[STATEMENT_PARAM] = {"param", "param NAME [: TYPE] [= INIT]",
                         "an array that is differentiated; --param gives its value, or else INIT",
                         "param W: f32[256,64] = normal(0.1, 1)"},
	[STATEMENT_CONST] = {"const", "const NAME [: TYPE] [= INIT]", "an array or a number that is not differentiated",
                         "const t = load(\"target.npy\")"},
	[STATEMENT_DEF] = {"def", "def NAME(A, B, ...) { ... }", "a chain with operands, called as an operation is",
                       "def layer(W, b) { use (tanh(. @ W + b)) }"},
	[STATEMENT_STAGE] = {"stage", "OPERATION [OPERAND ...] [NAME=VALUE ...]",
                         "an operation or a def on the current value", "sum axis=0"},
	[STATEMENT_NAME] = {"name", "name NAME", "gives the current value a name", "tanh; name h"},
	[STATEMENT_REPEAT] = {"repeat", "repeat N [as I] { ... }, repeat while { CONDITION } max=N { ... }",
                          "N iterations, or as many as begin with a CONDITION above 0",
                          "repeat 8 as i { mul 1.1; add (0.01 * i) }"},
	[STATEMENT_FOR] = {"for", "for A, B, ... in P, Q, ... [as I] { ... }",
                       "an iteration for each index of the leading axis of P and Q, whose parts are A and B",
                       "for w in x { mul w }"},
	[STATEMENT_CHECKPOINT] = {"checkpoint", "checkpoint [policy=P] { ... }",
                              "a block that the backward pass recomputes from its inputs, or from what P keeps",
                              "checkpoint { mul 2; sin; exp }"},
	[STATEMENT_EXPORT] = {"export", "export NAME [as OTHER], (FORMULA) as NAME, ...",
                          "in a def, binds names where the def is called",
                          "def step() { mul 2; name now; export now as before }"},
	[STATEMENT_PROGRAM] = {"program", "program NAME(A, B, ...): same | TYPE",
                           "an operation that another program computes, as ckptc-program(7) describes",
                           "program heat(c): same"},
	[STATEMENT_COLLECT] = {"collect", "collect NAME [every=K]",
                           "in a repeat or for, makes an array of the values of all iterations, or of each K-th",
                           "repeat 5 { mul 2; collect ys }; use ys"},
	[STATEMENT_LET] = {"let", "let NAME = FORMULA", "gives the value of a formula a name; the current value stays",
                       "let mean = sum(x) / 3"},
	[STATEMENT_FIXED_POINT] = {"fixed_point", "fixed_point max=N tol=T { ... }",
                               "applies the block until the value changes by T at most; the gradient is implicit",
                               "fixed_point max=100 tol=1e-9 { use ((. + 2 / .) / 2) }"},
	[STATEMENT_OUTPUT] = {"output", "output NAME [: TYPE] [as OTHER], (FORMULA) as NAME, ...",
                          "values that the chain gives beside its last one", "output (sum(x)) as total"},
};

const char *statement_word(enum statement_kind kind) { return statement_table[kind].word; }
