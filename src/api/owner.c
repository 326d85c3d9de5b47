/*
 * Objects and errors of the library.
 * Tests: tests/unit/test_api.c, tests/unit/test_api_chain.c
 */
#include "api/owner.h"

#include <stdio.h>
#include <string.h>

void *owner_make(const struct ckptc_allocator *allocator, size_t size)
{
	const struct allocator from =
		allocator ? (struct allocator){allocator->resize, allocator->context, false} : allocator_system;
	struct owner *owner = allocator_get(&from, 1, size);
	if (!owner)
		return NULL;
	memset(owner, 0, size);
	owner->allocator = from;
	owner->size = size;
	arena_init(&owner->arena, &owner->allocator);
	diags_init(&owner->diags, &owner->arena);
	owner->diags.library = true;
	owner->context = (struct context){&owner->allocator, &owner->arena, &owner->diags};
	return owner;
}

void owner_free(struct owner *owner)
{
	const struct allocator allocator = owner->allocator;
	arena_free(&owner->arena);
	allocator_put(&allocator, owner, owner->size);
}

/* A message under construction: what does not fit is left out. */
struct line {
	char *text;
	size_t used, size;
};

static void put_escaped(void *context, const char *text, size_t length)
{
	struct line *line = context;
	if (line->used + length < line->size) {
		memcpy(line->text + line->used, text, length);
		line->used += length;
		line->text[line->used] = '\0';
	}
}

static void put_diag(struct line *line, const struct diag *diag)
{
	char place[64] = "";
	const char *name = diag->source ? diag->source->name : diag->file;
	const struct span *at = diag->caret.line ? &diag->caret : &diag->span;
	if (diag->source)
		snprintf(place, sizeof place, ":%u:%u: ", at->line, at->column);
	else if (diag->file)
		snprintf(place, sizeof place, diag->offset >= 0 ? ": byte %lld: " : ": ", (long long)diag->offset);
	if (name)
		diag_escape_cell(name, put_escaped, line);
	diag_escape(place, put_escaped, line);
	diag_escape(diag->message, put_escaped, line);
	if (diag->hint) {
		diag_escape("; ", put_escaped, line);
		diag_escape(diag->hint, put_escaped, line);
	}
}

int error_set(struct ckptc_error *error, enum status status, const struct diags *diags)
{
	const int shown = status == STATUS_STOPPED ? CKPTC_STOPPED : (int)status;
	if (!error)
		return shown;
	struct line line = {error->message, 0, sizeof error->message};
	error->status = shown;
	error->message[0] = '\0';
	const struct diag *diag = diags ? diags->first : NULL;
	while (diag && !diag->status) /* a warning */
		diag = diag->next;
	if (status && diag)
		put_diag(&line, diag);
	else if (status)
		put_escaped(&line, "out of memory", strlen("out of memory"));
	return shown;
}

int error_set_memory(struct ckptc_error *error) { return error_set(error, STATUS_LIMIT, NULL); }
