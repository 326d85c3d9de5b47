/*
 * Resolution: the syntax tree becomes a chain, in which each name is bound to its meaning.
 *
 * Names bound in a def's body, or a `repeat 0`, are local to it. Names bound in any other block stay bound after it. A
 * loop's body, or a block that a def is called with, is resolved once, though it may run many times or never. So before
 * it, a prelude gives each known name that it rebinds a variable. A prelude is a NODE_NAME whose name is NULL.
 *
 * Invariant: refs, and all arguments but deferred ones, are valid. Lowering checks types, indices and unset names.
 * Tests: tests/cases/language.test, tests/cases/errors.test
 */
#include "language/resolver.h"

#include <string.h>

struct node *resolver_new_node(struct resolver *r, enum node_kind kind, const struct statement *s)
{
	struct node *node = arena_alloc(r->context->arena, sizeof *node);
	if (!node)
		return NULL;
	node->kind = kind;
	node->span = s->name_span;
	return node;
}

void resolver_append(struct resolver *r, struct node *node)
{
	*r->tail = node;
	r->tail = &node->next;
}

size_t resolver_count_operands(const struct operand *operand)
{
	size_t count = 0;
	for (; operand; operand = operand->next)
		count++;
	return count;
}

enum status resolver_operand(struct resolver *r, const struct operand *operand, struct ref *ref)
{
	*ref = (struct ref){.element = NO_INDEX, .span = operand->span};
	switch (operand->kind) {
	case OPERAND_NUMBER:
		ref->kind = REF_NUMBER;
		ref->number = operand->number.value;
		break;
	case OPERAND_NAME:
		TRY(resolver_name(r, operand->text, operand->span, ref));
		if (ref->kind >= REF_PARAM && ref->kind <= REF_ARGUMENT)
			ref->element = operand->index;
		else if (operand->index != NO_INDEX)
			return RESOLVE_FAIL(r, operand->span, "'%s' is a number and has no elements", operand->text);
		return STATUS_OK;
	case OPERAND_BLOCK:
		ref->kind = REF_BLOCK;
		ref->block = NULL;
		r->operands++;
		TRY(resolver_block(r, operand->block, &ref->block));
		r->operands--;
		break;
	case OPERAND_LIST:
		return resolver_list(r, operand->list, ref);
	case OPERAND_CURRENT:
		ref->kind = REF_CURRENT;
		break;
	case OPERAND_REF:
		*ref = *operand->ref;
		break;
	case OPERAND_FORMULA: {
		struct formula_value value;
		TRY(resolver_formula(r, operand->formula, &value));
		*ref = value.ref;
		if (value.known)
			ref->span = operand->span;
		break;
	}
	case OPERAND_STRING:
		return RESOLVE_FAIL(r, operand->span, "a string is no operand here");
	}
	return STATUS_OK;
}

enum status resolver_named_operand(struct resolver *r, const struct option *o, const char *name, struct ref *ref)
{
	if (o->kind == VALUE_STRING || o->kind == VALUE_BOOL)
		return RESOLVE_FAIL(r, o->value_span, "%s of '%s' must be a number or a name", o->name, name);
	struct operand operand = {.kind = o->kind == VALUE_NUMBER    ? OPERAND_NUMBER
	                                  : o->kind == VALUE_LIST    ? OPERAND_LIST
	                                  : o->kind == VALUE_FORMULA ? OPERAND_FORMULA
	                                                             : OPERAND_NAME,
	                          .span = o->value_span,
	                          .text = o->text,
	                          .number = o->number,
	                          .index = NO_INDEX};
	if (o->kind == VALUE_LIST)
		operand.list = o->list;
	else if (o->kind == VALUE_FORMULA)
		operand.formula = o->formula;
	return resolver_operand(r, &operand, ref);
}

enum status resolver_stage(struct resolver *r, const struct statement *s)
{
	struct def *def = resolver_find_def(r, s->name);
	if (def)
		return resolver_call(r, s, def);
	const struct program_decl *program = resolver_find_program(r, s->name);
	if (program)
		return resolver_program_stage(r, s, program);
	enum op op = op_find(s->name);
	return op != OP_COUNT ? resolver_operation(r, s, op) : resolver_unknown_operation(r, s);
}

