/*
 * Repeated blocks of a model become a def and a loop over stacked weights.
 *
 *     let a = tanh(x @ W0)              def layer(W) { use (tanh(. @ W)) }
 *     let b = tanh(a @ W1)      ->      use x
 *     let c = tanh(b @ W2)              for W in Ws { layer W }
 *                                       let c = .
 *
 * A run of lines repeats with a period if its blocks are equal, names apart, and if each name has one of these roles:
 *
 *     local     a block binds it, and no other block reads it
 *     carried   the last line of the block before binds it; the first block reads a value from above
 *     shared    all blocks read the same value from above
 *     stacked   a weight that one block alone reads; those of all blocks have one type
 *
 * The longest such run is replaced, and the search goes on in what is left.
 * Tests: tests/scripts/check-import
 */
#include "onnx/translate.h"

#include <stdio.h>

enum { LINES_MOST = 4096, PERIOD_MOST = 512, ATOMS_MOST = 512, RUNS_MOST = 16, SLOTS_MOST = 256 };

/* What a name means: the line or the declaration that binds it, and where it is read. */
struct meaning {
	const char *name;
	const struct value *bound;
	int64_t at;                    /* the line that binds it; -1: it is declared above */
	int64_t declared;              /* the number of its declaration, if it is a param or const; else -1 */
	int64_t first_read, last_read; /* lines; -1: none */
};

/* A piece of a line: a name with a meaning, or any other text. */
struct atom {
	const char *text;
	size_t length;
	struct meaning *meaning; /* or NULL */
};

struct line {
	struct atom *atoms;
	size_t atom_count;
	bool plain;     /* a let at the top level, whose second atom is the name */
	uint64_t shape; /* a hash of all but the names */
};

/* A weight of each block. */
struct stack {
	struct meaning **of; /* by block */
	const char *all, *part;
};

struct run {
	struct importer *importer;
	struct line *lines;
	size_t line_count;
	struct dictionary meanings;
	int64_t first, period, count; /* lines; lines of a block; blocks */
	struct meaning *before;       /* what the first block reads where others read the block before */
	struct stack stacks[SLOTS_MOST];
	size_t stack_count;
};

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static struct meaning *mean(struct run *run, const char *name, bool makes)
{
	struct arena *arena = run->importer->context->arena;
	struct meaning *m = dictionary_find(&run->meanings, name);
	if (m || !makes)
		return m;
	m = arena_alloc(arena, sizeof *m);
	if (!m)
		return NULL;
	*m = (struct meaning){.name = name, .at = -1, .declared = -1, .first_read = -1, .last_read = -1};
	void *bound = dictionary_find(&run->importer->names, name);
	m->bound = bound == run->importer ? NULL : bound;
	return dictionary_put(&run->meanings, arena, name, m) ? m : NULL;
}

/* Adds the atoms of TEXT to LINE, which is number AT. A name before `(` or `=` is no value. */
static bool cut_line(struct run *run, struct line *line, const char *text, int64_t at)
{
	struct arena *arena = run->importer->context->arena;
	line->atoms = arena_array(arena, strlen(text) + 1, sizeof *line->atoms);
	line->shape = HASH_START;
	if (!line->atoms)
		return false;
	for (const char *c = text; *c;) {
		size_t length = 1;
		const bool begins = is_letter(*c) && !(*c >= '0' && *c <= '9') && (c == text || !is_letter(c[-1]));
		while (begins ? is_letter(c[length])
		              : c[length] && (!is_letter(c[length]) || is_letter(c[length - 1])) &&
		                    is_letter(*c) == is_letter(c[length]))
			length++;
		struct atom *atom = &line->atoms[line->atom_count++];
		*atom = (struct atom){c, length, NULL};
		const bool called = c[length] == '(' || (c[length] == '=' && c[length + 1] != '=');
		if (begins && !called) {
			const char *name = arena_strndup(arena, c, length);
			if (!name)
				return false;
			atom->meaning = mean(run, name, false);
		}
		if (atom->meaning) {
			struct meaning *m = atom->meaning;
			if (!(line->plain && line->atom_count == 3)) {
				m->first_read = m->first_read < 0 ? at : m->first_read;
				m->last_read = at;
			}
			line->shape = hash_bytes(line->shape, "$", 1);
		} else {
			line->shape = hash_bytes(line->shape, c, length);
		}
		c += length;
	}
	return true;
}

