/*
 * The npy header is the literal of a Python dict, as NumPy reads it by ast.literal_eval. A strict parser reads it and
 * evaluates nothing. It accepts what writers make: keys in any order, each of them once, strings of Python 2 and 3,
 * extents in any spelling, and every name that NumPy has for a type. Every message names the byte.
 * Tests: tests/unit/test_npy.c
 */
#include "io/formats.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

static const unsigned char magic[NPY_MAGIC] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

bool npy_is(const unsigned char *bytes, size_t length)
{
	return length >= NPY_MAGIC && !memcmp(bytes, magic, NPY_MAGIC);
}

struct dict {
	const char *text;
	size_t length, at;
	size_t token; /* where the last token begins, which messages name */
	const char *file;
	int64_t offset;
	struct diags *diags;
};

static enum status dict_error(const struct dict *d, const char *what)
{
	return diag_file(d->diags, STATUS_DATA, d->file, d->offset + (int64_t)d->token, "npy header: %s", what);
}

/* Passes white space and comments. Returns the next byte, or 0 at the end. */
static char peek(struct dict *d)
{
	for (; d->at < d->length && d->text[d->at]; d->at++) {
		if (d->text[d->at] == '#')
			while (d->at + 1 < d->length && d->text[d->at + 1] != '\n')
				d->at++;
		else if (!strchr(" \t\r\n\f", d->text[d->at]))
			break;
	}
	d->token = d->at;
	return d->at < d->length ? d->text[d->at] : '\0';
}

static bool accept(struct dict *d, char c)
{
	if (peek(d) != c || c == '\0')
		return false;
	d->at++;
	return true;
}

static bool accept_word(struct dict *d, const char *word)
{
	size_t length = strlen(word);
	if (peek(d) != word[0] || d->length - d->at < length || memcmp(d->text + d->at, word, length) != 0)
		return false;
	d->at += length;
	return true;
}

/* Reads the bytes of an escape after its backslash. False if they make no single byte of ASCII. */
static bool accept_escape(struct dict *d, char *to)
{
	static const char letters[] = "\\\'\"abfnrtv", bytes[] = "\\\'\"\a\b\f\n\r\t\v";
	char digits[4] = "", *end;
	const char *letter = d->at < d->length && d->text[d->at] ? strchr(letters, d->text[d->at]) : NULL;
	if (letter) {
		*to = bytes[letter - letters];
		d->at++;
		return true;
	}
	const bool hexadecimal = d->at < d->length && d->text[d->at] == 'x';
	const size_t most = hexadecimal ? 2 : 3;
	d->at += hexadecimal;
	for (size_t i = 0; i < most && d->at < d->length && isxdigit((unsigned char)d->text[d->at]); i++)
		digits[i] = d->text[d->at++];
	const long value = strtol(digits, &end, hexadecimal ? 16 : 8);
	*to = (char)value;
	return *digits && !*end && (!hexadecimal || digits[1]) && value > 0 && value < 0x80;
}

/* True if a string literal, which may have a prefix u or r, is next. */
static bool begins_string(struct dict *d)
{
	const char c = peek(d);
	const bool prefixed = c && strchr("uUrR", c) && d->length - d->at > 1;
	const char quote = prefixed ? d->text[d->at + 1] : c;
	return quote == '\'' || quote == '"';
}

/* Adds a string literal to the *USED bytes of TO, which has SIZE. */
static bool accept_literal(struct dict *d, char *to, size_t size, size_t *used)
{
	size_t n = *used;
	bool raw = false;
	if (peek(d) && strchr("uUrR", d->text[d->at]) && d->length - d->at > 1 && strchr("'\"", d->text[d->at + 1]))
		raw = strchr("rR", d->text[d->at++]);
	const char quote = d->text[d->at];
	for (d->at++; d->at < d->length && d->text[d->at] != quote;) {
		char c = d->text[d->at++];
		if (n + 1 == size || (unsigned char)c < 0x20 || (c == '\\' && (raw || !accept_escape(d, &c))))
			return false;
		to[n++] = c;
	}
	to[n] = '\0';
	*used = n;
	return d->at++ < d->length;
}

