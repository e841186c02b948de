#!/usr/bin/env bash
# Builds the extension into .venv, with the kernel part if its dependencies are installed. Options are maturin's; --features
# only prints cargo's options.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/kernel-part.sh

features=
has_kernel_part_needs || features=--no-default-features
if [ "${1:-}" = --features ]; then
	echo "$features"
	exit
fi
export VIRTUAL_ENV=$PWD/.venv PATH=$PWD/.venv/bin:$PATH
maturin develop --release $features "$@"
touch ccplane/base/_native.abi3.so
