//! Load tests: each part is loaded into this kernel and unloaded.

use ccp_trace::{Arrivals, Options as TraceOptions, Trace, Watched};
use pyo3::prelude::*;

use crate::errors;
use crate::features::EXTENSIONS;

/// Names of the parts, and their errors. Nothing is registered, and nothing stays loaded.
#[pyfunction]
pub fn try_load(py: Python<'_>) -> PyResult<Vec<(String, Option<Py<PyAny>>)>> {
    let outcomes = py.detach(|| {
        let extensions = EXTENSIONS.iter().map(|one| (one.name, one.object)).collect::<Vec<_>>();
        let mut all = ccp_bpf::try_load(&extensions);
        let tracing = || {
            // A namespace that does not exist.
            Trace::attach(&TraceOptions { interval_us: 0, netns_inodes: Some(vec![0]), ring_bytes: 0 })?;
            Arrivals::attach(&Watched { netns_inode: 0, minimum_us: 0, max_flows: 1 }).map(drop)
        };
        all.extend([
            ("socket switch".to_owned(), ccp_switch::Switch::try_load()),
            ("socket tracing".to_owned(), tracing()),
            ("in-band node".to_owned(), ccp_node::Node::try_load()),
        ]);
        all
    });
    let reported =
        |outcome: ccp_bpf::Result<()>| outcome.err().map(|e| errors::raise(py, &e).into_value(py).into_any());
    Ok(outcomes.into_iter().map(|(name, outcome)| (name, reported(outcome))).collect())
}