/* Reads a string to TO, which has SIZE bytes. */
static bool accept_string(struct dict *d, char *to, size_t size)
{
	size_t used = 0;
	return begins_string(d) && accept_literal(d, to, size, &used);
}

/* Reads one string or several, one after another, which Python joins. */
static bool accept_strings(struct dict *d, char *to, size_t size)
{
	size_t used = 0;
	bool good = begins_string(d);
	const size_t token = d->token;
	while (good && begins_string(d))
		good = accept_literal(d, to, size, &used);
	d->token = token;
	return good;
}

/* Returns the bytes of the value that begins at d->token, up to the comma after it. */
static int value_length(const struct dict *d)
{
	char quote = '\0';
	int depth = 0;
	size_t at = d->token;
	for (; at < d->length; at++) {
		const char c = d->text[at];
		if (quote) {
			quote = c == quote ? '\0' : quote;
			continue;
		}
		quote = c == '\'' || c == '"' ? c : '\0';
		depth += c == '(' || c == '[' || c == '{';
		if (depth == 0 && (c == ',' || c == '}'))
			break;
		depth -= c == ')' || c == ']' || c == '}';
	}
	return (int)(at - d->token);
}

/* Reports that WHAT, the value at d->token, is not supported. */
static enum status refuse_descr(const struct dict *d, const char *what)
{
	return diag_file(d->diags, STATUS_DATA, d->file, d->offset + (int64_t)d->token,
	                 "npy header: %s is not supported: %.*s", what, value_length(d), d->text + d->token);
}

/* Refuses a list of fields, with a command for the first of them if its name is a plain one. */
static enum status refuse_structure(struct dict *d)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
	struct dict copy = *d;
	char name[64], script[200];
	const bool named = accept(&copy, '[') && accept(&copy, '(') && accept_string(&copy, name, sizeof name) && *name &&
	                   !name[strspn(name, plain)];
	const enum status status = refuse_descr(d, "a structured type");
	if (!named || !d->file)
		return diag_hint(d->diags, "save one of its fields as an array");
	snprintf(script, sizeof script, "import numpy, sys; numpy.save(\"a.npy\", numpy.load(sys.argv[1])[\"%s\"])", name);
	diag_hint_command(d->diags, "save one of its fields as an array: python3 -c %s %s", script,
	                  strcmp(d->file, "<stdin>") ? d->file : "FILE");
	return status;
}

/* Returns the type of a NAME such as "f4", a kind and a number of bytes, or DTYPE_COUNT. */
static enum dtype dtype_of_name(const char *name)
{
	const char *size = name + (*name != '\0');
	while (*size == ' ' || (*size == '0' && size[1])) /* as NumPy's atoi */
		size++;
	for (enum dtype i = 0; i < DTYPE_BITS; i++)
		if (i != DTYPE_BF16 && name[0] == dtype_name(i)[0] && size[0] == (char)('0' + dtype_size(i)) && !size[1])
			return i;
	return DTYPE_COUNT;
}

/* The letters of NumPy, which may follow a byte order, and its names, which may not. Types of C have the bytes of Linux. */
static const struct {
	const char *name, *type;
} descr_names[] = {
	{"?", "b1"},         {"b", "i1"},        {"B", "u1"},       {"h", "i2"},      {"H", "u2"},       {"i", "i4"},
	{"I", "u4"},         {"l", "i8"},        {"L", "u8"},       {"n", "i8"},      {"N", "u8"},       {"p", "i8"},
	{"P", "u8"},         {"q", "i8"},        {"Q", "u8"},       {"e", "f2"},      {"f", "f4"},       {"d", "f8"},
	{"bool", "b1"},      {"bool_", "b1"},    {"bool8", "b1"},   {"int8", "i1"},   {"byte", "i1"},    {"uint8", "u1"},
	{"ubyte", "u1"},     {"int16", "i2"},    {"short", "i2"},   {"uint16", "u2"}, {"ushort", "u2"},  {"int32", "i4"},
	{"intc", "i4"},      {"uint32", "u4"},   {"uintc", "u4"},   {"int64", "i8"},  {"int", "i8"},     {"int_", "i8"},
	{"long", "i8"},      {"longlong", "i8"}, {"intp", "i8"},    {"uint64", "u8"}, {"uint", "u8"},    {"ulong", "u8"},
	{"ulonglong", "u8"}, {"uintp", "u8"},    {"float16", "f2"}, {"half", "f2"},   {"float32", "f4"}, {"single", "f4"},
	{"float64", "f8"},   {"float", "f8"},    {"double", "f8"},  {"float_", "f8"},
};

