//! Compiles the BPF programs and generates Rust types of their shared header.

const DATAPATH: &str = "../ccp-bpf/src/bpf";

fn main() -> ccp_build::Result<()> {
    ccp_build::watch("src/bpf");
    ccp_build::watch(DATAPATH);
    ccp_build::compile("src/bpf/node.bpf.c", "CCP_NODE_OBJECT", &["-I", DATAPATH])?;
    ccp_build::bind("src/bpf/node.h")
}
