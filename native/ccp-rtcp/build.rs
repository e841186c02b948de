//! Compiles the BPF programs.

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
    ccp_build::compile("src/bpf/limit.bpf.c", "CCP_RTCP_LIMIT_OBJECT", &include)
}