/* Loops. */

/*
 * Resolves BLOCK, of a `repeat 0` or a condition, to *FIRST. Its params and defs stay declared; the names that it binds
 * do not stay bound.
 */
static enum status resolve_apart(struct resolver *r, const struct block *block, struct node **first)
{
	struct arena *arena = r->context->arena;
	struct name_scope scope = {.outer = r->scope, .def = resolver_home(r)->def, .home = true};
	r->scope = &scope;
	TRY(resolver_block(r, block, first));
	r->scope = scope.outer;
	for (const struct binding *b = scope.bindings; b; b = b->next)
		if (b->ref.kind == REF_PARAM)
			TRY(resolver_bind_home(r, b->name, b->ref));
	for (size_t i = 0; i < scope.defs.capacity; i++) {
		const struct dictionary_entry *def = &scope.defs.entries[i];
		TRY_ALLOC(!def->name || dictionary_put(&scope.outer->defs, arena, def->name, def->value), r->context->diags);
	}
	return STATUS_OK;
}

/* Resolves the condition of S, a `repeat while`, to NODE. Its iterations read the names that S's block binds. */
static enum status resolve_condition(struct resolver *r, const struct statement *s, struct node *node)
{
	node->conditional = r->chain->has_conditions = true;
	r->operands++; /* it exports no name */
	TRY(resolve_apart(r, s->condition, &node->condition));
	r->operands--;
	return STATUS_OK;
}

/* Binds the counter of S, a loop, in SCOPE. *IDENTITY becomes 1 + its identity. */
static enum status bind_counter(struct resolver *r, const struct statement *s, struct name_scope *scope,
                                uint32_t *identity)
{
	const struct ref ref = {.kind = REF_COUNTER, .index = (uint32_t)r->chain->loop_count++, .element = NO_INDEX};
	*identity = ref.index + 1;
	if (scope_find(scope, s->counter->name))
		return RESOLVE_FAIL(r, s->counter->span, "variable '%s' is named twice", s->counter->name);
	return resolver_bind(r, scope, s->counter->name, ref);
}

static enum status resolve_repeat(struct resolver *r, const struct statement *s)
{
	struct node *none = NULL;
	struct name_scope scope = {.outer = r->scope};
	uint32_t counter = 0;
	int64_t count;
	const struct ref *times;
	TRY(resolver_count(r, s, s->condition != NULL, &count, &times));
	if (s->counter)
		TRY(bind_counter(r, s, &scope, &counter));
	if (count == 0 && !resolver_collects(s->block)) {
		const struct loop_around around = {s, r->operands, r->around};
		r->scope = s->counter ? &scope : scope.outer;
		r->around = &around;
		TRY(resolve_apart(r, s->block, &none));
		r->around = around.outer;
		r->scope = scope.outer;
		return STATUS_OK;
	}
	if (count != 1 || s->condition)
		TRY(resolver_prepare_names(r, s->block));
	struct node *node = resolver_new_node(r, NODE_REPEAT, s);
	TRY_ALLOC(node, r->context->diags);
	node->count = count;
	node->times = times;
	node->counter = counter;
	r->scope = s->counter ? &scope : scope.outer;
	struct loop_around around;
	r->loops++;
	TRY(resolver_begin_loop(r, s, node, &around));
	TRY(s->condition ? resolve_condition(r, s, node) : STATUS_OK);
	TRY(resolver_block(r, s->block, &node->body));
	resolver_end_loop(r, &around);
	r->loops--;
	r->scope = scope.outer;
	if (!node->body && s->condition) {
		RESOLVE_FAIL(r, s->name_span,
		             "the second block of `repeat while` has no stage, so its condition never changes");
		return RESOLVE_HINT(r, "the first block is the condition, the second one the loop");
	}
	if (node->body) /* a block without nodes needs none around it */
		resolver_append(r, node);
	return STATUS_OK;
}

