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
 * MAX_NESTING (parse_open), at 6 symbols a level at most. Operators that open to the right nest to as many levels more
 * (parse_check_depth), at 8. Deeper operators overflow the stack before they are reduced, and yyerror reports it. LAC
 * tries reductions on a stack that cannot grow either: it has 20 states, and a reduction pushes one.
 */
#define YYINITDEPTH 4000
#define YYMAXDEPTH 4000
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
	struct parse_value value;
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
	struct shape *shape;
	const struct init *init;
	struct parse_list *list;
	struct parse_items items;
}

%token <text> NAME "a name" OPTION "an option" STRING "a string"
%token <text> INPUT "'input'" PARAM "'param'" CONST "'const'" DEF "'def'" NAMING "'name'"
%token <text> REPEAT "'repeat'" FOR "'for'" IN "'in'" CHECKPOINT "'checkpoint'" EXPORT "'export'" AS "'as'" WHILE "'while'"
%token <text> PROGRAM "'program'" COLLECT "'collect'" FIXED_POINT "'fixed_point'"
%token <number> NUMBER "a number"
%token NEWLINE "the end of the line"

%type <block> block statements repeated
%type <statement> statement stage
%type <operand> operand
%type <operands> operands
%type <option> option option_value
%type <options> options
%type <name> listed_name counter
%type <names> names parameters
%type <exports> exports exported
%type <declared> type optional_type result
%type <shape> extents optional_extents
%type <init> init optional_init
%type <list> list elements
%type <items> items bracketed
%type <number> signed
%type <value> expression
%type <text> name word type_name

%precedence BARE_WORD
%precedence '['
%left '+' '-'
%left '*' '/'
%precedence NEGATE
%right '^'

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
	| EXPORT exports {
		BUILD($$ = STATEMENT(EXPORT, .span = @$, .name_span = @1, .names = $2.names.first, .over = $2.as.first));
	}
	| stage
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
	;

stage
	: NAME operands options {
		BUILD($$ = STATEMENT(STAGE, .span = @$, .name = $1, .name_span = @1, .operands = $2.first, .options = $3.first));
	}
	| NAMING name { BUILD($$ = STATEMENT(NAME, .span = @$, .name = $2, .name_span = @2)); }
	| REPEAT NUMBER counter repeated {
		BUILD(parse_check_integer(parse, &$2, @2));
		BUILD($$ = STATEMENT(REPEAT, .span = @$, .name_span = @1, .count = $2.number.as_integer, .counter = $3, .block = $4));
	}
	| REPEAT WHILE block OPTION '=' NUMBER block {
		BUILD(parse_check_limit(parse, $4, @4, &$6, @6));
		BUILD($$ = STATEMENT(REPEAT, .span = @$, .name_span = @1, .count = $6.number.as_integer, .condition = $3, .block = $7));
	}
	| FOR names IN names counter block {
		BUILD($$ = STATEMENT(FOR, .span = @$, .name_span = @1, .names = $2.first, .over = $4.first, .counter = $5, .block = $6));
	}
	| COLLECT name options {
		BUILD($$ = STATEMENT(COLLECT, .span = @$, .name = $2, .name_span = @2, .options = $3.first));
	}
	| FIXED_POINT options block { BUILD(parse_refuse_fixed_point(parse, @1)); $$ = NULL; }
	| CHECKPOINT options block {
		BUILD($$ = STATEMENT(CHECKPOINT, .span = @$, .name_span = @1, .options = $2.first, .block = $3));
	}
	;

/* The name of a loop's counter. */
counter
	: %empty { $$ = NULL; }
	| AS listed_name { $$ = $2; }
	;

repeated
	: block
	| stage { BUILD($$ = PARSE_NEW(parse, struct block, .span = @1, .first = $1, .last = $1)); }
	;

/* Where the grammar has only a name, keywords are names too. */
name : NAME | OPTION | IN | INPUT | PARAM | CONST | DEF | NAMING | REPEAT | FOR | CHECKPOINT | EXPORT | AS | PROGRAM
	| COLLECT | FIXED_POINT ;

listed_name : name { BUILD($$ = PARSE_KEEP(parse, struct name_list, .name = $1, .span = @1)); } ;

names
	: listed_name { $$ = (struct name_chain){$1, $1}; }
	| names ',' listed_name { $$ = $1; PARSE_APPEND(&$$, $3); }
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

