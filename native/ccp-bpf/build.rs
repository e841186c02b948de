//! Compiles the BPF programs.

use std::fs;

/// FNV-1a: enough to tell two builds apart, and nothing to depend on.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

const SOURCES: &str = "src/bpf";
/// What programs share with each other and with the agent.
const LAYOUT: [&str; 3] = ["intf.h", "maps.h", "state.h"];

/// A C source without its comments, each space one: what is left changes only if the program does.
fn tokens(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        code.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, behind)| behind);
    }
    code.push_str(rest);
    let lines = code.lines().map(|line| line.split_once("//").map_or(line, |(before, _)| before));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

fn main() -> ccp_build::Result<()> {
    let include = ["-Wno-unused-function", "-I", SOURCES];
    ccp_build::compile("src/bpf/ccp.bpf.c", "CCP_BPF_OBJECT", &include)?;
    ccp_build::compile("src/bpf/fold.bpf.c", "CCP_FOLD_OBJECT", &include)?;
    ccp_build::compile("src/bpf/holders.bpf.c", "CCP_HOLDERS_OBJECT", &include)?;
    ccp_build::compile("src/bpf/walk.bpf.c", "CCP_WALK_OBJECT", &include)?;
    ccp_build::bind("src/bpf/walk.h")?;
    ccp_build::compile("src/bpf/plain.bpf.c", "CCP_PLAIN_OBJECT", &include)?;

    // Line information would make the hash depend on comments and paths; the sources themselves do not.
    let mut all = Vec::new();
    ccp_build::watch(SOURCES);
    let mut sources: Vec<_> = fs::read_dir(SOURCES)?.collect::<Result<Vec<_>, _>>()?;
    sources.sort_by_key(std::fs::DirEntry::file_name);
    for file in &sources {
        all.extend(fs::read(file.path())?);
    }
    println!("cargo:rustc-env=CCP_BUILD_HASH={}", hash(&all));
    let mut layout = String::new();
    for name in LAYOUT {
        layout.push_str(&tokens(&fs::read_to_string(format!("{SOURCES}/{name}"))?));
    }
    println!("cargo:rustc-env=CCP_LAYOUT_HASH={}", hash(layout.as_bytes()));
    Ok(())
}
