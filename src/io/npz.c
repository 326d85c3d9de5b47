/*
 * npz: a zip archive of npy members, each read as an npy file is. The reader finds members by the archive's directory
 * and reads each from front to back, in constant memory. Members are stored or deflated. The fields are those of
 * PKWARE's APPNOTE 6.3.
 *
 * The whole directory is checked when the archive is opened: its entries lie within it, and no member is larger than
 * the file's bytes can hold or inflate to. So a caller may allocate a member's size before its data come.
 *
 * zlib is not linked, but opened with the first deflated member: most archives are stored, and linking a library costs
 * more start-up time than a short chain runs.
 * Tests: tests/unit/test_load.c, tests/cases/stored.test
 */
#include "io/formats.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/checked.h"
#include "base/system.h"

enum { METHOD_STORED = 0, METHOD_DEFLATED = 8, FLAG_ENCRYPTED = 1, EXTRA_ZIP64 = 1 };
/* Deflate makes at most INFLATION_MOST bytes of one, since 2 bits can repeat 258 bytes. */
enum { INFLATION_MOST = 1032, PACKED_BYTES = 64 << 10 };

struct zip_member {
	const char *name;
	int64_t header;       /* byte of the file where its local header begins */
	int64_t packed, size; /* its bytes in the file, and after unpacking */
	uint32_t crc;
	unsigned flags, method;
};

/* Returns the little-endian number in the BYTES bytes at P. */
static uint64_t read_field(const unsigned char *p, int bytes)
{
	uint64_t value = 0;
	while (bytes-- > 0)
		value = value << 8 | p[bytes];
	return value;
}

static enum status not_readable(const struct archive *archive, int64_t offset, const char *why)
{
	return diag_file(archive->context->diags, STATUS_DATA, archive->input.name, offset, "not a readable npz: %s", why);
}

/* The directory's offset and size in bytes, and the number of its entries, as the end of the archive says. */
struct directory {
	uint64_t offset, size, count;
};

/* Reads SIZE bytes of the archive at OFFSET; STATUS_DATA where there are fewer. */
static enum status read_record(const struct archive *archive, int64_t offset, void *to, size_t size)
{
	size_t got = 0;
	const enum status status = input_read_at(&archive->input, offset, to, size, &got, archive->context->diags);
	return status || got == size ? status : not_readable(archive, offset + (int64_t)got, "it is truncated");
}

/* Sets DIRECTORY from the end record at P, byte AT of the file. A 64-bit record before it, if any, overrides it. */
static enum status read_end(const struct archive *archive, const unsigned char *p, int64_t at,
                            struct directory *directory)
{
	unsigned char locator[ZIP_LOCATOR64_BYTES], end[ZIP_END64_BYTES];
	*directory = (struct directory){read_field(p + 16, 4), read_field(p + 12, 4), read_field(p + 10, 2)};
	if (at >= ZIP_LOCATOR64_BYTES) {
		TRY(read_record(archive, at - ZIP_LOCATOR64_BYTES, locator, sizeof locator));
		if (read_field(locator, 4) == ZIP_LOCATOR64) {
			const uint64_t end_at = read_field(locator + 8, 8);
			TRY(end_at <= (uint64_t)at ? read_record(archive, (int64_t)end_at, end, sizeof end) : STATUS_OK);
			if (end_at > (uint64_t)at || read_field(end, 4) != ZIP_END64)
				return not_readable(archive, at - ZIP_LOCATOR64_BYTES,
				                    "its 64-bit directory is not where it should be");
			*directory = (struct directory){read_field(end + 48, 8), read_field(end + 40, 8), read_field(end + 32, 8)};
		}
	}
	if (directory->size > (uint64_t)at || directory->offset > (uint64_t)at - directory->size ||
	    directory->count > directory->size / ZIP_CENTRAL_BYTES)
		return not_readable(archive, at, "its directory is beyond the bytes before its end");
	return STATUS_OK;
}

/* True if the end record is at P, where LEFT bytes are left, and its comment fits in them. */
static bool is_end(const unsigned char *p, size_t left)
{
	return read_field(p, 4) == ZIP_END && read_field(p + 20, 2) <= left - ZIP_END_BYTES;
}

