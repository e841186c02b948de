#!/bin/sh
# Deletes R-TCP from a copy of the tree, builds what is left, and runs the core's tests: the core knows no feature.
# `scripts/without_rtcp.sh DIRECTORY`.
set -eu
copy=$1
here=$(pwd)
rm -rf "$copy"
mkdir -p "$copy"
git ls-files -z | xargs -0 cp --parents -t "$copy"
cd "$copy"

# Its folders.
rm -r native/ccp-rtcp native/ccp-rtcp-core native/ccp-sim/src/rtcp native/ccp-native/src/rtcp
rm -r ccplane/agent/features/rtcp ccp_algs/rtcp ccp_algs/r_tcp_bbr3.py ccp_algs/r_tcp_cubic.py
rm -r tests/unit/ccp_algs/rtcp tests/unit/agent/test_rtcp_*.py

# Its registrations: a word or a line each.
sed -i 's/ "ccp-rtcp", "ccp-rtcp-core",//' native/Cargo.toml
sed -i -e '/^ccp-rtcp/d' -e 's/ "dep:ccp-rtcp",//' native/ccp-native/Cargo.toml native/ccp-sim/Cargo.toml
sed -i -e '/^mod rtcp;/d' -e '/^pub mod rtcp;/d' -e '/rtcp::register/d' native/ccp-native/src/lib.rs native/ccp-sim/src/lib.rs
sed -i -e 's/&crate::rtcp::NAMES//' -e 's/Box::new(crate::rtcp::RateLimits::default())//' native/ccp-sim/src/features.rs
sed -i 's/crate::rtcp::attached::EXTENSION//' native/ccp-native/src/features.rs

# Crates of others are taken from the build of the tree, where they are compiled already.
export CARGO_TARGET_DIR="$here/native/target" PYO3_BUILD_EXTENSION_MODULE=1 PYO3_PYTHON="$here/.venv/bin/python"
cd native
cargo build --release --offline -p ccp-native
cp "$CARGO_TARGET_DIR/release/lib_native.so" ../ccplane/base/_native.abi3.so
cargo test --release --offline -p ccp-sim --lib -- --quiet
cd ..
# Left out: tests that go through `experiments.results`, whose tables of R-TCP register nowhere yet, those of Hyvar,
# which has a variant under R-TCP, and those of the services.
PYTHONPATH="$copy" "$here/.venv/bin/python" -B -m pytest -p no:cacheprovider -q tests/unit/agent tests/unit/datapath \
    tests/unit/ccp_algs --ignore tests/unit/agent/test_service.py --ignore tests/unit/datapath/interop/test_carried.py \
    --ignore tests/unit/datapath/test_registry.py --ignore tests/unit/ccp_algs/test_copa.py \
    --ignore tests/unit/ccp_algs/test_hyvar.py
