/*
 * The beginnings of foreign formats, from their specifications and from file(1).
 * Tests: tests/cases/errors.test
 */
#include "io/foreign.h"

#include <string.h>

/* Any pickle may be one of a program that removes files: the user must know that before the command is pasted. */
#define PICKLE                                                                                                         \
	"pickle", "to load it runs code that the file holds; if you trust the file, convert it: "                          \
			  "python3 -c 'import numpy, sys; a = numpy.load(sys.argv[1], allow_pickle=True); "                        \
			  "numpy.savez(open(\"a.npz\", \"xb\"), **a) if isinstance(a, dict) else numpy.save(open(\"a.npy\", "      \
			  "\"xb\"), a)' %s"

#define SPREADSHEET(FORMAT) FORMAT, "convert it: mkdir a && soffice --headless --convert-to csv --outdir a %s"
#define BY_PANDAS(READER)                                                                                              \
	"convert it: python3 -c 'import pandas, sys; pandas.read_" READER                                                  \
	"(sys.argv[1]).to_csv(open(\"a.csv\", \"x\"), index=False)' %s"

static const char safetensors_magic[] = "\0\0{";

/*
 * Data of FORMAT has the LENGTH bytes of MAGIC at byte AT. HINT, a hint of diag_hint_command, converts the file, and replaces
 * no other.
 */
static const struct foreign {
	size_t at, length;
	const char *magic, *format, *hint;
} formats[] = {
	{0, 2, "\x1f\x8b", "gzip", "convert it: (set -C; gzip -dc %s >a)"},
	{0, 4, "\x28\xb5\x2f\xfd", "zstd", "convert it: (set -C; zstd -dc %s >a)"},
	{0, 6, "\xfd\x37zXZ", "xz", "convert it: (set -C; xz -dc %s >a)"},
	{0, 3, "BZh", "bzip2", "convert it: (set -C; bzip2 -dc %s >a)"},
	{30, 19, "[Content_Types].xml", SPREADSHEET("an Excel workbook (xlsx)")},
	{30, 11, "_rels/.rels", SPREADSHEET("an Excel workbook (xlsx)")},
	{30, 28, "mimetypeapplication/vnd.oasis", SPREADSHEET("an OpenDocument file (ods)")},
	{0, 4, "\xd0\xcf\x11\xe0", SPREADSHEET("an old Office file (xls)")},
	{0, 4, "PK\3\4", "zip (npz)", "convert it: unzip %s"},
	{0, 4, "PK\5\6", "zip (npz) without members", "look into it: unzip -l %s"},
	{6, 3, safetensors_magic, "safetensors", NULL},
	{0, 8, "\x89HDF\r\n\x1a\n", "HDF5",
     "convert it: python3 -c 'import h5py, numpy, sys; h5py.File(sys.argv[1]).visititems(lambda n, d: "
     "numpy.save(open(n.replace(\"/\", \"_\") + \".npy\", \"xb\"), d) if isinstance(d, h5py.Dataset) else None)' %s"},
	{0, 8, "\x89PNG\r\n\x1a\n", "PNG",
     "convert it: python3 -c 'import numpy, PIL.Image, sys; numpy.save(open(\"a.npy\", \"xb\"), "
     "PIL.Image.open(sys.argv[1]))' %s"},
	{0, 2, "\xff\xfe", "UTF-16 text", "convert it: (set -C; iconv -f UTF-16 -t UTF-8 %s >a)"},
	{0, 2, "\xfe\xff", "UTF-16 text", "convert it: (set -C; iconv -f UTF-16 -t UTF-8 %s >a)"},
	{0, 4, "PAR1", "Parquet", BY_PANDAS("parquet")},
	{0, 6, "ARROW1", "Arrow (Feather)", BY_PANDAS("feather")},
	{0, 6, "MATLAB", "a MATLAB file",
     "convert it: python3 -c 'import numpy, scipy.io, sys; numpy.savez(open(\"a.npz\", \"xb\"), **{k: v for k, v in "
     "scipy.io.loadmat(sys.argv[1]).items() if k[0] != \"_\"})' %s"},
	{0, 6, "SQLite", "an SQLite database",
     "convert a table of it: (set -C; sqlite3 -header -csv %s 'select * from NAME' >a.csv)"},
	{0, 6, "cnumpy", PICKLE},
	{0, 2, "\x80\2", PICKLE},
	{0, 2, "\x80\3", PICKLE},
	{0, 2, "\x80\4", PICKLE},
	{0, 2, "\x80\5", PICKLE},
};

