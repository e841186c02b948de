#!/usr/bin/env bash
# Builds the playground in out/playground: a static page with ccplane's simulator and agent, which run in the browser.
# What it needs is unpacked in .cache/playground, and installed nowhere: Rust that can build its standard library for
# WebAssembly (Debian's packages), Pyodide, CodeMirror and esbuild (npm), msgspec for Pyodide (PyPI). With --check, says
# what is missing on this machine for that.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=
for program in apt-get dpkg node npm clang llvm-ar cargo; do
	command -v "$program" >/dev/null || missing+=" $program"
done
if [ -n "$missing" ]; then
	echo "make playground needs Debian 12 or newer, and:$missing"
	echo "  fix  sudo apt-get install clang llvm nodejs npm; make setup"
	exit 1
fi
[ "${1:-}" != --check ] || exit 0

mkdir -p .cache/playground
cache=$(cd .cache/playground && pwd -P)

rust() {
	[ -x "$cache/rust/bin/wasm-ld" ] && return
	echo "unpacking Rust for WebAssembly in .cache/playground (0.8 GB)"
	rm -rf "$cache/rust"
	mkdir -p "$cache/rust/bin"
	(
		cd "$cache/rust"
		std=$(apt-cache depends libstd-rust-web-dev | awk '/Depends: libstd-rust-web-/ { print $2; exit }')
		llvm=$(apt-cache depends "$std" rustc-web | awk '/Depends: libllvm/ { print $2; exit }')
		apt-get download -q rustc-web libstd-rust-web-dev "$std" rust-web-src "$llvm" "lld-${llvm//[!0-9]/}"
		for package in *.deb; do dpkg -x "$package" .; done
		rm -f ./*.deb
		mkdir -p usr/lib/rustlib/src
		ln -sfn "$(echo "$PWD"/usr/src/rustc-*)" usr/lib/rustlib/src/rust
		ln -sf "$(echo "$PWD"/usr/bin/wasm-ld-*)" bin/wasm-ld
	)
}

# The extension without its kernel part. `panic=abort`, because unwinding would need Emscripten's runtime.
extension() {
	local root=$cache/rust/usr
	local flags="-Crelocation-model=pic -Zlink-native-libraries=no -Cpanic=abort -Clink-self-contained=no"
	(
		cd native
		export LD_LIBRARY_PATH=$root/lib/x86_64-linux-gnu:$root/lib
		export PATH=$cache/rust/bin:$PATH RUSTC=$root/bin/rustc RUSTC_BOOTSTRAP=1 RUSTFLAGS=$flags PYO3_NO_PYTHON=1
		export CARGO_TARGET_DIR=$cache/target CARGO_TARGET_WASM32_UNKNOWN_EMSCRIPTEN_LINKER=$OLDPWD/scripts/playground/link.sh
		export CC_wasm32_unknown_emscripten=clang AR_wasm32_unknown_emscripten=llvm-ar CFLAGS_wasm32_unknown_emscripten=-fPIC
		"$(rustup which cargo 2>/dev/null || command -v cargo)" build --release --package ccp-native --no-default-features \
			-Zbuild-std=std,panic_abort --target wasm32-unknown-emscripten
	)
}

npm_packages() {
	mkdir -p "$cache/npm"
	cmp -s scripts/playground/package-lock.json "$cache/npm/package-lock.json" && return
	cp scripts/playground/package.json "$cache/npm/"
	cp scripts/playground/package-lock.json "$cache/npm/new.json"
	(cd "$cache/npm" && mv new.json package-lock.json && npm ci --no-audit --no-fund --loglevel error) ||
		{ rm -f "$cache/npm/package-lock.json" && exit 1; }
}

python_packages() {
	[ -d "$cache/python/msgspec" ] && return
	.venv/bin/python -m pip download --quiet --no-deps --only-binary :all: --python-version 3.14 --abi cp314 \
		--platform pyemscripten_2026_0_wasm32 --dest "$cache/wheels" msgspec==0.22.0
	mkdir -p "$cache/python"
	.venv/bin/python -m zipfile --extract "$cache"/wheels/msgspec-*.whl "$cache/python"
}

rust
npm_packages
python_packages
extension
.venv/bin/python -m scripts.playground "$cache" out/playground
