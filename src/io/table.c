/*
 * Tables: texts whose fields a delimiter separates, and of which --columns may choose some.
 *
 * Field: what is between two delimiters, without the blanks around it. A quoted one may have delimiters, line ends and
 * doubled quotes (RFC 4180). A quote elsewhere in a field is a byte like others. Header: a first line of names, of which
 * none is a number. A look at the first lines finds the delimiter and the header, before the format of the text is known.
 *
 * Two kinds of text differ in what separates fields. In a strict one, csv, it is the delimiter alone. In others, which
 * programs and people write in many ways, blanks separate fields too.
 * Tests: tests/unit/test_table.c, tests/cases/tables.test
 */
#include "io/table.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/suggest.h"
#include "base/text.h"
#include "io/formats.h"

enum { BLANKS = ' ' };

static bool is_space(char c, char delimiter) { return text_is_blank(c) && c != delimiter; }

bool table_is_missing(const char *word, size_t length)
{
	static const char *const words[] = {"NA", "N/A", "null"};
	bool missing = length == 0;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		missing |= strlen(words[i]) == length && !strncasecmp(words[i], word, length);
	return missing;
}

/* A field of a line. CONTENT has LENGTH bytes, in which a quote may be doubled if it is QUOTED. */
struct field {
	const char *content;
	size_t length;
	bool quoted;
};

/* Returns the quote that ends the quoted field whose first quote is before AT; or END. */
static const char *closing_quote(const char *at, const char *end)
{
	for (; at < end; at++) {
		at = memchr(at, '"', (size_t)(end - at));
		if (!at)
			return end;
		if (at + 1 == end || at[1] != '"')
			return at;
		at++;
	}
	return end;
}

/* Sets *FIELD to the one at AT, of a line that ends at END. Returns where the next field begins, or NULL after the last. */
static const char *take_field(const char *at, const char *end, char delimiter, struct field *field)
{
	while (at < end && is_space(*at, delimiter))
		at++;
	field->quoted = at < end && *at == '"';
	field->content = at + field->quoted;
	if (field->quoted) {
		at = closing_quote(at + 1, end);
		field->length = (size_t)(at - field->content);
		at += at < end;
	}
	while (at < end && (delimiter == BLANKS ? !text_is_blank(*at) : *at != delimiter))
		at++;
	const char *last = at;
	while (last > field->content && is_space(last[-1], delimiter))
		last--;
	if (!field->quoted)
		field->length = (size_t)(last - field->content);
	while (delimiter == BLANKS && at < end && text_is_blank(*at))
		at++;
	return at < end ? at + (delimiter != BLANKS) : NULL;
}

/* Returns the end of the line at AT, its '\n' outside quotes or END. A quote after SEPARATORS or blanks begins a field. */
static const char *line_end(const char *at, const char *end, const char *separators)
{
	for (bool begins = true; at < end && *at != '\n'; at++) {
		if (begins && *at == '"') {
			at = closing_quote(at + 1, end);
			if (at == end)
				return end;
		}
		begins = text_is_blank(*at) || strchr(separators, *at);
	}
	return at;
}

/*
 * Returns where the comment of the row from AT to END begins, or END: at a '#' at its beginning, after a blank or after a
 * number. A '#' directly after one of SEPARATORS begins one only if the text is not STRICT.
 */
static const char *row_end(const char *at, const char *end, const char *separators, bool strict)
{
	bool begins = true, number = false, blank = true;
	for (; at < end; at++) {
		if (begins && *at == '"')
			at = closing_quote(at + 1, end);
		if (at == end || (*at == '#' && (blank || number || (begins && !strict))))
			return at;
		blank = text_is_blank(*at) && !strchr(separators, *at);
		number = begins ? strchr("+-.0123456789", *at) != NULL : number && !text_is_blank(*at);
		begins = text_is_blank(*at) || strchr(separators, *at);
	}
	return end;
}

/* True if the tab at AT separates fields: it is neither beside a comma nor at an end of the line from BEGIN to END. */
static bool is_separator_tab(const char *at, const char *begin, const char *end)
{
	const char *before = at, *after = at + 1;
	while (before > begin && text_is_blank(before[-1]) && before[-1] != '\t')
		before--;
	while (after < end && text_is_blank(*after) && *after != '\t')
		after++;
	return before > begin && after < end && before[-1] != ',' && *after != ',';
}

/*
 * Returns the delimiter of a line: the first of semicolon, tab and comma that is there, outside quotes; else BLANKS. TABS: any
 * tab is one.
 */