/* Returns the end of the JSON value at AT, before END: a string, an object, a list or a number. NULL: it is not all there. */
static const char *skip_value(const char *at, const char *end)
{
	int depth = 0;
	bool quoted = false;
	for (; at < end; at++) {
		if (quoted && *at == '\\')
			at++;
		else if (*at == '"')
			quoted = !quoted;
		else if (!quoted && (*at == '{' || *at == '['))
			depth++;
		else if (!quoted && (*at == '}' || *at == ']'))
			depth--;
		if (!quoted && depth <= 0 && strchr("\"}]", *at))
			return at < end ? at + 1 : NULL;
	}
	return NULL;
}

/*
 * Returns the name of the first tensor of INPUT, a regular file of safetensors, in ARENA. NULL if it is not within the first
 * bytes, or is spelled with escapes.
 */
static const char *first_tensor(const struct input *input, struct arena *arena)
{
	char bytes[16 << 10];
	size_t got;
	if (input->size < 0 || !io_read_at(input->fd, input->base, bytes, sizeof bytes, &got))
		return NULL;
	const char *const end = bytes + got, *at = memchr(bytes, '"', got);
	while (at) {
		const char *const after = skip_value(at, end), *const value =
														   after ? memchr(after, '{', (size_t)(end - after)) : NULL;
		const size_t length = after ? (size_t)(after - at) - 2 : 0;
		if (after && (length != strlen("__metadata__") || memcmp(at + 1, "__metadata__", length) != 0))
			return memchr(at, '\\', length + 1) ? NULL : arena_strndup(arena, at + 1, length);
		at = value ? skip_value(value, end) : NULL;
		at = at ? memchr(at, '"', (size_t)(end - at)) : NULL;
	}
	return NULL;
}

/* Gives the failure the command that converts the first tensor of INPUT, called FILE. */
static enum status hint_tensor(const struct input *input, const char *file, struct diags *diags)
{
	const char *tensor = first_tensor(input, diags->arena);
	const char *bound =
		arena_printf(diags->arena, "a=%s%s:%s", *file == '-' ? "./" : "", file, tensor ? tensor : "NAME");
	TRY_ALLOC(bound, diags);
	return diag_hint_command(diags, "convert it: echo 0 | ckptc run --to npy -o a.npy --param %s -e 'const a; use a'",
	                         bound);
}

enum status foreign_refuse(const struct input *input, const unsigned char *bytes, size_t got, struct diags *diags)
{
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
		const struct foreign *f = &formats[i];
		if (got < f->at + f->length || memcmp(bytes + f->at, f->magic, f->length))
			continue;
		diag_file(diags, STATUS_DATA, input->name, 0, "the data is %s, which ckptc does not read as an array",
		          f->format);
		if (input->pull) /* no command reads a member by this name */
			return diag_hint_command(
				diags,
				"it is a member of an archive; one of torch.save becomes npz by: python3 -c 'import numpy, sys, torch; "
				"numpy.savez(open(\"a.npz\", \"xb\"), **torch.load(sys.argv[1], weights_only=True))' FILE");
		const char *file = strcmp(input->name, "<stdin>") ? input->name : "FILE";
		return f->hint ? diag_hint_command(diags, f->hint, file) : hint_tensor(input, file, diags);
	}
	return STATUS_OK;
}
