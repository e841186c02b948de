//! Running an emulated network.

use std::os::fd::BorrowedFd;

use pyo3::prelude::*;

use crate::errors;

/// Runs a network over TUN devices until it is stopped, or the other side of the control channel is gone.
///
/// The descriptors have to stay open meanwhile. Signals reach their Python handlers.
#[pyfunction]
pub fn emulate(py: Python<'_>, spec_json: &[u8], tun_fds: Vec<i32>, control_fd: i32) -> PyResult<()> {
    if let Some(fd) = tun_fds.iter().chain([&control_fd]).find(|fd| **fd < 0) {
        return Err(pyo3::exceptions::PyValueError::new_err(format!("{fd} is no descriptor")));
    }
    let mut raised = None;
    let done = py.detach(|| {
        // SAFETY: not -1, as was looked at; the caller keeps them open, as this function asks of it.
        let borrowed = |fd: &i32| unsafe { BorrowedFd::borrow_raw(*fd) };
        let tuns: Vec<_> = tun_fds.iter().map(borrowed).collect();
        ccp_emu::emulate(spec_json, &tuns, borrowed(&control_fd), &mut || {
            Python::attach(|py| match py.check_signals() {
                Ok(()) => false,
                Err(e) => {
                    raised = Some(e);
                    true
                }
            })
        })
    });
    match raised {
        Some(e) => Err(e),
        None => done.map_err(|e| errors::raise(py, &e)),
    }
}
