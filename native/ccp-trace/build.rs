//! Compiles the BPF programs and makes Rust types of headers that they share with us.

/// Program, and the variable with its compiled object.
const PROGRAMS: [(&str, &str); 3] =
    [("trace", "CCP_TRACE_OBJECT"), ("arrivals", "CCP_ARRIVALS_OBJECT"), ("windows", "CCP_WINDOWS_OBJECT")];

/// Kernel types of the datapath's programs.
const DATAPATH: &str = "../ccp-bpf/src/bpf";

fn main() -> ccp_build::Result<()> {
    ccp_build::watch("src/bpf");
    ccp_build::watch(DATAPATH);
    for (program, variable) in PROGRAMS {
        ccp_build::compile(&format!("src/bpf/{program}.bpf.c"), variable, &["-I", DATAPATH])?;
    }
    ccp_build::bind("src/bpf/conditions.h")?;
    ccp_build::bind("src/bpf/windows.h")
}
