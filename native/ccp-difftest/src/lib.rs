//! Compares the interpreter, the compiled code in the kernel, and libccp.
//!
//! Random programs ([`generate`]) are compiled and run on random inputs by all three ([`compare`]). libccp has fewer
//! registers, fewer primitives and shorter constants; programs beyond its limits are run by the other two.

pub mod compare;
pub mod generate;
pub mod kernel;
pub mod machines;
pub mod reference;
pub mod rng;

/// Whether the kernel can be tested. As root it must work.
pub fn is_root() -> bool {
    // SAFETY: a plain system call.
    unsafe { libc::geteuid() == 0 }
}
