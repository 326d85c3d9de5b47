/*
 * The grammar of chains (SPEC, section 1). Actions build nodes and nothing else;
 * all nodes live in the parse's arena, so nothing needs a destructor.
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
#include "chain/parse.h"
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
/* Nesting is at most 256 and lists are left-recursive, so the stack never grows. */
#define YYINITDEPTH 4000
#define YYMAXDEPTH 4000
#define TRY(node) do { if (!(node)) YYNOMEM; } while (0)
}

%union {
	const char *name;
	struct parse_number number;
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
	double value;
}

%token <name> NAME "a name" OPTION "an option" STRING "a string" INPUT "input" PARAM "param" CONST "const" DEF "def" NAMING "name"
%token <name> REPEAT "repeat" FOR "for" IN "in" CHECKPOINT "checkpoint"
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
%type <list> list elements element
%type <integers> integers
%type <number> signed
%type <value> expression
%type <name> name

%left '+' '-'
%left '*' '/'
%precedence NEGATE
%right '^'

%%

chain
	: statements { parse->syntax->chain = $statements; parse_finish_block(parse, $statements, NULL, NULL); }
	;

statements
	: %empty { TRY($$ = parse_block(parse)); }
	| statement { TRY($$ = parse_block(parse)); parse_append(parse, $$, $statement); }
	| statements separator { $$ = $1; }
	| statements separator statement { $$ = $1; parse_append(parse, $$, $statement); }
	;

separator : ';' | NEWLINE ;

block
	: '{' statements '}' { $$ = $statements; parse_finish_block(parse, $$, &@1, &@3); }
	;

statement
	: INPUT name optional_type { TRY($$ = parse_declare(parse, STATEMENT_INPUT, @$, $name, @name, $optional_type, NULL)); }
	| PARAM name optional_type optional_init { TRY($$ = parse_declare(parse, STATEMENT_PARAM, @$, $name, @name, $optional_type, $optional_init)); }
	| CONST name optional_type optional_init { TRY($$ = parse_declare(parse, STATEMENT_CONST, @$, $name, @name, $optional_type, $optional_init)); }
	| DEF name '(' ')' block { TRY($$ = parse_statement(parse, STATEMENT_DEF, @$, $name, @name)); $$->block = $block; }
	| DEF name '(' names ')' block { TRY($$ = parse_statement(parse, STATEMENT_DEF, @$, $name, @name)); $$->names = $names.first; $$->block = $block; }
	| stage
	;

stage
	: NAME operands options { TRY($$ = parse_statement(parse, STATEMENT_STAGE, @$, $NAME, @NAME)); $$->operands = $operands.first; $$->options = $options.first; }
	| NAMING name { TRY($$ = parse_statement(parse, STATEMENT_NAME, @$, $name, @name)); }
	| REPEAT NUMBER { if (!parse_count(parse, &$NUMBER, &@NUMBER)) YYABORT; } block { TRY($$ = parse_statement(parse, STATEMENT_REPEAT, @$, "repeat", @1)); $$->count = $NUMBER.whole; $$->block = $block; }
	| REPEAT NUMBER stage { if (!parse_count(parse, &$NUMBER, &@NUMBER)) YYABORT; TRY($$ = parse_repeat_stage(parse, @$, @1, $NUMBER.whole, $3)); }
	| FOR names IN names block { TRY($$ = parse_statement(parse, STATEMENT_FOR, @$, "for", @1)); $$->names = $2.first; $$->over = $4.first; $$->block = $block; }
	| CHECKPOINT options block { TRY($$ = parse_statement(parse, STATEMENT_CHECKPOINT, @$, "checkpoint", @1)); $$->options = $options.first; $$->block = $block; }
	;

name : NAME | OPTION | INPUT | PARAM | CONST | DEF | NAMING | REPEAT | FOR | CHECKPOINT ;

names
	: name { TRY(parse_add_name(parse, &$$, NULL, $name, @name)); }
	| names ',' name { TRY(parse_add_name(parse, &$$, &$1, $name, @name)); }
	;

operands
	: %empty { $$ = (struct operand_list){NULL, NULL}; }
	| operands operand { $$ = $1; parse_add_operand(&$$, $operand); }
	;

operand
	: signed { TRY($$ = parse_number_operand(parse, &$signed, @$)); }
	| NAME { $$ = parse_name_operand(parse, $NAME, -1, @$); TRY($$); }
	| NAME '[' NUMBER ']' { if (!parse_count(parse, &$NUMBER, &@NUMBER)) YYABORT; TRY($$ = parse_name_operand(parse, $NAME, $NUMBER.whole, @$)); }
	| '(' expression ')' { TRY($$ = parse_expression_operand(parse, $expression, @$)); }
	| block { TRY($$ = parse_block_operand(parse, $block, @$)); }
	;

signed
	: NUMBER
	| '-' NUMBER { TRY(parse_negate(parse, &$$, &$NUMBER)); }
	| '+' NUMBER { $$ = $NUMBER; }
	;