/* Searches backwards for the end record, as far as a comment after it may reach, and reads DIRECTORY from it. */
static enum status find_directory(const struct archive *archive, struct directory *directory)
{
	enum { COMMENT_MOST = 0xffff };
	const struct allocator *allocator = archive->context->allocator;
	const int64_t size = archive->input.size;
	const size_t most = ZIP_END_BYTES + COMMENT_MOST, tail = size < (int64_t)most ? (size_t)size : most;
	if (tail < ZIP_END_BYTES)
		return not_readable(archive, -1, "it has no zip directory at its end");
	unsigned char *bytes = allocator_get(allocator, tail, 1);
	enum status status =
		bytes ? read_record(archive, size - (int64_t)tail, bytes, tail) : diag_memory(archive->context->diags);
	if (!status) {
		size_t at = tail - ZIP_END_BYTES;
		while (at > 0 && !is_end(bytes + at, tail - at))
			at--;
		status = is_end(bytes + at, tail - at) ? read_end(archive, bytes + at, size - (int64_t)(tail - at), directory)
		                                       : not_readable(archive, -1, "it has no zip directory at its end");
	}
	allocator_put(allocator, bytes, tail);
	return status;
}

/* Replaces each of COUNT VALUES that is UINT32_MAX by its 64-bit field of the extra fields. False if it has none. */
static bool read_wide(const unsigned char *p, size_t size, uint64_t *values[], int count)
{
	const unsigned char *end = p + size, *from = NULL, *to = NULL;
	while (end - p >= 4 && !from) {
		const size_t length = read_field(p + 2, 2);
		if ((size_t)(end - p) - 4 < length)
			break;
		if (read_field(p, 2) == EXTRA_ZIP64) {
			from = p + 4;
			to = from + length;
		}
		p += 4 + length;
	}
	for (int i = 0; i < count; i++)
		if (*values[i] == UINT32_MAX) {
			if (!from || to - from < 8)
				return false;
			*values[i] = read_field(from, 8);
			from += 8;
		}
	return true;
}

/* Reads the directory entry at P, where LEFT bytes are left. Returns its length in bytes, or 0 if it is damaged. */
static size_t read_directory_entry(const struct archive *archive, const unsigned char *p, size_t left,
                                   struct zip_member *member)
{
	if (left < ZIP_CENTRAL_BYTES || read_field(p, 4) != ZIP_CENTRAL)
		return 0;
	const size_t name = read_field(p + 28, 2), extra = read_field(p + 30, 2), comment = read_field(p + 32, 2);
	uint64_t packed = read_field(p + 20, 4), size = read_field(p + 24, 4), header = read_field(p + 42, 4);
	if (left - ZIP_CENTRAL_BYTES < name + extra + comment ||
	    !read_wide(p + ZIP_CENTRAL_BYTES + name, extra, (uint64_t *[]){&size, &packed, &header}, 3))
		return 0;
	const uint64_t most = (uint64_t)archive->input.size;
	*member =
		(struct zip_member){.name = arena_strndup(archive->context->arena, (const char *)p + ZIP_CENTRAL_BYTES, name),
	                        .flags = (unsigned)read_field(p + 8, 2),
	                        .method = (unsigned)read_field(p + 10, 2),
	                        .crc = (uint32_t)read_field(p + 16, 4),
	                        .header = (int64_t)header,
	                        .packed = (int64_t)packed,
	                        .size = (int64_t)size};
	if (header > most || packed > most - header || (member->method == METHOD_STORED && size != packed) ||
	    size / INFLATION_MOST > packed)
		return 0;
	return ZIP_CENTRAL_BYTES + name + extra + comment;
}

/* Reads the entries of DIRECTORY, whose bytes are at BYTES. */
static enum status read_entries(struct archive *archive, const struct directory *directory, const unsigned char *bytes)
{
	archive->count = (size_t)directory->count;
	archive->members = arena_array(archive->context->arena, archive->count + 1, sizeof *archive->members);
	TRY_ALLOC(archive->members, archive->context->diags);
	size_t at = 0;
	for (size_t i = 0; i < archive->count; i++) {
		const size_t size = read_directory_entry(archive, bytes + at, directory->size - at, &archive->members[i]);
		if (size == 0)
			return not_readable(archive, (int64_t)(directory->offset + at), "its directory is damaged");
		TRY_ALLOC(archive->members[i].name, archive->context->diags);
		at += size;
	}
	return STATUS_OK;
}

