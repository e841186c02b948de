//! Compiles detector and limiter; makes Rust types of the headers that the BPF programs share with us.

fn main() -> ccp_build::Result<()> {
    for directory in ["../ccp-rtcp/src/core", "../ccp-rtcp/src/bpf"] {
        ccp_build::watch(directory);
    }
    cc::Build::new()
        .file("../ccp-rtcp/src/core/host.c")
        .std("gnu11")
        .warnings_into_errors(true)
        .compile("ccp_rtcp_core");
    ccp_build::bind("../ccp-rtcp/src/bpf/rtcp.h")
}
