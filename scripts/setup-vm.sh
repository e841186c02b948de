#!/usr/bin/env bash
# Installs what building and running virtual machines needs (Debian and Ubuntu packages), and given programs (setup-vm.sh
# [PROGRAM...]). Can be repeated; installed programs are left alone.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/packages.sh

missing=()
need() { # need PACKAGE COMMAND...: the package, unless the command succeeds
	PATH=$PATH:/usr/sbin:/sbin "${@:2}" >/dev/null 2>&1 || missing+=("$1")
}
need qemu-system-x86 has qemu-system-x86_64
need mmdebstrap has mmdebstrap
need genext2fs has genext2fs
need kmod has depmod
need debian-archive-keyring test -e /usr/share/keyrings/debian-archive-keyring.gpg
for program in "$@"; do
	need "$program" has "$program"
done
if [ ${#missing[@]} -gt 0 ]; then
	apt_install "${missing[@]}"
fi
