/*
 * The grammar of chains (ckptc-chain(5)). Actions only build nodes. The arena owns the nodes, so no symbol needs a
 * destructor.
 * Tests: tests/unit/test_syntax.c, tests/cases/language.test
 */
%define api.pure full
%define api.location.type {struct span}
%define parse.lac full
%define parse.error custom
%expect 0
%locations
%param { struct parse *parse }
%lex-param { void *scanner }
%parse-param { void *scanner }

%code requires {
#include "language/parse.h"
}

%code {
#include <math.h>
#include <string.h>

#include "scanner.h"

#define YYLLOC_DEFAULT(current, rhs, n)                                                                                \
	do {                                                                                                               \
		if (n) {                                                                                                       \
			(current) = YYRHSLOC(rhs, 1);                                                                              \
			(current).end = YYRHSLOC(rhs, n).end;                                                                      \
		} else {                                                                                                       \
			(current) = YYRHSLOC(rhs, 0);                                                                              \
			(current).begin = (current).end;                                                                           \
		}                                                                                                              \
	} while (0)

static int yylex(YYSTYPE *value, struct span *span, struct parse *parse, void *scanner)
{
	(void)parse;
	return scanner_lex(value, span, scanner);
}
static void yyerror(struct span *span, struct parse *parse, void *scanner, const char *message);

/*
 * The stack has a fixed size. Lists are left-recursive, so only nesting fills it. Brackets and `repeat N stage` nest to
 * MAX_NESTING (parse_open), at 18 symbols a level at most: an operator of each precedence, and a call's name and
 * arguments. `^` and operators before their operand nest to as many levels more (formula.depth), at 2. Deeper ones
 * overflow the stack before they are reduced, and yyerror reports it. LAC tries reductions on a stack that cannot grow
 * either: it has 20 states, and a reduction pushes one.
 */
#define YYINITDEPTH 6000
#define YYMAXDEPTH 6000
#define YYMALLOC(size) NULL
#define YYFREE(block) ((void)(block))

/* The stack is in yyparse's frame. Each page of it that yyparse touches is a page fault at each start. */
_Static_assert(sizeof(YYSTYPE) <= 32, "a symbol's value is small");

/* Stops the parse if a builder fails, which has reported an error or run out of memory. */
#define BUILD(done) do { if (!(done)) YYABORT; } while (0)
#define STATEMENT(KIND, ...) PARSE_NEW(parse, struct statement, .kind = STATEMENT_##KIND, __VA_ARGS__)
#define OPERAND(KIND, ...) PARSE_NEW(parse, struct operand, .kind = OPERAND_##KIND, __VA_ARGS__)
#define VALUE(KIND, ...) PARSE_NEW(parse, struct option, .kind = VALUE_##KIND, __VA_ARGS__)

static const struct declared no_type;
static const struct init no_init;
}

%union {
	const char *text; /* of a name, or of a string */
	struct parse_number number;
	struct count count;
	struct formula *formula;
	struct call_arguments arguments;
	struct index_part *part;
	struct index_list index;
	struct extent extent;
	struct extent_list extents;
	struct block *block;
	struct statement *statement;
	struct operand *operand;
	struct operand_list operands;
	struct option *option;
	struct option_list options;
	struct name_list *name;
	struct name_chain names;
	struct export_chain exports;
	const struct declared *declared;
	const struct init *init;
	struct parse_list *list;
}

%token <text> NAME "a name" OPTION "an option" STRING "a string"
%token <text> INPUT "'input'" PARAM "'param'" CONST "'const'" DEF "'def'" NAMING "'name'"
%token <text> REPEAT "'repeat'" FOR "'for'" IN "'in'" CHECKPOINT "'checkpoint'" EXPORT "'export'" AS "'as'" WHILE "'while'"
%token <text> PROGRAM "'program'" COLLECT "'collect'" FIXED_POINT "'fixed_point'" LET "'let'" OUTPUT "'output'"
%token <text> AND "'and'" OR "'or'" NOT "'not'"
%token LE "'<='" GE "'>='" EQ "'=='" NE "'!='" REST "'...'"
%token <number> NUMBER "a number"
%token NEWLINE "the end of the line"

%type <block> block statements repeated
%type <statement> statement stage
%type <operand> operand
%type <operands> operands
%type <option> option option_value
%type <options> options
%type <name> listed_name counter
%type <names> names parameters over
%type <exports> exports exported outputs item
%type <declared> type optional_type result
%type <extents> extents optional_extents
%type <extent> extent
%type <init> init optional_init
%type <list> list elements
%type <number> signed
%type <count> count
%type <formula> formula indexed argument bound
%type <arguments> arguments some_arguments
%type <part> part
%type <index> index
%type <text> name word any_word type_name

%precedence BARE_WORD
%left OR
%left AND
%precedence NOT
%left '<' '>' LE GE EQ NE
%left '+' '-'
%left '*' '/' '%' '@'
%precedence NEGATE
%right '^'
%precedence '['

