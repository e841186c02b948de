//! What loads into this kernel: each part is loaded and taken away again.

use std::path::PathBuf;

use ccp_rtcp::core::Options;
use ccp_trace::{Arrivals, Options as TraceOptions, Trace, Watched};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::datapath::{EXTENSIONS, extension_object};
use crate::errors;

/// Tries what an agent adds to a datapath that it takes over: names and extensions, with their objects.
#[pyfunction]
pub fn rehearse(
    py: Python<'_>,
    pin_dir: PathBuf,
    cc_names: Vec<String>,
    extensions: Vec<(String, Option<Vec<u8>>)>,
) -> PyResult<()> {
    let tried = py.detach(|| {
        let mut objects = Vec::new();
        for (name, object) in &extensions {
            objects.push((name.as_str(), extension_object(name, object.as_deref())?));
        }
        ccp_bpf::rehearse(&pin_dir, &cc_names, &objects)
    });
    tried.map_err(|e| errors::raise(py, &e))
}

/// Names of the parts, and what went wrong. Nothing is registered, and nothing stays.
#[pyfunction]
pub fn try_load(py: Python<'_>, rtcp_options: &[u8]) -> PyResult<Vec<(String, Option<Py<PyAny>>)>> {
    let options = Options::from_bytes(rtcp_options)
        .ok_or_else(|| PyValueError::new_err("these are no options of the detector"))?;
    let outcomes = py.detach(|| {
        let mut all = ccp_bpf::try_load(&EXTENSIONS);
        let tracing = || {
            // Of a namespace that does not exist.
            Trace::attach(&TraceOptions { interval_us: 0, netns_inodes: Some(vec![0]), ring_bytes: 0 })?;
            Arrivals::attach(&Watched { netns_inode: 0, minimum_us: 0, max_flows: 1 }).map(drop)
        };
        all.extend([
            ("rtcp for sockets".to_owned(), ccp_rtcp::Attached::try_load(options)),
            ("socket switch".to_owned(), ccp_switch::Switch::try_load()),
            ("socket tracing".to_owned(), tracing()),
            ("in-band node".to_owned(), ccp_node::Node::try_load()),
        ]);
        all
    });
    let told =
        |outcome: ccp_bpf::Result<()>| outcome.err().map(|e| errors::raise(py, &e).into_value(py).into_any());
    Ok(outcomes.into_iter().map(|(name, outcome)| (name, told(outcome))).collect())
}
