/*
 * The grammar of chains (ckptc-chain(5)). Actions only build nodes. Nodes live in the arena, so no symbol needs a
 * destructor.
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
 * MAX_NESTING (parse_open), at 6 symbols a level at most. Operators that open to the right nest to as many levels more
 * (parse_power, parse_minus), at 8. Deeper nesting overflows the stack, and yyerror says so. The stack on which LAC tries
 * reductions cannot grow either: a reduction pushes one state, and it has 20.
 */
#define YYINITDEPTH 4000
#define YYMAXDEPTH 4000
#define YYMALLOC(size) NULL
#define YYFREE(block) ((void)(block))

/* A builder that fails has given a message, or memory is short. */
#define BUILD(done) do { if (!(done)) YYABORT; } while (0)
}

%union {
	struct word word;
	struct parse_number number;
	struct parse_value value;
	struct block *block;
	struct statement *statement;
	struct operand *operand;
	struct operand_list operands;
	struct option *option;
	struct option_list options;
	struct name_chain names;
	struct declared *declared;
	struct shape *shape;
	struct init *init;
	struct parse_list *list;
	struct parse_integers integers;
}

%token <word> NAME "a name" OPTION "an option" STRING "a string"
%token <word> INPUT "'input'" PARAM "'param'" CONST "'const'" DEF "'def'" NAMING "'name'"
%token <word> REPEAT "'repeat'" FOR "'for'" IN "'in'" CHECKPOINT "'checkpoint'"
%token <number> NUMBER "a number"
%token NEWLINE "the end of the line"

%type <block> block statements
%type <statement> statement stage
%type <operand> operand
%type <operands> operands
%type <option> option
%type <options> options
%type <names> names
%type <declared> type optional_type
%type <shape> extents
%type <init> init optional_init
%type <list> list elements
%type <integers> integers bracketed
%type <number> signed
%type <value> expression
%type <word> name word type_name

%left '+' '-'
%left '*' '/'
%precedence NEGATE
%right '^'

%%

chain
	: statements { parse->syntax->chain = $1; parse_finish_chain(parse, $1); }
	;

statements
	: %empty { BUILD($$ = parse_block(parse)); }
	| statement { BUILD($$ = parse_block(parse)); PARSE_APPEND($$, $1); }
	| statements separator { $$ = $1; }
	| statements separator statement { $$ = $1; PARSE_APPEND($$, $3); }
	;

separator : ';' | NEWLINE ;

block
	: '{' statements '}' { $$ = $2; parse_finish_block($$, @1, @3); }
	;

statement
	: INPUT name optional_type { BUILD($$ = parse_declare(parse, STATEMENT_INPUT, @$, &$2, $3, NULL)); }
	| PARAM name optional_type optional_init { BUILD($$ = parse_declare(parse, STATEMENT_PARAM, @$, &$2, $3, $4)); }
	| CONST name optional_type optional_init { BUILD($$ = parse_declare(parse, STATEMENT_CONST, @$, &$2, $3, $4)); }
	| DEF name '(' ')' block { BUILD($$ = parse_def(parse, @$, &$2, NULL, $5)); }
	| DEF name '(' names ')' block { BUILD($$ = parse_def(parse, @$, &$2, $4.first, $6)); }
	| stage
	;

stage
	: NAME operands options { BUILD($$ = parse_stage(parse, @$, &$1, &$2, &$3)); }
	| NAMING name { BUILD($$ = parse_statement(parse, STATEMENT_NAME, @$, &$2)); }
	| REPEAT NUMBER block { BUILD($$ = parse_repeat(parse, @$, @1, &$2, $3)); }
	| REPEAT NUMBER stage { BUILD($$ = parse_repeat_stage(parse, @$, @1, &$2, $3)); }
	| FOR names IN names block { BUILD($$ = parse_for(parse, @$, @1, $2.first, $4.first, $5)); }
	| CHECKPOINT options block { BUILD($$ = parse_checkpoint(parse, @$, @1, &$2, $3)); }
	;

/* Where only a name can be, every word is one. */
name : NAME | OPTION | IN | INPUT | PARAM | CONST | DEF | NAMING | REPEAT | FOR | CHECKPOINT ;

names
	: name { $$ = (struct name_chain){NULL, NULL}; BUILD(parse_add_name(parse, &$$, &$1)); }
	| names ',' name { $$ = $1; BUILD(parse_add_name(parse, &$$, &$3)); }
	;

operands
	: %empty { $$ = (struct operand_list){NULL, NULL}; }
	| operands operand { $$ = $1; PARSE_APPEND(&$$, $2); }
	;