/*
 * Resolves the arrays that NODE, the `for` S, runs over, and numbers its variables; resolve_for binds their names. If S
 * rebinds an array's name, NODE runs over a variable that a prelude binds before it. So NODE is not appended yet.
 */
static enum status resolve_over(struct resolver *r, const struct statement *s, struct node *node)
{
	const size_t names = name_list_count(s->names), over = name_list_count(s->over);
	if (names != over)
		return RESOLVE_FAIL(r, node->span, "for has %zu variable%s for %zu array%s", names, names == 1 ? "" : "s", over,
		                    over == 1 ? "" : "s");
	node->loop_count = names;
	node->loops = arena_array(r->context->arena, names, sizeof *node->loops);
	node->over = arena_array(r->context->arena, names, sizeof *node->over);
	TRY_ALLOC(node->loops && node->over, r->context->diags);
	const struct name_list *o = s->over;
	for (size_t i = 0; i < names; i++, o = o->next) {
		struct ref *ref = &node->over[i];
		if (o->formula) {
			struct formula_value value;
			TRY(resolver_formula(r, o->formula, &value));
			*ref = value.ref;
			ref->span = o->span;
			TRY(resolver_hold_array(r, s, ref));
		} else {
			TRY(resolver_name(r, o->name, o->span, ref));
		}
		if (ref->kind == REF_VARIABLE && resolver_rebinds(r, s->block, o->name) && !o->formula)
			TRY(resolver_hold_value(r, s, ref));
		node->loops[i] = (uint32_t)r->chain->loop_count++;
	}
	return STATUS_OK;
}

static enum status resolve_for(struct resolver *r, const struct statement *s)
{
	TRY(resolver_prepare_names(r, s->block));
	struct node *node = resolver_new_node(r, NODE_FOR, s);
	TRY_ALLOC(node, r->context->diags);
	TRY(resolve_over(r, s, node));
	struct name_scope scope = {.outer = r->scope};
	r->scope = &scope;
	const uint32_t *loop = node->loops;
	for (const struct name_list *n = s->names; n; n = n->next) {
		if (scope_find(&scope, n->name))
			return RESOLVE_FAIL(r, n->span, "variable '%s' is named twice", n->name);
		TRY(resolver_bind(r, &scope, n->name, (struct ref){.kind = REF_LOOP, .index = *loop++, .element = NO_INDEX}));
	}
	if (s->counter)
		TRY(bind_counter(r, s, &scope, &node->counter));
	resolver_append(r, node);
	struct loop_around around;
	r->loops++;
	TRY(resolver_begin_loop(r, s, node, &around));
	TRY(resolver_block(r, s->block, &node->body));
	resolver_end_loop(r, &around);
	r->loops--;
	r->scope = scope.outer;
	return STATUS_OK;
}

/* Other statements. */

static enum status resolve_checkpoint(struct resolver *r, const struct statement *s)
{
	struct node *node = resolver_new_node(r, NODE_CHECKPOINT, s);
	r->chain->has_checkpoints = true;
	TRY_ALLOC(node, r->context->diags);
	for (const struct option *o = s->options; o; o = o->next) {
		if (strcmp(o->name, "policy")) {
			RESOLVE_FAIL(r, o->span, "unknown option '%s' for checkpoint", o->name);
			return RESOLVE_HINT(r, "checkpoint takes policy=");
		}
		if (o->kind != VALUE_NAME && o->kind != VALUE_STRING)
			return RESOLVE_FAIL(r, o->span, "policy must be a name or a string");
		if (node->policy)
			return RESOLVE_FAIL(r, o->span, "option 'policy' is given twice");
		struct block_policy *policy = arena_alloc(r->context->arena, sizeof *policy);
		TRY_ALLOC(policy, r->context->diags);
		*policy = (struct block_policy){.text = o->text, .span = o->value_span};
		*r->last_policy = policy;
		r->last_policy = &policy->next;
		node->policy = policy;
	}
	resolver_append(r, node);
	return resolver_block(r, s->block, &node->body);
}

