//! Makes Rust types of the header that the BPF programs share with us.

fn main() -> ccp_build::Result<()> {
    ccp_build::watch("../ccp-bpf/src/bpf/intf.h");
    ccp_build::watch("../ccp-rtcp/src/bpf/rtcp.h");
    ccp_build::bind("../ccp-bpf/src/bpf/intf.h")
}