word : NAME | IN ;

operand
	: signed { BUILD($$ = parse_number_operand(parse, &$1)); }
	| word { BUILD($$ = parse_name_operand(parse, &$1, NULL, @$)); }
	| word '[' signed ']' { BUILD($$ = parse_name_operand(parse, &$1, &$3, @$)); }
	| '(' expression ')' { BUILD($$ = parse_expression_operand(parse, &$2, @$)); }
	| block { BUILD($$ = parse_block_operand(parse, $1, @$)); }
	;

signed
	: NUMBER
	| '-' NUMBER { $$ = $2; BUILD(parse_negate(parse, &$$, @$)); }
	| '+' NUMBER { $$ = $2; $$.span = @$; }
	;

/* Folded as it is read; ^ binds tighter than a minus before it, and to the right. */
expression
	: NUMBER { $$ = (struct parse_value){$1.number.value, 0}; }
	| NAME { BUILD(parse_constant(parse, &$$, &$1)); }
	| '(' expression ')' { $$ = (struct parse_value){$2.value, 0}; }
	| expression '+' expression { $$ = (struct parse_value){$1.value + $3.value, $1.depth}; }
	| expression '-' expression { $$ = (struct parse_value){$1.value - $3.value, $1.depth}; }
	| expression '*' expression { $$ = (struct parse_value){$1.value * $3.value, $1.depth}; }
	| expression '/' expression { $$ = (struct parse_value){$1.value / $3.value, $1.depth}; }
	| expression '^' expression { $$ = $1; BUILD(parse_power(parse, &$$, &$3, @2)); }
	| '-' expression %prec NEGATE { $$ = $2; BUILD(parse_minus(parse, &$$, @1)); }
	| '+' expression %prec NEGATE { $$ = $2; }
	;

options
	: %empty { $$ = (struct option_list){NULL, NULL}; }
	| options option { $$ = $1; PARSE_APPEND(&$$, $2); }
	;

option
	: OPTION '=' signed { BUILD($$ = parse_number_option(parse, &$1, &$3)); }
	| OPTION '=' word { BUILD($$ = parse_word_option(parse, &$1, &$3)); }
	| OPTION '=' STRING { BUILD($$ = parse_option(parse, &$1, VALUE_STRING, &$3)); }
	| OPTION '=' bracketed { BUILD($$ = parse_integers_option(parse, &$1, &$3, @3)); }
	;

bracketed
	: '[' ']' { $$ = (struct parse_integers){NULL, 0, 0}; }
	| '[' integers ']' { $$ = $2; }
	;

integers
	: signed { $$ = (struct parse_integers){NULL, 0, 0}; BUILD(parse_add_integer(parse, &$$, &$1)); }
	| integers ',' signed { $$ = $1; BUILD(parse_add_integer(parse, &$$, &$3)); }
	;

optional_type
	: %empty { $$ = NULL; }
	| ':' type { $$ = $2; }
	;

/* `f32` before `=` is scanned as an option. It is a type_name too, so that the message says that `[` is missing. */
type
	: type_name '[' ']' { BUILD($$ = parse_type(parse, &$1, NULL, @$)); }
	| type_name '[' extents ']' { BUILD($$ = parse_type(parse, &$1, $3, @$)); }
	;

type_name : word | OPTION ;

extents
	: NUMBER { BUILD($$ = parse_extent(parse, NULL, &$1, @1)); }
	| '*' { BUILD($$ = parse_extent(parse, NULL, NULL, @1)); }
	| extents ',' NUMBER { BUILD($$ = parse_extent(parse, $1, &$3, @3)); }
	| extents ',' '*' { BUILD($$ = parse_extent(parse, $1, NULL, @3)); }
	;

optional_init
	: %empty { $$ = NULL; }
	| '=' init { $$ = $2; }
	;

init
	: signed { BUILD($$ = parse_init_number(parse, $1.number.value, @$)); }
	| '(' expression ')' { BUILD($$ = parse_init_number(parse, $2.value, @$)); }
	| list { BUILD($$ = parse_init_list(parse, $1, @$)); }
	| word { BUILD($$ = parse_init_word(parse, &$1)); }
	| word '(' STRING ')' { BUILD($$ = parse_init_load(parse, &$1, $3.text, NULL, @$)); }
	| word '(' STRING ',' STRING ')' { BUILD($$ = parse_init_load(parse, &$1, $3.text, $5.text, @$)); }
	| word '(' elements ')' { BUILD($$ = parse_init_call(parse, &$1, $3, @$)); }
	;

