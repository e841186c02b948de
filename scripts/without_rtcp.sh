#!/bin/sh
# Deletes R-TCP from a copy of the tree, builds what is left, and runs its tests: the core knows no feature.
# `scripts/without_rtcp.sh DIRECTORY`.
set -eu
copy=$1
here=$(pwd)
rm -rf "$copy"
mkdir -p "$copy"
git ls-files -z | xargs -0 cp --parents -t "$copy"
cd "$copy"

# Its folders and files.
rm -r native/ccp-rtcp native/ccp-rtcp-core native/ccp-sim/src/rtcp native/ccp-native/src/rtcp
rm -r ccplane/agent/features/rtcp experiments/features/rtcp experiments/papers/r_tcp
rm -r ccp_algs/rtcp ccp_algs/r_tcp_bbr3.py ccp_algs/r_tcp_cubic.py ccp_algs/r_tcp_hyvar.py
rm -r tests/unit/ccp_algs/rtcp $(git -C "$here" ls-files 'tests/unit/*/test_*rtcp*.py' 'tests/unit/*/test_r_tcp_*.py')

# Its registrations: a word or a line each.
sed -i 's/ "ccp-rtcp", "ccp-rtcp-core",//' native/Cargo.toml
sed -i -e '/^ccp-rtcp/d' -e 's/ "dep:ccp-rtcp",//' native/ccp-native/Cargo.toml native/ccp-sim/Cargo.toml
sed -i -e '/^mod rtcp;/d' -e '/^pub mod rtcp;/d' -e '/rtcp::register/d' native/ccp-native/src/lib.rs native/ccp-sim/src/lib.rs
sed -i -e 's/&crate::rtcp::NAMES//' -e 's/Box::new(crate::rtcp::RateLimits::default())//' native/ccp-sim/src/features.rs
sed -i 's/crate::rtcp::attached::EXTENSION//' native/ccp-native/src/features.rs
sed -i '/"[Rr]tcp/d' native/ccp-native/src/no_kernel.rs
# Its classes and functions in the description of the native module: each goes to the next line that is not indented.
"$here/.venv/bin/python" - ccplane/base/_native.pyi <<'EOT'
import pathlib, re, sys
stub = pathlib.Path(sys.argv[1])
text = re.sub(r'(?m)^    "rtcp.*\n', "", stub.read_text(), flags=re.I)
stub.write_text(re.sub(r"(?m)^(@final\n)?(class Rtcp|def rtcp).*\n(?:(?:[ )].*)?\n)*", "", text))
EOT

# Crates of others are taken from the build of the tree, where they are compiled already.
export CARGO_TARGET_DIR="$here/native/target" PYO3_BUILD_EXTENSION_MODULE=1 PYO3_PYTHON="$here/.venv/bin/python"
cd native
cargo build --release --offline -p ccp-native
cp "$CARGO_TARGET_DIR/release/lib_native.so" ../ccplane/base/_native.abi3.so
cargo test --release --offline -p ccp-sim --lib -- --quiet
cd ..
PYTHONPATH="$copy" "$here/.venv/bin/python" -B -m pytest -p no:cacheprovider -q tests/unit/agent tests/unit/datapath \
    tests/unit/ccp_algs tests/unit/telemetry tests/unit/experiments --ignore tests/unit/experiments/papers
