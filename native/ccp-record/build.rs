//! Makes Rust types of the headers that the BPF programs share with us.

/// Of the datapath, of samples of sockets, of what arrives on them.
const HEADERS: [&str; 3] =
    ["../ccp-bpf/src/bpf/intf.h", "../ccp-trace/src/bpf/row.h", "../ccp-trace/src/bpf/arrivals.h"];

fn main() -> ccp_build::Result<()> {
    for header in HEADERS {
        ccp_build::watch(header);
        ccp_build::bind(header)?;
    }
    Ok(())
}
