//! R-TCP's CUBIC and BBR for the connections of the simulator.

use ccp_sim::rtcp::Attached;
use pyo3::prelude::*;

use super::{acks, options_of, verdicts};
use crate::errors;
use crate::sim::SimDatapath;

/// Makes them available to the flows of a simulated datapath.
#[pyclass(frozen, module = "ccplane.base._native")]
pub struct RtcpSimulated(Attached);

#[pymethods]
impl RtcpSimulated {
    #[new]
    #[pyo3(signature = (datapath, options, *, records = false))]
    fn new(py: Python<'_>, datapath: &SimDatapath, options: &[u8], records: bool) -> PyResult<Self> {
        let options = options_of(options)?;
        let attached = datapath.with_world(|world| Attached::attach(world, options, records));
        attached.map(Self).map_err(|e| errors::raise(py, &e))
    }

    /// Verdicts on clients since the last call.
    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        verdicts(py, &self.0.take_rows().iter().flat_map(|row| row.to_bytes()).collect::<Vec<_>>())
    }

    /// ACKs since the last call.
    fn drain_acks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        acks(py, &self.0.take_acks().iter().flat_map(|ack| ack.to_bytes()).collect::<Vec<_>>())
    }
}