/* Resolves the value of O, an option of fixed_point: a number, perhaps one of a call of the def around. */
static enum status resolve_limit(struct resolver *r, const struct option *o, const struct ref **limit)
{
	const struct formula name = {.kind = FORMULA_NAME, .text = o->text, .span = o->value_span};
	struct formula_value value = {.known = true, .number = o->number};
	struct ref *ref = arena_alloc(r->context->arena, sizeof *ref);
	TRY_ALLOC(ref, r->context->diags);
	if (*limit)
		return RESOLVE_FAIL(r, o->span, "option '%s' is given twice", o->name);
	if (o->kind == VALUE_NAME || o->kind == VALUE_FORMULA)
		TRY(resolver_formula(r, o->kind == VALUE_NAME ? &name : o->formula, &value));
	else if (o->kind != VALUE_NUMBER)
		return RESOLVE_FAIL(r, o->value_span, "%s of fixed_point is a number", o->name);
	if (!value.known && !value.deferred)
		return RESOLVE_FAIL(r, o->value_span, "%s of fixed_point is a number", o->name);
	if (value.known)
		resolver_take_number(r, &value);
	*ref = value.ref;
	if (value.known)
		*ref = (struct ref){.kind = REF_NUMBER, .number = value.number.value};
	ref->span = o->value_span;
	*limit = ref;
	return STATUS_OK;
}

/* Resolves S, a fixed_point. Its block is apart, as a function of the current value: names that it binds end with it. */
static enum status resolve_fixed_point(struct resolver *r, const struct statement *s)
{
	struct node *node = resolver_new_node(r, NODE_FIXED_POINT, s);
	const struct loop_around around = {s, r->operands, r->around};
	TRY_ALLOC(node, r->context->diags);
	for (const struct option *o = s->options; o; o = o->next) {
		if (strcmp(o->name, "max") && strcmp(o->name, "tol")) {
			RESOLVE_FAIL(r, o->span, "unknown option '%s' for fixed_point", o->name);
			return RESOLVE_HINT(r, "fixed_point takes max=, the most iterations, and tol=");
		}
		TRY(resolve_limit(r, o, strcmp(o->name, "max") ? &node->tolerance : &node->most));
	}
	if (!node->most || !node->tolerance) {
		RESOLVE_FAIL(r, s->name_span, "fixed_point has no %s=", node->most ? "tol" : "max");
		return RESOLVE_HINT(r, "as in fixed_point max=100 tol=1e-10 { mul 0.5; add 1 }");
	}
	r->operands++; /* it exports no name */
	r->around = &around;
	TRY(resolve_apart(r, s->block, &node->body));
	r->around = around.outer;
	r->operands--;
	resolver_append(r, node);
	return STATUS_OK;
}

/* Declares S: a param, a const, or an input after the first. */
static enum status declare(struct resolver *r, const struct statement *s)
{
	struct chain *chain = r->chain;
	struct arena *arena = r->context->arena;
	if (dictionary_find(&r->declared, s->name))
		return RESOLVE_FAIL(r, s->name_span, "'%s' is declared twice", s->name);
	if (!strcmp(s->name, "nan") || !strcmp(s->name, "inf"))
		return RESOLVE_FAIL(r, s->name_span, "'%s' is a number and can't be a name", s->name);
	if (!strcmp(s->name, chain->input))
		return RESOLVE_FAIL(r, s->name_span, "'%s' is the input's name", s->name);
	const struct declared *declared = s->type;
	const struct init *init = s->init;
	if (s->kind != STATEMENT_INPUT) { /* resolve_input computes the extents of inputs, which are declared first */
		TRY(resolver_declared(r, s, &declared));
		TRY(resolver_init(r, s, &init));
	}
	const struct ref ref = {.kind = REF_PARAM, .index = (uint32_t)chain->param_count, .element = NO_INDEX};
	struct param *param = arena_append(arena, &chain->params, &chain->param_count, &r->param_capacity, sizeof *param);
	TRY_ALLOC(param && dictionary_put(&r->declared, arena, s->name, chain), r->context->diags);
	*param = (struct param){.name = s->name,
	                        .differentiated = s->kind != STATEMENT_CONST,
	                        .input = s->kind == STATEMENT_INPUT,
	                        .declared = declared,
	                        .init = init,
	                        .span = s->name_span};
	return resolver_bind_home(r, s->name, ref);
}