/* Returns the type of NAME, a descr less its byte order, or DTYPE_COUNT. ORDERED: there was one. */
static enum dtype dtype_of_descr(const char *name, bool ordered)
{
	for (size_t i = 0; i < sizeof descr_names / sizeof *descr_names; i++)
		if (!strcmp(name, descr_names[i].name) && (!ordered || !name[1]))
			return dtype_of_name(descr_names[i].type);
	return dtype_of_name(name);
}

/* Reports that the type DESCR, of which NAME lacks the byte order, is not supported. Hints at a conversion. */
static enum status refuse_type(const struct dict *d, const char *descr, const char *name)
{
	static const struct {
		char letter;
		const char *what, *hint;
	} kinds[] = {{'c', " (complex numbers)", "save the real and the imaginary part as arrays of their own"},
	             {'O', " (Python objects)", "save it as an array of numbers: a.astype(float)"},
	             {'S', " (byte strings)", "save it as an array of numbers: a.astype(float)"},
	             {'a', " (byte strings)", "save it as an array of numbers: a.astype(float)"},
	             {'U', " (text)", "save it as an array of numbers: a.astype(float)"},
	             {'M', " (dates)", "save it as an array of numbers: a.astype('i8')"},
	             {'m', " (time differences)", "save it as an array of numbers: a.astype('i8')"},
	             {'V', " (raw bytes)", "save it as an array of numbers: a.view(...)"}};
	const char *what = "", *hint = "convert it to float16, float32, float64, an integer type or bool";
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (name[0] == kinds[i].letter) {
			what = kinds[i].what;
			hint = kinds[i].hint;
		}
	diag_file(d->diags, STATUS_DATA, d->file, d->offset + (int64_t)d->token, "npy header: type '%s'%s is not supported",
	          descr, what);
	return diag_hint(d->diags, "%s", hint);
}

static enum status read_descr(struct dict *d, enum dtype assume, struct npy_header *header)
{
	char descr[64];
	if (peek(d) == '[')
		return refuse_structure(d);
	if (peek(d) == '(') {
		struct dict copy = *d;
		if (!(accept(&copy, '(') && accept_strings(&copy, descr, sizeof descr) && accept(&copy, ')')))
			return refuse_descr(d, "a type with a shape of its own");
		copy.token = d->token;
		*d = copy;
	} else if (!accept_strings(d, descr, sizeof descr)) {
		return dict_error(d, "'descr' must be a short string");
	}
	char order = descr[0] && strchr("<>|=", descr[0]) ? descr[0] : '=';
	const char *name = descr + (order == descr[0]);
	header->type.dtype = dtype_of_descr(name, name > descr);
	header->void2 = false;
	if (!strcmp(name, "V2")) {
		header->void2 = true;
		if (assume == DTYPE_COUNT) {
			diag_file(d->diags, STATUS_DATA, d->file, d->offset + (int64_t)d->token,
			          "npy header: type '%s' may hold bf16 or f16", descr);
			return diag_hint(d->diags, d->diags->library
			                               ? "ckptc_chain_bind takes its values, as CKPTC_BF16 or CKPTC_F16"
			                               : "--assume-dtype bf16 reads it as bfloat16");
		}
		if (assume != DTYPE_BF16 && assume != DTYPE_F16)
			return dict_error(d, "--assume-dtype must be of two bytes for this type");
		header->type.dtype = assume;
	}
	if (header->type.dtype == DTYPE_COUNT)
		return refuse_type(d, descr, name);
	header->swap = order == '>' && dtype_size(header->type.dtype) > 1;
	return STATUS_OK;
}

