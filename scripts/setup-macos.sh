# Sourced by setup.sh: what macOS needs, from Homebrew. There is no kernel part.

brew_install() {
	has brew || die "missing: $*" "Homebrew is not installed" "install Homebrew or $*, then start again"
	say "brew install $*"
	brew install --quiet "$@"
}

packages_to_install() { :; }
install_packages() {
	# The command line tools include cc, make, and libclang for Rust's bindings.
	xcode-select --print-path >/dev/null 2>&1 || die "missing: the command line tools" \
		"xcode-select does not find them" "run xcode-select --install, then start again"
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

install_development_packages() { :; }
install_browser() { :; }
install_rust_tools() { # Homebrew's Rust has them
	! has rustup || rustup component add clippy rustfmt >/dev/null 2>&1
}
