# Sourced by builds: whether the kernel part of the extension (libbpf and BPF programs) can be built here. Without it only
# the simulator works. KERNEL_PART=no leaves it out.

wants_kernel_part() {
	[ "$(uname -s)" = Linux ] && [ "${KERNEL_PART:-yes}" != no ]
}
compiles_bpf() {
	[[ $(clang -print-targets) == *' bpf '* ]]
}
has_kernel_part_needs() {
	wants_kernel_part && compiles_bpf && command -v llvm-strip && pkg-config --exists libelf zlib
} >/dev/null 2>&1