list
	: '[' ']' { BUILD($$ = parse_list(parse)); BUILD(parse_list_close(parse, $$, @$)); }
	| '[' elements ']' { BUILD(parse_list_close(parse, $2, @$)); $$ = $2; }
	;

elements
	: expression { BUILD($$ = parse_list(parse)); BUILD(parse_list_add(parse, $$, $1.value, @1)); }
	| list { $$ = $1; $$->elements = 1; }
	| elements ',' expression { $$ = $1; BUILD(parse_list_add(parse, $$, $3.value, @3)); }
	| elements ',' list { $$ = $1; BUILD(parse_list_join(parse, $$, $3, @3)); }
	;

%%

/* What can follow, in words. A thing that can begin with many kinds of token is named once. */
struct wanted {
	bool is[YYNTOKENS];
	const char *words[YYNTOKENS + 8];
	int count;
};

static void want(struct wanted *w, const char *word, const yysymbol_kind_t *kinds)
{
	w->words[w->count++] = word;
	for (; *kinds != YYSYMBOL_YYEMPTY; kinds++)
		w->is[*kinds] = false;
}
#define WANT(w, word, ...) want(w, word, (const yysymbol_kind_t[]){__VA_ARGS__, YYSYMBOL_YYEMPTY})
#define STAGE_KINDS YYSYMBOL_NAME, YYSYMBOL_NAMING, YYSYMBOL_REPEAT, YYSYMBOL_FOR, YYSYMBOL_CHECKPOINT
#define DECLARATION_KINDS YYSYMBOL_INPUT, YYSYMBOL_PARAM, YYSYMBOL_CONST, YYSYMBOL_DEF
#define NUMBER_KINDS YYSYMBOL_NUMBER, KIND_MINUS, KIND_PLUS
#define END_KINDS KIND_SEMICOLON, YYSYMBOL_NEWLINE, YYSYMBOL_YYEOF
/* bison's own names for these hold numbers that move with the grammar */
#define KIND_MINUS YYTRANSLATE('-')
#define KIND_PLUS YYTRANSLATE('+')
#define KIND_SEMICOLON YYTRANSLATE(';')

static void want_things(struct wanted *w)
{
	const bool *is = w->is;
	bool names = is[YYSYMBOL_REPEAT] && is[YYSYMBOL_OPTION];
	if (names)
		WANT(w, "a name", STAGE_KINDS, DECLARATION_KINDS, YYSYMBOL_OPTION, YYSYMBOL_IN);
	else if (is[YYSYMBOL_INPUT])
		WANT(w, "an operation or another statement", STAGE_KINDS, DECLARATION_KINDS, END_KINDS);
	else if (is[YYSYMBOL_REPEAT])
		WANT(w, "an operation", STAGE_KINDS);
	if (is[YYSYMBOL_NUMBER] && is[YYTRANSLATE('{')] && is[YYSYMBOL_NAME])
		WANT(w, "an operand", NUMBER_KINDS, YYSYMBOL_NAME, YYSYMBOL_IN, YYTRANSLATE('('), YYTRANSLATE('{'));
	else if (is[YYSYMBOL_NUMBER] && is[YYSYMBOL_STRING] && !is[YYTRANSLATE('(')])
		WANT(w, "a value", NUMBER_KINDS, YYSYMBOL_NAME, YYSYMBOL_IN, YYSYMBOL_STRING, YYTRANSLATE('['));
	else if (is[YYSYMBOL_NUMBER] && is[YYTRANSLATE('[')] && is[YYSYMBOL_IN])
		WANT(w, "an initial value", NUMBER_KINDS, YYSYMBOL_NAME, YYSYMBOL_IN, YYTRANSLATE('['), YYTRANSLATE('('));
	else if (is[YYSYMBOL_NUMBER])
		WANT(w, "a number", NUMBER_KINDS, YYSYMBOL_NAME, YYTRANSLATE('('));
	if (is[YYSYMBOL_NAME] && is[YYSYMBOL_IN] && is[YYSYMBOL_OPTION])
		WANT(w, "a type such as f32[*,256]", YYSYMBOL_NAME, YYSYMBOL_IN, YYSYMBOL_OPTION);
	if (is[YYTRANSLATE('^')])
		WANT(w, "an operator", KIND_MINUS, KIND_PLUS, YYTRANSLATE('*'), YYTRANSLATE('/'), YYTRANSLATE('^'));
	if (is[KIND_SEMICOLON])
		WANT(w, "the end of the statement", END_KINDS);
	for (int i = 0; i < YYNTOKENS; i++)
		if (is[i])
			w->words[w->count++] = i == YYSYMBOL_YYEOF ? "the end" : yysymbol_name((yysymbol_kind_t)i);
}

