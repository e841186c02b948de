#!/usr/bin/env bash
# Links a side module for Pyodide: wasm-ld with the objects and the output of a command line for emcc. Pyodide's main
# module exports libc, so nothing of Emscripten is needed.
set -euo pipefail
objects=()
while (($#)); do
	case $1 in
	-o) output=$2 && shift ;;
	*.o | *.rlib | *.a) objects+=("$1") ;;
	esac
	shift
done
exec wasm-ld --shared --experimental-pic --unresolved-symbols=import-dynamic --export=PyInit__native \
	--no-entry --gc-sections --strip-all -o "$output" "${objects[@]}"
