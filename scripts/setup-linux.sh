# Sourced by setup.sh: packages of Debian and Ubuntu.

. scripts/kernel-part.sh

candidate() { # the version that apt would install, without epoch and Debian's part; else empty
	LC_ALL=C apt-cache policy "$1" 2>/dev/null |
		sed -n 's/^ *Candidate: *\([0-9]*:\)\{0,1\}\([0-9][0-9.]*\).*/\2/p'
}

# --- packages ----------------------------------------------------------------------------------------------------

missing=()
need() { # need PACKAGE COMMAND...: the package, unless the command succeeds
	"${@:2}" >/dev/null 2>&1 || missing+=("$1")
}
has_libclang() {
	ldconfig -p | grep -q libclang || compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' || [ -n "${LIBCLANG_PATH:-}" ]
}
has_for_root() { # programs in folders that are not in every PATH
	PATH=$PATH:/usr/sbin:/sbin has "$1"
}
for_any_build() {
	need build-essential has cc
	need build-essential has make
	need libclang-dev has_libclang
	need ca-certificates test -e /etc/ssl/certs/ca-certificates.crt
}
for_kernel_part() {
	wants_kernel_part || return 0
	need clang compiles_bpf
	need llvm has llvm-strip
	need pkg-config has pkg-config
	need libelf-dev pkg-config --exists libelf
	need zlib1g-dev pkg-config --exists zlib
}
for_demo() { # traffic over real sockets
	! wants_kernel_part || need iperf3 has iperf3
}
for_development() {
	wants_kernel_part || return 0
	need iproute2 has_for_root ip
	need nftables has_for_root nft
	need nginx-light has_for_root nginx
	need curl has curl
	need mosquitto has_for_root mosquitto
	need mosquitto-clients has mosquitto_pub
	need openssl has openssl
	need tshark has tshark
	need procps has ps
	need prometheus has promtool
	need libbpf-dev test -e /usr/include/bpf/bpf_helpers.h
}
lacks() { # lacks LIST...: whether a package of these lists is missing; sets `missing`
	missing=()
	local list
	for list in "$@"; do
		$list
	done
	[ ${#missing[@]} -gt 0 ] && missing=($(printf '%s\n' "${missing[@]}" | sort -u))
}
can_install() { has apt-get && can_be_root; }
why_not_installed() {
	if has apt-get; then
		echo "not root, and sudo is missing or asks for a password"
	else
		echo "this system has no apt-get (these are Debian's package names)"
	fi
}

packages_to_install() {
	if lacks for_any_build for_kernel_part for_demo && can_install; then
		echo "packages, as root: ${missing[*]}; none of them starts a service"
	fi
}
install_packages() {
	lacks for_any_build for_kernel_part for_demo || return 0
	if can_install; then
		apt_install "${missing[@]}"
		return
	fi
	# Only packages for any build are required; others are reported.
	if lacks for_any_build; then
		die "missing: ${missing[*]}" "$(why_not_installed)" "install these packages as root, then start again"
	fi
	if lacks for_kernel_part; then
		say "building without the kernel part; missing: ${missing[*]}"
	fi
	if lacks for_demo; then
		say "the demonstration will run in the simulator; missing: ${missing[*]}"
	fi
	say "to change this, install these packages as root and start again ($(why_not_installed))"
}
install_development_packages() {
	lacks for_development || return 0
	if can_install; then
		apt_install "${missing[@]}"
	else
		say "some tests and experiments will not work; missing: ${missing[*]} ($(why_not_installed))"
	fi
}
install_browser() { # Ubuntu has no such package, only a snap
	! has chromium || return 0
	if can_install; then
		apt_update
		if [ -n "$(candidate chromium)" ]; then
			apt_install chromium
			return
		fi
	fi
	say "tests in a browser will be skipped; missing: chromium"
}

# --- Python and Rust ---------------------------------------------------------------------------------------------

install_python() {
	has apt-get && can_be_root || return 0
	local minor name
	apt_update
	for name in $(python_names); do
		minor=$(candidate "$name")
		if [ -n "$minor" ] && at_least "$minor" "3.$OLDEST_PYTHON"; then
			apt_install "$name" "$name-venv"
			return
		fi
	done
}

install_rust() {
	local kind version
	if has rustup; then
		install_stable_rust
		return
	fi
	has apt-get && can_be_root || return 0
	apt_update
	if [ -n "$(candidate rustup)" ]; then
		apt_install rustup
		install_stable_rust
		return
	fi
	# Debian also has a newer Rust, for browsers.
	for kind in "rustc cargo" "rustc-web cargo-web"; do
		version=$(candidate "${kind%% *}")
		if [ -n "$version" ] && at_least "$version" "$MIN_RUST"; then
			apt_install $kind
			return
		fi
	done
}
install_rust_tools() {
	if cargo clippy --version >/dev/null 2>&1 && cargo fmt --version >/dev/null 2>&1; then
		return
	fi
	if has rustup; then
		rustup component add clippy rustfmt >/dev/null 2>&1
	elif LC_ALL=C dpkg-query --status cargo-web >/dev/null 2>&1; then
		apt_install rust-web-clippy rustfmt-web
	else
		apt_install rust-clippy rustfmt
	fi
}
