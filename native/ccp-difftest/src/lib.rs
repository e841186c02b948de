//! Are the interpreter, the compiled code in the kernel, and libccp the same machine?
//!
//! Random programs ([`generate`]) are compiled and run on random inputs by all three ([`compare`]). libccp
//! has fewer registers, fewer primitives and shorter constants than we; programs beyond its limits are run by
//! the other two.

pub mod compare;
pub mod generate;
pub mod kernel;
pub mod machines;
pub mod reference;
pub mod rng;

/// Returns whether the kernel's side can be tried. As root it must work.
pub fn is_root() -> bool {
    // SAFETY: a plain system call.
    unsafe { libc::geteuid() == 0 }
}