static char line_delimiter(const char *begin, const char *end, bool tabs)
{
	bool tab = false, comma = false, begins = true;
	for (const char *at = begin; at < end; at++) {
		if (begins && *at == '"') {
			at = closing_quote(at + 1, end);
			if (at == end)
				break;
		}
		if (*at == ';')
			return ';';
		tab |= *at == '\t' && (tabs || is_separator_tab(at, begin, end));
		comma |= *at == ',';
		begins = text_is_blank(*at) || *at == ',';
	}
	return tab ? '\t' : comma ? ',' : BLANKS;
}

/* True if FIELD may be a name of a header. It begins with a letter or a quote, and is no number. */
static bool may_be_name(const struct field *field)
{
	uint32_t letter;
	const unsigned char first = field->length ? (unsigned char)*field->content : 0;
	char word[64] = "";
	double value;
	const bool letters = field->quoted || isalpha(first) || first == '_' ||
	                     (first >= 0x80 && utf8_length(field->content, field->length, &letter) > 0);
	if (!letters)
		return false;
	for (size_t i = 0; i < field->length; i++)
		if ((unsigned char)field->content[i] < ' ' && !text_is_blank(field->content[i]) && field->content[i] != '\n')
			return false;
	if (field->length >= sizeof word)
		return true;
	memcpy(word, field->content, field->length);
	return !number_parse(word, field->length, &value);
}

/* What a line would be as a header. NAMES of its FIELDS are names, and others are empty. */
struct headed {
	bool header;
	int64_t names, fields;
};

/* WHOLE: the line ends at END; else its last field may go on. */
static struct headed look_for_header(const char *at, const char *end, char delimiter, bool whole)
{
	struct headed h = {.header = true};
	struct field field;
	while (at && h.header) {
		at = take_field(at, end, delimiter, &field);
		if (!at && !whole && h.fields > 0)
			break;
		const bool missing = table_is_missing(field.content, field.length);
		h.fields++;
		h.header = may_be_name(&field) || missing;
		h.names += h.header && !missing;
	}
	h.header &= h.names > 0;
	return h;
}

/* Returns the number of fields of the first row from AT to END, in a text without a delimiter; 0 if there is none. */
static int64_t count_blank_fields(const char *at, const char *end)
{
	struct field field;
	int64_t count = 0;
	while (at < end && (text_is_blank(*at) || *at == '\n' || *at == '#')) {
		const char *next = *at == '#' ? memchr(at, '\n', (size_t)(end - at)) : at + 1;
		at = next ? next : end;
	}
	const char *line = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
	for (const char *stop = at < end ? row_end(at, line ? line : end, "", false) : at; at && at < stop; count++)
		at = take_field(at, stop, BLANKS, &field);
	return count;
}

/* Excel's first line "sep=;" says the delimiter. Returns where the next line begins, or NULL if AT has no such line. */
static const char *take_separator(const char *at, const char *end, char *delimiter)
{
	const size_t prefix = strlen("sep=");
	if ((size_t)(end - at) < prefix + 2 || strncasecmp(at, "sep=", prefix) != 0 || isalnum((unsigned char)at[prefix]))
		return NULL;
	const char *after = at + prefix + 1;
	after += after < end && *after == '\r';
	if (after == end || *after != '\n')
		return NULL;
	*delimiter = at[prefix];
	return after + 1;
}

/* Returns the first line from *AT to END that is neither empty nor a comment. Counts the lines before it. */
static const char *first_line(const char *at, const char *end, uint32_t *lines)
{
	const char *line = at;
	while (at < end && (text_is_blank(*at) || *at == '\n' || *at == '#')) {
		const char *next = *at == '#' ? memchr(at, '\n', (size_t)(end - at)) : at;
		if (!next)
			return end;
		at = next + (*next == '\n' || *at != '#');
		if (*next == '\n') {
			line = at;
			++*lines;
		}
	}
	return at < end ? line : end;
}

/* True if a field from AT to END is a word, which blanks do not end as they end a number. */
static bool has_word(const char *at, const char *end, char delimiter)
{
	struct field field;
	while (at) {
		at = take_field(at, end, delimiter, &field);
		if (may_be_name(&field) && !table_is_missing(field.content, field.length))
			return true;
	}
	return false;
}