%%

chain
	: statements { parse->syntax->chain = $1; $1->span = (struct span){0, (uint32_t)parse->source->length, 1, 1}; }
	;

statements
	: %empty { BUILD($$ = PARSE_NEW(parse, struct block, .first = NULL)); }
	| statement { BUILD($$ = PARSE_NEW(parse, struct block, .first = $1, .last = $1)); }
	| statements separator { $$ = $1; }
	| statements separator statement { $$ = $1; PARSE_APPEND($$, $3); }
	;

separator : ';' | NEWLINE ;

block
	: '{' statements '}' { $$ = $2; $$->braced = true; $$->span = @$; }
	;

statement
	: INPUT name optional_type {
		BUILD($$ = STATEMENT(INPUT, .span = @$, .name = $2, .name_span = @2, .type = $3, .init = &no_init));
	}
	| PARAM name optional_type optional_init {
		BUILD(parse_check_type(parse, $3, $2));
		BUILD($$ = STATEMENT(PARAM, .span = @$, .name = $2, .name_span = @2, .type = $3, .init = $4));
	}
	| CONST name optional_type optional_init {
		BUILD(parse_check_type(parse, $3, $2));
		BUILD($$ = STATEMENT(CONST, .span = @$, .name = $2, .name_span = @2, .type = $3, .init = $4));
	}
	| DEF name { BUILD(parse_check_stage_name(parse, STATEMENT_DEF, $2, @2)); } '(' parameters ')' block {
		BUILD($$ = STATEMENT(DEF, .span = @$, .name = $2, .name_span = @2, .names = $5.first, .block = $7));
	}
	| PROGRAM name { BUILD(parse_check_stage_name(parse, STATEMENT_PROGRAM, $2, @2)); } '(' parameters ')' ':' result {
		BUILD(parse_check_type(parse, $8, $2));
		BUILD($$ = STATEMENT(PROGRAM, .span = @$, .name = $2, .name_span = @2, .names = $5.first, .type = $8));
	}
	| LET name '=' formula {
		BUILD(parse_check_word(parse, $2, @2));
		BUILD($$ = STATEMENT(LET, .span = @$, .name = $2, .name_span = @2, .formula = $4));
	}
	| EXPORT exports {
		BUILD($$ = STATEMENT(EXPORT, .span = @$, .name_span = @1, .names = $2.names.first, .over = $2.as.first));
	}
	| OUTPUT outputs {
		BUILD($$ = STATEMENT(OUTPUT, .span = @$, .name_span = @1, .names = $2.names.first, .over = $2.as.first));
	}
	| stage
	;

outputs
	: item
	| outputs ',' item {
		$$ = $1;
		PARSE_APPEND(&$$.names, $3.names.first);
		PARSE_APPEND(&$$.as, $3.as.first);
	}
	;

/* A value, and the name of the output that it is. */
item
	: listed_name optional_type {
		$1->type = $2;
		$$.names = (struct name_chain){$1, $1};
		BUILD($$.as.first = $$.as.last = PARSE_KEEP(parse, struct name_list, .name = $1->name, .span = $1->span));
	}
	| listed_name optional_type AS listed_name {
		$1->type = $2;
		$$ = (struct export_chain){{$1, $1}, {$4, $4}};
	}
	| '(' formula ')' optional_type AS listed_name {
		$2->closed = true;
		struct name_list *from = parse_formula_name(parse, $2, @$);
		BUILD(from);
		from->type = $4;
		$$ = (struct export_chain){{from, from}, {$6, $6}};
	}
	;

exports
	: exported
	| exports ',' exported {
		$$ = $1;
		PARSE_APPEND(&$$.names, $3.names.first);
		PARSE_APPEND(&$$.as, $3.as.first);
	}
	;

exported
	: listed_name {
		$$.names = (struct name_chain){$1, $1};
		BUILD($$.as.first = $$.as.last = PARSE_KEEP(parse, struct name_list, .name = $1->name, .span = $1->span));
	}
	| listed_name AS listed_name { $$ = (struct export_chain){{$1, $1}, {$3, $3}}; }
	| '(' formula ')' AS listed_name {
		$2->closed = true;
		struct name_list *from = parse_formula_name(parse, $2, @$);
		BUILD(from);
		$$ = (struct export_chain){{from, from}, {$5, $5}};
	}
	;

