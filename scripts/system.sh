# Sourced by setup.sh and setup-development.sh, after packages.sh: how this system's packages are installed.

case $(uname -s) in
Linux) . scripts/setup-linux.sh ;;
Darwin) . scripts/setup-macos.sh ;;
*) die "cannot set up ccplane on $(uname -s)" "only Linux and macOS are supported" "use one of them, or a virtual machine" ;;
esac