/* Reads the digits of a number in BASE, which may have '_' between them. Fails if there is none, or beyond 64 bits. */
static enum status read_digits(struct dict *d, int base, int64_t *value)
{
	static const char digits[] = "0123456789abcdef";
	const size_t begin = d->at;
	for (*value = 0; d->at < d->length && d->text[d->at]; d->at++) {
		if (d->text[d->at] == '_' && d->at > begin && d->text[d->at - 1] != '_')
			continue;
		const char *digit = memchr(digits, tolower((unsigned char)d->text[d->at]), (size_t)base);
		if (!digit)
			break;
		if (__builtin_mul_overflow(*value, base, value) || __builtin_add_overflow(*value, digit - digits, value))
			return dict_error(d, "an extent beyond 64 bits");
	}
	return d->at > begin && d->text[d->at - 1] != '_' ? STATUS_OK : dict_error(d, "an extent must be a whole number");
}

/* Reads an extent as Python spells it: 12, +12, 1_2, 0xc, 12L, or True, which is 1. */
static enum status read_extent(struct dict *d, int64_t *extent)
{
	static const char prefixes[] = "xXoObB";
	static const int bases[] = {16, 8, 2};
	peek(d);
	*extent = accept_word(d, "True");
	if (*extent || accept_word(d, "False"))
		return STATUS_OK;
	const size_t token = d->token;
	const bool negative = accept(d, '-');
	if (!negative)
		(void)accept(d, '+');
	peek(d);
	const size_t begin = d->at;
	d->token = token;
	const char *prefix = d->length - begin > 1 && d->text[begin] == '0' && d->text[begin + 1]
	                         ? strchr(prefixes, d->text[begin + 1])
	                         : NULL;
	d->at += prefix ? 2 : 0;
	TRY(read_digits(d, prefix ? bases[(prefix - prefixes) / 2] : 10, extent));
	if (!prefix && d->text[begin] == '0' && *extent > 0)
		return dict_error(d, "an extent begins with 0"); /* Python refuses it too */
	if (negative && *extent > 0)
		return dict_error(d, "an extent must be a whole number");
	(void)accept(d, 'L'); /* of Python 2 */
	d->token = token;
	return STATUS_OK;
}

static enum status read_shape(struct dict *d, struct shape *shape)
{
	if (!accept(d, '('))
		return dict_error(d, "'shape' must be a tuple");
	shape->ndim = 0;
	while (!accept(d, ')')) {
		int64_t extent;
		TRY(read_extent(d, &extent));
		if (shape->ndim == MAX_DIMS)
			return diag_file(d->diags, STATUS_LIMIT, d->file, d->offset + (int64_t)d->token, "more than %d dimensions",
			                 MAX_DIMS);
		shape->dim[shape->ndim++] = extent;
		if (!accept(d, ',')) {
			if (shape->ndim == 1)
				return dict_error(d, "'shape' must be a tuple");
			if (peek(d) != ')')
				return dict_error(d, "expected a comma or ')'");
		}
	}
	return STATUS_OK;
}

static enum status read_dict_entry(struct dict *d, enum dtype assume, struct npy_header *header, unsigned *seen)
{
	static const char *const keys[] = {"descr", "fortran_order", "shape"};
	char key[32];
	int k = 0;
	if (!accept_string(d, key, sizeof key))
		return dict_error(d, "a key must be a string");
	while (k < 3 && strcmp(keys[k], key))
		k++;
	if (k == 3)
		return dict_error(d, "an unknown key");
	if (*seen & 1u << k) /* readers differ in which of the two counts */
		return dict_error(d, "a key is there twice");
	*seen |= 1u << k;
	if (!accept(d, ':'))
		return dict_error(d, "expected a ':'");
	if (k == 0)
		return read_descr(d, assume, header);
	if (k == 2)
		return read_shape(d, &header->type.shape);
	header->fortran = accept_word(d, "True");
	if (!header->fortran && !accept_word(d, "False"))
		return dict_error(d, "'fortran_order' must be True or False");
	return STATUS_OK;
}

