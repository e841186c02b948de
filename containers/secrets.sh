#!/bin/bash
# Creates missing secrets for the services of docker-compose.yml: a random password for each, and the broker's
# certificate. Each service can read only its own password; the broker stores hashes of all.
set -euo pipefail
umask 077
users=(agent receiver notebook)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp /etc/ccplane/make-secrets.sh "$work"
ln -s /secrets/bus "$work/secrets"
for user in "${users[@]}"; do
	[ -s "/secrets/$user/password" ] || openssl rand -hex 24 >"/secrets/$user/password"
	cat "/secrets/$user/password"
done | "$work/make-secrets.sh" "${CCPLANE_BUS_NAMES:-localhost,127.0.0.1}" "${users[@]}"
