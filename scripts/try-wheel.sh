#!/usr/bin/env bash
# Installs the wheel in dist/ into a bare Debian root file system (Python and venv, no compiler), and runs a new user's first
# steps: the demonstration as a user, in the simulator, and as root, on sockets. Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

[ "$(id -u)" = 0 ] || die "cannot make a root file system" "this is not root" "run \`sudo make test-wheel\`"
wheel=$(ls dist/ccplane-*"_$(uname -m).whl" 2>/dev/null) || die "dist has no wheel" "" "run \`make wheel\`"
command -v mmdebstrap >/dev/null || apt_install mmdebstrap

if [ -z "${CCPLANE_IN_OWN_MOUNTS:-}" ]; then
	exec env CCPLANE_IN_OWN_MOUNTS=yes unshare --mount --propagation private "$0"
fi
root=$(mktemp -d /var/tmp/ccplane-bare.XXXXXX)
trap 'umount -lR "$root"/{proc,dev,sys,run/netns} 2>/dev/null || true; rm -rf --one-file-system "$root"' EXIT
say "a bare Debian 12 in $root"
mmdebstrap --quiet --variant=minbase --include=ca-certificates,python3,python3-venv bookworm "$root" \
	"$(ls /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null | head -n 1)"
cp /etc/resolv.conf "$root/etc/"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp "$wheel" "$root/root/"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"

within() { chroot "$root" /usr/bin/env -i PATH=/opt/ccplane/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }
timed() {
	local began=$EPOCHREALTIME
	"${@:2}"
	python3 -c "import sys; print('--', sys.argv[1] + ':', round(float(sys.argv[3]) - float(sys.argv[2]), 1), 's')" "$1" "$began" "$EPOCHREALTIME"
}
pip() { within env PIP_CERT=/etc/ssl/certs/ca-certificates.crt /opt/ccplane/bin/pip install --quiet --disable-pip-version-check "$@"; }

inside=/root/${wheel##*/}
within python3 -m venv /opt/ccplane
timed "pip install ccplane.whl" pip "$inside"
within du -sh /opt/ccplane
within sh -c 'ldd /opt/ccplane/lib/python3*/site-packages/ccplane/base/_native.abi3.so'
within ccp --version
within ccp doctor
timed "pip install 'ccplane.whl[lab]'" pip "$inside[lab]"
within du -sh /opt/ccplane
say "as a user"
within setpriv --reuid=1000 --regid=1000 --clear-groups env HOME=/tmp sh -c 'mkdir /tmp/user && cd /tmp/user && ccp demo && ls -l out'
say "as root, without iperf3: the simulator, with a reason"
within sh -c 'cd /root && ccp demo --seconds 2'
say "as root, on sockets"
chroot "$root" sh -c 'apt-get -qq update && apt-get -qq install --no-install-recommends iperf3 >/dev/null'
timed "ccp demo" within sh -c 'cd /root && ccp demo && ls -l out'
say "a new algorithm, edited while a flow sends"
own_algorithm() {
	within sh -c 'cd /root && ccp new mine && ccp check mine.py && ccp simulate mine.py --seconds 2'
	within sh -c 'cd /root && exec ccp run mine.py --reload' &
	local agent=$!
	for _ in $(seq 100); do within ccp flows >/dev/null 2>&1 && break || sleep 0.2; done
	within iperf3 -s -1 >/dev/null &
	sleep 1
	within iperf3 -c 127.0.0.1 -t 6 -C ccp.mine >/dev/null &
	local flow=$!
	sleep 2
	within ccp flows
	echo 'print("the edited version")' >>"$root/root/mine.py"
	sleep 2
	wait "$flow"
	within sh -c 'kill -INT $(pgrep -f "[c]cp run mine.py")'
	wait "$agent"
	within ccp unload >/dev/null
}
chroot "$root" apt-get -qq install --no-install-recommends procps >/dev/null
timed "ccp new, check, simulate, run --reload, iperf3, an edit" own_algorithm
say "notebooks"
timed "pip install 'ccplane.whl[notebooks]'" pip "$inside[notebooks]"
within du -sh /opt/ccplane
a_notebook() {
	within setpriv --reuid=1000 --regid=1000 --clear-groups env HOME=/tmp/user sh -c 'cd /tmp/user &&
		cp /opt/ccplane/lib/python3*/site-packages/experiments/notebooks/quickstart.ipynb . &&
		jupyter execute --inplace quickstart.ipynb && grep -c widget-view quickstart.ipynb'
}
timed "quickstart.ipynb, with its panel" a_notebook