void table_look(struct table *t, const char *text, size_t length, bool whole)
{
	const char *end = text + length, *line = text + (length >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0);
	char given = t->delimiter;
	line = first_line(line, end, &t->lines);
	const char *after = take_separator(line, end, &given);
	if (after) {
		t->lines++;
		line = first_line(after, end, &t->lines);
	}
	const char *const stop = line_end(line, end, ";,\t"), *const row = row_end(line, stop, ";,\t", true);
	const bool lines = whole || stop < end, csv = t->strict;
	t->begin = line - text;
	t->text = true;
	t->delimiter = given ? given : line_delimiter(line, stop, t->tabs);
	struct headed h = look_for_header(line, stop, t->delimiter, lines);
	/* A single column's name may have blanks. */
	if (!given && t->delimiter == BLANKS && (csv || !h.header) && h.fields != 1 && count_blank_fields(stop, end) == 1) {
		const struct headed one = look_for_header(line, stop, ',', lines);
		if (one.header) {
			h = one;
			t->delimiter = ',';
		}
	}
	t->header = line < end && h.header;
	if (!t->header && !given)
		t->delimiter = line_delimiter(line, row, t->tabs);
	t->strict = csv || t->header || given || (t->delimiter != BLANKS && has_word(line, row, t->delimiter));
	if (!t->strict && t->delimiter == BLANKS)
		t->delimiter = ','; /* later lines may have commas */
	if (line < end)
		return;
	t->begin = t->lines = 0; /* a comment may be longer than what was seen */
}

/* Copies the bytes of FIELD to a string in ARENA. Of two quotes one is left. */
static char *copy_field(const struct field *field, struct arena *arena)
{
	char *name = arena_strndup(arena, field->content, field->length);
	size_t used = 0;
	for (size_t i = 0; name && i < field->length; i++) {
		name[used++] = name[i];
		i += field->quoted && name[i] == '"' && i + 1 < field->length && name[i + 1] == '"';
	}
	if (name)
		name[used] = '\0';
	return name;
}

/* Sets the names and the number of fields of T from the LENGTH bytes of its first line, a header if T says so. */
static enum status read_fields(struct table *t, const char *line, size_t length, const struct context *context)
{
	const char *end = line + length;
	const char separators[] = {t->delimiter, '\0'};
	struct field field;
	size_t capacity = 0, count = 0;
	if (!t->header)
		end = row_end(line, end, separators, t->strict);
	/* In a text that is not strict a blank is as good as the delimiter. */
	const bool blanks = !t->strict;
	for (const char *at = line; at; count++) {
		const char *next = take_field(at, end, t->delimiter, &field);
		const char **name = NULL;
		if (t->header) {
			size_t used = count;
			name = arena_append(context->arena, &t->names, &used, &capacity, sizeof *name);
			TRY_ALLOC(name, context->diags);
			TRY_ALLOC(*name = copy_field(&field, context->arena), context->diags);
		}
		for (const char *in = field.content, *stop = in + field.length; blanks && !field.quoted && in && in < stop;) {
			struct field word;
			in = take_field(in, stop, BLANKS, &word);
			count += in != NULL;
		}
		at = next;
	}
	t->fields = (int64_t)count;
	return STATUS_OK;
}

/* The columns that are chosen, while they are put together. */
struct choice {
	struct table *table;
	const struct context *context;
	const char *file; /* for messages */
	int64_t *chosen;
	size_t count, capacity;
};

/* Reports that WORD, of --columns, is wrong as MESSAGE says, and shows the columns that there are. */
static enum status refuse_column(const struct choice *c, const char *word, const char *message)
{
	struct diags *diags = c->context->diags;
	const struct table *t = c->table;
	TRY_ALLOC(message, diags);
	diag_file(diags, STATUS_DATA, c->file, -1, "--columns %s: %s", word, message);
	if (!t->names)
		return diag_hint(diags, "its columns are 0 to %lld", (long long)t->fields - 1);
	const char *near = suggest_nearest(word, t->names, (size_t)t->fields);
	const char *list = text_join(t->names, (size_t)t->fields, c->context->arena);
	if (near && strcmp(near, word) != 0)
		return diag_hint(diags, "did you mean '%s'? Its columns: %s", near, list);
	return diag_hint(diags, "its columns: %s", list);
}

static enum status choose_column(struct choice *c, int64_t column, const char *word)
{
	if (c->table->reads[column])
		return refuse_column(c, word, "that column is chosen twice");
	c->table->reads[column] = true;
	int64_t *added = arena_append(c->context->arena, &c->chosen, &c->count, &c->capacity, sizeof *added);
	TRY_ALLOC(added, c->context->diags);
	*added = column;
	return STATUS_OK;
}

