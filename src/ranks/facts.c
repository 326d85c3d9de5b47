/*
 * The comparison of ranks. Rank 0 sends its facts to all others as one message, and each compares them with its own:
 *
 *     key      8 bytes
 *     shown    1 byte: whether there is a text
 *     label    ends with a zero
 *     text     likewise
 * Tests: tests/unit/test_rank_facts.c
 */
#include <string.h>

#include "base/hash.h"
#include "ranks/ranks.h"

enum { NO_TEXT = RANK_ANY + 1, FIRST_KEY }; /* keys: of a fact without a text, and the least of a text */
enum {
	SHOWN_MOST = 100,
	SHOWN_BEFORE = 24
}; /* bytes of a value in a message, and of these before the first difference */

bool ranks_add_fact(struct rank_facts *facts, enum status status, const char *label, const char *shown, uint64_t key)
{
	struct rank_fact *fact =
		arena_append(facts->arena, &facts->items, &facts->count, &facts->capacity, sizeof *facts->items);
	if (fact)
		*fact = (struct rank_fact){status, label, shown, key};
	return fact;
}

bool ranks_add_text(struct rank_facts *facts, enum status status, const char *label, const char *shown)
{
	uint64_t key = shown ? hash_bytes(HASH_START, shown, strlen(shown)) : NO_TEXT;
	if (shown && key < FIRST_KEY)
		key += FIRST_KEY;
	return ranks_add_fact(facts, status, label, shown, key);
}

/* Returns FACTS as a message of *SIZE bytes, or NULL. */
static char *pack(const struct rank_facts *facts, uint64_t *size, struct arena *arena)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < facts->count; i++) {
		const struct rank_fact *fact = &facts->items[i];
		bytes += sizeof fact->key + 1 + strlen(fact->label) + 1 + (fact->shown ? strlen(fact->shown) : 0) + 1;
	}
	char *message = arena_array(arena, bytes + 1, 1), *at = message;
	for (size_t i = 0; i < facts->count && message; i++) {
		const struct rank_fact *fact = &facts->items[i];
		memcpy(at, &fact->key, sizeof fact->key);
		at += sizeof fact->key;
		*at++ = fact->shown != NULL;
		at = stpcpy(at, fact->label) + 1;
		at = stpcpy(at, fact->shown ? fact->shown : "") + 1;
	}
	*size = bytes;
	return message;
}

/* Sets *FACT to the fact at AT. Returns the next one. */
static const char *unpack(const char *at, struct rank_fact *fact)
{
	memcpy(&fact->key, at, sizeof fact->key);
	at += sizeof fact->key;
	const bool shown = *at++;
	fact->label = at;
	at += strlen(at) + 1;
	fact->shown = shown ? at : NULL;
	return at + strlen(at) + 1;
}

/* Returns VALUE in quotes, or SHOWN_MOST bytes of it around byte FIRST, in ARENA. */
static const char *quote(const char *value, size_t first, struct arena *arena)
{
	if (!value)
		return "none";
	const size_t length = strlen(value);
	const size_t begin = length > SHOWN_MOST && first > SHOWN_BEFORE ? first - SHOWN_BEFORE : 0;
	const size_t count = length - begin < SHOWN_MOST ? length - begin : SHOWN_MOST;
	const char *quoted = arena_printf(arena, "'%s%.*s%s'", begin ? "..." : "", (int)count, value + begin,
	                                  begin + count < length ? "..." : "");
	return quoted ? quoted : "";
}

/* Reports that OWN, of this rank, is not FIRST, that of rank 0. */
static enum status report_difference(const struct context *context, const struct ranks *ranks,
                                     const struct rank_fact *first, const struct rank_fact *own)
{
	const char *a = first->shown, *b = own->shown;
	size_t same = 0;
	while (a && b && a[same] && a[same] == b[same])
		same++;
	if (a && b && !strcmp(a, b)) /* only the keys differ */
		(void)diag_file(context->diags, own->status, NULL, -1,
		                "all ranks run one command, but %s of rank %d differs from that of rank 0: %s", own->label,
		                ranks->index, quote(b, 0, context->arena));
	else
		(void)diag_file(context->diags, own->status, NULL, -1,
		                "all ranks run one command, but %s differs: %s on rank 0, %s on rank %d", own->label,
		                quote(a, same, context->arena), quote(b, same, context->arena), ranks->index);
	return own->status;
}

/* Compares as ranks_compare does, but may end before other ranks have compared. */
static enum status compare_facts(const struct context *context, const struct ranks *ranks,
                                 const struct rank_facts *facts)
{
	uint64_t size = 0;
	char *message = NULL;
	if (ranks->index == 0)
		TRY_ALLOC(message = pack(facts, &size, context->arena), context->diags);
	TRY(ranks_broadcast(ranks, &size, sizeof size));
	if (ranks->index > 0)
		TRY_ALLOC(message = arena_array(context->arena, size + 1, 1), context->diags);
	TRY(ranks_broadcast(ranks, message, size));
	const char *at = message, *const end = message + size;
	for (size_t i = 0; i < facts->count || at < end; i++) {
		struct rank_fact first = {.label = ""}, none = {.status = STATUS_USAGE, .key = NO_TEXT};
		if (at < end)
			at = unpack(at, &first);
		const struct rank_fact *own = i < facts->count ? &facts->items[i] : &none;
		if (own == &none)
			none.label = first.label;
		if (strcmp(first.label, own->label) != 0)
			first = (struct rank_fact){.label = own->label};
		else if (first.key == own->key || first.key == RANK_ANY || own->key == RANK_ANY)
			continue;
		return report_difference(context, ranks, &first, own);
	}
	return STATUS_OK;
}

/* Waits until all ranks are here. */
static enum status meet(const struct ranks *ranks)
{
	char here = 0;
	if (ranks->index > 0)
		TRY(ranks_send(ranks, 0, 0, &here, sizeof here));
	for (int i = 1; ranks->index == 0 && i < ranks->count; i++)
		TRY(ranks_receive(ranks, i, 0, &here, sizeof here));
	return ranks_broadcast(ranks, &here, sizeof here);
}

enum status ranks_compare(const struct context *context, const struct ranks *ranks, const struct rank_facts *facts)
{
	const enum status status = compare_facts(context, ranks, facts);
	/* No rank fails before all have compared. So the lowest rank that differs speaks, whichever is the first. */
	const enum status met = status == STATUS_LIMIT ? STATUS_LIMIT : meet(ranks); /* without memory it does not wait */
	return status ? status : met;
}
