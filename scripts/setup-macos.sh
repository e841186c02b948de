# Sourced by setup.sh: what macOS lacks, from Homebrew. There is no kernel part to build here, so little is needed.

brew_install() {
	has brew || die "missing: $*" "there is no brew here to install it with" "install Homebrew or $*, then start again"
	say "brew install $*"
	brew install --quiet "$@"
}

install_packages() {
	# They bring cc, make, and libclang, by which Rust reads a header.
	xcode-select --print-path >/dev/null 2>&1 || die "missing: the command line tools" \
		"xcode-select knows none" "run xcode-select --install, then start again"
}

install_python() {
	brew_install python3
}

install_rust() {
	if has rustup; then
		install_stable_rust
		return
	fi
	brew_install rust
}