/* S has been declared; the extents of its type that are formulas are known here. */
static enum status resolve_input(struct resolver *r, const struct statement *s)
{
	struct chain *chain = r->chain;
	const struct declared *declared;
	TRY(resolver_declared(r, s, &declared));
	if (!strcmp(s->name, chain->input))
		chain->input_type = *declared;
	for (size_t i = 0; i < chain->input_count; i++)
		if (!strcmp(s->name, chain->params[i].name))
			chain->params[i].declared = declared;
	return STATUS_OK;
}

/* Notes the values that S, an `output`, names. They are those of this place, whatever their names mean below it. */
static enum status resolve_output(struct resolver *r, const struct statement *s)
{
	struct chain *chain = r->chain;
	const struct name_list *as = s->over;
	for (const struct name_list *n = s->names; n; n = n->next, as = as->next) {
		if (chain_find_output(chain, as->name, strlen(as->name)))
			return RESOLVE_FAIL(r, as->span, "two outputs are named '%s'", as->name);
		struct chain_output output = {.name = as->name, .span = n->span, .type = n->type, .end = r->tail};
		struct formula_value value;
		if (n->formula)
			TRY(resolver_formula(r, n->formula, &value));
		else
			TRY(resolver_name(r, n->name, n->span, &value.ref));
		if (value.ref.kind == REF_NUMBER)
			TRY(resolver_array_of_number(r, value.ref.number, n->span, &value.ref));
		output.value = value.ref;
		struct chain_output *added =
			arena_append(r->context->arena, &chain->outputs, &chain->output_count, &r->output_capacity, sizeof *added);
		TRY_ALLOC(added, r->context->diags);
		*added = output;
	}
	return STATUS_OK;
}

const struct chain_output *chain_find_output(const struct chain *chain, const char *name, size_t length)
{
	for (size_t i = 0; i < chain->output_count; i++)
		if (strlen(chain->outputs[i].name) == length && !memcmp(chain->outputs[i].name, name, length))
			return &chain->outputs[i];
	return NULL;
}

enum status chain_choose_output(const struct context *context, struct chain *chain, const struct chain_output *output)
{
	struct node *use = arena_alloc(context->arena, sizeof *use);
	struct attrs *attrs = arena_alloc(context->arena, sizeof *attrs);
	TRY_ALLOC(use && attrs, context->diags);
	attrs_default(attrs, OP_use);
	*use = (struct node){.kind = NODE_OP, .span = output->span, .op = OP_use, .attrs = attrs, .operand = output->value};
	*output->end = use;
	chain->chosen = output;
	chain->names_input |= output->value.kind == REF_VARIABLE && output->value.index == 0;
	return STATUS_OK;
}

enum status chain_want_outputs(const struct context *context, struct chain *chain,
                               const struct chain_output *const *wanted, size_t count, bool last)
{
	const char **variables = arena_array(context->arena, chain->variable_count + count, sizeof *variables);
	struct node *furthest = NULL;
	TRY_ALLOC(variables, context->diags);
	memcpy(variables, chain->variables, chain->variable_count * sizeof *variables);
	chain->variables = variables;
	for (size_t i = 0; i < chain->output_count; i++) {
		struct chain_output *output = &chain->outputs[i];
		size_t k = 0;
		while (k < count && wanted[k] != output)
			k++;
		if (k == count)
			continue;
		struct node *node = arena_alloc(context->arena, sizeof *node);
		TRY_ALLOC(node, context->diags);
		variables[chain->variable_count] = output->name;
		output->variable = (uint32_t)chain->variable_count++;
		*node = (struct node){.kind = NODE_NAME,
		                      .span = output->span,
		                      .variable = output->variable,
		                      .operand = output->value,
		                      .next = *output->end};
		*output->end = node;
		chain->wanted[k] = output;
		chain->names_input |= output->value.kind == REF_VARIABLE && output->value.index == 0;
		if (!furthest || furthest->next != node->next) /* of several at one place the first stays before the others */
			furthest = node;
	}
	chain->wanted_count = count;
	chain->last_unwanted = !last;
	if (furthest && !last) {
		while (furthest->next && furthest->next->kind == NODE_NAME && !furthest->next->name)
			furthest = furthest->next;
		furthest->next = NULL;
	}
	return STATUS_OK;
}

