//! Hashes of C sources, ignoring comments and spaces.
//!
//! The tests run with those of ccp-bpf, to avoid compiling this crate's dependencies again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// A hash of sources, in their order. Errors: one cannot be read.
pub fn hash_of_sources<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> io::Result<u64> {
    let mut code = String::new();
    for path in paths {
        code.push_str(&tokens(&fs::read_to_string(path)?));
    }
    Ok(fnv_1a(code.as_bytes()))
}

/// A hash of a program's source and of the headers in its directory that it includes, directly or not.
/// Errors: one cannot be read.
pub fn hash_of_program(source: impl AsRef<Path>) -> io::Result<u64> {
    let mut all = BTreeSet::new();
    let mut left = vec![source.as_ref().to_owned()];
    while let Some(path) = left.pop() {
        left.extend(included(&path)?.into_iter().filter(|header| !all.contains(header)));
        all.insert(path);
    }
    hash_of_sources(all)
}

fn included(path: &Path) -> io::Result<Vec<PathBuf>> {
    let text = fs::read_to_string(path)?;
    let names = text.lines().filter_map(|line| line.strip_prefix("#include \"")?.split('"').next());
    Ok(names.map(|name| path.with_file_name(name)).collect())
}

/// Sufficient to distinguish builds.
fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

/// A C source without comments, with single spaces.
fn tokens(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        code.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, code)| code);
    }
    code.push_str(rest);
    let lines = code.lines().map(|line| line.split_once("//").map_or(line, |(before, _)| before));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_with(name: &str, change: impl Fn(String) -> String) -> u64 {
        let copy = std::env::temp_dir().join(format!("ccplane-sources-{}", std::process::id()));
        fs::create_dir_all(&copy).unwrap();
        for entry in fs::read_dir("src/bpf").unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
        }
        let changed = copy.join(name);
        fs::write(&changed, change(fs::read_to_string(&changed).unwrap())).unwrap();
        let hash = hash_of_program(copy.join("ccp.bpf.c")).unwrap();
        fs::remove_dir_all(&copy).unwrap();
        hash
    }

    #[test]
    fn only_code_of_the_datapath_changes_its_hash() {
        let hash = hash_of_program("src/bpf/ccp.bpf.c").unwrap();
        let comment = |text| format!("/* another\n comment */\n{text}\n// and another\n");
        let code = |text| format!("{text}\nstatic int another;\n");
        for name in ["ccp.bpf.c", "fallback.h", "kernel.h", "holders.bpf.c", "walk.h"] {
            assert_eq!(hash_with(name, comment), hash, "{name}");
        }
        for (name, is_part) in [
            ("ccp.bpf.c", true),
            ("kernel.h", true),
            ("cubic.h", true),
            ("holders.bpf.c", false),
            ("walk.h", false),
        ] {
            assert_eq!(hash_with(name, code) != hash, is_part, "{name}");
        }
    }
}
