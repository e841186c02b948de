//! Compiles the BPF programs and makes Rust types of the header they share with us.

/// Kernel types are those of the datapath's programs.
const DATAPATH: &str = "../ccp-bpf/src/bpf";
/// Addresses of sockets are read as the tracing programs do.
const TRACE: &str = "../ccp-trace/src/bpf";

fn main() -> ccp_build::Result<()> {
    ccp_build::watch("src/bpf");
    ccp_build::watch(DATAPATH);
    ccp_build::watch(TRACE);
    ccp_build::compile("src/bpf/switch.bpf.c", "CCP_SWITCH_OBJECT", &["-I", DATAPATH, "-I", TRACE])?;
    ccp_build::bind("src/bpf/switch.h")
}
