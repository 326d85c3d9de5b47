/*
 * Names of the chain, symbols, and types in its text.
 *
 * A name of the model becomes one of the chain by `_` for each byte that a name cannot have. If it is taken, a number
 * follows. The order of the model decides, so the same model gives the same names.
 * Tests: tests/scripts/check-import
 */
#include "onnx/importer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { NAME_MOST = 200 };

static bool may_stand(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* True if the language reads NAME as another thing than a name in formulas. */
static bool cannot_name(const char *name)
{
	static const char *const words[] = {"and", "or", "not", "true", "false", "inf", "nan", "None", "_"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (!strcmp(words[i], name))
			return true;
	return false;
}

/* Writes to TEXT the bytes of NAME that may stand, and `_` for others. */
static void make_plain(const char *name, char text[NAME_MOST + 2])
{
	char *at = text;
	if (!*name || (*name >= '0' && *name <= '9'))
		*at++ = '_';
	for (; *name && at < text + NAME_MOST; name++)
		*at++ = may_stand(*name) ? *name : '_';
	*at = '\0';
}

const char *name_take(struct importer *im, const char *name)
{
	struct arena *arena = im->context->arena;
	char text[NAME_MOST + 2];
	make_plain(name, text);
	const char *taken = arena_printf(arena, "%s%s", text, cannot_name(text) ? "_" : "");
	for (int i = 2; taken && dictionary_find(&im->names, taken); i++)
		taken = arena_printf(arena, "%s_%d", text, i);
	return taken && dictionary_put(&im->names, arena, taken, im) ? taken : NULL;
}

bool name_is_of(const char *taken, const char *name)
{
	char text[NAME_MOST + 2];
	make_plain(name, text);
	const size_t length = strlen(text);
	return !strncmp(taken, text, length) && (taken[length] == '\0' || taken[length] == '_') &&
	       strspn(taken + length, "_0123456789") == strlen(taken + length);
}

int64_t symbol_factor(const struct importer *im, int64_t number)
{
	for (size_t i = 0; number && i < im->symbol_count; i++)
		if (!im->symbols[i].extent && number % im->symbols[i].prime == 0)
			return number / im->symbols[i].prime;
	return 0;
}

bool symbol_in(const struct importer *im, double number)
{
	/* A sum or difference with a small number depends on the symbol too; large numbers of other kinds do not. */
	enum { NEAR = 4096, FACTORS = 1 << 20 };
	for (size_t i = 0; i < im->symbol_count; i++) {
		const double prime = (double)im->symbols[i].prime, factor = rint(number / prime);
		if (!im->symbols[i].extent && factor != 0 && fabs(factor) < FACTORS && fabs(number - factor * prime) < NEAR)
			return true;
	}
	return false;
}

enum dtype dtype_declared(enum dtype dtype)
{
	const bool has_name = !dtype_is_integer(dtype) || dtype == DTYPE_I32 || dtype == DTYPE_BOOL;
	return has_name ? dtype : DTYPE_I64;
}

const char *type_text(struct importer *im, const struct type *type)
{
	struct arena *arena = im->context->arena;
	const char *text = arena_printf(arena, "%s[", dtype_name(dtype_declared(type->dtype)));
	for (int i = 0; i < type->shape.ndim && text; i++)
		text = symbol_factor(im, type->shape.dim[i]) == 1
		           ? arena_printf(arena, "%s%s*", text, i ? "," : "")
		           : arena_printf(arena, "%s%s%" PRId64, text, i ? "," : "", type->shape.dim[i]);
	return text ? arena_printf(arena, "%s]", text) : NULL;
}
