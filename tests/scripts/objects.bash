# Compiles the sources of the product in another way than the build does, for scripts that a target of make calls. They
# source this file. TOP is the source tree; CPPFLAGS of make come in the variable that a script names.

isa_flags() { # SOURCE
	case $1 in
	*_avx2.c) echo -mavx2 -mfma -mf16c ;;
	*_avx512.c) echo -mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma ;;
	esac
}

# Sets `objects` to the objects of SOURCES in FOLDER, which COMMAND makes with the flags of the array `cppflags`.
compile_objects() { # FOLDER COMMAND SOURCES...
	local folder=$1 command=$2 newest object path source
	shift 2
	mkdir -p "$folder"
	# Objects that are older than any header or table are of another program.
	newest=$(find "$TOP/src" "$TOP/grammar" grammar \( -name '*.h' -o -name '*.def' \) -printf '%T@ %p\n' | sort -n | tail -n 1)
	newest=${newest#* }
	objects=()
	for source in "$@"; do
		[[ $source == *.c ]] || continue
		object=$folder/${source//\//_}.o
		objects+=("$object")
		path=$source
		[[ -e $path ]] || path=$TOP/$source
		while (($(jobs -rp | wc -l) >= $(nproc))); do wait -n; done
		# shellcheck disable=SC2046,SC2086 # flags are split on purpose
		[[ $object -nt $path && $object -nt $newest ]] || $command "${cppflags[@]}" $(isa_flags "$source") -c "$path" -o "$object" &
	done
	while [[ -n $(jobs -rp) ]]; do wait -n; done
}
