//! Compiles the BPF programs (clang) and makes Rust types of the headers they share with us (bindgen).

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};

/// Program, the header that it shares, and the variable that names what was compiled.
const PROGRAMS: [(&str, &str, &str); 3] = [
    ("trace", "row", "CCP_TRACE_OBJECT"),
    ("arrivals", "arrivals", "CCP_ARRIVALS_OBJECT"),
    ("windows", "windows", "CCP_WINDOWS_OBJECT"),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=src/bpf");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for (program, shared, variable) in PROGRAMS {
        let object = out.join(format!("{program}.bpf.o"));
        compile(&format!("src/bpf/{program}.bpf.c"), &object)?;
        println!("cargo:rustc-env={variable}={}", object.display());
        bind(&format!("src/bpf/{shared}.h"), &out.join(format!("{shared}.rs")))?;
    }
    Ok(())
}

fn compile(source: &str, object: &Path) -> Result<(), Box<dyn Error>> {
    libbpf_cargo::SkeletonBuilder::new()
        .source(source)
        .obj(object)
        .clang_args(["-mcpu=v3", "-Wall"])
        .build()
        .map_err(|e| format!("cannot compile {source}: {e:#}\n  fix  install clang (11 or newer)"))?;
    Ok(())
}

fn bind(header: &str, rust: &Path) -> Result<(), Box<dyn Error>> {
    bindgen::Builder::default()
        .header(header)
        .layout_tests(false)
        .derive_default(true)
        .generate()
        .map_err(|e| format!("cannot read {header}: {e}\n  fix  install libclang (libclang1-14 or newer)"))?
        .write_to_file(rust)?;
    Ok(())
}
