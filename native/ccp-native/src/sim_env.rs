//! Simulated worlds for learning.

use std::mem::{offset_of, size_of};
use std::sync::{Mutex, PoisonError};

use ccp_sim::env::{Step, Totals, Vector};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors;
use crate::rows::{self, Column, column};

fn columns() -> Vec<Column> {
    let totals = [
        column!(Totals, delivered_pkts, "f8"),
        column!(Totals, lost_pkts, "f8"),
        column!(Totals, rtt_sum_us, "f8"),
        column!(Totals, rtt_samples, "f8"),
        column!(Totals, rtt_min_us, "f8"),
        column!(Totals, srtt_us, "f8"),
        column!(Totals, cwnd_bytes, "f8"),
        column!(Totals, mss_bytes, "f8"),
        column!(Totals, in_slow_start, "f8"),
    ];
    let own = [
        column!(Step, interval_us, "f8"),
        column!(Step, now_us, "f8"),
        column!(Step, path_bytes_per_s, "f8"),
        column!(Step, path_rtt_us, "f8"),
        column!(Step, path_buffer_bytes, "f8"),
        column!(Step, path_loss_ratio, "f8"),
        column!(Step, mtp_us, "f8"),
        column!(Step, flow_id, "u4"),
        column!(Step, path_cross_flows, "u4"),
        column!(Step, path_traced, "u4"),
        column!(Step, steered, "u4"),
        column!(Step, acted, "u4"),
        column!(Step, over, "u4"),
    ];
    let offset = offset_of!(Step, totals);
    own.into_iter().chain(totals.map(|(name, format, at)| (name, format, at + offset))).collect()
}

// 16 numbers of 8 bytes, 6 of 4: no byte of a step is padding.
const _: () = assert!(size_of::<Step>() == 16 * 8 + 6 * 4);

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<SimEnv>()
}

/// Independent worlds that are stepped together.
#[pyclass]
pub struct SimEnv {
    // Python may share it between threads, but worlds cannot be shared. Methods have exclusive access, so it
    // is never locked.
    vector: Mutex<Vector>,
    dtype: Py<PyAny>,
}

#[pymethods]
impl SimEnv {
    #[new]
    fn new(py: Python<'_>, settings_json: &[u8], n: usize) -> PyResult<Self> {
        let vector = Vector::new(settings_json, n).map_err(|e| errors::raise(py, &e))?;
        Ok(SimEnv { vector: Mutex::new(vector), dtype: rows::dtype(py, &columns(), size_of::<Step>())? })
    }

    /// Begins new episodes in some worlds; seeds determine all their episodes.
    #[pyo3(signature = (worlds, seeds = None))]
    fn reset<'py>(
        &mut self,
        py: Python<'py>,
        worlds: Vec<usize>,
        seeds: Option<Vec<u64>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if seeds.as_ref().is_some_and(|seeds| seeds.len() != worlds.len()) {
            return Err(PyValueError::new_err("pass as many seeds as worlds, or none"));
        }
        let vector = self.vector.get_mut().unwrap_or_else(PoisonError::into_inner);
        let steps = py.detach(|| {
            let seed = |index: usize| seeds.as_ref().map(|seeds| seeds[index]);
            worlds.iter().enumerate().map(|(index, world)| vector.reset(*world, seed(index))).collect()
        });
        self.array(py, steps)
    }

    /// Acts in each world, and lets an interval pass; `actions` are 32-bit floats in native format.
    fn step<'py>(&mut self, py: Python<'py>, actions: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let (whole, rest) = actions.as_chunks();
        if !rest.is_empty() {
            return Err(PyValueError::new_err("actions must be 32-bit floats"));
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
        // SAFETY: the length is that of the slice, which outlives it; a `Step` consists of numbers without padding.
        let bytes =
            unsafe { std::slice::from_raw_parts(steps.as_ptr().cast::<u8>(), size_of_val(&steps[..])) };
        rows::as_array(py, bytes, &self.dtype)
    }
}