/* Reads all statements as lines. */
static bool read_lines(struct run *run)
{
	struct importer *im = run->importer;
	struct arena *arena = im->context->arena;
	run->line_count = im->statement_count;
	run->lines = arena_array(arena, run->line_count + 1, sizeof *run->lines);
	if (!run->lines)
		return false;
	for (size_t i = 0; i < im->input_count; i++)
		if (!mean(run, im->inputs[i].name, true))
			return false;
	for (size_t i = 0; i < im->declared_count; i++) {
		struct meaning *m = mean(run, im->declared[i].name, true);
		if (!m)
			return false;
		m->declared = (int64_t)i;
	}
	for (size_t i = 0; i < run->line_count; i++) {
		const struct sentence *s = &im->statements[i];
		const char *space = strncmp(s->text, "let ", 4) ? NULL : strchr(s->text + 4, ' ');
		struct line *line = &run->lines[i];
		line->plain = space && s->depth == 0;
		if (space) {
			const char *name = arena_strndup(arena, s->text + 4, (size_t)(space - s->text) - 4);
			struct meaning *m = name ? mean(run, name, true) : NULL;
			if (!m)
				return false;
			/* A name that is bound twice is the state of a loop, and no part of a block. */
			line->plain &= m->at < 0 && m->bound && m->declared < 0;
			m->at = (int64_t)i;
		}
		if (!cut_line(run, line, s->text, (int64_t)i))
			return false;
	}
	return true;
}

/* Returns the declaration of M, which has one. */
static struct declaration *declaration_of(const struct run *run, const struct meaning *m)
{
	return &run->importer->declared[m->declared];
}

static struct line *line_of(const struct run *run, int64_t block, int64_t offset)
{
	return &run->lines[run->first + block * run->period + offset];
}

/* True if M is read by BLOCK alone. */
static bool is_of_block(const struct run *run, const struct meaning *m, int64_t block)
{
	const int64_t begin = run->first + block * run->period;
	return m->first_read >= begin && m->last_read < begin + run->period;
}

/* True if the weights M, by block, can be stacked; then they are. */
static bool stack_weights(struct run *run, struct meaning **m)
{
	for (size_t i = 0; i < run->stack_count; i++)
		if (run->stacks[i].of[0] == m[0]) {
			bool same = true;
			for (int64_t k = 0; k < run->count; k++)
				same &= run->stacks[i].of[k] == m[k];
			return same;
		}
	for (int64_t k = 0; k < run->count; k++) {
		const struct value *v = m[k]->bound, *first = m[0]->bound;
		if (m[k]->declared < 0 || !v || !first || !v->constant || !is_of_block(run, m[k], k) ||
		    !type_equal(&v->type, &first->type) || v->type.shape.ndim == MAX_DIMS ||
		    declaration_of(run, m[k])->param != declaration_of(run, m[0])->param)
			return false;
		for (int64_t j = 0; j < k; j++)
			if (m[j] == m[k])
				return false;
	}
	if (run->stack_count == SLOTS_MOST)
		return false;
	struct meaning **copy = arena_array(run->importer->context->arena, (size_t)run->count, sizeof *copy);
	if (!copy)
		return false;
	memcpy(copy, m, (size_t)run->count * sizeof *copy);
	run->stacks[run->stack_count++] = (struct stack){.of = copy};
	return true;
}

/* True if atom A of line OFFSET has a role in all blocks. M has its meanings, by block. */
static bool has_role(struct run *run, int64_t offset, size_t a, struct meaning **m)
{
	bool same = true, local = true, carried = true;
	for (int64_t k = 0; k < run->count; k++) {
		m[k] = line_of(run, k, offset)->atoms[a].meaning;
		const int64_t begin = run->first + k * run->period;
		same &= m[k] == m[0];
		local &= m[k]->at >= begin && m[k]->at < begin + run->period && m[k]->at - begin == m[0]->at - run->first;
		carried &= k == 0 || m[k]->at == begin - 1;
	}
	if (a == 2) { /* the name that the line binds */
		for (int64_t k = 0; k < run->count; k++) {
			const int64_t end = run->first + (k + 1) * run->period;
			const bool carries = offset == run->period - 1;
			if (carries ? k + 1 < run->count && m[k]->last_read >= end + run->period : m[k]->last_read >= end)
				return false;
		}
		return true;
	}
	if (local || (same && m[0]->at < run->first))
		return true;
	if (!carried || m[0]->at >= run->first)
		return stack_weights(run, m);
	if (run->before && run->before != m[0])
		return false;
	run->before = m[0];
	return true;
}

