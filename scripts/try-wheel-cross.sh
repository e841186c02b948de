#!/usr/bin/env bash
# Installs the wheel of another architecture (try-wheel-cross.sh ARCHITECTURE) with its Python, emulated by qemu, and runs what
# does not need its kernel: the import, `ccp check`, and the demonstration in the simulator.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/cross.sh

architecture=$1
wheel=$(ls dist/ccplane-*"_$architecture.whl" 2>/dev/null) || die "dist has no wheel for $architecture" "" "run \`make wheel ARCH=$architecture\`"
cross "$architecture"
python=$(cd "$cross_root/usr/bin" && ls python3.?? | head -n 1)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
timed() {
	local began=$EPOCHREALTIME
	"${@:2}"
	awk -v what="$1" -v from="$began" -v to="$EPOCHREALTIME" 'BEGIN { printf "-- %s: %.1f s\n", what, to - from }'
}
platforms=()
for minor in $(seq "$(getconf GNU_LIBC_VERSION | cut -d. -f2)" -1 17); do platforms+=(--platform "manylinux_2_${minor}_$architecture"); done
timed "wheels for $architecture" .venv/bin/pip install --quiet --no-warn-conflicts --disable-pip-version-check --target "$folder/site" \
	--only-binary=:all: --implementation cp --python-version "${python#python}" "${platforms[@]}" "$wheel[lab]"
within() {
	(cd "$folder" && env -i PATH=/usr/bin:/bin HOME="$folder" LC_ALL=C.UTF-8 PYTHONPATH="$folder/site" PYTHONDONTWRITEBYTECODE=1 \
		"qemu-$architecture-static" -L "$cross_root" "$cross_root/usr/bin/$python" "$@")
}
du -sh "$folder/site"
"$architecture-linux-gnu-readelf" --dynamic "$folder/site/ccplane/base/_native.abi3.so" | grep NEEDED
ccp() { within -c 'from ccplane.agent.entry import main; main()' "$@"; }
within -c 'import platform; from ccplane.base import _native; print(platform.machine(), _native.__file__)'
timed "ccp --version" ccp --version
ccp doctor || say "expected: this kernel is not for $architecture"
ccp new mine
timed "ccp check" ccp check mine.py
timed "ccp demo" ccp demo --datapath sim
