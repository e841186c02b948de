#!/usr/bin/env bash
# Creates the broker's secrets: a certificate authority, a certificate for the broker's host names and addresses, and a
# password for each user. Needs openssl, and mosquitto_passwd of Mosquitto 2.
#
#   make-secrets.sh HOST[,HOST...] USER...
#
# Passwords are read from the terminal, or one per line from standard input. Existing files are kept: run it again to
# add users. Clients need secrets/ca.crt. Warns if a certificate expires within 60 days; to renew the broker's, remove
# secrets/server.crt and run this again.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
cd "$(dirname "$0")"
hosts=$1
shift
umask 077
export LC_ALL=C # names are ASCII

run() { # quiet, unless it fails
	local said
	said=$("$@" 2>&1) || { printf '%s\n' "$said" >&2; exit 1; }
}

mkdir -p secrets
cd secrets

if [ ! -e ca.crt ]; then
	run openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj "/CN=ccplane bus" \
		-addext "keyUsage=critical,keyCertSign" -keyout ca.key -out ca.crt
	chmod 644 ca.crt
fi
if [ ! -e server.crt ]; then
	[ -e ca.key ] || { echo "secrets/ca.key is missing: restore it, or remove secrets/ca.crt to create a new certificate authority" >&2; exit 1; }
	names=
	for host in ${hosts//,/ }; do
		case $host in *[!0-9.:a-fA-F]*) kind=DNS ;; *:* | *.*.*.*) kind=IP ;; *) kind=DNS ;; esac
		names=${names:+$names,}$kind:$host
	done
	run openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=${hosts%%,*}" -keyout server.key -out server.csr
	run openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 825 -out server.crt \
		-extfile <(printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\n' "$names")
	rm server.csr
	chmod 644 server.crt
fi
warn_days=60
for certificate in ca.crt server.crt; do
	openssl x509 -in $certificate -noout -checkend $((warn_days * 86400)) >/dev/null && continue
	case $certificate in
	ca.crt) fix="remove secrets/ca.crt and secrets/server.crt, run this again, and give every client the new ca.crt" ;;
	*) fix="remove secrets/server.crt, run this again with all host names, and restart the broker" ;;
	esac
	echo "warning: secrets/$certificate expires on $(openssl x509 -in $certificate -noout -enddate | cut -d= -f2); to renew it: $fix" >&2
done

[ -e passwords ] || : >passwords
for user in "$@"; do
	case $user in
	'' | *[!A-Za-z0-9._-]*) echo "cannot add the user \`$user\`: use letters, digits, dots, underscores and hyphens" >&2; exit 1 ;;
	esac
done
for user in "$@"; do
	read -rsp "password of $user: " password
	[ ! -t 0 ] || echo
	case $password in
	'' | *:*) echo "the password of $user is empty or contains a colon, which mosquitto_passwd does not support" >&2; exit 1 ;;
	esac
	printf '%s:%s\n' "$user" "$password" >new # not an argument, which all users of this machine could see
	run mosquitto_passwd -U new
	{ user=$user awk -F: '$1 != ENVIRON["user"]' passwords; cat new; } >all
	mv all passwords
	rm new
done
