//! The example in C runs, and the C interface refuses what it cannot use.

use std::ffi::{CStr, c_char, c_int};
use std::ptr::null;

use ccp_quic_sim::c::{CFlow, CPath, CResult, ccp_simulate};

unsafe extern "C" {
    /// `main` of examples/reno.c, linked by build.rs.
    fn reno_main() -> c_int;
}

#[test]
fn reno_in_c_fills_the_path() {
    // SAFETY: it takes no arguments and keeps no state.
    assert_eq!(unsafe { reno_main() }, 0);
}

#[test]
fn null_pointers_are_refused_with_a_text() {
    let mut results = [CResult::default()];
    let mut error: [c_char; 40] = [1; 40];
    // SAFETY: the pointers are valid or NULL.
    let status = unsafe {
        ccp_simulate(
            null::<CPath>(),
            null::<CFlow>(),
            1,
            1,
            results.as_mut_ptr(),
            error.as_mut_ptr(),
            error.len(),
        )
    };
    // SAFETY: the text ends with a 0.
    let text = unsafe { CStr::from_ptr(error.as_ptr()) }.to_str().unwrap();
    assert_eq!((status, text), (-1, "quic_sim.bad_argument: ccp_simulate can"));
}
