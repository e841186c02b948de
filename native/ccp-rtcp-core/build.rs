//! Compiles detector, limiter and clients; generates Rust types of headers shared with the BPF programs.

const INCLUDE: [&str; 6] = ["-I", "src/host", "-I", "../ccp-rtcp/src/core", "-I", "../ccp-rtcp/src/bpf"];

fn main() -> ccp_build::Result<()> {
    for directory in ["src/host", "../ccp-rtcp/src/core", "../ccp-rtcp/src/bpf"] {
        ccp_build::watch(directory);
    }
    // `src/host` comes first: its files replace others of the same names.
    cc::Build::new()
        .file("src/host/host.c")
        .includes(INCLUDE.iter().filter(|word| **word != "-I"))
        .std("gnu11")
        .flag("-Wno-unused-parameter")
        .warnings_into_errors(true)
        .compile("ccp_rtcp_core");
    ccp_build::bind_with("src/host/types.h", &INCLUDE)
}