stage
	: NAME operands options {
		BUILD($$ = STATEMENT(STAGE, .span = @$, .name = $1, .name_span = @1, .operands = $2.first, .options = $3.first));
	}
	| NAMING name { BUILD($$ = STATEMENT(NAME, .span = @$, .name = $2, .name_span = @2)); }
	| REPEAT count counter repeated {
		BUILD($$ = STATEMENT(REPEAT, .span = @$, .name_span = @1, .count = $2, .counter = $3, .block = $4));
	}
	| REPEAT WHILE block OPTION '=' count block {
		BUILD(parse_check_limit(parse, $4, @4));
		BUILD($$ = STATEMENT(REPEAT, .span = @$, .name_span = @1, .count = $6, .condition = $3, .block = $7));
	}
	| FOR names IN over counter block {
		BUILD($$ = STATEMENT(FOR, .span = @$, .name_span = @1, .names = $2.first, .over = $4.first, .counter = $5, .block = $6));
	}
	| COLLECT name options {
		BUILD($$ = STATEMENT(COLLECT, .span = @$, .name = $2, .name_span = @2, .options = $3.first));
	}
	| FIXED_POINT options block {
		BUILD($$ = STATEMENT(FIXED_POINT, .span = @$, .name_span = @1, .options = $2.first, .block = $3));
	}
	| CHECKPOINT options block {
		BUILD($$ = STATEMENT(CHECKPOINT, .span = @$, .name_span = @1, .options = $2.first, .block = $3));
	}
	;

/* The name of a loop's counter. */
counter
	: %empty { $$ = NULL; }
	| AS listed_name { $$ = $2; }
	;

count
	: NUMBER { BUILD(parse_check_integer(parse, &$1, @1)); $$ = (struct count){$1.number.as_integer, NULL, @1}; }
	| word { BUILD(parse_count(parse, &$$, parse_name_formula(parse, FORMULA_NAME, $1, @1))); }
	| '(' formula ')' { BUILD(parse_count(parse, &$$, $2)); }
	;

repeated
	: block
	| stage { BUILD($$ = PARSE_NEW(parse, struct block, .span = @1, .first = $1, .last = $1)); }
	;

/* Where the grammar has only a name, keywords are names too. */
name
	: NAME | OPTION | IN | INPUT | PARAM | CONST | DEF | NAMING | REPEAT | FOR | CHECKPOINT | EXPORT | AS | PROGRAM
	| COLLECT | FIXED_POINT | LET | OUTPUT | AND | OR | NOT
	;

listed_name : name { BUILD($$ = PARSE_KEEP(parse, struct name_list, .name = $1, .span = @1)); } ;

names
	: listed_name { $$ = (struct name_chain){$1, $1}; }
	| names ',' listed_name { $$ = $1; PARSE_APPEND(&$$, $3); }
	;

over
	: formula { BUILD($$.first = $$.last = parse_formula_name(parse, $1, @1)); }
	| over ',' formula {
		struct name_list *next = parse_formula_name(parse, $3, @3);
		BUILD(next);
		$$ = $1;
		PARSE_APPEND(&$$, next);
	}
	;

parameters
	: %empty { $$ = (struct name_chain){NULL, NULL}; }
	| names
	;

operands
	: %empty { $$ = (struct operand_list){NULL, NULL}; }
	| operands operand { $$ = $1; PARSE_APPEND(&$$, $2); }
	;

word : NAME | IN ;
any_word : word | AND | OR | NOT ;

operand
	: signed { BUILD($$ = OPERAND(NUMBER, .span = @$, .text = $1.text, .number = $1.number, .index = NO_INDEX)); }
	| indexed %prec BARE_WORD { BUILD($$ = parse_operand(parse, $1, @$)); }
	| list { BUILD($$ = OPERAND(LIST, .span = @$, .list = &$1->parsed, .index = NO_INDEX)); }
	| STRING { BUILD($$ = OPERAND(STRING, .span = @$, .text = $1, .index = NO_INDEX)); }
	| block { BUILD($$ = OPERAND(BLOCK, .span = @$, .block = $1, .index = NO_INDEX)); }
	;

signed
	: NUMBER
	| '-' NUMBER { $$ = $2; BUILD(parse_negate(parse, &$$)); }
	| '+' NUMBER { $$ = $2; }
	;

/* An operand that is no literal. Elsewhere in a stage, and in a formula outside of parentheses, it would end too early. */
indexed
	: any_word { BUILD($$ = parse_name_formula(parse, FORMULA_NAME, $1, @1)); }
	| '.' { BUILD($$ = parse_name_formula(parse, FORMULA_CURRENT, NULL, @1)); }
	| '(' formula ')' { $$ = $2; $$->closed = true; }
	| indexed '[' index ']' { BUILD($$ = parse_index(parse, $1, $3.first, @2, @4)); }
	;