operand
	: signed { BUILD($$ = OPERAND(NUMBER, .span = @$, .text = $1.text, .number = $1.number, .index = NO_INDEX)); }
	| word %prec BARE_WORD { BUILD($$ = OPERAND(NAME, .span = @$, .text = $1, .index = NO_INDEX)); }
	| word '[' word ']' { BUILD($$ = OPERAND(NAME, .span = @$, .text = $1, .index = NO_INDEX, .by = $3, .by_span = @3)); }
	| word '[' signed ']' {
		BUILD(parse_check_integer(parse, &$3, @3));
		/* NO_INDEX is beyond any array, and so is the next number. */
		const int64_t index = $3.number.as_integer == NO_INDEX ? NO_INDEX + 1 : $3.number.as_integer;
		BUILD($$ = OPERAND(NAME, .span = @$, .text = $1, .index = index));
	}
	| '(' expression ')' { BUILD($$ = parse_expression_operand(parse, $2.number.value, @$)); }
	| bracketed {
		const struct list *list = PARSE_NEW(parse, struct list, .items = $1.items, .count = $1.count);
		BUILD(list && ($$ = OPERAND(LIST, .span = @$, .list = list, .index = NO_INDEX)));
	}
	| block { BUILD($$ = OPERAND(BLOCK, .span = @$, .block = $1, .index = NO_INDEX)); }
	;

signed
	: NUMBER
	| '-' NUMBER { $$ = $2; BUILD(parse_negate(parse, &$$)); }
	| '+' NUMBER { $$ = $2; }
	;

/* Computed as it is read. ^ binds tighter than a minus before it, and associates to the right. */
expression
	: NUMBER { $$ = (struct parse_value){$1.number, 0}; }
	| NAME {
		double value;
		BUILD(parse_constant(parse, &value, $1, @1));
		$$ = parse_computed(value, 0);
	}
	| '(' expression ')' { $$ = (struct parse_value){$2.number, 0}; }
	| expression '+' expression { $$ = parse_computed($1.number.value + $3.number.value, $1.depth); }
	| expression '-' expression { $$ = parse_computed($1.number.value - $3.number.value, $1.depth); }
	| expression '*' expression { $$ = parse_computed($1.number.value * $3.number.value, $1.depth); }
	| expression '/' expression { $$ = parse_computed($1.number.value / $3.number.value, $1.depth); }
	| expression '^' expression {
		$$ = parse_computed(pow($1.number.value, $3.number.value), $3.depth + 1);
		BUILD(parse_check_depth(parse, $$.depth, @2));
	}
	| '-' expression %prec NEGATE {
		$$ = (struct parse_value){{-$2.number.value, $2.number.integer, -$2.number.as_integer}, $2.depth + 1};
		BUILD(parse_check_depth(parse, $$.depth, @1));
	}
	| '+' expression %prec NEGATE { $$ = $2; }
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
	| word { BUILD($$ = parse_is_truth($1) ? VALUE(BOOL, .text = $1) : VALUE(NAME, .text = $1)); }
	| hyphenated { BUILD($$ = parse_hyphenated(parse, @$)); }
	| STRING { BUILD($$ = VALUE(STRING, .text = $1)); }
	| bracketed { BUILD($$ = VALUE(LIST, .list = {$1.items, $1.count})); }
	;

/* A policy such as dots-no-batch. */
hyphenated : word '-' NAME | hyphenated '-' NAME ;

bracketed
	: '[' ']' { $$ = (struct parse_items){NULL, 0, 0}; }
	| '[' items ']' { $$ = $2; }
	;

items
	: expression { $$ = (struct parse_items){NULL, 0, 0}; BUILD(parse_add_item(parse, &$$, &$1.number, @1)); }
	| items ',' expression { $$ = $1; BUILD(parse_add_item(parse, &$$, &$3.number, @3)); }
	;

optional_type
	: %empty { $$ = &no_type; }
	| ':' type { $$ = $2; }
	;

/* The scanner makes `f32` before `=` an OPTION. It is a type_name too, so that the message says that `[` is missing. */
type
	: type_name '[' optional_extents ']' { BUILD($$ = parse_type(parse, $1, @1, $3, @$)); }
	;

type_name : word | OPTION ;

