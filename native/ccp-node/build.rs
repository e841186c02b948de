//! Compiles the BPF programs and makes Rust types of the header they share with us.

/// Kernel types are those of the datapath's programs.
const DATAPATH: &str = "../ccp-bpf/src/bpf";

fn main() -> ccp_build::Result<()> {
    ccp_build::watch("src/bpf");
    ccp_build::watch(DATAPATH);
    ccp_build::compile("src/bpf/node.bpf.c", "CCP_NODE_OBJECT", &["-I", DATAPATH])?;
    ccp_build::bind("src/bpf/node.h")
}