/* ^ binds tighter than a minus before it, and opens to the right. Comparisons do not chain (parse_binary). */
formula
	: NUMBER { BUILD($$ = parse_number_formula(parse, &$1, @1)); }
	| word { BUILD($$ = parse_name_formula(parse, FORMULA_NAME, $1, @1)); }
	| '.' { BUILD($$ = parse_name_formula(parse, FORMULA_CURRENT, NULL, @1)); }
	| list { BUILD($$ = parse_list_formula(parse, $1)); }
	| '(' formula ')' { $$ = $2; $$->closed = true; }
	| word '(' arguments ')' { BUILD($$ = parse_call(parse, $1, @1, &$3, @$)); }
	| formula '[' index ']' { BUILD($$ = parse_index(parse, $1, $3.first, @2, @4)); }
	| formula OR formula { BUILD($$ = parse_binary(parse, $1, OPERATOR_OR, @2, $3)); }
	| formula AND formula { BUILD($$ = parse_binary(parse, $1, OPERATOR_AND, @2, $3)); }
	| formula '<' formula { BUILD($$ = parse_binary(parse, $1, OPERATOR_LT, @2, $3)); }
	| formula LE formula { BUILD($$ = parse_binary(parse, $1, OPERATOR_LE, @2, $3)); }
	| formula '>' formula { BUILD($$ = parse_binary(parse, $1, OPERATOR_GT, @2, $3)); }
	| formula GE formula { BUILD($$ = parse_binary(parse, $1, OPERATOR_GE, @2, $3)); }
	| formula EQ formula { BUILD($$ = parse_binary(parse, $1, OPERATOR_EQ, @2, $3)); }
	| formula NE formula { BUILD($$ = parse_binary(parse, $1, OPERATOR_NE, @2, $3)); }
	| formula '+' formula { BUILD($$ = parse_binary(parse, $1, OPERATOR_ADD, @2, $3)); }
	| formula '-' formula { BUILD($$ = parse_binary(parse, $1, OPERATOR_SUB, @2, $3)); }
	| formula '*' formula { BUILD($$ = parse_binary(parse, $1, OPERATOR_MUL, @2, $3)); }
	| formula '/' formula { BUILD($$ = parse_binary(parse, $1, OPERATOR_DIV, @2, $3)); }
	| formula '%' formula { BUILD($$ = parse_binary(parse, $1, OPERATOR_MOD, @2, $3)); }
	| formula '@' formula { BUILD($$ = parse_binary(parse, $1, OPERATOR_MATMUL, @2, $3)); }
	| formula '^' formula { BUILD($$ = parse_binary(parse, $1, OPERATOR_POW, @2, $3)); }
	| NOT formula { BUILD($$ = parse_prefix(parse, OPERATOR_NOT, @1, $2)); }
	| '-' formula %prec NEGATE { BUILD($$ = parse_prefix(parse, OPERATOR_NEG, @1, $2)); }
	| '+' formula %prec NEGATE { $$ = $2; }
	;

arguments
	: %empty { $$ = (struct call_arguments){0}; }
	| some_arguments
	;

some_arguments
	: argument { $$ = (struct call_arguments){.values = {$1, $1}}; }
	| OPTION '=' argument {
		struct option *option = parse_call_option(parse, $1, @1, $3);
		BUILD(option);
		$$ = (struct call_arguments){.options = {option, option}};
	}
	| some_arguments ',' argument {
		$$ = $1;
		BUILD(parse_check_place(parse, &$$, @3));
		PARSE_APPEND(&$$.values, $3);
	}
	| some_arguments ',' OPTION '=' argument {
		struct option *option = parse_call_option(parse, $3, @3, $5);
		BUILD(option);
		$$ = $1;
		PARSE_APPEND(&$$.options, option);
	}
	;

argument
	: formula
	| STRING { BUILD($$ = parse_name_formula(parse, FORMULA_STRING, $1, @1)); }
	;

index
	: part { $$ = (struct index_list){$1, $1}; }
	| index ',' part { $$ = $1; PARSE_APPEND(&$$, $3); }
	;

part
	: formula { BUILD($$ = parse_index_part(parse, $1, @$)); }
	| bound ':' bound { BUILD($$ = PARSE_NEW(parse, struct index_part, .kind = INDEX_SLICE, .span = @$, .start = $1, .stop = $3)); }
	| bound ':' bound ':' bound {
		BUILD($$ = PARSE_NEW(parse, struct index_part, .kind = INDEX_SLICE, .span = @$, .start = $1, .stop = $3, .step = $5));
	}
	| REST { BUILD($$ = PARSE_NEW(parse, struct index_part, .kind = INDEX_REST, .span = @$)); }
	;

bound
	: %empty { $$ = NULL; }
	| formula { $$ = parse_bound(parse, $1); }
	;

options
	: %empty { $$ = (struct option_list){NULL, NULL}; }
	| options option { $$ = $1; PARSE_APPEND(&$$, $2); }
	;

option
	: OPTION '=' option_value { $$ = $3; $$->name = $1; $$->span = @1; $$->value_span = @3; }
	;

option_value
	: signed { BUILD($$ = VALUE(NUMBER, .text = $1.text, .number = $1.number)); }
	| any_word { BUILD($$ = parse_is_truth($1) ? VALUE(BOOL, .text = $1) : VALUE(NAME, .text = $1)); }
	| hyphenated { BUILD($$ = parse_hyphenated(parse, @$)); }
	| STRING { BUILD($$ = VALUE(STRING, .text = $1)); }
	| list { BUILD($$ = VALUE(LIST, .list = &$1->parsed)); }
	| '(' formula ')' { BUILD($$ = parse_option_value(parse, $2)); }
	;