/* True if the COUNT blocks of PERIOD lines from line FIRST on are equal, names apart, and each name has a role. */
static bool try_run(struct run *run, int64_t first, int64_t period, int64_t count)
{
	struct meaning **m = arena_array(run->importer->context->arena, (size_t)count, sizeof(struct meaning *));
	run->first = first;
	run->period = period;
	run->count = count;
	run->before = NULL;
	run->stack_count = 0;
	if (!m)
		return false;
	for (int64_t offset = 0; offset < period; offset++) {
		const struct line *line = line_of(run, 0, offset);
		for (int64_t k = 1; k < count; k++)
			if (line_of(run, k, offset)->atom_count != line->atom_count)
				return false;
		for (size_t a = 0; a < line->atom_count; a++) {
			for (int64_t k = 1; k < count; k++) {
				const struct atom *x = &line->atoms[a], *y = &line_of(run, k, offset)->atoms[a];
				if (!x->meaning != !y->meaning ||
				    (!x->meaning && (x->length != y->length || memcmp(x->text, y->text, x->length) != 0)))
					return false;
			}
			if (line->atoms[a].meaning && !has_role(run, offset, a, m))
				return false;
		}
	}
	/* The loop carries a value, so a block's result has the type of its input. */
	const struct value *in = run->before ? run->before->bound : NULL,
					   *out = line_of(run, 0, period - 1)->atoms[2].meaning->bound;
	return in && out && type_equal(&in->type, &out->type) && in->computed == out->computed;
}

/* Finds the run that replaces the most lines. Returns false if there is none. */
static bool longest_run(struct run *run)
{
	struct run best = {.count = 0};
	const int64_t n = (int64_t)run->line_count;
	for (int64_t period = 1; period <= n / 2 && period <= PERIOD_MOST; period++)
		for (int64_t begin = 0, i = 0; i + period <= n; i++) {
			const bool equal = i + period < n && run->lines[i].plain && run->lines[i + period].plain &&
			                   run->lines[i].shape == run->lines[i + period].shape;
			if (equal)
				continue;
			/* Lines BEGIN to I - 1 equal those PERIOD lines below. */
			for (int64_t shift = 0; i > begin && shift < period; shift++) {
				const int64_t count = (i + period - begin - shift) / period;
				if (count < 2 || count * period <= best.count * best.period)
					break;
				if (try_run(run, begin + shift, period, count)) {
					best = *run;
					break;
				}
			}
			begin = i + 1;
		}
	const bool found = best.count * best.period >= 2;
	*run = found ? best : *run;
	return found;
}

/* Returns what A and B, of two blocks, have in common: without the numbers of the blocks. TAIL: the part behind these. */
static const char *common_name(struct arena *arena, const char *a, const char *b, bool tail)
{
	size_t before = 0, after = 0;
	const size_t x = strlen(a), y = strlen(b);
	while (a[before] && a[before] == b[before])
		before++;
	while (after < x - before && after < y - before && a[x - 1 - after] == b[y - 1 - after])
		after++;
	while (before > 0 && a[before - 1] >= '0' && a[before - 1] <= '9')
		before--;
	const char *end = a + x - after;
	while (*end >= '0' && *end <= '9')
		end++;
	while (*end == '_')
		end++;
	while (before > 0 && a[before - 1] == '_')
		before--;
	if (tail && *end)
		return end;
	return before ? arena_printf(arena, "%.*s%s%s", (int)before, a, *end ? "_" : "", end) : *end ? end : a;
}

/* Returns the beginning of A and B, up to the numbers of the blocks; "block" if there is none. */
static const char *name_before_number(struct arena *arena, const char *a, const char *b)
{
	size_t length = 0;
	while (a[length] && a[length] == b[length])
		length++;
	while (length > 0 && ((a[length - 1] >= '0' && a[length - 1] <= '9') || a[length - 1] == '_'))
		length--;
	return length ? arena_strndup(arena, a, length) : "block";
}

/*
 * Returns a name for the def of RUN: what the names of its results have in common, else those of a stacked weight. The
 * name of an operation is none: the def would hide it.
 */
