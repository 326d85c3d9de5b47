# A law on the heads of sources, for check-sources: the first comment of each file, where the file begins, has a line
#     Tests: FILE, FILE
# of tests that are there. Prints a line for each file that breaks it.

function report(what) {
	print file ": its head names " what
	broken = 1
}

BEGIN {
	for (i = 1; i < ARGC; i++) {
		file = ARGV[i]
		tests = ""
		for (first = 1; (getline line < file) > 0 && (!first || line ~ /^\/\*/); first = 0) {
			if (match(line, /^(\/\*| \*) Tests: /)) {
				tests = substr(line, RLENGTH + 1)
				sub(/ *\*\/.*/, "", tests)
			}
			if (line ~ /\*\//)
				break
		}
		close(file)
		if (tests == "")
			report("no tests")
		count = split(tests, list, ", ")
		for (k = 1; k <= count; k++) {
			if ((getline line < list[k]) < 0)
				report(list[k] ", which does not exist")
			close(list[k])
		}
	}
	exit broken
}