/* A policy such as dots-no-batch. */
hyphenated : any_word '-' NAME | hyphenated '-' NAME ;

optional_type
	: %empty { $$ = &no_type; }
	| ':' type { $$ = $2; }
	;

/* The scanner makes `f32` before `=` an OPTION. It is a type_name too, so that the message says that `[` is missing. */
type
	: type_name '[' optional_extents ']' { BUILD($$ = parse_type(parse, $1, @1, &$3, @$)); }
	;

type_name : any_word | OPTION ;

result
	: type
	| word { BUILD(parse_check_same(parse, $1, @1)); $$ = &no_type; }
	;

optional_extents
	: %empty { $$ = (struct extent_list){0}; }
	| extents
	;

extents
	: extent { $$ = (struct extent_list){0}; BUILD(parse_add_extent(parse, &$$, &$1, @1)); }
	| extents ',' extent { $$ = $1; BUILD(parse_add_extent(parse, &$$, &$3, @3)); }
	;

extent
	: formula { $$ = (struct extent){.formula = $1}; }
	| '*' { $$ = (struct extent){.formula = NULL}; }
	;

optional_init
	: %empty { $$ = &no_init; }
	| '=' init { $$ = $2; }
	;

init
	: signed { BUILD($$ = parse_init_number(parse, parse_number_formula(parse, &$1, @1), @$)); }
	| '(' formula ')' { BUILD($$ = parse_init_number(parse, $2, @$)); }
	| list { BUILD($$ = parse_init_list(parse, $1)); }
	| any_word { BUILD($$ = parse_init_form(parse, $1, @1, &(struct init){.span = @$})); }
	| word '(' STRING ')' { BUILD($$ = parse_init_form(parse, $1, @1, &(struct init){.span = @$, .path = $3})); }
	| word '(' STRING ',' STRING ')' {
		BUILD($$ = parse_init_form(parse, $1, @1, &(struct init){.span = @$, .path = $3, .key = $5}));
	}
	| word '(' elements ')' {
		const struct list *l = &$3->parsed;
		const struct shape *shape = l->shape.ndim ? &l->shape : NULL;
		const struct init call = {.span = @$, .values = l->values, .count = l->count, .shape = shape,
		                          .formulas = l->formulas, .formula_count = l->formula_count};
		BUILD($$ = parse_init_form(parse, $1, @1, &call));
	}
	;

list
	: '[' ']' { BUILD($$ = parse_list_close(parse, NULL, @$)); }
	| '[' elements ']' { BUILD($$ = parse_list_close(parse, $2, @$)); }
	;

elements
	: formula { BUILD($$ = parse_list_add(parse, NULL, $1)); }
	| elements ',' formula { BUILD($$ = parse_list_add(parse, $1, $3)); }
	;

%%

/* The tokens that can follow, and words for them. A thing that can begin with several kinds of token has one word. */
struct wanted {
	bool is[YYNTOKENS];
	const char *words[YYNTOKENS + 8];
	int count;
};

static void want_word(struct wanted *w, const char *word, const yysymbol_kind_t *kinds)
{
	w->words[w->count++] = word;
	for (; *kinds != YYSYMBOL_YYEMPTY; kinds++)
		w->is[*kinds] = false;
}
#define WANT(w, word, ...) want_word(w, word, (const yysymbol_kind_t[]){__VA_ARGS__, YYSYMBOL_YYEMPTY})
#define STAGE_KINDS                                                                                                    \
	YYSYMBOL_NAME, YYSYMBOL_NAMING, YYSYMBOL_REPEAT, YYSYMBOL_FOR, YYSYMBOL_CHECKPOINT, YYSYMBOL_COLLECT,              \
		YYSYMBOL_FIXED_POINT
#define DECLARATION_KINDS                                                                                              \
	YYSYMBOL_INPUT, YYSYMBOL_PARAM, YYSYMBOL_CONST, YYSYMBOL_DEF, YYSYMBOL_EXPORT, YYSYMBOL_PROGRAM, YYSYMBOL_LET,     \
		YYSYMBOL_OUTPUT
#define WORD_KINDS YYSYMBOL_NAME, YYSYMBOL_IN, YYSYMBOL_AND, YYSYMBOL_OR, YYSYMBOL_NOT
#define FORMULA_KINDS                                                                                                  \
	NUMBER_KINDS, YYSYMBOL_NAME, YYSYMBOL_IN, YYSYMBOL_NOT, YYTRANSLATE('('), YYTRANSLATE('['), YYTRANSLATE('.')
#define OPERATOR_KINDS                                                                                                 \
	KIND_MINUS, KIND_PLUS, YYTRANSLATE('*'), YYTRANSLATE('/'), YYTRANSLATE('%'), YYTRANSLATE('@'), YYTRANSLATE('^'),   \
		YYTRANSLATE('<'), YYTRANSLATE('>'), YYSYMBOL_LE, YYSYMBOL_GE, YYSYMBOL_EQ, YYSYMBOL_NE, YYSYMBOL_AND, YYSYMBOL_OR
