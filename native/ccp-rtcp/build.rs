//! Compiles the BPF programs, and the detector for the host; makes Rust types of the headers that they share with us.

/// Kernel types of congestion controls are those of the datapath's programs.
const DATAPATH: &str = "../ccp-bpf/src/bpf";
/// What all programs count is counted as the tracing programs do.
const TRACE: &str = "../ccp-trace/src/bpf";

fn main() -> ccp_build::Result<()> {
    for directory in ["src/core", "src/bpf", DATAPATH, TRACE] {
        ccp_build::watch(directory);
    }
    let include = ["-I", "src/core", "-I", DATAPATH, "-I", TRACE, "-Wno-unused-function"];
    ccp_build::compile("src/bpf/rtcp.bpf.c", "CCP_RTCP_OBJECT", &include)?;
    ccp_build::compile("src/bpf/replay.bpf.c", "CCP_RTCP_REPLAY_OBJECT", &include)?;
    cc::Build::new().file("src/core/host.c").std("gnu11").warnings_into_errors(true).compile("ccp_rtcp_core");
    ccp_build::bind("src/bpf/rtcp.h")
}
