#!/bin/bash
# Fuzzes each target, built by clang with libFuzzer, AddressSanitizer and UBSan. There are as many at once as
# processors. Prints a TAP point for each.
#
#	fuzz.sh SECONDS [TARGET...]		TARGET: "amqp" for tests/fuzz/fuzz_amqp.c
#
# The build and all that is found are kept in fuzz/ of the build folder: the corpus of each target, its log, and the
# input of a crash. The next run goes on with the corpus. SEED= fixes libFuzzer's random choices (default: 1).
set -u
source_dir=${top_srcdir:?make sets it}
folder=${top_builddir:?make sets it}/fuzz
seconds=$1
shift
if [ $# -gt 0 ]; then
	targets=("$@")
else
	targets=()
	for source in "$source_dir"/tests/fuzz/fuzz_*.c; do
		name=${source##*/fuzz_}
		targets+=("${name%.c}")
	done
fi

if ! command -v clang >/dev/null; then
	echo "1..0 # SKIP ******* no clang here: the fuzz targets only got their seeds"
	exit 0
fi
mkdir -p "$folder" && cd "$folder" || exit 1
if [ ! -e Makefile ]; then
	"$source_dir/configure" -q --enable-fuzzing --enable-sanitizers CC=clang \
		CFLAGS='-O1 -gline-tables-only' >configure.log 2>&1 || {
		cat configure.log
		exit 1
	}
fi
make -s -j"$(nproc)" "${targets[@]/#/tests/fuzz/fuzz_}" >make.log 2>&1 || {
	tail -n 50 make.log
	exit 1
}

fuzz() {
	local result=ok
	mkdir -p "corpus/$1"
	"tests/fuzz/fuzz_$1" -seed="${SEED:-1}" -max_total_time="$seconds" -timeout=60 -print_final_stats=1 \
		-artifact_prefix="$folder/$1-" "corpus/$1" "$source_dir/tests/fuzz/seeds/$1" >"$1.log" 2>&1 || result='not ok'
	echo "$result - $1: $(sed -n 's/^stat::number_of_executed_units: *//p' "$1.log") inputs"
	if [ "$result" != ok ]; then
		grep -v '^#[0-9]' "$1.log" | tail -n 60
		return 1
	fi
}

echo "1..${#targets[@]}"
export folder seconds source_dir
export -f fuzz
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I TARGET bash -c 'fuzz TARGET'
