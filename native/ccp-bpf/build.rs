//! Compiles the BPF programs.

use std::fs;

/// R-TCP's detector and limiter, of which one extension is made.
const RTCP: &str = "../ccp-rtcp/src";

/// FNV-1a: enough to tell two builds apart, and nothing to depend on.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

fn main() -> ccp_build::Result<()> {
    let directories = ["src/bpf".to_owned(), format!("{RTCP}/core"), format!("{RTCP}/bpf")];
    let include = ["-Wno-unused-function", "-I", "src/bpf", "-I", &directories[1], "-I", &directories[2]];
    ccp_build::compile("src/bpf/ccp.bpf.c", "CCP_BPF_OBJECT", &include)?;
    ccp_build::compile("src/bpf/fold.bpf.c", "CCP_FOLD_OBJECT", &include)?;
    ccp_build::compile("src/bpf/limit.bpf.c", "CCP_LIMIT_OBJECT", &include)?;
    ccp_build::compile("src/bpf/plain.bpf.c", "CCP_PLAIN_OBJECT", &include)?;

    // Line information would make the hash depend on comments and paths; the sources themselves do not.
    let mut all = Vec::new();
    for directory in &directories {
        ccp_build::watch(directory);
        let mut sources: Vec<_> = fs::read_dir(directory)?.collect::<Result<Vec<_>, _>>()?;
        sources.sort_by_key(std::fs::DirEntry::file_name);
        for file in &sources {
            all.extend(fs::read(file.path())?);
        }
    }
    println!("cargo:rustc-env=CCP_BUILD_HASH={}", hash(&all));
    Ok(())
}
