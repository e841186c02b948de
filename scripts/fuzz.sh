#!/bin/bash
# fuzz.sh SECONDS [TARGET...]: coverage-guided fuzzing of each target in native/fuzz, one after the other.
#
# Corpora are kept in out/fuzz between runs. The coverage flags are those of `cargo fuzz`, without a sanitizer: the parsers
# have no unsafe code, and a sanitizer needs a nightly compiler.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=$1
shift
host=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR=$PWD/native/target/fuzz
export RUSTFLAGS="-Ccodegen-units=1 -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares"
# With --target, the flags do not apply to build scripts.
cargo build --release --locked --target "$host" --manifest-path native/fuzz/Cargo.toml

if [ $# -eq 0 ]; then
	for target in native/fuzz/targets/*.rs; do
		set -- "$@" "$(basename "$target" .rs)"
	done
fi
failed=
for target in "$@"; do
	program=$CARGO_TARGET_DIR/$host/release/$target
	own=out/fuzz/$target
	mkdir -p "$own/corpus"
	CCPLANE_FUZZ_SEEDS=$own/corpus "$program" >/dev/null 2>&1
	echo "fuzz: $target for $seconds s; log: $own/log"
	# Inputs up to the longest datagram; a datagram takes milliseconds, and its decoding bounded memory.
	if ! "$program" -max_total_time="$seconds" -max_len=65535 -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
		-artifact_prefix="$own/" "$own/corpus" >"$own/log" 2>&1; then
		failed="$failed $target"
		grep -E 'panicked at|SUMMARY|Test unit written|^==[0-9]+==' "$own/log" || tail -n 20 "$own/log"
		echo "fuzz: run it again: $program FILE"
	fi
	sed -n 's/^stat::/fuzz:   /p' "$own/log" | grep -E 'executed_units|peak_rss' || true
done
if [ -n "$failed" ]; then
	echo "fuzz: failed:$failed"
	exit 1
fi
