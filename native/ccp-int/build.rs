//! Compiles the rules of nodes shared with the BPF programs of `ccp-node`, and generates Rust types.

const INCLUDE: [&str; 4] = ["-I", "../ccp-node/src/bpf", "-I", "../ccp-bpf/src/bpf"];

fn main() -> ccp_build::Result<()> {
    for path in [
        "src/host",
        "../ccp-node/src/bpf/rules.h",
        "../ccp-node/src/bpf/node.h",
        "../ccp-bpf/src/bpf/path_loss.h",
    ] {
        ccp_build::watch(path);
    }
    cc::Build::new()
        .file("src/host/host.c")
        .includes(INCLUDE.iter().filter(|word| **word != "-I"))
        .std("gnu11")
        .warnings_into_errors(true)
        .compile("ccp_int_rules");
    ccp_build::bind_with("src/host/types.h", &INCLUDE)
}