enum status npz_open(struct archive *archive)
{
	const struct context *context = archive->context;
	struct directory directory = {0};
	TRY(find_directory(archive, &directory));
	unsigned char *bytes = allocator_get(context->allocator, directory.size + 1, 1);
	TRY_ALLOC(bytes, context->diags);
	enum status status = read_record(archive, (int64_t)directory.offset, bytes, directory.size);
	if (!status)
		status = read_entries(archive, &directory, bytes);
	allocator_put(context->allocator, bytes, directory.size + 1);
	return status;
}

/* A member that is read from front to back. */
struct member_stream {
	struct archive *archive;
	const struct zip_member *member;
	int64_t at, unread; /* place and number of the packed bytes not yet read; if stored, of all bytes throughout */
	int64_t done;       /* unpacked bytes so far */
	uint32_t crc;       /* checksum of those */
	struct team *team;  /* shares large reads of stored bytes */
	struct zip_crc tables;
	bool inflates, ended; /* INFLATES: the member is deflated; ENDED: zlib has seen its end */
	__typeof__(inflateInit2_) *inflate_init;
	__typeof__(inflate) *inflate;
	__typeof__(inflateEnd) *inflate_end;
	z_stream inflater;
	unsigned char *packed; /* a buffer of PACKED_BYTES, from which INFLATER reads */
};

__attribute__((format(printf, 3, 4))) static enum status damaged(const struct member_stream *s, struct diags *diags,
                                                                 const char *format, ...)
{
	char why[120];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(why, sizeof why, format, arguments);
	va_end(arguments);
	return diag_file(diags, STATUS_DATA, s->archive->input.name, -1, "member '%s' is damaged: %s", s->member->name,
	                 why);
}

/* Unpacks up to SIZE bytes to TO. Their number *GOT is 0 only at the end of the deflated or of the packed bytes. */
static enum status inflate_some(struct member_stream *s, void *to, size_t size, size_t *got, struct diags *diags)
{
	enum { PIECE_MOST = 1 << 30 };
	z_stream *z = &s->inflater;
	const uInt wanted = size < PIECE_MOST ? (uInt)size : PIECE_MOST;
	z->next_out = to;
	z->avail_out = wanted;
	while (z->avail_out == wanted && !s->ended) {
		if (z->avail_in == 0 && s->unread > 0) {
			const size_t piece = s->unread < PACKED_BYTES ? (size_t)s->unread : PACKED_BYTES;
			size_t read = 0;
			TRY(input_read_at(&s->archive->input, s->at, s->packed, piece, &read, diags));
			s->at += (int64_t)read;
			s->unread = read ? s->unread - (int64_t)read : 0;
			z->next_in = s->packed;
			z->avail_in = (uInt)read;
		}
		const int result = s->inflate(z, Z_NO_FLUSH);
		if (result == Z_MEM_ERROR)
			return diag_memory(diags);
		if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
			return damaged(s, diags, "%s", z->msg ? z->msg : "it is not deflated data");
		s->ended = result == Z_STREAM_END || (z->avail_in == 0 && s->unread == 0 && z->avail_out == wanted);
	}
	*got = wanted - z->avail_out;
	return STATUS_OK;
}

static enum status check_member_end(struct member_stream *s, struct diags *diags)
{
	unsigned char more;
	size_t got = 0;
	TRY(s->inflates ? inflate_some(s, &more, 1, &got, diags) : STATUS_OK);
	if (got)
		return damaged(s, diags, "it goes on after %lld bytes", (long long)s->member->size);
	return s->crc == s->member->crc ? STATUS_OK : damaged(s, diags, "its checksum is wrong");
}

/* A read of stored bytes in pieces. Those that are WHOLE have checksums. */
struct shared_read {
	const struct member_stream *stream;
	char *to;
	int64_t at, piece; /* the file's byte where they begin; bytes of a piece */
	struct {
		bool complete;
		uint32_t crc;
	} pieces[ZIP_PIECES];
};

