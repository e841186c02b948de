#!/usr/bin/env bash
# Installs what lints, tests, experiments and `make wheel` need in addition to setup.sh: packages of Debian and Ubuntu (they start
# no service), Chromium, Rust's lints and formatter, Python packages in .venv. Can be repeated; installed programs are left alone.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/packages.sh
. scripts/system.sh
export PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH

install_development_packages
install_browser
install_rust_tools
say "Python packages for development"
scripts/install-extras.sh dev
touch .venv/.dev
