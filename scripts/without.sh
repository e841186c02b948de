#!/bin/sh
# Deletes a feature from a copy of the tree, builds the rest, and runs the core's tests: the core must not depend on features.
# `scripts/without.sh rtcp|interop DIRECTORY`. Each case lists the feature's folders and registrations.
set -eu
feature=$1
copy=$2
here=$(pwd)
rm -rf "$copy"
mkdir -p "$copy"
git ls-files -z | xargs -0 cp --parents -t "$copy"
cd "$copy"

tests="tests/unit/agent tests/unit/datapath tests/unit/ccp_algs"
case $feature in
rtcp)
    rm -r native/ccp-rtcp native/ccp-rtcp-core native/ccp-sim/src/rtcp native/ccp-native/src/rtcp
    rm -r ccplane/agent/features/rtcp experiments/features/rtcp experiments/papers/r_tcp docs/papers/r-tcp.md
    rm -r ccp_algs/rtcp ccp_algs/r_tcp_bbr3.py ccp_algs/r_tcp_cubic.py ccp_algs/r_tcp_hyvar.py
    rm -r tests/unit/ccp_algs/rtcp $(git -C "$here" ls-files 'tests/unit/*/test_*rtcp*.py' 'tests/unit/*/test_r_tcp_*.py')
    sed -i 's/ "ccp-rtcp", "ccp-rtcp-core",//' native/Cargo.toml
    sed -i -e '/^ccp-rtcp/d' -e 's/ "dep:ccp-rtcp",//' native/ccp-native/Cargo.toml native/ccp-sim/Cargo.toml
    sed -i -e '/^mod rtcp;/d' -e '/^pub mod rtcp;/d' -e '/rtcp::register/d' native/ccp-native/src/lib.rs native/ccp-sim/src/lib.rs
    sed -i -e 's/&crate::rtcp::NAMES//' -e 's/Box::new(crate::rtcp::RateLimits::default())//' native/ccp-sim/src/features.rs
    sed -i 's/crate::rtcp::attached::EXTENSION//' native/ccp-native/src/features.rs
    sed -i '/"[Rr]tcp/d' native/ccp-native/src/no_kernel.rs
    native_names='[Rr]tcp\w*'
    tests="$tests tests/unit/telemetry tests/unit/experiments --ignore tests/unit/experiments/papers"
    ;;
interop)
    rm -r native/ccp-quic native/ccp-difftest native/ccp-native/src/interop.rs native/ccp-lang/examples
    rm -r native/ccp-lang/src/portable native/ccp-lang/src/portable.rs native/ccp-lang/src/bytecode native/ccp-lang/src/bytecode.rs
    rm -r ccplane/agent/features/interop ccplane/pyportus.py
    rm -r ccplane/datapath/aioquic ccplane/datapath/ccp_unix ccplane/datapath/wire.py ccplane/datapath/kinds/interop.py
    rm -r tests/unit/datapath/interop tests/unit/agent/interop
    sed -i -e 's/ "ccp-difftest",//' -e 's/ "ccp-quic",//' native/Cargo.toml
    sed -i '/^ccp-quic/d' native/ccp-native/Cargo.toml
    sed -i -e '/^mod interop;/d' -e '/interop::register/d' native/ccp-native/src/lib.rs
    sed -i -e '/^pub mod bytecode;/d' -e '/^pub mod portable;/d' native/ccp-lang/src/lib.rs
    native_names='(?:[Ww]ire\w*|Message|[Pp]ortable|\w+_bytecode)'
    ;;
*)
    echo "without.sh: unknown feature \`$feature\`; use rtcp or interop" >&2
    exit 2
    ;;
esac
# Delete its names from the stub of the native module, each up to the next line that is not indented.
"$here/.venv/bin/python" - ccplane/base/_native.pyi "$native_names" <<'EOT'
import pathlib, re, sys
stub, names = pathlib.Path(sys.argv[1]), sys.argv[2]
text = re.sub(rf'(?m)^    "{names}",\n', "", stub.read_text())
stub.write_text(re.sub(rf"(?m)^(@\w+\n)?(class|def) {names}\b.*\n(?:(?:[ )].*)?\n)*", "", text))
EOT

# Reuse third-party crates that are compiled already.
export CARGO_TARGET_DIR="$here/native/target" PYO3_BUILD_EXTENSION_MODULE=1 PYO3_PYTHON="$here/.venv/bin/python"
cd native
cargo build --release --offline -p ccp-native
cp "$CARGO_TARGET_DIR/release/lib_native.so" ../ccplane/base/_native.abi3.so
cargo test --release --offline -p ccp-sim --lib -- --quiet
cd ..
PYTHONPATH="$copy" "$here/.venv/bin/python" -B -m pytest -p no:cacheprovider -q $tests
