#!/usr/bin/env bash
# Installs what only the test of the notebook panel in a browser needs: Chromium (a Debian and Ubuntu package), JupyterLab
# and Playwright. May run again at any time: what is there is left alone.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

has chromium || apt_install chromium
say "JupyterLab and Playwright"
scripts/install-extras.sh browser