#define NUMBER_KINDS YYSYMBOL_NUMBER, KIND_MINUS, KIND_PLUS
#define END_KINDS KIND_SEMICOLON, YYSYMBOL_NEWLINE, YYSYMBOL_YYEOF
/* bison's own names for these contain numbers that change with the grammar */
#define KIND_MINUS YYTRANSLATE('-')
#define KIND_PLUS YYTRANSLATE('+')
#define KIND_SEMICOLON YYTRANSLATE(';')

/* Replaces the tokens that begin an operand, a value, a number or a formula. */
static void want_values(struct wanted *w)
{
	const bool *is = w->is, number = is[YYSYMBOL_NUMBER];
	const bool formula = is[YYTRANSLATE('.')], stage = is[YYTRANSLATE('{')];
	if (number && stage && is[YYSYMBOL_NAME])
		WANT(w, "an operand", FORMULA_KINDS, WORD_KINDS, YYTRANSLATE('{'), YYSYMBOL_STRING);
	else if (number && is[YYSYMBOL_STRING])
		WANT(w, formula ? "an argument" : "a value", FORMULA_KINDS, WORD_KINDS, YYSYMBOL_STRING, YYSYMBOL_OPTION);
	else if (number && is[YYTRANSLATE('[')] && !formula)
		WANT(w, "an initial value", FORMULA_KINDS, WORD_KINDS);
	else if (number && formula)
		WANT(w, "a formula", FORMULA_KINDS);
	else if (number)
		WANT(w, "a number", FORMULA_KINDS);
}

static void want_things(struct wanted *w)
{
	const bool *is = w->is;
	bool names = is[YYSYMBOL_REPEAT] && is[YYSYMBOL_OPTION];
	if (names)
		WANT(w, "a name", STAGE_KINDS, DECLARATION_KINDS, YYSYMBOL_OPTION, WORD_KINDS, YYSYMBOL_AS);
	else if (is[YYSYMBOL_INPUT])
		WANT(w, "an operation or another statement", STAGE_KINDS, DECLARATION_KINDS, END_KINDS);
	else if (is[YYSYMBOL_REPEAT])
		WANT(w, "an operation", STAGE_KINDS);
	want_values(w);
	if (is[YYSYMBOL_NAME] && is[YYSYMBOL_IN] && is[YYSYMBOL_OPTION])
		WANT(w, "a type such as f32[*,256]", WORD_KINDS, YYSYMBOL_OPTION);
	if (is[YYTRANSLATE('^')])
		WANT(w, "an operator", OPERATOR_KINDS, YYTRANSLATE('['));
	if (is[KIND_SEMICOLON])
		WANT(w, "the end of the statement", END_KINDS);
	w->is[KIND_MINUS] = false; /* what is left would lengthen the name before it, as in dots-no-batch */
	for (int i = 0; i < YYNTOKENS; i++)
		if (is[i])
			w->words[w->count++] = i == YYSYMBOL_YYEOF ? "the end" : yysymbol_name((yysymbol_kind_t)i);
}

/* True if the symbol, or the character, can follow. */
#define CAN(symbol) (w->is[YYSYMBOL_##symbol])
#define CAN_CHAR(c) (w->is[YYTRANSLATE(c)])

/* A token that cannot follow. */
struct unexpected {
	struct parse *parse;
	yysymbol_kind_t kind;
	struct span span;
	const char *before; /* the end of the text before it, blanks left out */
};

static bool is_kind(yysymbol_kind_t kind, const yysymbol_kind_t *kinds)
{
	while (*kinds != YYSYMBOL_YYEMPTY && *kinds != kind)
		kinds++;
	return *kinds == kind;
}
#define IS_KIND(kind, ...) is_kind(kind, (const yysymbol_kind_t[]){__VA_ARGS__, YYSYMBOL_YYEMPTY})

/* Returns a hint, or NULL, where an option could follow but a token of kind FOUND does. */
static const char *advise_on_options(const struct wanted *w, const struct unexpected *u)
{
	const bool ends = CAN_CHAR(';'), operator = IS_KIND(u->kind, OPERATOR_KINDS);
	if (!CAN(NUMBER)) { /* after an option, whose value should perhaps be quoted */
		if (u->kind == YYTRANSLATE(','))
			return "several values are a list or quoted, as in axis=[0,1] and policy=\"names:a,b\"";
		const bool touches = u->parse->source->text + u->span.begin == u->before;
		if (operator && touches && !strchr(")]}\"", u->before[-1]))
			return parse_hint_sum(u->parse, u->span);
		if (u->kind == YYTRANSLATE(':') || (operator && u->kind != KIND_MINUS) || (u->kind == KIND_MINUS && !ends))
			return "a value other than a name or a number is quoted, as in policy=\"names:a,b\"";
		if (ends && u->span.end - u->span.begin == 2 && !memcmp(u->parse->source->text + u->span.begin, "as", 2))
			return "`name` names the current value; what `collect` collects keeps its name";
		const bool operand = IS_KIND(u->kind, YYSYMBOL_NUMBER, YYSYMBOL_NAME, YYSYMBOL_IN, KIND_MINUS, YYTRANSLATE('('),
		                             YYTRANSLATE('{'), YYTRANSLATE('.'));
		return ends && operand ? "operands come before options" : NULL;
	}
	if (operator || u->kind == YYTRANSLATE('='))
		return ends ? parse_hint_stage(u->parse, u->span) : NULL;
	if (u->kind == YYTRANSLATE(':'))
		return "a part is an index, as in use (x[0:2])";
	if (u->kind == YYTRANSLATE(',') && ends)
		return "separate operands by spaces, and stages by ; or a new line, as in add 1; clip 0 1";
	return NULL;
}

