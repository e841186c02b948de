#!/usr/bin/env bash
# Installs what only the browser test of the notebook panel needs: Chromium (a Debian and Ubuntu package), JupyterLab and
# Playwright. Can be repeated; installed programs are left alone.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

has chromium || apt_install chromium
say "JupyterLab and Playwright"
scripts/install-extras.sh browser