static enum status resolve_statement(struct resolver *r, const struct statement *s, bool top)
{
	static enum status (*const resolve[STATEMENT_COUNT])(struct resolver *, const struct statement *) = {
		[STATEMENT_PARAM] = declare,
		[STATEMENT_CONST] = declare,
		[STATEMENT_DEF] = resolver_def,
		[STATEMENT_STAGE] = resolver_stage,
		[STATEMENT_NAME] = resolver_naming,
		[STATEMENT_REPEAT] = resolve_repeat,
		[STATEMENT_FOR] = resolve_for,
		[STATEMENT_CHECKPOINT] = resolve_checkpoint,
		[STATEMENT_EXPORT] = resolver_export,
		[STATEMENT_PROGRAM] = resolver_program,
		[STATEMENT_COLLECT] = resolver_collect,
		[STATEMENT_FIXED_POINT] = resolve_fixed_point,
		[STATEMENT_LET] = resolver_let,
		[STATEMENT_OUTPUT] = resolve_output};
	const bool outside = s->kind == STATEMENT_INPUT || s->kind == STATEMENT_PROGRAM || s->kind == STATEMENT_OUTPUT;
	if (s->kind != STATEMENT_INPUT && (top || !outside))
		return resolve[s->kind](r, s);
	if (top)
		return resolve_input(r, s);
	RESOLVE_FAIL(r, s->span, "%s stands inside a block", statement_word(s->kind));
	if (s->kind == STATEMENT_OUTPUT)
		return RESOLVE_HINT(r, "it stands at the top level of the chain, after the block");
	return RESOLVE_HINT(r, "declare it at the top level of the chain, before the block");
}

enum status resolver_block(struct resolver *r, const struct block *block, struct node **first)
{
	struct node **tail = r->tail;
	r->tail = first;
	for (const struct statement *s = block->first; s; s = s->next)
		TRY(resolve_statement(r, s, block == r->top));
	r->tail = tail;
	return STATUS_OK;
}

/* Finds the first input's declaration, if there is one. Inputs stand at the top level, before the first stage. */
static enum status find_input(struct resolver *r)
{
	const struct statement *found = NULL, *stage = NULL;
	for (const struct statement *s = r->top->first; s; s = s->next) {
		if (s->kind > STATEMENT_DEF && s->kind != STATEMENT_PROGRAM && !stage)
			stage = s;
		if (s->kind != STATEMENT_INPUT)
			continue;
		if (stage)
			return RESOLVE_FAIL(r, s->span, "input must stand before the first stage");
		if (found)
			continue;
		found = s;
		r->chain->input = s->name;
		r->chain->input_type = *s->type;
	}
	return STATUS_OK;
}

/* Declares the other inputs, whose names hold in all blocks as the first one's does. */
static enum status declare_inputs(struct resolver *r)
{
	bool first = true;
	for (const struct statement *s = r->top->first; s; s = s->next) {
		if (s->kind == STATEMENT_INPUT && !first)
			TRY(declare(r, s));
		first &= s->kind != STATEMENT_INPUT;
	}
	r->chain->input_count = r->chain->param_count;
	return STATUS_OK;
}

struct type chain_param_type(const struct chain *chain, size_t index, const struct type *input)
{
	const struct param *param = &chain->params[index];
	struct type type = *param->type;
	if (param->weak)
		type.dtype = chain_computing_type(chain, input->dtype);
	return type;
}