result
	: type
	| word { BUILD(parse_check_same(parse, $1, @1)); $$ = &no_type; }
	;

optional_extents
	: %empty { BUILD($$ = PARSE_NEW(parse, struct shape, .ndim = 0)); }
	| extents
	;

extents
	: NUMBER { BUILD($$ = parse_extent(parse, NULL, &$1, @1)); }
	| '*' { BUILD($$ = parse_extent(parse, NULL, NULL, @1)); }
	| extents ',' NUMBER { BUILD($$ = parse_extent(parse, $1, &$3, @3)); }
	| extents ',' '*' { BUILD($$ = parse_extent(parse, $1, NULL, @3)); }
	;

optional_init
	: %empty { $$ = &no_init; }
	| '=' init { $$ = $2; }
	;

init
	: signed { BUILD($$ = parse_init_list(parse, INIT_NUMBER, PARSE_ADD_NUMBER(parse, NULL, $1.number.value, @$), @$)); }
	| '(' expression ')' { BUILD($$ = parse_init_list(parse, INIT_NUMBER, PARSE_ADD_NUMBER(parse, NULL, $2.number.value, @$), @$)); }
	| list { BUILD($$ = parse_init_list(parse, INIT_LIST, $1, @$)); }
	| word { BUILD($$ = parse_init_form(parse, $1, @1, &(struct init){.span = @$})); }
	| word '(' STRING ')' { BUILD($$ = parse_init_form(parse, $1, @1, &(struct init){.span = @$, .path = $3})); }
	| word '(' STRING ',' STRING ')' {
		BUILD($$ = parse_init_form(parse, $1, @1, &(struct init){.span = @$, .path = $3, .key = $5}));
	}
	| word '(' elements ')' {
		const struct shape *shape = $3->shape.ndim ? &$3->shape : NULL;
		const struct init call = {.span = @$, .values = $3->values, .count = $3->count, .shape = shape};
		BUILD($$ = parse_init_form(parse, $1, @1, &call));
	}
	;

list
	: '[' ']' { BUILD($$ = parse_list_close(parse, NULL, @$)); }
	| '[' elements ']' { BUILD($$ = parse_list_close(parse, $2, @$)); }
	;

elements
	: expression { BUILD($$ = PARSE_ADD_NUMBER(parse, NULL, $1.number.value, @1)); }
	| list { $$ = $1; $$->elements = 1; }
	| elements ',' expression { BUILD($$ = PARSE_ADD_NUMBER(parse, $1, $3.number.value, @3)); }
	| elements ',' list { BUILD($$ = parse_list_add(parse, $1, $3, @3)); }
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
#define STAGE_KINDS YYSYMBOL_NAME, YYSYMBOL_NAMING, YYSYMBOL_REPEAT, YYSYMBOL_FOR, YYSYMBOL_CHECKPOINT, \
	YYSYMBOL_COLLECT, YYSYMBOL_FIXED_POINT
#define DECLARATION_KINDS YYSYMBOL_INPUT, YYSYMBOL_PARAM, YYSYMBOL_CONST, YYSYMBOL_DEF, YYSYMBOL_EXPORT, YYSYMBOL_PROGRAM
#define NUMBER_KINDS YYSYMBOL_NUMBER, KIND_MINUS, KIND_PLUS
#define END_KINDS KIND_SEMICOLON, YYSYMBOL_NEWLINE, YYSYMBOL_YYEOF
/* bison's own names for these contain numbers that change with the grammar */
#define KIND_MINUS YYTRANSLATE('-')
#define KIND_PLUS YYTRANSLATE('+')
#define KIND_SEMICOLON YYTRANSLATE(';')

