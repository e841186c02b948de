#!/usr/bin/env bash
# Runs two commands in parallel: parallel.sh COMMAND -- COMMAND. Prints the output of the first when both have ended. Fails if one
# fails. An interrupt ends both.
set -uo pipefail

first=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do first+=("$1"); shift; done
[ "${#first[@]}" -gt 0 ] && [ $# -gt 1 ] || { echo "usage: $0 COMMAND -- COMMAND" >&2; exit 2; }
shift

log=$(mktemp)
# Job control gives it its own process group, which receives the interrupt.
set -m
"${first[@]}" >"$log" 2>&1 </dev/null &
beside=$!
set +m
trap 'kill -INT -- "-$beside" 2>/dev/null && wait "$beside"; rm -f "$log"' EXIT

# Pytest handles an interrupt and exits normally, so Bash would keep waiting for the other command.
trap 'exit 130' INT TERM

failed=0
"$@" || failed=$?
wait "$beside" || failed=$?
cat "$log"
exit "$failed"
