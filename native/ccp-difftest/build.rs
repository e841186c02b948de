//! Compiles libccp, as its crate ships it, with access to its state.

use std::path::PathBuf;

use cargo_metadata::MetadataCommand;

fn main() {
    let libccp = libccp_sources();
    let mut build = cc::Build::new();
    for file in ["ccp.c", "ccp_priv.c", "machine.c", "serialize.c"] {
        build.file(libccp.join(file));
    }
    build
        .file("src/shim.c")
        .file("src/path.c")
        .include(&libccp)
        .include("../ccp-bpf/src/bpf")
        .std("gnu11")
        // Not our code to warn about.
        .warnings(false)
        .define("__LOG_ERROR__", None)
        .compile("ccp_difftest_reference");
    for path in ["build.rs", "src/shim.c", "src/path.c", "../ccp-bpf/src/bpf/intf.h"] {
        println!("cargo::rerun-if-changed={path}");
    }
}

/// Returns the directory with libccp's C files. Asking for metadata makes cargo fetch the crate.
fn libccp_sources() -> PathBuf {
    let metadata = MetadataCommand::new().exec().expect("cargo metadata");
    let package =
        metadata.packages.iter().find(|p| p.name == "libccp").expect("libccp is among the dependencies");
    package.manifest_path.with_file_name("libccp").into_std_path_buf()
}