struct type input_type_of(const struct chain *chain, const struct declared *declared, const struct type *file,
                          enum dtype dtype)
{
	struct type type = *file;
	if (declared->given)
		type.dtype = declared->type.dtype;
	if (chain->keeps_integers && dtype_is_integer(type.dtype))
		return type;
	if (dtype != DTYPE_COUNT)
		type.dtype = dtype;
	if (type.dtype > DTYPE_F64)
		type.dtype = DTYPE_F64;
	return type;
}

void chain_find_widest(struct chain *chain)
{
	chain->widest = DTYPE_COUNT;
	for (size_t i = 0; i < chain->param_count; i++) {
		const struct param *param = &chain->params[i];
		const bool computed = param->reads > param->selects;
		if (param->weak || !param->type || !computed || dtype_is_integer(param->type->dtype))
			continue;
		const enum dtype compute = dtype_compute(param->type->dtype);
		chain->widest = chain->widest == DTYPE_COUNT ? compute : dtype_promote(chain->widest, compute);
	}
}

/* True if DECLARED begins with `*`. */
static bool declares_star(const struct declared *declared)
{
	return declared->given && declared->type.shape.ndim > 0 && declared->type.shape.dim[0] < 0;
}

bool param_has_rows(const struct param *param, const struct chain *chain, const struct type *input)
{
	const struct shape *shape = &param->type->shape;
	const bool fixed = declares_star(&chain->input_type) && param->declared->given && !declares_star(param->declared);
	return param->input && !fixed && shape->ndim > 0 && input->shape.ndim > 0 && shape->dim[0] == input->shape.dim[0];
}

/* Does as chain_resolve, with the numbers GIVEN. */
static enum status resolve_given(const struct context *context, struct chain *chain, const struct syntax *syntax,
                                 const struct given_chain *given)
{
	*chain = (struct chain){.source = syntax->source, .input = "x", .integers = DTYPE_F64, .widest = DTYPE_COUNT};
	struct name_scope top = {.home = true};
	struct resolver r = {.context = context,
	                     .chain = chain,
	                     .top = syntax->chain,
	                     .scope = &top,
	                     .last_policy = &chain->block_policies,
	                     .last_lost = &chain->lost_names,
	                     .kept_attrs = {.kept = context->arena, .scratch = context->arena}};
	uint32_t input;
	for (size_t i = 0; i < given->count; i++)
		TRY_ALLOC(
			dictionary_put(&r.given, context->arena, given->items[i].name, (void *)(uintptr_t)&given->items[i].number),
			context->diags);
	TRY(find_input(&r));
	TRY(resolver_new_variable(&r, chain->input, &input));
	TRY(resolver_bind(&r, &top, chain->input, (struct ref){.kind = REF_VARIABLE, .element = NO_INDEX}));
	TRY(declare_inputs(&r));
	TRY(given->cotangent_count ? resolver_cotangents(&r, given) : STATUS_OK);
	TRY(resolver_find_exporters(&r, syntax->chain));
	TRY(resolver_block(&r, syntax->chain, &chain->first));
	TRY(resolver_find_lost_let(&r));
	TRY(resolver_check_size(&r));
	TRY_ALLOC(!context->arena->failed, context->diags);
	return STATUS_OK;
}

enum status chain_resolve(const struct context *context, struct chain *chain, const struct syntax *syntax)
{
	return resolve_given(context, chain, syntax, &(const struct given_chain){.count = 0});
}

enum status chain_read(const struct context *context, struct chain *chain, const struct source *source)
{
	return chain_read_given(context, chain, source, &(const struct given_chain){.count = 0});
}

enum status chain_read_given(const struct context *context, struct chain *chain, const struct source *source,
                             const struct given_chain *given)
{
	struct arena nodes;
	struct syntax syntax;
	arena_init(&nodes, context->allocator);
	enum status status = syntax_parse_apart(context, &nodes, &syntax, source);
	if (!status)
		status = resolve_given(context, chain, &syntax, given);
	arena_free(&nodes);
	return status;
}
