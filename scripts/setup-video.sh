#!/usr/bin/env bash
# Installs what only the experiments with video need: Chromium and ffmpeg (Debian and Ubuntu packages), dash.js from npm,
# and the segments of a test video, which are made here. Can be repeated; existing files are left alone.
set -euo pipefail
cd "$(dirname "$0")/.."

DASH_JS=dashjs@5.2.1
DASH_JS_FILE=package/dist/modern/umd/dash.mediaplayer.min.js
DASH_JS_SHA256=d4ee2d6fd00a3944f448964787d4603ca1e4ae5ce2956d0a755b78e0d3566b57
CACHE=.cache/video

. scripts/packages.sh

missing=()
has chromium || missing+=(chromium)
has ffmpeg || missing+=(ffmpeg)
has npm || missing+=(npm)
if [ ${#missing[@]} -gt 0 ]; then
	apt_install "${missing[@]}"
fi

mkdir -p $CACHE
is_dash_js() {
	[ -e "$1" ] && echo "$DASH_JS_SHA256  $1" | sha256sum --check --status
}
if ! is_dash_js $CACHE/dash.js; then
	say "$DASH_JS from npm"
	folder=$(mktemp -d)
	trap 'rm -rf "$folder"' EXIT
	npm pack --silent --pack-destination "$folder" $DASH_JS >/dev/null
	tar -xzf "$folder"/*.tgz -C "$folder" $DASH_JS_FILE
	is_dash_js "$folder/$DASH_JS_FILE" || die "$DASH_JS has changed" \
		"the checksum of $DASH_JS_FILE differs" "inspect it with: npm pack $DASH_JS"
	mv "$folder/$DASH_JS_FILE" $CACHE/dash.js
fi

say "segments of the test video"
.venv/bin/python -m experiments.traffic.media
