//! Compiles the example in C for the tests, if there is an interface for C.

fn main() {
    println!("cargo:rerun-if-changed=include");
    println!("cargo:rerun-if-changed=examples/reno.c");
    #[cfg(feature = "c")]
    {
        cc::Build::new()
            .file("examples/reno.c")
            .include("include")
            .define("main", "reno_main")
            .warnings_into_errors(true)
            .cargo_metadata(false)
            .compile("reno");
        let out = std::env::var("OUT_DIR").unwrap_or_default();
        println!("cargo:rustc-link-arg-tests={out}/libreno.a");
    }
}
