#!/usr/bin/env bash
# Builds a release into dist/: a wheel for an architecture (wheel.sh [ARCHITECTURE], default: this machine's) with libelf and all
# licences, and the sources. The wheel needs at least this system's C library; its name has the version (manylinux_2_NN).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/kernel-part.sh

has_kernel_part_needs || die "cannot build a wheel without the kernel part" "it needs Linux, clang, libelf and zlib" "run \`make setup\`"
tools=$PWD/.cache/tools
export VIRTUAL_ENV=$PWD/.venv PATH=$PWD/.venv/bin:$tools/bin:$PATH
architecture=${1:-$(uname -m)}
target=()
if [ "$architecture" != "$(uname -m)" ]; then
	. scripts/cross.sh
	cross "$architecture"
	target=(--target "$architecture-unknown-linux-gnu")
fi

if ! command -v cargo-bundle-licenses >/dev/null; then
	say "cargo-bundle-licenses: once, two minutes"
	cargo install --quiet --locked --root "$tools" cargo-bundle-licenses
fi
trap 'rm -f LICENSE-THIRD-PARTY.yml LICENSE-libelf' EXIT
(cd native && cargo bundle-licenses --format yaml --output ../LICENSE-THIRD-PARTY.yml 2>/dev/null)
cp /usr/share/doc/libelf1*/copyright LICENSE-libelf

say "building the wheel and the sources"
rm -rf dist/plain dist/*"_$architecture.whl" dist/*.tar.gz
# Not maturin's own repair: it would patch the extension in cargo's folder and break it for checkouts.
maturin build --quiet --release --auditwheel skip --compatibility linux "${target[@]}" --out dist/plain
auditwheel repair --wheel-dir dist dist/plain/*.whl
rm -r dist/plain
maturin sdist --out dist
ls -l dist