enum status npy_parse_dict(const struct source *dict, int64_t offset, enum dtype assume, struct npy_header *header,
                           struct diags *diags)
{
	struct dict d = {.text = dict->text, .length = dict->length, .file = dict->name, .offset = offset, .diags = diags};
	unsigned seen = 0;
	memset(header, 0, sizeof *header);
	if (!accept(&d, '{'))
		return dict_error(&d, "not a dict");
	while (!accept(&d, '}')) {
		TRY(read_dict_entry(&d, assume, header, &seen));
		if (!accept(&d, ',') && peek(&d) != '}')
			return dict_error(&d, "expected a comma or '}'");
	}
	if (peek(&d) != '\0' || d.at != d.length)
		return dict_error(&d, "text after the dict");
	if (seen != 7)
		return dict_error(&d, "'descr', 'fortran_order' and 'shape' must be there");
	const struct type widest = {DTYPE_F64, header->type.shape}; /* the widest computing type */
	return type_addressable(&widest) ? STATUS_OK : dict_error(&d, "the shape has too many elements to address");
}

enum status npy_read_header(struct input *input, enum dtype assume, struct npy_header *header, struct diags *diags)
{
	const unsigned char *bytes;
	size_t got;
	TRY(input_peek(input, NPY_MAGIC + 6, &bytes, &got, diags));
	if (!npy_is(bytes, got))
		return diag_file(diags, STATUS_DATA, input->name, input->offset,
		                 "not an npy file: it does not begin with \\x93NUMPY");
	if (got < NPY_MAGIC + 4)
		return diag_file(diags, STATUS_DATA, input->name, input->offset + (int64_t)got, "truncated npy header");
	int major = bytes[6], minor = bytes[7];
	if (major < 1 || major > 3 || minor != 0)
		return diag_file(diags, STATUS_DATA, input->name, input->offset + 6, "npy version %d.%d is not known", major,
		                 minor);
	size_t prefix = major == 1 ? 10 : 12;
	if (got < prefix)
		return diag_file(diags, STATUS_DATA, input->name, input->offset + (int64_t)got, "truncated npy header");
	size_t length = bytes[8] | (size_t)bytes[9] << 8;
	if (major > 1)
		length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
	if (length > NPY_HEADER_LIMIT)
		return diag_file(diags, STATUS_LIMIT, input->name, input->offset + 8,
		                 "an npy header of %zu bytes is beyond the limit of 64 KiB", length);
	TRY(input_peek(input, prefix + length, &bytes, &got, diags));
	if (got < prefix + length)
		return diag_file(diags, STATUS_DATA, input->name, input->offset + (int64_t)got,
		                 "truncated npy header: %zu of %zu bytes", got, prefix + length);
	const struct source dict = {input->name, (const char *)bytes + prefix, length};
	TRY(npy_parse_dict(&dict, input->offset + (int64_t)prefix, assume, header, diags));
	input_skip(input, prefix + length);
	return STATUS_OK;
}