/* Chooses the column of the name WORD. */
static enum status choose_name(struct choice *c, const char *word)
{
	const struct table *t = c->table;
	int64_t found = -1;
	if (!t->names)
		return refuse_column(c, word,
		                     t->text ? "the table has no header line, so its columns are numbers"
		                             : "an array has no names, so its columns are numbers");
	for (int64_t i = 0; i < t->fields; i++) {
		if (strcmp(t->names[i], word) != 0)
			continue;
		if (found >= 0)
			return refuse_column(c, word,
			                     arena_printf(c->context->arena,
			                                  "columns %lld and %lld have that name: choose one by its number",
			                                  (long long)found, (long long)i));
		found = i;
	}
	return found < 0 ? refuse_column(c, word, "there is no column of that name") : choose_column(c, found, word);
}

/* Reads the digits at *AT as a number up to MOST, or as BEFORE if there are none. */
static int64_t take_number(const char **at, int64_t before, int64_t most)
{
	int64_t number = isdigit((unsigned char)**at) ? 0 : before;
	for (; isdigit((unsigned char)**at); ++*at)
		number = number > most ? number : 10 * number + (**at - '0');
	return number;
}

/* Chooses the columns that WORD, a number or a range such as 5:8 or 5:, says. *GOOD is false if it is neither. */
static enum status choose_range(struct choice *c, const char *word, bool *good)
{
	const int64_t fields = c->table->fields;
	const char *at = word;
	int64_t first = take_number(&at, 0, fields), stop = first + 1;
	const bool range = *at == ':', any = isdigit((unsigned char)*word) || (range && at[1]) || (range && at > word);
	if (range) {
		at++;
		stop = take_number(&at, fields, fields);
	}
	*good = any && !*at;
	if (!*good)
		return STATUS_OK;
	if (first >= fields || stop > fields)
		return refuse_column(
			c, word,
			arena_printf(c->context->arena, "the table has %lld column%s", (long long)fields, fields == 1 ? "" : "s"));
	if (stop <= first)
		return refuse_column(c, word, "the range has no column");
	for (; first < stop; first++)
		TRY(choose_column(c, first, word));
	return STATUS_OK;
}

/* Sets what a scan needs of the choice. */
static enum status set_choice(struct choice *c)
{
	struct table *t = c->table;
	struct arena *arena = c->context->arena;
	int64_t *rank = arena_array(arena, (size_t)t->fields + 1, sizeof *rank), next = 0;
	int64_t *place = arena_array(arena, c->count + 1, sizeof *place);
	const char **names = arena_array(arena, c->count + 1, sizeof *names);
	t->next_read = arena_array(arena, (size_t)t->fields + 1, sizeof *t->next_read);
	TRY_ALLOC(rank && place && names && t->next_read, c->context->diags);
	t->next_read[t->fields] = t->fields;
	for (int64_t i = t->fields - 1; i >= 0; i--)
		t->next_read[i] = t->reads[i] ? i : t->next_read[i + 1];
	for (int64_t i = 0; i < t->fields; i++)
		rank[i] = t->reads[i] ? next++ : -1;
	bool sorted = true;
	for (size_t i = 0; i < c->count; i++) {
		place[i] = rank[c->chosen[i]];
		sorted &= place[i] == (int64_t)i;
		names[i] = t->names ? t->names[c->chosen[i]] : NULL;
	}
	t->chosen = c->chosen;
	t->chosen_count = (int64_t)c->count;
	t->places = sorted ? NULL : place;
	t->chosen_names = t->names ? names : NULL;
	return STATUS_OK;
}

enum status table_choose(struct table *table, const char *columns, const char *file, const struct context *context)
{
	struct choice c = {.table = table, .context = context, .file = file};
	table->chosen_names = table->names;
	if (!columns)
		return STATUS_OK;
	table->reads = arena_array(context->arena, (size_t)table->fields + 1, sizeof *table->reads);
	TRY_ALLOC(table->reads, context->diags);
	for (const char *at = columns, *end = at + strlen(at); at;) {
		struct field field;
		bool good = false;
		at = take_field(at, end, ',', &field);
		const char *word = copy_field(&field, context->arena);
		TRY_ALLOC(word, context->diags);
		if (!field.quoted)
			TRY(choose_range(&c, word, &good));
		if (!good)
			TRY(choose_name(&c, word));
	}
	return set_choice(&c);
}

enum { LINE_MOST = 64 << 20 };

