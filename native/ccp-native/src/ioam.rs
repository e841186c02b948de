//! IOAM: packets as bytes, what is in them as JSON.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use ccp_ioam::{Capture, Error, IoamOption, Kind, Node};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::errors;

fn from_json<T: DeserializeOwned>(json: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(json)
        .map_err(|e| Error::new("ioam.cannot_write", "this telemetry cannot be written").why(e))
}

fn to_json<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyBytes>> {
    match serde_json::to_vec(value) {
        Ok(json) => Ok(PyBytes::new(py, &json)),
        Err(e) => Err(pyo3::exceptions::PyValueError::new_err(e.to_string())),
    }
}

fn made<'py>(py: Python<'py>, packet: Result<Vec<u8>, Error>) -> PyResult<Bound<'py, PyBytes>> {
    packet.map(|packet| PyBytes::new(py, &packet)).map_err(|e| errors::raise(py, &e))
}

/// Telemetry of an IPv6 packet as JSON.
#[pyfunction]
pub fn ioam_decode<'py>(py: Python<'py>, packet: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let decoded = ccp_ioam::decode(packet).map_err(|e| errors::raise(py, &e))?;
    to_json(py, &decoded)
}

/// Telemetry of a Hop-by-Hop or Destination Options header as JSON.
#[pyfunction]
pub fn ioam_decode_header<'py>(
    py: Python<'py>,
    header: &[u8],
    hop_by_hop: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let kind = if hop_by_hop { Kind::HopByHop } else { Kind::Destination };
    let contents = ccp_ioam::decode_header(kind, header).map_err(|e| errors::raise(py, &e))?;
    to_json(py, &contents)
}

/// A packet with options inserted, given as JSON.
#[pyfunction]
pub fn ioam_insert<'py>(
    py: Python<'py>,
    packet: &[u8],
    options_json: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let options = from_json::<Vec<IoamOption>>(options_json);
    made(py, options.and_then(|options| ccp_ioam::insert(packet, &options)))
}

/// Hop-by-Hop and Destination Options headers with options, given as JSON.
#[pyfunction]
pub fn ioam_build<'py>(
    py: Python<'py>,
    options_json: &[u8],
    next_header: u8,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let options = from_json::<Vec<IoamOption>>(options_json);
    let headers = options
        .and_then(|options| ccp_ioam::build(&options, next_header))
        .map_err(|e| errors::raise(py, &e))?;
    Ok((PyBytes::new(py, &headers.hop_by_hop), PyBytes::new(py, &headers.destination)))
}

/// A packet without ccplane's options.
#[pyfunction]
pub fn ioam_remove<'py>(py: Python<'py>, packet: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    made(py, ccp_ioam::remove(packet))
}

/// A packet with a node's data, given as JSON, written into its traces; the numbers of traces with and without room.
#[pyfunction]
pub fn ioam_fill<'py>(
    py: Python<'py>,
    packet: &[u8],
    namespace_id: u16,
    node_json: &[u8],
) -> PyResult<(Bound<'py, PyBytes>, usize, usize)> {
    let mut packet = packet.to_vec();
    let outcome = from_json::<Node>(node_json)
        .and_then(|node| ccp_ioam::fill(&mut packet, namespace_id, &node))
        .map_err(|e| errors::raise(py, &e))?;
    Ok((PyBytes::new(py, &packet), outcome.filled, outcome.overflowed))
}

/// Additional packet length of a source, given as JSON [bytes].
#[pyfunction]
pub fn int_overhead_bytes(py: Python<'_>, source_spec_json: &[u8]) -> PyResult<usize> {
    let spec = from_json::<ccp_int::SourceSpec>(source_spec_json);
    spec.and_then(|spec| spec.overhead_bytes()).map_err(|e| errors::raise(py, &e))
}

/// A capture file.
#[pyclass(frozen, module = "ccplane.base._native")]
pub struct IoamCapture(Mutex<Capture>);

impl IoamCapture {
    fn with<T: Send>(&self, py: Python<'_>, what: impl FnOnce(&mut Capture) -> T + Send) -> T {
        py.detach(|| what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

#[pymethods]
impl IoamCapture {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let opened = py.detach(|| Capture::open(&path));
        opened.map(|capture| IoamCapture(Mutex::new(capture))).map_err(|e| errors::raise(py, &e))
    }

    /// Reads `packets` packets; returns those with telemetry as a JSON array.
    fn read<'py>(&self, py: Python<'py>, packets: usize) -> PyResult<Bound<'py, PyBytes>> {
        let records = self.with(py, |capture| capture.read(packets));
        to_json(py, &records)
    }

    /// Whether all packets were read.
    #[getter]
    fn finished(&self, py: Python<'_>) -> bool {
        self.with(py, |capture| capture.is_finished())
    }

    /// Statistics of the packets read, as JSON.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let summary = self.with(py, |capture| capture.summary().clone());
        to_json(py, &summary)
    }
}