/* A team_part. */
static void read_piece(void *context, void *memory, int64_t begin, int64_t end)
{
	struct shared_read *r = context;
	const int64_t piece = begin / r->piece;
	(void)memory;
	for (int64_t next; begin < end; begin = next) {
		next = lesser(begin + ZIP_BLOCK, end);
		const size_t size = (size_t)(next - begin);
		size_t got;
		if (!io_read_at(r->stream->archive->input.fd, r->at + begin, r->to + begin, size, &got) || got < size)
			return;
		r->pieces[piece].crc = zip_crc_add(&r->stream->tables, r->pieces[piece].crc, r->to + begin, size);
	}
	r->pieces[piece].complete = true;
}

/* Reads SIZE stored bytes, all or those before a piece that fails, and adds their checksum. Returns their number. */
static size_t read_pieces(struct member_stream *s, void *to, size_t size)
{
	struct shared_read r = {.stream = s, .to = to, .piece = zip_piece_bytes(size)};
	r.at = s->archive->input.base + s->at + s->done;
	if (s->inflates || (int64_t)size <= r.piece)
		return 0;
	team_run(s->team, (int64_t)size, r.piece, read_piece, &r);
	int64_t done = 0;
	for (int64_t i = 0; done < (int64_t)size && r.pieces[i].complete; i++) {
		const int64_t piece = lesser((int64_t)size - done, r.piece);
		s->crc = zip_crc_join(s->crc, r.pieces[i].crc, (size_t)piece);
		done += piece;
	}
	return (size_t)done;
}

/* Reads the next bytes of a member_stream, as an input_pull. At the end, size and checksum must be the directory's. */
static enum status read_member(void *context, void *to, size_t size, size_t *got, struct diags *diags)
{
	struct member_stream *s = context;
	const int64_t left = s->member->size - s->done;
	*got = 0;
	if (left == 0)
		return check_member_end(s, diags);
	size = (int64_t)size < left ? size : (size_t)left;
	*got = read_pieces(s, to, size);
	s->done += (int64_t)*got;
	if (*got > 0)
		return STATUS_OK;
	const enum status status = s->inflates ? inflate_some(s, to, size, got, diags)
	                                       : input_read_at(&s->archive->input, s->at + s->done, to, size, got, diags);
	if (!status && *got == 0)
		return damaged(s, diags, "it ends after %lld of %lld bytes", (long long)s->done, (long long)s->member->size);
	s->crc = zip_crc_add(&s->tables, s->crc, to, *got);
	s->done += (int64_t)*got;
	return status;
}

/* Reports that M is packed otherwise than ckptc reads, with a command that packs it anew or unpacks it. */
static enum status refuse_method(const struct archive *archive, const struct zip_member *m)
{
	/* NumPy reads those of Python's zipfile. APPNOTE 4.4.5 has the numbers. */
	static const struct {
		unsigned method;
		const char *name;
		bool numpy_reads;
	} methods[] = {
		{9, "deflate64", false}, {12, "bzip2", true}, {14, "lzma", true}, {93, "zstd", false}, {95, "xz", false}};
	struct diags *diags = archive->context->diags;
	const char *file = archive->input.name;
	if (m->flags & FLAG_ENCRYPTED) {
		diag_file(diags, STATUS_DATA, file, -1, "member '%s' is encrypted", m->name);
		return diag_hint_command(diags, "unpack it: unzip %s", file);
	}
	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
		if (methods[i].method != m->method)
			continue;
		diag_file(diags, STATUS_DATA, file, -1, "member '%s' is compressed by %s, which ckptc does not read", m->name,
		          methods[i].name);
		return methods[i].numpy_reads
		           ? diag_hint_command(
						 diags,
						 "convert it: python3 -c 'import numpy, sys; numpy.savez(open(\"a.npz\", \"xb\"), "
						 "**numpy.load(sys.argv[1]))' %s",
						 file)
		           : diag_hint_command(diags, "unpack it: 7z x %s", file);
	}
	return diag_file(diags, STATUS_DATA, file, -1, "member '%s' is compressed by method %u, which ckptc does not read",
	                 m->name, m->method);
}

