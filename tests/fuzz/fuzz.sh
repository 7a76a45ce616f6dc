#!/bin/bash
# Fuzzes each target, built by clang with libFuzzer, AddressSanitizer and UBSan. Prints a TAP point for each.
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
	"$source_dir/configure" -q --enable-fuzzing --enable-sanitizers CC=clang CFLAGS='-g -O1' >configure.log 2>&1 || {
		cat configure.log
		exit 1
	}
fi
make -s -j"$(nproc)" "${targets[@]/#/tests/fuzz/fuzz_}" >make.log 2>&1 || {
	tail -n 50 make.log
	exit 1
}

status=0
echo "1..${#targets[@]}"
for target in "${targets[@]}"; do
	mkdir -p "corpus/$target"
	if "tests/fuzz/fuzz_$target" -seed="${SEED:-1}" -max_total_time="$seconds" -timeout=60 -print_final_stats=1 \
		-artifact_prefix="$folder/$target-" "corpus/$target" "$source_dir/tests/fuzz/seeds/$target" \
		>"$target.log" 2>&1; then
		result=ok
	else
		result='not ok'
		status=1
	fi
	echo "$result - $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$target.log") inputs"
	[ "$result" = ok ] || grep -v '^#[0-9]' "$target.log" | tail -n 60
done
exit $status
