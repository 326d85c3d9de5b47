/*
 * Zip archives. The reader finds members by the archive's directory and reads each from
 * front to back, in constant memory; they are stored, or deflated. The fields are those
 * of PKWARE's APPNOTE 6.3. io/save.c writes archives.
 */
#ifndef IO_ZIP_H
#define IO_ZIP_H

#include "base/context.h"
#include "io/stream.h"

/* The signatures that records begin with, and the records' bytes without names and extra fields. */
enum { ZIP_LOCAL = 0x04034b50, ZIP_CENTRAL = 0x02014b50, ZIP_END = 0x06054b50 };
enum { ZIP_END64 = 0x06064b50, ZIP_LOCATOR64 = 0x07064b50 };
enum { ZIP_LOCAL_BYTES = 30, ZIP_CENTRAL_BYTES = 46, ZIP_END_BYTES = 22 };
enum { ZIP_END64_BYTES = 56, ZIP_LOCATOR64_BYTES = 20, ZIP_NAME_MOST = 0xffff };

/* Tables for the checksum of members. */
struct zip_crc {
	uint32_t table[8][256];
};
void zip_crc_init(struct zip_crc *tables);
/* The checksum of some bytes, whose checksum is CRC (0 for none), and SIZE more. */
uint32_t zip_crc_add(const struct zip_crc *tables, uint32_t crc, const void *data, size_t size);

struct zip_member {
	const char *name; /* in the archive's directory: not terminated */
	size_t name_length;
	int64_t header;       /* byte of the file where its local header begins */
	int64_t packed, size; /* bytes in the file, and unpacked */
	uint32_t crc;
	unsigned flags, method;
};

struct zip {
	const struct input *input;
	const struct context *context;
	struct zip_member *members; /* NULL: not open */
	size_t count;
	unsigned char *directory;
	size_t directory_size;
	void *zlib; /* the library, opened with the first deflated member */
};

/*
 * Reads the directory of INPUT, a regular file, which must outlive ZIP, as must CONTEXT. STATUS_DATA where it is
 * damaged, or is beyond the bytes of the file.
 */
enum status zip_open(struct zip *zip, const struct input *input, const struct context *context);
void zip_close(struct zip *zip);

struct zip_stream;
/*
 * Makes INPUT a stream of the bytes of MEMBER, which messages call NAME. At its end the
 * size and the checksum are compared with the directory's: a read there is STATUS_DATA
 * where they differ. *STREAM is closed after INPUT.
 */
enum status zip_stream_open(struct zip *zip, const struct zip_member *member, const char *name, struct input *input,
                            struct zip_stream **stream);
void zip_stream_close(struct zip_stream *stream);

#endif