static void want_things(struct wanted *w)
{
	const bool *is = w->is;
	bool names = is[YYSYMBOL_REPEAT] && is[YYSYMBOL_OPTION];
	if (names)
		WANT(w, "a name", STAGE_KINDS, DECLARATION_KINDS, YYSYMBOL_OPTION, YYSYMBOL_IN, YYSYMBOL_AS);
	else if (is[YYSYMBOL_INPUT])
		WANT(w, "an operation or another statement", STAGE_KINDS, DECLARATION_KINDS, END_KINDS);
	else if (is[YYSYMBOL_REPEAT])
		WANT(w, "an operation", STAGE_KINDS);
	if (is[YYSYMBOL_NUMBER] && is[YYTRANSLATE('{')] && is[YYSYMBOL_NAME])
		WANT(w, "an operand", NUMBER_KINDS, YYSYMBOL_NAME, YYSYMBOL_IN, YYTRANSLATE('('), YYTRANSLATE('{'),
		     YYTRANSLATE('['));
	else if (is[YYSYMBOL_NUMBER] && is[YYSYMBOL_STRING] && !is[YYTRANSLATE('(')])
		WANT(w, "a value", NUMBER_KINDS, YYSYMBOL_NAME, YYSYMBOL_IN, YYSYMBOL_STRING, YYTRANSLATE('['));
	else if (is[YYSYMBOL_NUMBER] && is[YYTRANSLATE('[')] && is[YYSYMBOL_IN])
		WANT(w, "an initial value", NUMBER_KINDS, YYSYMBOL_NAME, YYSYMBOL_IN, YYTRANSLATE('['), YYTRANSLATE('('));
	else if (is[YYSYMBOL_NUMBER])
		WANT(w, "a number", NUMBER_KINDS, YYSYMBOL_NAME, YYSYMBOL_IN, YYTRANSLATE('('));
	if (is[YYSYMBOL_NAME] && is[YYSYMBOL_IN] && is[YYSYMBOL_OPTION])
		WANT(w, "a type such as f32[*,256]", YYSYMBOL_NAME, YYSYMBOL_IN, YYSYMBOL_OPTION);
	if (is[YYTRANSLATE('^')])
		WANT(w, "an operator", KIND_MINUS, KIND_PLUS, YYTRANSLATE('*'), YYTRANSLATE('/'), YYTRANSLATE('^'));
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

/* Returns a hint, or NULL, where an option could follow but a token of kind FOUND does. */
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
		return "an expression of numbers is in parentheses, as in mul (1/3); x*2 is written mul 2";
	if (found == YYTRANSLATE(':'))
		return "a part is written by options, as in slice start=0 stop=2";
	if (found == YYTRANSLATE(',') && ends)
		return "separate operands by spaces, and stages by ; or a new line, as in add 1; clip 0 1";
	if (found == YYTRANSLATE('='))
		return "declare a value with param or const, as in const c = [1, 2]";
	return NULL;
}

/* Returns a hint on what to write instead of the token of kind FOUND, or NULL. BEFORE: the end of the text before it. */
static const char *advise(const struct wanted *w, yysymbol_kind_t found, const char *before)
{
	if (CAN(OPTION) && !CAN(NAME) && !CAN_CHAR('{') && !CAN_CHAR(';'))
		return "`repeat while` has a limit, as in repeat while { norm; sub 1e-6 } max=100 { mul 0.5 }";
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
	if (found == YYSYMBOL_STRING && CAN_CHAR('[') && CAN(NUMBER) && !CAN(OPTION))
		return "load reads a file, as in load(\"w.npy\")";
	const bool call = found == YYTRANSLATE(')') || found == YYSYMBOL_OPTION;
	if (call && CAN(NUMBER) && CAN_CHAR('(') && !CAN(STRING) && before[-1] == '(')
		return "an operation is written without parentheses, as in tanh, add W and sum axis=0";
	if (found == YYSYMBOL_NAME && CAN(NUMBER) && strchr("+-", before[-1]) && !strchr("=[", before[-2]))
		return "an operation comes before its operand: x + W is written add W";
	if (found == YYTRANSLATE('[') && before[-1] == '[' && before[-2] != '=' && CAN(NUMBER) && CAN_CHAR(']'))
		return "give a list of lists a name first, as in const c = [[1, 2], [3, 4]]; matmul c";
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
	const struct span *span = yypcontext_location(context);
	const char *before = parse->source->text + span->begin;
	while (before > parse->source->text && strchr(" \t\r\n", before[-1]))
		before--;
	if (before - parse->source->text < 2) /* advise looks at two bytes */
		before = "  " + 2;
	const char *hint = advise(&wanted, found, before);
	want_things(&wanted);
	parse_syntax_error(parse, *span, wanted.words, wanted.count, hint);
	return 0;
}

/* Called only if the stack overflows: yyreport_syntax_error reports syntax errors. */
static void yyerror(struct span *span, struct parse *parse, void *scanner, const char *message)
{
	(void)scanner;
	(void)message;
	parse_too_deep(parse, *span);
}
