#!/usr/bin/env bash
# Creates the broker's secrets: a certificate authority, a certificate for the broker's host names and addresses, and a
# password for each user. Needs openssl, and mosquitto_passwd of Mosquitto 2.
#
#   make-secrets.sh HOST[,HOST...] USER...
#
# Passwords are read from the terminal, or one per line from standard input. Existing files are kept: run it again to
# add users. Clients need secrets/ca.crt.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
cd "$(dirname "$0")"
hosts=$1
shift
umask 077

run() { # quiet, unless it fails
	local said
	said=$("$@" 2>&1) || { printf '%s\n' "$said" >&2; exit 1; }
}

mkdir -p secrets
cd secrets

if [ ! -e server.crt ]; then
	names=
	for host in ${hosts//,/ }; do
		case $host in *[!0-9.:a-fA-F]*) kind=DNS ;; *:* | *.*.*.*) kind=IP ;; *) kind=DNS ;; esac
		names=${names:+$names,}$kind:$host
	done
	days=825
	run openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days $days -subj "/CN=ccplane bus" \
		-addext "keyUsage=critical,keyCertSign" -keyout ca.key -out ca.crt
	run openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=${hosts%%,*}" -keyout server.key -out server.csr
	run openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days $days -out server.crt \
		-extfile <(printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\n' "$names")
	rm server.csr
	chmod 644 ca.crt server.crt
fi

[ -e passwords ] || : >passwords
for user in "$@"; do
	read -rsp "password of $user: " password
	[ ! -t 0 ] || echo
	case $password in
	'' | *:*) echo "the password of $user is empty or contains a colon, which mosquitto_passwd does not support" >&2; exit 1 ;;
	esac
	printf '%s:%s\n' "$user" "$password" >new # not an argument, which all users of this machine could see
	run mosquitto_passwd -U new
	{ grep -v "^$user:" passwords || true; cat new; } >all
	mv all passwords
	rm new
done