/* As NumPy: leaves space for a longer leading extent, then pads with blanks and a newline to a multiple of 64 bytes. */
size_t npy_make_header(const struct type *type, char header[NPY_HEADER_MOST])
{
	enum { GROWTH_DIGITS = 21 };
	static const char *const descr[] = {
		[DTYPE_F16] = "<f2", [DTYPE_BF16] = "|V2", [DTYPE_F32] = "<f4", [DTYPE_F64] = "<f8", [DTYPE_I8] = "|i1",
		[DTYPE_I16] = "<i2", [DTYPE_I32] = "<i4",  [DTYPE_I64] = "<i8", [DTYPE_U8] = "|u1",  [DTYPE_U16] = "<u2",
		[DTYPE_U32] = "<u4", [DTYPE_U64] = "<u8",  [DTYPE_BOOL] = "|b1"};
	char *p = header + 10;
	p += sprintf(p, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr[type->dtype]);
	for (int i = 0; i < type->shape.ndim; i++)
		p += sprintf(p, i + 1 < type->shape.ndim ? "%lld, " : i ? "%lld" : "%lld,", (long long)type->shape.dim[i]);
	p += sprintf(p, "), }");
	if (type->shape.ndim > 0) {
		char digits[32];
		int n = sprintf(digits, "%lld", (long long)type->shape.dim[0]);
		p += sprintf(p, "%*s", GROWTH_DIGITS - n, "");
	}
	size_t used = (size_t)(p - header) + 1,
		   padded = used / 64 * 64 + 64; /* at least one byte of padding, as in NumPy */
	memset(p, ' ', padded - used);
	header[padded - 1] = '\n';
	memcpy(header, magic, NPY_MAGIC);
	header[6] = 1;
	header[7] = 0;
	header[8] = (char)((padded - 10) & 0xff);
	header[9] = (char)((padded - 10) >> 8);
	return padded;
}

/*
 * Arrays in Fortran order are transposed by squares of the first and the last axis, so that the reads and the writes of
 * a square stay in the cache. The axes between them are counted as an odometer counts.
 */
enum { SQUARE = 32 };

/* to[i * to_step + k] = from[i + k * from_step], for ROWS of i and COLUMNS of k. */
#define TRANSPOSE(NAME, T)                                                                                             \
	static void NAME(void *to, int64_t to_step, const void *from, int64_t from_step, int64_t rows, int64_t columns)    \
	{                                                                                                                  \
		for (int64_t i0 = 0; i0 < rows; i0 += SQUARE)                                                                  \
			for (int64_t k0 = 0; k0 < columns; k0 += SQUARE)                                                           \
				for (int64_t i = i0; i < rows && i < i0 + SQUARE; i++)                                                 \
					for (int64_t k = k0; k < columns && k < k0 + SQUARE; k++)                                          \
						((T *)to)[i * to_step + k] = ((const T *)from)[i + k * from_step];                             \
	}
TRANSPOSE(transpose_1, uint8_t)
TRANSPOSE(transpose_2, uint16_t)
TRANSPOSE(transpose_4, uint32_t)
TRANSPOSE(transpose_8, uint64_t)
#undef TRANSPOSE

/* Returns SHAPE without its extents of 1, which move no element. */
static struct shape squeeze(const struct shape *shape)
{
	struct shape squeezed = {.ndim = 0};
	for (int i = 0; i < shape->ndim; i++)
		if (shape->dim[i] != 1)
			squeezed.dim[squeezed.ndim++] = shape->dim[i];
	return squeezed;
}

bool npy_order_matters(const struct shape *shape) { return squeeze(shape).ndim > 1 && shape_count(shape) > 0; }

void npy_transpose(const struct shape *shape, size_t size, const char *from, char *to)
{
	static void (*const planes[])(void *, int64_t, const void *, int64_t, int64_t, int64_t) = {
		[1] = transpose_1, [2] = transpose_2, [4] = transpose_4, [8] = transpose_8};
	const struct shape s = squeeze(shape);
	const int last = s.ndim - 1;
	int64_t from_step[MAX_DIMS], to_step[MAX_DIMS], index[MAX_DIMS] = {0}, step = 1;
	for (int i = 0; i <= last; i++, step *= s.dim[i - 1])
		from_step[i] = step;
	step = 1;
	for (int i = last; i >= 0; step *= s.dim[i], i--)
		to_step[i] = step;
	int64_t read = 0, write = 0;
	for (;;) {
		planes[size](to + (size_t)write * size, to_step[0], from + (size_t)read * size, from_step[last], s.dim[0],
		             s.dim[last]);
		int i = last - 1;
		for (; i > 0; i--) {
			read += from_step[i];
			write += to_step[i];
			if (++index[i] < s.dim[i])
				break;
			read -= from_step[i] * s.dim[i];
			write -= to_step[i] * s.dim[i];
			index[i] = 0;
		}
		if (i <= 0)
			return;
	}
}
