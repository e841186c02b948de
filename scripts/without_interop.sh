#!/bin/sh
# Deletes interop (portus, libccp, quinn, aioquic) from a copy of the tree, builds what is left, and runs the core's tests:
# the core knows no feature. `scripts/without_interop.sh DIRECTORY`.
set -eu
copy=$1
here=$(pwd)
rm -rf "$copy"
mkdir -p "$copy"
git ls-files -z | xargs -0 cp --parents -t "$copy"
cd "$copy"

# Its folders.
rm -r native/ccp-quic native/ccp-difftest native/ccp-native/src/interop.rs native/ccp-lang/examples
rm -r native/ccp-lang/src/portable native/ccp-lang/src/portable.rs native/ccp-lang/src/bytecode native/ccp-lang/src/bytecode.rs
rm -r ccplane/agent/features/interop ccplane/pyportus.py
rm -r ccplane/datapath/aioquic ccplane/datapath/ccp_unix ccplane/datapath/wire.py ccplane/datapath/kinds/interop.py
rm -r tests/unit/datapath/interop tests/unit/agent/interop

# Its registrations: a word or a line each.
sed -i -e 's/ "ccp-difftest",//' -e 's/ "ccp-quic",//' native/Cargo.toml
sed -i '/^ccp-quic/d' native/ccp-native/Cargo.toml
sed -i -e '/^mod interop;/d' -e '/interop::register/d' native/ccp-native/src/lib.rs
sed -i -e '/^pub mod bytecode;/d' -e '/^pub mod portable;/d' native/ccp-lang/src/lib.rs

# Crates of others are taken from the build of the tree, where they are compiled already.
export CARGO_TARGET_DIR="$here/native/target" PYO3_BUILD_EXTENSION_MODULE=1 PYO3_PYTHON="$here/.venv/bin/python"
cd native
cargo build --release --offline -p ccp-native
cp "$CARGO_TARGET_DIR/release/lib_native.so" ../ccplane/base/_native.abi3.so
cd ..
# Left out: the services, which need an installation.
PYTHONPATH="$copy" "$here/.venv/bin/python" -B -m pytest -p no:cacheprovider -q tests/unit/agent tests/unit/datapath \
    tests/unit/ccp_algs --ignore tests/unit/agent/test_service.py
