/*
 * What each harness ends with: with -DREPLAY it is a program that runs the files
 * that are its arguments, for any compiler.
 */
#ifdef REPLAY
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
	static uint8_t bytes[1 << 20];
	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "rb");
		if (!file)
			return EXIT_FAILURE;
		size_t length = fread(bytes, 1, sizeof bytes, file);
		fclose(file);
		LLVMFuzzerTestOneInput(bytes, length);
	}
	return EXIT_SUCCESS;
}
#endif