static const char *name_for_def(const struct run *run)
{
	struct arena *arena = run->importer->context->arena;
	const int64_t last = run->period - 1;
	const char *own = name_before_number(arena, line_of(run, 0, last)->atoms[2].meaning->name,
	                                     line_of(run, 1, last)->atoms[2].meaning->name);
	for (size_t i = 0; own && op_find(own) != OP_COUNT && i < run->stack_count; i++) {
		const struct stack *s = &run->stacks[i];
		own = strchr(s->of[0]->bound->name, '.') ? name_before_number(arena, s->of[0]->name, s->of[1]->name) : own;
	}
	return own && op_find(own) != OP_COUNT ? "block" : own;
}

/* Declares the stacked weights S, and adds them to the file. */
static bool declare_stack(struct run *run, struct stack *s)
{
	struct importer *im = run->importer;
	struct arena *arena = im->context->arena;
	const struct value *v = s->of[0]->bound;
	struct type type = {v->type.dtype, {v->type.shape.ndim + 1, {run->count}}};
	for (int i = 1; i < type.shape.ndim; i++)
		type.shape.dim[i] = v->type.shape.dim[i - 1];
	const enum dtype compute = dtype_compute(dtype_written(type.dtype));
	const size_t bytes = (size_t)shape_count(&v->type.shape) * dtype_size(compute);
	char *data = arena_array(arena, (size_t)run->count, bytes + 1);
	struct named_array *array =
		arena_append(arena, &im->weights, &im->weight_count, &im->weight_capacity, sizeof *array);
	if (!data || !array || !type_addressable(&type))
		return false;
	for (int64_t k = 0; k < run->count; k++) {
		const void *from = tensor_data(im, s->of[k]->bound->constant);
		if (!from)
			return false;
		memcpy(data + (size_t)k * bytes, from, bytes);
		struct declaration *replaced = declaration_of(run, s->of[k]);
		replaced->replaced = true;
		for (size_t i = 0; i < im->weight_count; i++)
			if (im->weights[i].name && replaced->key && !strcmp(im->weights[i].name, replaced->key))
				im->weights[i].name = NULL;
	}
	*array = (struct named_array){.name = s->all, .type = type, .data = data};
	array->type.dtype = dtype_written(type.dtype);
	const char *text = type_text(im, &type), *word = declaration_of(run, s->of[0])->param ? "param" : "const";
	const bool param = declaration_of(run, s->of[0])->param;
	struct declaration *d = arena_append(arena, &im->declared, &im->declared_count, &im->declared_capacity, sizeof *d);
	struct value *stacked = arena_alloc(arena, sizeof *stacked);
	const struct value *last = s->of[run->count - 1]->bound;
	if (!d || !text || !stacked)
		return false;
	*stacked = (struct value){.type = type, .computed = v->computed, .is_name = true, .text = s->all};
	*d = (struct declaration){.name = s->all, .key = s->all, .param = param};
	d->text = arena_printf(arena, "%s %s: %s = load(\"%s\", \"%s\")", word, s->all, text, im->request->tensors, s->all);
	d->comment = v->name && last->name ? arena_printf(arena, "%s to %s", v->name, last->name) : NULL;
	return d->text && dictionary_put(&im->names, arena, s->all, stacked);
}

/* Takes the names of the stacked weights: of the array, and of a part in the loop and in the def. */
static bool name_stacks(struct run *run)
{
	struct importer *im = run->importer;
	for (size_t i = 0; i < run->stack_count; i++) {
		struct stack *s = &run->stacks[i];
		const char *whole = common_name(im->context->arena, s->of[0]->name, s->of[1]->name, false);
		const char *tail = common_name(im->context->arena, s->of[0]->name, s->of[1]->name, true);
		s->all = whole ? name_take(im, whole) : NULL;
		s->part = tail ? name_take(im, tail) : NULL;
		if (!s->all || !s->part)
			return false;
	}
	return true;
}

/* Returns the text of atom A within the def, where LOCALS has the names of its own lines. */
static const char *atom_text(const struct run *run, const struct atom *a, const char *const *locals)
{
	if (!a->meaning)
		return NULL;
	if (a->meaning == run->before)
		return ".";
	for (size_t i = 0; i < run->stack_count; i++)
		if (run->stacks[i].of[0] == a->meaning)
			return run->stacks[i].part;
	return a->meaning->at >= run->first ? locals[a->meaning->at - run->first] : a->meaning->name;
}

