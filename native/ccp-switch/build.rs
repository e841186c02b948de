//! Compiles the BPF programs and makes Rust types of the header they share with us.

/// Kernel types of the datapath's programs.
const DATAPATH: &str = "../ccp-bpf/src/bpf";
/// Socket addresses are read as by the tracing programs.
const TRACE: &str = "../ccp-trace/src/bpf";

fn main() -> ccp_build::Result<()> {
    ccp_build::watch("src/bpf");
    ccp_build::watch(DATAPATH);
    ccp_build::watch(TRACE);
    ccp_build::compile("src/bpf/switch.bpf.c", "CCP_SWITCH_OBJECT", &["-I", DATAPATH, "-I", TRACE])?;
    ccp_build::bind("src/bpf/switch.h")
}
