//! Programs of a datapath: by handle, by flow, and their control registers by name.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccp_record::{Message, Records, Update};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};

use crate::errors;
use crate::program::Program;
use crate::report::{ByHandle, Installed, OWN, QUICK};

/// Locks a mutex, even if another thread panicked: the data is never left inconsistent.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// In a handle as passed to `update()`, the stamp for reports is above the handle.
pub const STAMP_SHIFT: u32 = 16;

/// Handle and stamp of a flow's new program.
pub fn given(program: Option<u32>) -> (Option<u32>, u16) {
    (
        program.map(|given| given & ((1 << STAMP_SHIFT) - 1)),
        (program.unwrap_or_default() >> STAMP_SHIFT) as u16,
    )
}

/// Control registers to set, by index.
pub type Controls = Vec<(usize, u64)>;

/// A datapath's knowledge of programs.
#[derive(Default)]
pub struct Programs {
    pub by_handle: Arc<ByHandle>,
    /// Each flow's last program, whose register names `update(registers=)` uses.
    of_flow: HashMap<u64, Arc<Installed>>,
    /// Flows that closed in the present batch: forgotten with the next one.
    closed: Vec<u64>,
}

impl Programs {
    /// Records the flows that closed in the present batch; forgets those of the previous one.
    pub fn forget(&mut self, records: &Records) {
        for flow_id in self.closed.drain(..) {
            self.of_flow.remove(&flow_id);
        }
        self.closed.extend(records.closed());
    }

    pub fn installed(&mut self, program: Installed) {
        Arc::make_mut(&mut self.by_handle).insert(program.handle, Arc::new(program));
    }

    pub fn uninstalled(&mut self, handle: u32) {
        Arc::make_mut(&mut self.by_handle).remove(&handle);
    }

    pub fn gave(&mut self, flow_id: u64, handle: u32) {
        match self.by_handle.get(&handle).cloned() {
            Some(installed) => self.of_flow.insert(flow_id, installed),
            None => self.of_flow.remove(&flow_id),
        };
    }

    /// The program of a handle; without one, the flow's.
    pub fn of(&self, flow_id: u64, handle: Option<u32>) -> Option<Arc<Installed>> {
        match handle {
            Some(handle) => self.by_handle.get(&handle).cloned(),
            None => self.of_flow.get(&flow_id).cloned(),
        }
    }
}

/// The error for registers without a program.
pub fn no_program(py: Python<'_>) -> PyErr {
    errors::raise_new(
        py,
        "register.no_program",
        "cannot set registers: the flow runs no program",
        "registers belong to the flow's program",
        "set the flow's program first, or in the same update",
    )
}

/// Messages to extensions in Python's form: bytes by name.
pub type Messages = Option<HashMap<String, Vec<u8>>>;

/// The same in an update's form.
pub fn messages_of(messages: &Messages) -> Vec<Message<'_>> {
    let each = messages.iter().flatten();
    each.map(|(extension, raw)| Message { extension, raw }).collect()
}

/// Arguments of `update_many`: columns, with a row per flow.
pub struct Many {
    flow_ids: Vec<u64>,
    cwnd_bytes: Vec<u64>,
    rate_bytes_per_s: Vec<u64>,
    registers: Vec<(String, Vec<u64>)>,
}

impl Many {
    /// Copies the columns, which must have the same length.
    pub fn new(
        py: Python<'_>,
        flow_ids: PyBuffer<u64>,
        cwnd_bytes: PyBuffer<u64>,
        rate_bytes_per_s: PyBuffer<u64>,
        registers: HashMap<String, PyBuffer<u64>>,
    ) -> PyResult<Self> {
        let n = flow_ids.item_count();
        let column = |name: &str, values: PyBuffer<u64>| {
            if values.item_count() == n {
                return values.to_vec(py);
            }
            let lengths = format!("{n} flows, but {} values of {name}", values.item_count());
            Err(PyValueError::new_err(lengths))
        };
        let registers = registers.into_iter().map(|(name, values)| {
            let values = column(&name, values)?;
            Ok((name, values))
        });
        Ok(Many {
            cwnd_bytes: column("cwnd_bytes", cwnd_bytes)?,
            rate_bytes_per_s: column("rate_bytes_per_s", rate_bytes_per_s)?,
            registers: registers.collect::<PyResult<_>>()?,
            flow_ids: flow_ids.to_vec(py)?,
        })
    }