/* Finds the member's bytes, which follow a local header of its own length. Opens zlib if the member is deflated. */
static enum status begin_stream(struct member_stream *s)
{
	struct archive *archive = s->archive;
	const struct zip_member *m = s->member;
	unsigned char local[ZIP_LOCAL_BYTES];
	struct diags *diags = archive->context->diags;
	if (m->flags & FLAG_ENCRYPTED || (m->method != METHOD_STORED && m->method != METHOD_DEFLATED))
		return refuse_method(archive, m);
	TRY(read_record(archive, m->header, local, sizeof local));
	s->at = m->header + ZIP_LOCAL_BYTES + (int64_t)(read_field(local + 26, 2) + read_field(local + 28, 2));
	s->unread = m->packed;
	if (read_field(local, 4) != ZIP_LOCAL || s->at > archive->input.size - m->packed)
		return damaged(s, diags, "it is not where the directory says");
	if (m->method == METHOD_STORED)
		return STATUS_OK;
	if (!archive->zlib)
		archive->zlib = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!archive->zlib || !library_find(archive->zlib, "inflateInit2_", &s->inflate_init) ||
	    !library_find(archive->zlib, "inflate", &s->inflate) ||
	    !library_find(archive->zlib, "inflateEnd", &s->inflate_end))
		return diag_file(diags, STATUS_IO, archive->input.name, -1, "cannot open the library that inflates members: %s",
		                 dlerror());
	const int result = s->inflate_init(&s->inflater, -MAX_WBITS, ZLIB_VERSION, (int)sizeof s->inflater);
	s->inflates = result == Z_OK;
	if (result == Z_MEM_ERROR)
		return diag_memory(diags);
	return result == Z_OK ? STATUS_OK : damaged(s, diags, "zlib does not begin");
}

static enum status load_member(struct loader *loader, struct array *array, struct archive *archive,
                               const struct zip_member *member, const char *key)
{
	const struct context *context = loader->context;
	unsigned char packed[PACKED_BYTES];
	struct member_stream s = {.archive = archive, .member = member, .team = loader->team, .packed = packed};
	struct input input = {
		.fd = -1, .size = -1, .limit = member->size, .pull = read_member, .stream = &s, .arena = context->arena};
	input.name = arena_printf(context->arena, "%s(%s)", archive->input.name, key ? key : member->name);
	TRY_ALLOC(input.name, context->diags);
	zip_crc_init(&s.tables);
	enum status status = begin_stream(&s);
	const struct stored_array where = {
		.input = archive->input, .at = s.at, .bytes = member->size, .member = member->name, .crc = member->crc};
	if (!status)
		status = load_stream(loader, array, &input, s.inflates ? NULL : &where);
	input_close(&input);
	if (s.inflates)
		s.inflate_end(&s.inflater);
	return status;
}

size_t npz_names(const struct archive *archive, const char **names)
{
	for (size_t i = 0; i < archive->count && names; i++) {
		const char *name = archive->members[i].name;
		const size_t length = strlen(name);
		const bool npy = length > 4 && !strcmp(name + length - 4, ".npy");
		names[i] = npy ? arena_strndup(archive->context->arena, name, length - 4) : name;
	}
	return archive->count;
}

/* Returns the first member named KEY and SUFFIX (KEY NULL: any), or NULL. *COUNT is the number of such members. */
static const struct zip_member *find_member(const struct archive *archive, const char *key, const char *suffix,
                                            size_t *count)
{
	const size_t length = key ? strlen(key) : 0;
	const struct zip_member *first = NULL;
	*count = 0;
	for (const struct zip_member *m = archive->members; m < archive->members + archive->count; m++)
		if (!key || (!strncmp(m->name, key, length) && !strcmp(m->name + length, suffix))) {
			first = first ? first : m;
			++*count;
		}
	return first;
}

enum status npz_load(struct loader *loader, struct array *array, struct archive *archive, const char *key)
{
	struct diags *diags = loader->context->diags;
	const char *path = archive->input.name;
	size_t count;
	const struct zip_member *member = find_member(archive, key, "", &count);
	if (!member && key)
		member = find_member(archive, key, ".npy", &count);
	if (count == 1)
		return load_member(loader, array, archive, member, key);
	if (count > 1 && key)
		return diag_file(diags, STATUS_DATA, path, -1, "has two members '%s'", key);
	return archive_lacks(archive, key);
}
