#!/usr/bin/env bash
# Run two commands side by side: beside.sh COMMAND -- COMMAND. What the first one prints is shown when both have ended; if one fails, so
# does this. An interrupt ends both.
set -uo pipefail

first=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do first+=("$1"); shift; done
[ "${#first[@]}" -gt 0 ] && [ $# -gt 1 ] || { echo "usage: $0 COMMAND -- COMMAND" >&2; exit 2; }
shift

log=$(mktemp)
# With job control it is a process group of its own, and hears of an interrupt.
set -m
"${first[@]}" >"$log" 2>&1 </dev/null &
beside=$!
set +m
trap 'kill -INT -- "-$beside" 2>/dev/null && wait "$beside"; rm -f "$log"' EXIT

# Pytest ends by itself after an interrupt: Bash would go on, and wait for the other one.
trap 'exit 130' INT TERM

failed=0
"$@" || failed=$?
wait "$beside" || failed=$?
cat "$log"
exit "$failed"