    /// The control registers of each row; `None` if the flow runs no program.
    pub fn controls(&self, py: Python<'_>, programs: &Mutex<Programs>) -> PyResult<Vec<Option<Controls>>> {
        if self.registers.is_empty() {
            return Ok(vec![Some(Controls::new()); self.flow_ids.len()]);
        }
        let known: Vec<_> = {
            let programs = lock(programs);
            self.flow_ids.iter().map(|flow_id| programs.of(*flow_id, None)).collect()
        };
        let mut places: HashMap<u32, Vec<usize>> = HashMap::new();
        let mut rows = Vec::with_capacity(known.len());
        for (row, known) in known.iter().enumerate() {
            let Some(known) = known else {
                rows.push(None);
                continue;
            };
            let places = match places.entry(known.handle) {
                Entry::Occupied(there) => there.into_mut(),
                Entry::Vacant(free) => {
                    let names = self.registers.iter().map(|(name, _)| known.named(py, name));
                    free.insert(names.collect::<PyResult<_>>()?)
                }
            };
            let values = places.iter().zip(&self.registers);
            let controls = values.map(|(index, (_, column))| known.control(py, *index, column[row]));
            rows.push(Some(controls.collect::<PyResult<_>>()?));
        }
        Ok(rows)
    }

    /// The updates by flow; rows without `controls` are skipped.
    pub fn updates<'a>(
        &'a self,
        controls: &'a [Option<Controls>],
    ) -> impl Iterator<Item = (u64, Update<'a>)> {
        let set = |value: u64| (value != 0).then_some(value);
        controls.iter().enumerate().filter_map(move |(row, controls)| {
            let update = Update {
                cwnd_bytes: set(self.cwnd_bytes[row]),
                rate_bytes_per_s: set(self.rate_bytes_per_s[row]),
                controls: controls.as_ref()?,
                ..Update::default()
            };
            Some((self.flow_ids[row], update))
        })
    }
}

impl Installed {
    pub fn new(py: Python<'_>, handle: u32, program: &Program) -> Self {
        let intern = |name: &str| PyString::intern(py, name).unbind();
        let own = OWN[..QUICK].iter().map(|name| intern(name));
        let (report_fields, controls) = (program.report_fields(), program.control_registers());
        Installed {
            handle,
            uid: program.inner.uid,
            name: program.name().to_owned(),
            // A register named like an attribute of every report is hidden: no attribute has that string.
            interned: own
                .chain(report_fields.iter().map(|name| match OWN.contains(&name.as_str()) {
                    true => PyString::new(py, name).unbind(),
                    false => intern(name),
                }))
                .collect(),
            control_names: controls.iter().map(|name| intern(name)).collect(),
            report_fields,
            controls: program.inner.controls.clone(),
            dtype: PyOnceLock::new(),
        }
    }

    /// Index and value of each register passed to `update`. Names in Python code are the same interned
    /// strings, so only addresses are compared.
    pub fn controls(&self, py: Python<'_>, registers: &Bound<'_, PyDict>) -> PyResult<Controls> {
        let one = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            let index = self.control_names.iter().position(|known| known.as_ptr() == name.as_ptr());
            let index = index.map_or_else(|| self.named(py, name.cast::<PyString>()?.to_str()?), Ok)?;
            self.control(py, index, value.extract()?)
        };
        registers.iter().map(one).collect()
    }

    fn control(&self, py: Python<'_>, index: usize, value: u64) -> PyResult<(usize, u64)> {
        let register = &self.controls[index];
        if register.is_bool && value > 1 {
            return Err(errors::raise_new(
                py,
                "register.not_bool",
                &format!("`{}` of program \"{}\" cannot be {value}", register.name, self.name),
                "it is declared as true or false, and conditions are computed from it",
                "set it to 0 or 1, or declare it as a number",
            ));
        }
        Ok((index, value))
    }

    fn named(&self, py: Python<'_>, name: &str) -> PyResult<usize> {
        self.controls.iter().position(|register| register.name == name).ok_or_else(|| {
            let names: Vec<_> = self.controls.iter().map(|r| r.name.as_str()).collect();
            errors::raise_new(
                py,
                "register.unknown",
                &format!("program \"{}\" has no control register `{name}`", self.name),
                &format!("it has {}", names.join(", ")),
                "declare it in (def ...), outside of Report",
            )
        })
    }
}