/* True if SYMBOL of the grammar, or the character C, can follow. */
#define CAN(symbol) (w->is[YYSYMBOL_##symbol])
#define CAN_CHAR(c) (w->is[YYTRANSLATE(c)])

/* Advice on OPTION, which can follow, and something of the kind FOUND that cannot. */
static const char *advise_on_options(const struct wanted *w, yysymbol_kind_t found)
{
	const bool ends = CAN_CHAR(';');
	if (!CAN(NUMBER)) { /* after an option, whose value should perhaps be quoted */
		if (found == YYTRANSLATE(','))
			return "several values are a list or quoted, as in axis=[0,1] and policy=\"names:a,b\"";
		if (found == YYTRANSLATE(':') || found == KIND_PLUS || (found == KIND_MINUS && !ends))
			return "a value other than a name or a number is quoted, as in policy=\"names:a,b\"";
		const bool operand = found == YYSYMBOL_NUMBER || found == YYSYMBOL_NAME || found == YYSYMBOL_IN ||
		                     found == KIND_MINUS || found == YYTRANSLATE('(') || found == YYTRANSLATE('{');
		return ends && operand ? "operands come before options" : NULL;
	}
	if (found == YYTRANSLATE('*') || found == YYTRANSLATE('/') || found == YYTRANSLATE('^'))
		return "an expression of numbers is in parentheses, as in mul (1/3)";
	if (found == YYTRANSLATE('['))
		return "write numbers without brackets, as in reshape 2 2; give a list a name first, as in const c = [1, 2]";
	if (found == YYTRANSLATE(',') && ends)
		return "separate operands by spaces, and stages by ; or a new line, as in add 1; clip 0 1";
	if (found == YYTRANSLATE('='))
		return "declare a value with param or const, as in const c = [1, 2]";
	return NULL;
}

/* What to write instead of something of the kind FOUND; NULL if nothing is known. */
static const char *advise(const struct wanted *w, yysymbol_kind_t found)
{
	const char *advice = CAN(OPTION) ? advise_on_options(w, found) : NULL;
	if (advice)
		return advice;
	if (CAN_CHAR('[') && !CAN(NUMBER))
		return "a type has extents, as in f32[4,2]; f32[] is 0-d";
	if (found == YYSYMBOL_NAME && CAN_CHAR('{') && CAN(OPTION) && !CAN(NUMBER))
		return "checkpoint takes a block, as in checkpoint { sin }";
	if (found == YYTRANSLATE('{') && CAN_CHAR('(') && !CAN(NUMBER))
		return "a def without operands has empty parentheses, as in def half() { mul 0.5 }";
	if (found == YYTRANSLATE(',') && CAN_CHAR('^') && CAN_CHAR(')'))
		return "separate numbers by spaces, as in reshape 2 2";
	if (found == YYTRANSLATE('(') && CAN_CHAR('[') && CAN(STRING))
		return "several values are a list in brackets, as in axis=[0,1]";
	if (found == YYSYMBOL_STRING && CAN_CHAR('[') && CAN(NUMBER))
		return "load reads a file, as in load(\"w.npy\")";
	if (found == YYSYMBOL_NUMBER && CAN(INPUT))
		return "a stage begins with its operation, as in mul 2";
	return NULL;
}

static int yyreport_syntax_error(const yypcontext_t *context, struct parse *parse, void *scanner)
{
	(void)scanner;
	yysymbol_kind_t kinds[YYNTOKENS], found = yypcontext_token(context);
	struct wanted wanted = {.count = 0};
	int count = yypcontext_expected_tokens(context, kinds, YYNTOKENS);
	for (int i = 0; i < count; i++)
		wanted.is[kinds[i]] = true;
	struct parse_mismatch mismatch = {.found = FOUND_TOKEN, .wanted = wanted.words, .hint = advise(&wanted, found)};
	if (found == YYSYMBOL_YYEOF || found == YYSYMBOL_NEWLINE)
		mismatch.found = found == YYSYMBOL_YYEOF ? FOUND_END : FOUND_NEWLINE;
	want_things(&wanted);
	mismatch.count = wanted.count;
	parse_syntax_error(parse, *yypcontext_location(context), &mismatch);
	return 0;
}

/* Only the overflow of the stack is reported here. */
static void yyerror(struct span *span, struct parse *parse, void *scanner, const char *message)
{
	(void)scanner;
	(void)message;
	parse_too_deep(parse, *span);
}