/* Sets *LINE and *LENGTH to the first line of FILE, at the next byte of SCAN. It is whole in SCAN's window. */
static enum status find_line(const struct table *t, struct scan *scan, const char *file, const char **line,
                             size_t *length, struct diags *diags)
{
	const char separators[] = {t->delimiter, '\0'};
	for (bool grow = false, end;; grow = true) {
		TRY(scan_window(scan, grow, line, length, &end, diags));
		const char *stop = *line + *length,
				   *at = t->strict ? line_end(*line, stop, separators) : memchr(*line, '\n', *length);
		if (at && at < stop)
			*length = (size_t)(at - *line);
		if ((at && at < stop) || end)
			return STATUS_OK;
		if (*length >= LINE_MOST)
			return diag_file(diags, STATUS_LIMIT, file, -1,
			                 "the first line has more than %d MiB, the most for a header and for --columns",
			                 LINE_MOST >> 20);
	}
}

enum status table_begin(struct reader *r, struct scan *scan, struct diags *diags)
{
	struct table *t = r->table;
	const struct context context = {r->arena->allocator, r->arena, diags};
	const char *line = NULL;
	size_t length = 0;
	TRY(scan_go(scan, t->begin, t->lines, diags));
	if (t->header || r->options.columns) {
		TRY(find_line(t, scan, r->input->name, &line, &length, diags));
		TRY(read_fields(t, line, length, &context));
	}
	if (t->header) {
		for (size_t i = 0; i <= length; i++) /* the line end, and those in names */
			t->lines += i == length || line[i] == '\n';
		t->begin += (int64_t)length + 1;
		TRY(scan_go(scan, t->begin, t->lines, diags));
	}
	return table_choose(t, r->options.columns, r->input->name, &context);
}

/* True if NAME can be written without quotes, and a word of --columns is that name. */
static bool needs_no_quotes(const char *name, char delimiter)
{
	const size_t length = strlen(name);
	const struct field field = {name, length, false};
	return may_be_name(&field) && !table_is_missing(name, length) && name[length - 1] != ' ' &&
	       !strpbrk(name, (const char[]){delimiter, ',', ';', '\t', '\n', '\r', '"', '#', '\0'});
}

char *table_put_name(char *to, const char *name, char delimiter)
{
	if (needs_no_quotes(name, delimiter))
		return stpcpy(to, name);
	*to++ = '"';
	for (; *name; name++) {
		if (*name == '"')
			*to++ = '"';
		*to++ = *name;
	}
	*to++ = '"';
	*to = '\0';
	return to;
}

/* True if FIELD can be read as a number, or is missing. */
static bool is_number(const struct field *field)
{
	char word[64] = "";
	double value;
	if (field->length >= sizeof word)
		return false;
	memcpy(word, field->content, field->length);
	return table_is_missing(word, field->length) || number_parse(word, field->length, &value);
}

void table_hint_columns(const struct table *t, const char *line, const char *end, int64_t field, struct diags *diags)
{
	enum { LISTED = 200 };
	char list[LISTED] = "", word[LISTED];
	size_t used = 0;
	int64_t column = 0;
	struct field each;
	const char separators[] = {t->delimiter, '\0'};
	const char *stop = row_end(line, line_end(line, end, separators), separators, true);
	for (const char *at = line; at && used < LISTED; column++) {
		at = take_field(at, stop, t->delimiter, &each);
		if (column == field || !is_number(&each) || (t->reads && (column >= t->fields || !t->reads[column])))
			continue;
		const char *name = t->names && column < t->fields ? t->names[column] : NULL;
		if (name && 2 * strlen(name) + 3 < sizeof word)
			table_put_name(word, name, ',');
		else
			snprintf(word, sizeof word, "%lld", (long long)column);
		used += (size_t)snprintf(list + used, LISTED - used, "%s%s", used ? "," : "", word);
	}
	if (used == 0 || diags->library)
		return;
	if (used < LISTED)
		diag_hint_command(diags, "to leave that column out, choose others: --columns %s", list);
	else
		diag_hint(diags, "--columns NAME,NAME chooses the columns that are read, so that this one is left out");
}

static bool path_has_ending(const char *path, const char *ending)
{
	const size_t length = strlen(path), tail = strlen(ending);
	return length > tail && !strcasecmp(path + length - tail, ending);
}

bool table_names_tabs(const char *path) { return path_has_ending(path, ".tsv"); }

bool table_names_csv(const char *path) { return path_has_ending(path, ".csv") || table_names_tabs(path); }