/* Returns a hint, or NULL, where U stands in a formula. */
static const char *advise_on_formula(const struct wanted *w, const struct unexpected *u)
{
	const bool after = CAN_CHAR('^');
	const char *word = after && IS_KIND(u->kind, YYSYMBOL_OPTION, YYSYMBOL_NUMBER, YYSYMBOL_NAME, YYTRANSLATE('{'))
	                       ? parse_hint_word(u->parse, u->span)
	                       : NULL;
	if (word)
		return word;
	if (parse_opens_load(u->parse))
		return "a path is quoted, as in load(\"w.npy\")";
	if (u->kind == YYSYMBOL_OPTION || (after && u->kind == YYTRANSLATE('=')))
		return "a comparison is written ==";
	if (u->kind == YYTRANSLATE('/') && u->before[-1] == '/')
		return "a quotient is rounded down by floor, as in floor(x / 2)";
	if (u->kind == YYTRANSLATE('{') && !CAN_CHAR('{') && (after || strchr("=(+-*/,<>@^", u->before[-1])))
		return "a formula has no blocks: a def gives a block a name";
	if (!after && IS_KIND(u->kind, YYSYMBOL_NEWLINE, YYSYMBOL_YYEOF, KIND_SEMICOLON))
		return u->parse->nested ? NULL : "within ( ) a formula goes on in the next line";
	if (after && IS_KIND(u->kind, YYSYMBOL_NUMBER, YYSYMBOL_NAME, YYSYMBOL_IN, YYSYMBOL_NOT, YYTRANSLATE('('),
	                     YYTRANSLATE('.')))
		return parse_hint_joined(u->parse, u->span);
	if (u->kind == YYSYMBOL_STRING && !after)
		return parse_hint_call(u->parse, u->span);
	if (u->kind == YYTRANSLATE(',') && after && CAN_CHAR(')')) {
		const char *call = parse_hint_call(u->parse, u->span);
		if (parse_opens_value(u->parse))
			return "several values are a list in brackets, as in axis=[0,1]";
		if (!call && u->parse->nested > 1)
			return "a list is in brackets, as in use (reshape(., [2, 2]))";
		return call ? call : "separate numbers by spaces, as in reshape 2 2";
	}
	if (u->kind == YYTRANSLATE(':') && !after && u->before[-1] == 'a')
		return "a function is a def, as in def twice() { use (. * 2) }";
	return NULL;
}

/* Returns a hint for a sign before U that cannot stand there: the sum in parentheses, the whole one if it has blanks. */
static const char *advise_on_sum(const struct unexpected *u)
{
	const char *text = u->parse->source->text, *begin = u->before - 1;
	const bool spaced = begin - text > 1 && begin[-1] == ' ' && u->before < text + u->span.begin;
	while (begin > text && !strchr("=;{}\n", begin[-1]))
		begin--;
	const bool option = begin > text && begin[-1] == '=';
	if (!spaced)
		return parse_hint_sum(u->parse, u->span);
	const char *whole = option ? NULL : parse_hint_stage(u->parse, u->span);
	return whole ? whole : "a formula of several parts is in parentheses, as in use (x + 1) and stop=(n - 1)";
}

