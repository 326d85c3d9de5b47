/*
 * Reads the subscripts of an einsum.
 * Tests: tests/cases/einsum.test
 */
#include "ops/subscripts.h"

#include <stddef.h>
#include <string.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

char subscript_letter(unsigned label) { return label < LETTERS ? letters[label] : '.'; }

void subscript_labels(const struct subscript *subscript, int ndim, unsigned char label[MAX_DIMS])
{
	int made = 0;
	for (int k = 0; k <= subscript->count; k++) {
		for (int left = k == subscript->rest ? ndim - subscript->count : 0; left > 0; left--)
			label[made++] = (unsigned char)(LABELS - left);
		if (k < subscript->count)
			label[made++] = subscript->label[k];
	}
}

static const char *read_subscript(struct subscript *subscript, const char **text)
{
	*subscript = (struct subscript){.rest = -1};
	for (; **text && **text != ',' && **text != '-'; ++*text) {
		const char *letter = strchr(letters, **text);
		if (**text == ' ')
			continue;
		if (**text == '.') {
			if (strncmp(*text, "...", 3))
				return "must be letters, commas, '...' and '->'";
			if (subscript->rest >= 0)
				return "must not have '...' twice in an operand, or in the result";
			subscript->rest = subscript->count;
			*text += 2;
			continue;
		}
		if (!letter)
			return "must be letters, commas, '...' and '->'";
		if (subscript->count == MAX_DIMS)
			return "must not name more axes than arrays have";
		subscript->label[subscript->count++] = (unsigned char)(letter - letters);
	}
	return NULL;
}

/* Returns how often LABEL stands in the operands. */
static int occurrences(const struct subscripts *s, unsigned label)
{
	int count = 0;
	for (int i = 0; i < s->operands; i++)
		for (int k = 0; k < s->operand[i].count; k++)
			count += s->operand[i].label[k] == label;
	return count;
}

/* Sets the result of S, whose text does not say it. */
static const char *complete_result(struct subscripts *s)
{
	s->result = (struct subscript){.rest = -1};
	for (int i = 0; i < s->operands; i++)
		if (s->operand[i].rest >= 0)
			s->result.rest = 0;
	for (unsigned label = 0; label < LETTERS; label++) {
		if (occurrences(s, label) != 1)
			continue;
		if (s->result.count == MAX_DIMS)
			return "must not give the result more axes than arrays have";
		s->result.label[s->result.count++] = (unsigned char)label;
	}
	return NULL;
}

static const char *check_result(const struct subscripts *s)
{
	bool rest = false;
	for (int i = 0; i < s->operands; i++)
		rest |= s->operand[i].rest >= 0;
	if (s->result.rest >= 0 && !rest)
		return "must not have '...' in the result alone";
	for (int k = 0; k < s->result.count; k++) {
		if (!occurrences(s, s->result.label[k]))
			return "must not name an axis of the result that no operand has";
		if (memchr(s->result.label, s->result.label[k], (size_t)k))
			return "must not name an axis of the result twice";
	}
	return NULL;
}

const char *subscripts_read(struct subscripts *subscripts, const char *text)
{
	const char *wrong;
	subscripts->operands = 0;
	for (;; text++) {
		if (subscripts->operands == MAX_VALUES)
			return "must not have more than 4 operands, v included";
		wrong = read_subscript(&subscripts->operand[subscripts->operands++], &text);
		if (wrong || *text != ',')
			break;
	}
	if (wrong)
		return wrong;
	if (!*text)
		return complete_result(subscripts);
	if (text[1] != '>')
		return "must be letters, commas, '...' and '->'";
	text += 2;
	wrong = read_subscript(&subscripts->result, &text);
	if (wrong)
		return wrong;
	return *text ? "must have nothing but letters and '...' after '->'" : check_result(subscripts);
}
