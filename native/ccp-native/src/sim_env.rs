//! Worlds for learning, for Python.

use std::mem::size_of;
use std::sync::{Mutex, PoisonError};

use ccp_sim::env::{Step, Vector};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors;
use crate::rows::{self, Column, column};

const COLUMNS: &[Column] = &[
    column!(Step, observation, "(7,)f4"),
    column!(Step, reward, "f4"),
    column!(Step, interval_us, "f8"),
    column!(Step, now_us, "f8"),
    column!(Step, thr_bytes_per_s, "f8"),
    column!(Step, thr_max_bytes_per_s, "f8"),
    column!(Step, loss_bytes_per_s, "f8"),
    column!(Step, rtt_us, "f8"),
    column!(Step, rtt_min_us, "f8"),
    column!(Step, srtt_us, "f8"),
    column!(Step, cwnd_bytes, "f8"),
    column!(Step, mss_bytes, "f8"),
    column!(Step, path_bytes_per_s, "f8"),
    column!(Step, path_rtt_us, "f8"),
    column!(Step, path_buffer_bytes, "f8"),
    column!(Step, path_loss_ratio, "f8"),
    column!(Step, fair_bytes_per_s, "f8"),
    column!(Step, mtp_us, "f8"),
    column!(Step, path_cross_flows, "u4"),
    column!(Step, path_peers, "u4"),
    column!(Step, path_flows, "u4"),
    column!(Step, path_traced, "u4"),
    column!(Step, steered, "u4"),
    column!(Step, case, "u4"),
    column!(Step, alone, "u4"),
    column!(Step, over, "u4"),
];

// 8 and 8 numbers of 4 bytes, 16 of 8: no byte of a step is padding.
const _: () = assert!(size_of::<Step>() == 16 * 4 + 16 * 8);

/// Worlds that have nothing to do with each other, stepped together.
#[pyclass]
pub struct SimEnv {
    // Python may show it to several threads, but worlds cannot be shared: never locked, methods have it to themselves.
    vector: Mutex<Vector>,
    dtype: Py<PyAny>,
}

#[pymethods]
impl SimEnv {
    #[new]
    fn new(py: Python<'_>, settings_json: &[u8], n: usize) -> PyResult<Self> {
        let vector = Vector::new(settings_json, n).map_err(|e| errors::raise(py, &e))?;
        Ok(SimEnv { vector: Mutex::new(vector), dtype: rows::dtype(py, COLUMNS, size_of::<Step>())? })
    }

    /// Gives the connections beside the learners' a policy: layers of weights and biases, as JSON.
    fn set_peers(&mut self, py: Python<'_>, net_json: &[u8]) -> PyResult<()> {
        let vector = self.vector.get_mut().unwrap_or_else(PoisonError::into_inner);
        vector.set_peers(net_json).map_err(|e| errors::raise(py, &e))
    }

    /// Begins new episodes in some worlds; with seeds, all their episodes follow from these.
    #[pyo3(signature = (worlds, seeds = None))]
    fn reset<'py>(
        &mut self,
        py: Python<'py>,
        worlds: Vec<usize>,
        seeds: Option<Vec<u64>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if seeds.as_ref().is_some_and(|seeds| seeds.len() != worlds.len()) {
            return Err(PyValueError::new_err("as many seeds as worlds, or none"));
        }
        let vector = self.vector.get_mut().unwrap_or_else(PoisonError::into_inner);
        let steps = py.detach(|| {
            let seed = |index: usize| seeds.as_ref().map(|seeds| seeds[index]);
            worlds.iter().enumerate().map(|(index, world)| vector.reset(*world, seed(index))).collect()
        });
        self.array(py, steps)
    }

    /// Acts in each world, and lets an interval pass; `actions` are 32-bit floats as they are in memory.
    fn step<'py>(&mut self, py: Python<'py>, actions: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let (whole, rest) = actions.as_chunks();
        if !rest.is_empty() {
            return Err(PyValueError::new_err("actions are 32-bit floats"));
        }
        let actions: Vec<_> = whole.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect();
        let vector = self.vector.get_mut().unwrap_or_else(PoisonError::into_inner);
        let steps = py.detach(|| vector.step(&actions));
        self.array(py, steps)
    }
}

impl SimEnv {
    fn array<'py>(&self, py: Python<'py>, steps: ccp_sim::Result<Vec<Step>>) -> PyResult<Bound<'py, PyAny>> {
        let steps = steps.map_err(|e| errors::raise(py, &e))?;
        // SAFETY: as many bytes as the slice has, which outlives them here; a `Step` is numbers without padding.
        let bytes =
            unsafe { std::slice::from_raw_parts(steps.as_ptr().cast::<u8>(), size_of_val(&steps[..])) };
        rows::as_array(py, bytes, &self.dtype)
    }
}
