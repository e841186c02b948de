//! Compiling fold programs, and running them in the reference interpreter.

use std::collections::HashMap;

use ccp_lang::prims::{NOTHING, PRIMITIVES};
use ccp_lang::{Folded, Implicit, Machine, Source};
use pyo3::prelude::*;

use crate::errors;

/// A compiled fold program.
#[pyclass(frozen, module = "ccplane.base._native")]
pub struct Program {
    pub inner: ccp_lang::Program,
    #[pyo3(get)]
    pub source: String,
}

#[pymethods]
impl Program {
    #[getter]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    #[getter]
    fn uid(&self) -> u32 {
        self.inner.uid
    }

    #[getter]
    pub fn report_fields(&self) -> Vec<String> {
        self.inner.reports.iter().map(|r| r.name.clone()).collect()
    }

    #[getter]
    pub fn control_registers(&self) -> Vec<String> {
        self.inner.controls.iter().map(|r| r.name.clone()).collect()
    }

    /// Names of the primitives that the program reads.
    #[getter]
    fn primitives(&self) -> Vec<&'static str> {
        self.inner.primitives()
    }

    #[getter]
    fn n_instructions(&self) -> usize {
        self.inner.instrs.len()
    }

    fn __repr__(&self) -> String {
        format!("Program({:?}, {} instructions)", self.inner.name, self.inner.instrs.len())
    }
}

/// Compiles CCP source. Requires no privilege.
#[pyfunction]
#[pyo3(signature = (source, name = "default", origin = "<source>", first_line = 1))]
pub fn compile(py: Python<'_>, source: &str, name: &str, origin: &str, first_line: u32) -> PyResult<Program> {
    let inner = ccp_lang::compile(&Source { text: source, name, origin, first_line })
        .map_err(|e| errors::raise_lang(py, &e))?;
    Ok(Program { inner, source: source.to_owned() })
}

/// Checks a program with the kernel's verifier; nothing stays loaded.
#[cfg(kernel)]
#[pyfunction]
pub fn verify(py: Python<'_>, program: &Program) -> PyResult<()> {
    ccp_bpf::verify(&program.inner).map_err(|e| errors::raise(py, &e))
}

/// The reference interpreter: runs a fold program without a kernel, one ACK at a time. It defines the meaning
/// of programs; the kernel's code is tested against it.
#[pyclass(module = "ccplane.base._native")]
pub struct Interpreter {
    program: Py<Program>,
    machine: Machine,
}

#[pymethods]
impl Interpreter {
    #[new]
    #[pyo3(signature = (program, now_us = 0))]
    fn new(program: Py<Program>, now_us: u64) -> Self {
        let mut machine = Machine::default();
        machine.reset(&program.get().inner, now_us);
        Interpreter { program, machine }
    }

    /// Runs the fold for one ACK. Missing primitives are 0, `Flow.rtt_sample_us` "no sample", `Int.age_us` "no echo".
    ///
    /// Returns the report registers if the program reports, else None; volatile registers are reset then.
    /// `cwnd_bytes` and `rate_bytes_per_s` hold the window and rate before and after.
    ///
    /// Raises:
    ///     ArithmeticError: If the fold is aborted by an arithmetic error, as in libccp.
    ///     KeyError: If a name is not a primitive.
    fn ack(
        &mut self,
        now_us: u64,
        primitives: HashMap<String, u64>,
    ) -> PyResult<Option<HashMap<String, u64>>> {
        use pyo3::exceptions::{PyArithmeticError, PyKeyError};
        let mut prims = NOTHING;
        for (name, value) in primitives {
            let index =
                PRIMITIVES.iter().position(|p| p.name == name).ok_or_else(|| PyKeyError::new_err(name))?;
            prims[index] = value;
        }
        let program = &self.program.get().inner;
        match self.machine.invoke(program, &prims, now_us) {
            Ok(Folded { report: false }) => Ok(None),
            Ok(Folded { report: true }) => {
                let names = program.reports.iter().map(|r| r.name.clone());
                Ok(Some(names.zip(self.machine.take_report(program)).collect()))
            }
            Err(e) => Err(PyArithmeticError::new_err(format!("{e:?}"))),
        }
    }

    /// Sets a control register.
    fn set(&mut self, name: &str, value: u64) -> PyResult<()> {
        let controls = &self.program.get().inner.controls;
        let index = controls
            .iter()
            .position(|c| c.name == name)
            .ok_or_else(|| pyo3::exceptions::PyKeyError::new_err(name.to_owned()))?;
        self.machine.control[index] = value;
        Ok(())
    }

    /// Control registers by name.
    #[getter]
    fn controls(&self) -> HashMap<String, u64> {
        let controls = self.program.get().inner.controls.iter();
        controls.zip(self.machine.control).map(|(c, v)| (c.name.clone(), v)).collect()
    }

    #[getter]
    fn cwnd_bytes(&self) -> u64 {
        self.machine.imp[Implicit::Cwnd as usize]
    }

    #[setter]
    fn set_cwnd_bytes(&mut self, value: u64) {
        self.machine.imp[Implicit::Cwnd as usize] = value;
    }

    #[getter]
    fn rate_bytes_per_s(&self) -> u64 {
        self.machine.imp[Implicit::Rate as usize]
    }

    #[setter]
    fn set_rate_bytes_per_s(&mut self, value: u64) {
        self.machine.imp[Implicit::Rate as usize] = value;
    }
}
