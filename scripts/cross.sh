# Sourced by builds for another architecture: a root file system of the same Debian release, and the environment for cargo and
# crates' build scripts. Needs scripts/packages.sh.

readonly DEBIAN_OF_aarch64=arm64

cross() { # cross ARCHITECTURE
	local debian=DEBIAN_OF_$1 triple=$1-unknown-linux-gnu gnu=$1-linux-gnu suite name
	debian=${!debian:-} suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	[ -n "$debian" ] || die "cannot build for $1" "only for aarch64 and this machine's $(uname -m)" "build it on a machine of that architecture"
	has "$gnu-gcc" || apt_install "gcc-$gnu" "libc6-dev-$debian-cross"
	has mmdebstrap || apt_install mmdebstrap
	has "qemu-$1-static" || apt_install qemu-user-static
	! has rustup || rustup --quiet target add "$triple"
	cross_root=$PWD/.cache/$1/root
	if [ ! -e "$cross_root/.whole" ]; then
		say "libraries of $debian"
		rm -rf "$cross_root"
		mkdir -p "${cross_root%/*}"
		mmdebstrap --quiet --variant=extract --architectures="$debian" \
			--include=libc6-dev,libelf-dev,libgcc-s1,libstdc++6,python3,zlib1g-dev "$suite" "$cross_root" \
			"$(ls /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null | head -n 1)"
		touch "$cross_root/.whole"
	fi
	name=${triple//-/_}
	export "CARGO_TARGET_${name^^}_LINKER=$gnu-gcc" "CARGO_TARGET_${name^^}_RUSTFLAGS=-C link-arg=--sysroot=$cross_root"
	export "CC_$name=$gnu-gcc" "CFLAGS_$name=--sysroot=$cross_root" "BINDGEN_EXTRA_CLANG_ARGS_$name=--sysroot=$cross_root"
	export PKG_CONFIG_ALLOW_CROSS=1 PKG_CONFIG_SYSROOT_DIR=$cross_root
	export PKG_CONFIG_LIBDIR=$cross_root/usr/lib/$gnu/pkgconfig
	export AUDITWHEEL_LD_LIBRARY_PATH=$cross_root/usr/lib/$gnu:$cross_root/lib/$gnu
}
