# Sourced by scripts that install packages of Debian and Ubuntu: messages, and installation as root.

say() { printf '\033[1m%s\033[0m\n' "setup: $*"; }
die() { # what, why, fix
	printf 'setup: %s\n  why  %s\n  fix  %s\n' "$1" "$2" "$3" >&2
	exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }

can_be_root() {
	[ "$(id -u)" = 0 ] || { has sudo && { sudo -n true 2>/dev/null || [ -t 0 ]; }; }
}
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif can_be_root; then
		sudo "$@"
	else
		die "cannot install packages: $*" "not root, and sudo is missing or asks for a password" \
			"run that command as root, then start again"
	fi
}

updated=
apt_update() {
	[ -z "$updated" ] || return 0
	say "apt-get update"
	as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q >/dev/null
	updated=yes
}
apt_install() {
	has apt-get || die "missing: $*" "this system has no apt-get" \
		"install these packages (Debian's names), then start again"
	apt_update
	say "apt-get install $* (starts no service)"
	as_root sh -ec "$APT_INSTALL" sh "$@"
}

# Debian's packages of Mosquitto, nginx and Prometheus start a service, now and at every boot. ccplane starts these programs itself, so the
# services stay off unless they were installed before.
APT_INSTALL='
	policy=${POLICY_RC_D:-/usr/sbin/policy-rc.d}
	if [ ! -e "$policy" ]; then
		trap "rm -f \"$policy\"" EXIT
		trap "exit 130" INT TERM
		printf "#!/bin/sh\nexit 101\n" >"$policy"
		chmod 755 "$policy"
	fi
	DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@" >/dev/null
	for unit in mosquitto nginx prometheus; do
		case " $* " in *" $unit"*) ! [ -d /run/systemd/system ] || systemctl --quiet disable $unit.service ;; esac
	done
'
