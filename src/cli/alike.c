/*
 * What all ranks of a command have in common: the facts that they compare right after the start (ranks/ranks.h). Options
 * come from options.def, so a new one is compared unless its row says OWN.
 *
 * If each rank reads a value for itself, and the value decides which messages are sent, it must be a fact
 * here. Otherwise a rank could wait for ever for a message that no rank sends.
 *
 * Files are compared where ranks have them, since rank 0 alone reads params. On one machine they must be one file. On
 * several machines they have equal sizes, and equal bytes at some places.
 * Tests: tests/scripts/check-ranks
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "cli/session.h"
#include "io/files.h"

enum { SAMPLES = 16, SAMPLE_BYTES = 4096 };

static enum status compare(struct session *s, const struct rank_facts *facts)
{
	return session_settle(s, ranks_compare(&s->context, s->ranks, facts));
}

/* Returns the items of LIST with ", " between two; NULL if there are none, or memory is short. */
static const char *join_texts(const struct text_list *list, struct arena *arena)
{
	size_t size = 1;
	for (size_t i = 0; i < list->count; i++)
		size += strlen(list->items[i]) + 2;
	char *joined = list->count ? arena_array(arena, size, 1) : NULL, *at = joined;
	for (size_t i = 0; i < list->count && joined; i++)
		at = stpcpy(stpcpy(at, i ? ", " : ""), list->items[i]);
	return joined;
}

enum status session_compare_options(struct session *s)
{
	struct rank_facts facts = {.arena = &s->arena};
	if (!s->ranks)
		return STATUS_OK;
	bool added = ranks_add_text(&facts, STATUS_USAGE, "the version", PACKAGE_VERSION) &&
	             ranks_add_text(&facts, STATUS_USAGE, "the command", s->command->name);
	for (int i = 0; i < OPTION_COUNT && added; i++) {
		const struct option_row *option = &option_table[i];
		const char *label = arena_printf(&s->arena, "--%s", option->name);
		if (!(option->use & (OWN | READ)))
			added = label && ranks_add_text(&facts, STATUS_USAGE, label, join_texts(&s->line.texts[i], &s->arena));
	}
	TRY_ALLOC(added && !s->arena.failed, &s->diags);
	return compare(s, &facts);
}

enum status session_compare_chain(struct session *s)
{
	struct rank_facts facts = {.arena = &s->arena};
	if (!s->ranks)
		return STATUS_OK;
	const char *text = arena_strndup(&s->arena, s->source.text, s->source.length);
	TRY_ALLOC(text && ranks_add_text(&facts, STATUS_USAGE, "the chain", text), &s->diags);
	return compare(s, &facts);
}

/* Returns a hash of some bytes all over the file FD, of SIZE bytes. */
static uint64_t hash_samples(int fd, int64_t size)
{
	char sample[SAMPLE_BYTES];
	uint64_t hash = HASH_START;
	for (int i = 0; i < SAMPLES; i++) {
		const int64_t last = size > SAMPLE_BYTES ? size - SAMPLE_BYTES : 0;
		size_t got = 0;
		if (!io_read_at(fd, last / (SAMPLES - 1) * i, sample, sizeof sample, &got))
			return HASH_START; /* the run reports that */
		hash = hash_bytes(hash, sample, got);
	}
	return hash;
}

/* Returns the key of the file at PATH, and its *SIZE; RANK_ANY if this rank has no regular file there. */
static uint64_t file_key(const struct session *s, const char *path, int64_t *size)
{
	struct stat status;
	if (io_stat(path, &status) != 0 || !S_ISREG(status.st_mode))
		return RANK_ANY;
	*size = status.st_size;
	const uint64_t place[] = {(uint64_t)status.st_size, (uint64_t)status.st_dev, (uint64_t)status.st_ino};
	uint64_t key;
	if (s->ranks->together) {
		key = hash_bytes(HASH_START, place, sizeof place);
	} else {
		const int fd = io_open(path, O_RDONLY, 0);
		if (fd < 0)
			return RANK_ANY;
		const uint64_t samples = hash_samples(fd, *size);
		close(fd);
		key = hash_bytes(samples, place, sizeof *place);
	}
	return key == RANK_ANY ? 1 : key;
}

/* Returns what messages say of the file at PATH, of SIZE bytes: its name, the type if it is an npy, and the size. */
static const char *describe_file(struct session *s, const char *path, int64_t size)
{
	const struct loader loader = {.cast = true, .context = &s->context};
	struct input input;
	struct reader reader;
	const char *type = "";
	if (array_open_rows(&loader, &input, &reader, path)) {
		char text[TYPE_TEXT];
		type = arena_printf(&s->arena, "%s, ", type_format(&reader.type, text));
		reader_free(&reader);
		input_close(&input);
	}
	return type ? arena_printf(&s->arena, "%s (%s%lld bytes)", path, type, (long long)size) : NULL;
}

/* Adds the file at PATH, which may be NULL. */
static bool add_file_fact(struct session *s, struct rank_facts *facts, const char *label, const char *path)
{
	int64_t size = 0;
	const uint64_t key = path ? file_key(s, path, &size) : RANK_ANY;
	const char *shown = key == RANK_ANY ? path : describe_file(s, path, size);
	return label && (shown || !path) && ranks_add_fact(facts, STATUS_DATA, label, shown, key);
}

/* Returns the file of PARAM, or NULL. */
static const char *param_path(struct session *s, const struct param *param)
{
	for (size_t i = 0; i < s->line.param_count; i++) {
		struct param_place place;
		if (!strcmp(s->line.params[i].name, param->name))
			return params_split(s->line.params[i].value, &s->arena, &s->diags, &place) ? NULL : place.file;
	}
	return param->init->kind == INIT_LOAD ? params_file(param->init, s->directory, &s->arena) : NULL;
}

enum status session_compare_files(struct session *s)
{
	struct rank_facts facts = {.arena = &s->arena};
	bool added = true;
	if (!s->ranks)
		return STATUS_OK;
	for (int i = 0; i < OPTION_COUNT && added; i++) {
		const char *label = arena_printf(&s->arena, "the file of --%s", option_table[i].name);
		if (option_table[i].use & READ)
			added = option_is_word(s, i) ? label && ranks_add_text(&facts, STATUS_USAGE, label, s->line.values[i])
			                             : add_file_fact(s, &facts, label, s->line.values[i]);
	}
	for (size_t i = 0; s->input_places && i <= s->chain.input_count && added; i++)
		added = add_file_fact(s, &facts, "the file of --input", s->input_places[i].file);
	for (size_t i = 0; i < s->line.param_files.count && added; i++)
		added = add_file_fact(s, &facts, "the file of --params", s->line.param_files.items[i]);
	for (size_t i = 0; i < s->chain.param_count && added; i++) {
		const struct param *param = &s->chain.params[i];
		const char *label = arena_printf(&s->arena, "the file of '%s'", param->name);
		added = add_file_fact(s, &facts, label, param_path(s, param));
	}
	TRY_ALLOC(added, &s->diags);
	return compare(s, &facts);
}
