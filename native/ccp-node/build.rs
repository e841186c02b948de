//! Compiles the BPF programs and makes Rust types of the header they share with us.

fn main() -> ccp_build::Result<()> {
    ccp_build::watch("src/bpf");
    ccp_build::compile("src/bpf/node.bpf.c", "CCP_NODE_OBJECT", &[])?;
    ccp_build::bind("src/bpf/node.h")
}
