//! Compiles the BPF programs, and generates Rust types of a shared header.

/// Kernel types for congestion controls, from the datapath.
const DATAPATH: &str = "../ccp-bpf/src/bpf";
/// Counters, from the tracing programs.
const TRACE: &str = "../ccp-trace/src/bpf";

/// Headers that define a table of clients.
const LAYOUT: [&str; 3] = ["src/bpf/rtcp.h", "src/core/remote.h", "src/core/types.h"];

fn main() -> ccp_build::Result<()> {
    for directory in ["src/core", "src/bpf", DATAPATH, TRACE] {
        ccp_build::watch(directory);
    }
    let include = ["-I", "src/core", "-I", "src/bpf", "-I", DATAPATH, "-I", TRACE, "-Wno-unused-function"];
    ccp_build::compile("src/bpf/rtcp.bpf.c", "CCP_RTCP_OBJECT", &include)?;
    ccp_build::compile("src/bpf/replay.bpf.c", "CCP_RTCP_REPLAY_OBJECT", &include)?;
    ccp_build::compile("src/bpf/limit.bpf.c", "CCP_RTCP_LIMIT_OBJECT", &include)?;
    println!("cargo:rustc-env=CCP_RTCP_LAYOUT={:016x}", ccp_build::hash_of_sources(LAYOUT)?);
    ccp_build::bind("src/bpf/rules.h")
}