/* Returns a hint on what to write instead of U, or NULL. */
static const char *advise(const struct wanted *w, const struct unexpected *u)
{
	const char *before = u->before;
	const yysymbol_kind_t found = u->kind;
	if (CAN(OPTION) && !CAN(NAME) && !CAN_CHAR('{') && !CAN_CHAR(';') && !CAN(NUMBER))
		return "`repeat while` has a limit, as in repeat while { norm; sub 1e-6 } max=100 { mul 0.5 }";
	if (CAN(AS) && CAN_CHAR('{') && !CAN_CHAR('^') && IS_KIND(found, OPERATOR_KINDS)) {
		const char *count = u->parse->source->text + u->span.begin == before ? parse_hint_sum(u->parse, u->span) : NULL;
		return count ? count : "a count of several parts is in parentheses, as in repeat (n - 1)";
	}
	const char *def = IS_KIND(found, YYTRANSLATE('='), YYTRANSLATE(':'), YYTRANSLATE('(')) && !CAN(NUMBER)
	                      ? parse_hint_def(u->parse, u->span)
	                      : NULL;
	if (def)
		return def;
	const bool operand = CAN(OPTION) && (CAN_CHAR('{') || CAN_CHAR(';'));
	const char *advice = operand ? advise_on_options(w, u) : NULL;
	if (advice)
		return advice;
	if (found == YYTRANSLATE('=') && CAN(NUMBER) && strchr("+-*/", before[-1]))
		return "a name is given another value by let, as in let u = u + 2";
	if (CAN(AS) && CAN_CHAR(',') && IS_KIND(found, OPERATOR_KINDS))
		return "a formula that is exported or output is in parentheses, as in output (u + v) as w";
	if (CAN(INPUT) && IS_KIND(found, OPERATOR_KINDS))
		return parse_hint_operator(u->parse, u->span);
	if (!CAN(AS) && !CAN(OPTION) && !CAN_CHAR('^') && CAN_CHAR(';') && IS_KIND(found, OPERATOR_KINDS))
		return "an initial value of several parts is in parentheses, as in const dt = (1 / 10)";
	if (CAN_CHAR('[') && !CAN(NUMBER) && !CAN_CHAR('^') && !CAN_CHAR(';'))
		return "a type has extents, as in f32[4,2]; f32[] is 0-d";
	if (found == YYSYMBOL_NAME && CAN_CHAR('{') && CAN(OPTION) && !CAN(NUMBER))
		return "checkpoint and fixed_point take a block, as in checkpoint { sin }";
	if (found == YYTRANSLATE('{') && CAN_CHAR('(') && !CAN(NUMBER))
		return "a def without operands has empty parentheses, as in def half() { mul 0.5 }";
	if (found == YYTRANSLATE('(') && CAN_CHAR('[') && CAN(STRING))
		return "several values are a list in brackets, as in axis=[0,1]";
	if (found == YYSYMBOL_STRING && CAN_CHAR('[') && CAN(NUMBER) && !CAN(OPTION) && !CAN_CHAR('.'))
		return "load reads a file, as in load(\"w.npy\")";
	const bool call = found == YYTRANSLATE(')') || (found == YYSYMBOL_OPTION && !strchr(" \t(=,", before[-2]));
	if (call && CAN_CHAR('.') && !CAN(STRING) && before[-1] == '(')
		return "an operation is written without parentheses, as in tanh, add W and sum axis=0";
	const bool signed_name = CAN(NUMBER) && !CAN_CHAR('.') && strchr("+-", before[-1]) && !strchr("[", before[-2]);
	if (IS_KIND(found, YYSYMBOL_NAME, YYSYMBOL_IN, YYTRANSLATE('('), YYTRANSLATE('.')) && signed_name)
		return advise_on_sum(u);
	if (IS_KIND(found, YYSYMBOL_NUMBER, YYTRANSLATE('(')) && CAN(NAME) && !CAN(NUMBER) && before[-1] == '-')
		return advise_on_sum(u);
	if (found == YYTRANSLATE('(') && CAN(INPUT) && CAN_CHAR(';'))
		return "a formula becomes the current value by use, as in use (x * 2)";
	if (found == YYSYMBOL_NUMBER && CAN(INPUT))
		return "a stage begins with its operation, as in mul 2";
	return CAN_CHAR('^') || (CAN_CHAR('.') && !CAN_CHAR('{')) ? advise_on_formula(w, u) : NULL;
}

static int yyreport_syntax_error(const yypcontext_t *context, struct parse *parse, void *scanner)
{
	(void)scanner;
	yysymbol_kind_t kinds[YYNTOKENS], found = yypcontext_token(context);
	struct wanted wanted = {.count = 0};
	int count = yypcontext_expected_tokens(context, kinds, YYNTOKENS);
	for (int i = 0; i < count; i++)
		wanted.is[kinds[i]] = true;
	const struct span *span = yypcontext_location(context);
	const char *before = parse->source->text + span->begin;
	while (before > parse->source->text && strchr(" \t\r\n", before[-1]))
		before--;
	if (before - parse->source->text < 2) /* advise looks at two bytes */
		before = "  " + 2;
	const struct unexpected unexpected = {parse, found, *span, before};
	const char *hint = advise(&wanted, &unexpected);
	struct span equals = *span;
	if (found == YYSYMBOL_OPTION && hint && strstr(hint, "written ==")) { /* a name alone would be no error */
		wanted = (struct wanted){.count = 0};
		wanted.is[YYTRANSLATE('^')] = true;
		parse_find_equals(parse, &equals);
	}
	want_things(&wanted);
	parse_syntax_error(parse, equals, wanted.words, wanted.count, hint);
	return 0;
}

/* Called only if the stack overflows: yyreport_syntax_error reports syntax errors. */
static void yyerror(struct span *span, struct parse *parse, void *scanner, const char *message)
{
	(void)scanner;
	(void)message;
	parse_too_deep(parse, *span);
}