/* Returns line OFFSET of the def. The last one is what the block gives. */
static const char *def_line(const struct run *run, int64_t offset, const char *const *locals)
{
	struct arena *arena = run->importer->context->arena;
	const struct line *line = line_of(run, 0, offset);
	const bool last = offset == run->period - 1;
	const char *text = last ? "use (" : "";
	/* A let begins with the atoms: let, blank, name, and " = " with what follows up to the next name. */
	for (size_t a = last ? 3 : 0; a < line->atom_count && text; a++) {
		const struct atom *atom = &line->atoms[a];
		const char *name = atom_text(run, atom, locals);
		const size_t skipped = last && a == 3 ? strlen(" = ") : 0;
		text = name ? arena_printf(arena, "%s%s", text, name)
		            : arena_printf(arena, "%s%.*s", text, (int)(atom->length - skipped), atom->text + skipped);
	}
	return last && text ? arena_printf(arena, "%s)", text) : text;
}

/* Replaces the lines of RUN in the statements. */
static bool replace_lines(struct run *run)
{
	struct importer *im = run->importer;
	struct arena *arena = im->context->arena;
	const size_t first = (size_t)run->first, all = (size_t)(run->period * run->count), period = (size_t)run->period;
	const size_t made = period + 7;
	struct sentence *to = arena_array(arena, im->statement_count + made, sizeof *to), *s = to + first;
	const char **locals = arena_array(arena, period, sizeof *locals);
	const char *part = im->statements[first].part, *parts = "", *arrays = "", *list = "";
	const struct meaning *last = line_of(run, run->count - 1, run->period - 1)->atoms[2].meaning;
	const char *own = name_for_def(run), *def = own ? name_take(im, own) : NULL;
	if (!to || !locals || !def)
		return false;
	for (size_t i = 0; i < run->stack_count && list; i++) {
		parts = arena_printf(arena, "%s%s%s", parts, i ? ", " : "", run->stacks[i].part);
		arrays = arena_printf(arena, "%s%s%s", arrays, i ? ", " : "", run->stacks[i].all);
		list = arena_printf(arena, "%s %s", list, run->stacks[i].part);
	}
	for (size_t i = 0; i + 1 < period; i++) {
		const char *name = common_name(arena, line_of(run, 0, (int64_t)i)->atoms[2].meaning->name,
		                               line_of(run, 1, (int64_t)i)->atoms[2].meaning->name, true);
		locals[i] = name ? name_take(im, name) : NULL;
		if (!locals[i])
			return false;
	}
	memcpy(to, im->statements, first * sizeof *to);
	*s++ = (struct sentence){arena_printf(arena, "def %s(%s) {", def, parts), NULL, part, 0};
	for (int64_t i = 0; i < run->period; i++)
		*s++ = (struct sentence){def_line(run, i, locals), NULL, part, 1};
	*s++ = (struct sentence){"}", NULL, part, 0};
	*s++ = (struct sentence){arena_printf(arena, "use %s", run->before->name), NULL, part, 0};
	*s++ = run->stack_count
	           ? (struct sentence){arena_printf(arena, "for %s in %s {", parts, arrays), NULL, part, 0}
	           : (struct sentence){arena_printf(arena, "repeat %lld {", (long long)run->count), NULL, part, 0};
	*s++ = (struct sentence){arena_printf(arena, "%s%s", def, list), NULL, part, 1};
	*s++ = (struct sentence){"}", NULL, part, 0};
	*s++ = (struct sentence){arena_printf(arena, "let %s = .", last->name), im->statements[first + all - 1].comment,
	                         part, 0};
	const size_t rest = im->statement_count - first - all;
	memcpy(s, im->statements + first + all, rest * sizeof *to);
	for (const struct sentence *check = to; check < s; check++)
		if (!check->text)
			return false;
	im->statements = to;
	im->statement_count = (size_t)(s - to) + rest;
	im->statement_capacity = 0;
	return true;
}

enum status blocks_roll(struct importer *im)
{
	for (int i = 0; i < RUNS_MOST && im->statement_count <= LINES_MOST; i++) {
		struct run *run = arena_alloc(im->context->arena, sizeof *run);
		TRY_ALLOC(run, im->context->diags);
		run->importer = im;
		TRY_ALLOC(read_lines(run), im->context->diags);
		if (!longest_run(run))
			break;
		bool good = name_stacks(run);
		for (size_t k = 0; k < run->stack_count && good; k++)
			good = declare_stack(run, &run->stacks[k]);
		TRY_ALLOC(good && replace_lines(run), im->context->diags);
	}
	return STATUS_OK;
}
