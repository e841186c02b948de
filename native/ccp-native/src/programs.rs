//! Programs of a datapath: by handle, by flow, and their control registers by name.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccp_record::{Letter, Records, Update};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};

use crate::errors;
use crate::program::Program;
use crate::report::{ByHandle, Installed, OWN, QUICK};

/// The lock, also behind a panic of another thread: what it guards is never left half done.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Behind a handle, as Python gives it to `update()`, stands what reports are to bring back.
pub const STAMP_SHIFT: u32 = 16;

/// Handle and stamp of a program that a flow is given.
pub fn given(program: Option<u32>) -> (Option<u32>, u16) {
    (
        program.map(|given| given & ((1 << STAMP_SHIFT) - 1)),
        (program.unwrap_or_default() >> STAMP_SHIFT) as u16,
    )
}

/// Control registers to set, by index.
pub type Controls = Vec<(usize, u64)>;

/// What a datapath has to remember of programs.
#[derive(Default)]
pub struct Programs {
    pub by_handle: Arc<ByHandle>,
    /// What the agent last gave to each flow: the program whose register names `update(registers=)` means.
    of_flow: HashMap<u64, Arc<Installed>>,
    /// Flows that closed in the batch that is being handled: forgotten with the next.
    closed: Vec<u64>,
}

impl Programs {
    /// Takes note of the flows that closed in the batch that comes now; forgets those of the one before.
    pub fn forget(&mut self, records: &Records) {
        for flow_id in self.closed.drain(..) {
            self.of_flow.remove(&flow_id);
        }
        self.closed.extend(records.closed());
    }

    /// Takes note of a program that got this handle.
    pub fn installed(&mut self, program: Installed) {
        Arc::make_mut(&mut self.by_handle).insert(program.handle, Arc::new(program));
    }

    /// Takes note that it is gone.
    pub fn uninstalled(&mut self, handle: u32) {
        Arc::make_mut(&mut self.by_handle).remove(&handle);
    }

    /// Takes note that a flow was given a program.
    pub fn gave(&mut self, flow_id: u64, handle: u32) {
        match self.by_handle.get(&handle).cloned() {
            Some(installed) => self.of_flow.insert(flow_id, installed),
            None => self.of_flow.remove(&flow_id),
        };
    }

    /// The program of this handle; without one, the flow's.
    pub fn of(&self, flow_id: u64, handle: Option<u32>) -> Option<Arc<Installed>> {
        match handle {
            Some(handle) => self.by_handle.get(&handle).cloned(),
            None => self.of_flow.get(&flow_id).cloned(),
        }
    }
}

/// Registers were given, and no program that has them.
pub fn no_program(py: Python<'_>) -> PyErr {
    errors::raise_new(
        py,
        "register.no_program",
        "registers were set of a flow that runs no program",
        "register names are those of the flow's program",
        "give the flow a program first, or in the same update",
    )
}

/// Letters to extensions as Python gives them: octets by name.
pub type Letters = Option<HashMap<String, Vec<u8>>>;

/// The same as an update has them.
pub fn letters_of(letters: &Letters) -> Vec<Letter<'_>> {
    let each = letters.iter().flatten();
    each.map(|(extension, octets)| Letter { extension, octets }).collect()
}

/// What `update_many` was given: columns, a row for each flow.
pub struct Many {
    flow_ids: Vec<u64>,
    cwnd_bytes: Vec<u64>,
    rate_bytes_per_s: Vec<u64>,
    registers: Vec<(String, Vec<u64>)>,
}

impl Many {
    /// Copies the columns; all must have the same length.
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
            let lengths = format!("{n} flows, and {} values of {name}", values.item_count());
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

    /// The control registers of each row; `None` where a flow runs no program.
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

    /// What to write, by flow; rows without `controls` are left out.
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
    /// A program that a datapath has given this handle.
    pub fn new(py: Python<'_>, handle: u32, program: &Program) -> Self {
        let intern = |name: &str| PyString::intern(py, name).unbind();
        let own = OWN[..QUICK].iter().map(|name| intern(name));
        let (report_fields, controls) = (program.report_fields(), program.control_registers());
        Installed {
            handle,
            uid: program.inner.uid,
            name: program.name().to_owned(),
            // A register that is called as something that every report has gives way: no attribute is that string.
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

    /// Index and value of each register, as `update` was given them. Names in Python's code are the very strings that
    /// were interned here, so that nothing is compared but their addresses.
    pub fn controls(&self, py: Python<'_>, registers: &Bound<'_, PyDict>) -> PyResult<Controls> {
        let one = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            let index = self.control_names.iter().position(|known| known.as_ptr() == name.as_ptr());
            let index = index.map_or_else(|| self.named(py, name.cast::<PyString>()?.to_str()?), Ok)?;
            self.control(py, index, value.extract()?)
        };
        registers.iter().map(one).collect()
    }

    /// A register's index and value.
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