expression
	: NUMBER { $$ = $NUMBER.value; }
	| NAME { if (!parse_constant(parse, &$$, $NAME, &@NAME)) YYABORT; }
	| '(' expression ')' { $$ = $2; }
	| expression '+' expression { $$ = $1 + $3; }
	| expression '-' expression { $$ = $1 - $3; }
	| expression '*' expression { $$ = $1 * $3; }
	| expression '/' expression { $$ = $1 / $3; }
	| expression '^' expression { $$ = parse_power($1, $3); }
	| '-' expression %prec NEGATE { $$ = -$2; }
	;

options
	: %empty { $$ = (struct option_list){NULL, NULL}; }
	| options option { $$ = $1; parse_add_option(&$$, $option); }
	;

option
	: OPTION '=' signed { TRY($$ = parse_option(parse, $1, @1, VALUE_NUMBER, $signed.text, @signed)); $$->number = $signed.value; $$->integer = $signed.integer; }
	| OPTION '=' NAME { TRY($$ = parse_word_option(parse, $1, @1, $3, @3)); }
	| OPTION '=' STRING { TRY($$ = parse_option(parse, $1, @1, VALUE_STRING, $3, @3)); }
	| OPTION '=' '[' ']' { TRY($$ = parse_option(parse, $1, @1, VALUE_INTEGERS, NULL, @3)); }
	| OPTION '=' '[' integers ']' { TRY($$ = parse_option(parse, $1, @1, VALUE_INTEGERS, NULL, @3)); $$->integers = $integers.items; $$->count = $integers.count; }
	;

integers
	: signed { if (!parse_add_integer(parse, &$$, NULL, &$signed, &@signed)) YYABORT; }
	| integers ',' signed { if (!parse_add_integer(parse, &$$, &$1, &$signed, &@signed)) YYABORT; }
	;

optional_type
	: %empty { $$ = NULL; }
	| ':' type { $$ = $type; }
	;

type
	: NAME '[' ']' { if (!parse_type(parse, &$$, $NAME, &@NAME, NULL, @$)) YYABORT; }
	| NAME '[' extents ']' { if (!parse_type(parse, &$$, $NAME, &@NAME, $extents, @$)) YYABORT; }
	;

extents
	: NUMBER { $$ = NULL; if (!parse_extent(parse, &$$, &$NUMBER, &@NUMBER)) YYABORT; }
	| '*' { $$ = NULL; if (!parse_extent(parse, &$$, NULL, &@1)) YYABORT; }
	| extents ',' NUMBER { $$ = $1; if (!parse_extent(parse, &$$, &$NUMBER, &@NUMBER)) YYABORT; }
	;

optional_init
	: %empty { $$ = NULL; }
	| '=' init { $$ = $init; $$->span = @init; }
	;

init
	: signed { TRY(parse_init_number(parse, &$$, $signed.value)); }
	| list { TRY(parse_init_list(parse, &$$, $list)); }
	| NAME { if (!parse_init_word(parse, &$$, $NAME, &@NAME)) YYABORT; }
	| NAME '(' STRING ')' { if (!parse_init_load(parse, &$$, $NAME, &@NAME, $STRING, NULL)) YYABORT; }
	| NAME '(' STRING ',' STRING ')' { if (!parse_init_load(parse, &$$, $NAME, &@NAME, $3, $5)) YYABORT; }
	| NAME '(' elements ')' { if (!parse_init_call(parse, &$$, $NAME, &@NAME, $elements)) YYABORT; }
	| '(' expression ')' { TRY(parse_init_number(parse, &$$, $expression)); }
	;

list
	: '[' ']' { TRY($$ = parse_list(parse)); $$->shape.ndim = 1; }
	| '[' elements ']' { if (!parse_list_close(parse, $elements, &@$)) YYABORT; $$ = $elements; }
	;

elements
	: element { $$ = $element; }
	| elements ',' element { if (!parse_list_join(parse, $1, $element, &@element)) YYABORT; $$ = $1; }
	;

element
	: signed { TRY($$ = parse_list_number(parse, $signed.value)); }
	| list { $$ = $list; $$->nested = true; }
	;

%%

/* What the lookahead is, in words: its text is escaped when it is shown. */
static int yyreport_syntax_error(const yypcontext_t *context, struct parse *parse, void *scanner)
{
	(void)scanner;
	enum { MOST = 12 };
	yysymbol_kind_t wanted[MOST];
	const char *names[MOST];
	int count = yypcontext_expected_tokens(context, wanted, MOST);
	for (int i = 0; i < count; i++)
		names[i] = yysymbol_name(wanted[i]);
	yysymbol_kind_t found = yypcontext_token(context);
	parse_syntax_error(parse, yypcontext_location(context), found == YYSYMBOL_YYEOF, found == YYSYMBOL_NEWLINE,
	                   found == YYSYMBOL_YYEMPTY ? NULL : yysymbol_name(found), names, count);
	return 0;
}

static void yyerror(struct span *span, struct parse *parse, void *scanner, const char *message)
{
	(void)span;
	(void)scanner;
	(void)message; /* only "memory exhausted" comes this way */
	parse->exhausted = true;
}
