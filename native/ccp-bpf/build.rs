//! Compiles the BPF programs.

const SOURCES: &str = "src/bpf";
/// Headers that define the layout shared by the programs and the agent.
const LAYOUT: [&str; 3] = ["src/bpf/intf.h", "src/bpf/maps.h", "src/bpf/state.h"];

fn main() -> ccp_build::Result<()> {
    let include = ["-Wno-unused-function", "-I", SOURCES];
    ccp_build::compile("src/bpf/ccp.bpf.c", "CCP_BPF_OBJECT", &include)?;
    ccp_build::compile("src/bpf/fold.bpf.c", "CCP_FOLD_OBJECT", &include)?;
    ccp_build::compile("src/bpf/holders.bpf.c", "CCP_HOLDERS_OBJECT", &include)?;
    ccp_build::compile("src/bpf/walk.bpf.c", "CCP_WALK_OBJECT", &include)?;
    ccp_build::bind("src/bpf/walk.h")?;

    ccp_build::watch(SOURCES);
    let programs = ccp_build::hash_of_program("src/bpf/ccp.bpf.c")?;
    println!("cargo:rustc-env=CCP_BUILD_HASH={programs}");
    println!("cargo:rustc-env=CCP_LAYOUT_HASH={}", ccp_build::hash_of_sources(LAYOUT)?);
    Ok(())
}
