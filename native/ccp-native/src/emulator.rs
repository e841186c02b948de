//! Running an emulated network.

use std::os::fd::BorrowedFd;

use ccp_emu::spec::Spec;
use ccp_emu::{Files, Role, Windows};
use ccp_int::FlowKey;
use ccp_ioam::TcpState;
use ccp_trace::Connection;
use pyo3::prelude::*;

use crate::errors;

/// Runs a network over TUN devices until it is stopped, or the peer of the control channel has closed. Keep the
/// descriptors open meanwhile, and the one for summaries in the description. Signals reach their Python handlers.
#[pyfunction]
pub fn emulate(py: Python<'_>, spec_json: &[u8], tun_fds: Vec<i32>, control_fd: i32) -> PyResult<()> {
    let spec = Spec::from_json(spec_json).map_err(|e| errors::raise(py, &e))?;
    let summaries_fd = spec.int.as_ref().and_then(|int| int.summaries_fd);
    if let Some(fd) = tun_fds.iter().chain([&control_fd]).chain(&summaries_fd).find(|fd| **fd < 0) {
        return Err(pyo3::exceptions::PyValueError::new_err(format!("{fd} is not a file descriptor")));
    }
    let mut raised = None;
    let done = py.detach(|| {
        // SAFETY: not -1, as checked; the caller keeps them open, as required by this function.
        let borrowed = |fd: &i32| unsafe { BorrowedFd::borrow_raw(*fd) };
        let tuns: Vec<_> = tun_fds.iter().map(borrowed).collect();
        let control = borrowed(&control_fd);
        let files = Files { tuns: &tuns, control, summaries: summaries_fd.as_ref().map(borrowed) };
        let windows = windows(&spec)?;
        ccp_emu::emulate(spec, files, windows, &mut || {
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

/// Looks up senders' windows in the kernel, if sources write them.
fn windows(spec: &Spec) -> ccp_emu::Result<Option<Windows>> {
    let wanted = spec.int.as_ref().is_some_and(|int| {
        int.source.tcp_state && int.nodes.iter().any(|node| node.roles.contains(&Role::Source))
    });
    if !wanted {
        return Ok(None);
    }
    let windows = ccp_trace::Windows::attach(None)?;
    Ok(Some(Box::new(move |flow: &FlowKey| {
        let FlowKey { src, dst, src_port, dst_port, .. } = *flow;
        let window = windows.window(&Connection { src, dst, src_port, dst_port })?;
        // All ones mean unknown.
        Some(TcpState {
            cwnd_bytes: u32::try_from(window.cwnd_bytes).ok().filter(|bytes| *bytes != u32::MAX),
            mss_bytes: u16::try_from(window.mss_bytes).ok().filter(|bytes| *bytes != u16::MAX),
            ..TcpState::default()
        })
    })))
}
