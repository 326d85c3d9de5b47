/* The beginnings of foreign formats, from their specifications and from file(1). */
#include "io/foreign.h"

#include <string.h>

#define PICKLE                                                                                                         \
	"pickle", "python3 -c 'import numpy; a = numpy.load(\"",                                                           \
		"\", allow_pickle=True); numpy.savez(\"a.npz\", **a) if isinstance(a, dict) else numpy.save(\"a.npy\", a)'"

/* Data of FORMAT has the LENGTH bytes of MAGIC at byte AT. COMMAND converts the file between BEFORE and AFTER. */
static const struct foreign {
	size_t at, length;
	const char *magic, *format, *before, *after;
} formats[] = {
	{0, 2, "\x1f\x8b", "gzip", "gzip -dc ", " >a"},
	{0, 4, "\x28\xb5\x2f\xfd", "zstd", "zstd -dc ", " >a"},
	{0, 6, "\xfd\x37zXZ", "xz", "xz -dc ", " >a"},
	{0, 3, "BZh", "bzip2", "bzip2 -dc ", " >a"},
	{0, 4, "PK\3\4", "zip (npz)", "unzip -p ", " NAME.npy >a.npy"},
	{6, 3, "\0\0{", "safetensors", "echo 0 | ckptc run --to npy -o a.npy -e 'const a = load(\"",
     "\", \"NAME\"); use a'"},
	{0, 8, "\x89HDF\r\n\x1a\n", "HDF5", "python3 -c 'import h5py, numpy; numpy.save(\"a.npy\", h5py.File(\"",
     "\")[\"NAME\"])'"},
	{0, 8, "\x89PNG\r\n\x1a\n", "PNG", "python3 -c 'import numpy, PIL.Image; numpy.save(\"a.npy\", PIL.Image.open(\"",
     "\"))'"},
	{0, 6, "cnumpy", PICKLE},
	{0, 2, "\x80\2", PICKLE},
	{0, 2, "\x80\3", PICKLE},
	{0, 2, "\x80\4", PICKLE},
	{0, 2, "\x80\5", PICKLE},
};

enum status foreign_refuse(const struct input *input, const unsigned char *bytes, size_t got, struct diags *diags)
{
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
		const struct foreign *f = &formats[i];
		if (got < f->at + f->length || memcmp(bytes + f->at, f->magic, f->length))
			continue;
		diag_file(diags, STATUS_DATA, input->name, 0, "the data is %s, which ckptc does not read as an array",
		          f->format);
		if (input->pull) /* no command reads a member by this name */
			return diag_hint(diags, "it is a member of an archive; one of torch.save becomes npz in Python by "
			                        "`numpy.savez(\"a.npz\", **torch.load(\"FILE\"))`");
		return diag_hint(diags, "convert it: %s%s%s", f->before, strcmp(input->name, "<stdin>") ? input->name : "FILE",
		                 f->after);
	}
	return STATUS_OK;
}
