/* Zip archives: what npz.c, which reads them, and save.c, which writes them, share. */
#ifndef IO_ZIP_H
#define IO_ZIP_H

#include <stddef.h>
#include <stdint.h>

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

#endif
