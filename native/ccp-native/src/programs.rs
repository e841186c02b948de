//! Programs of a datapath: by handle, by flow, and their control registers by name.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccp_record::{Letter, Update};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

use crate::errors;
use crate::program::Program;
use crate::report::{ByHandle, Installed, OWN};

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
    pub fn forget(&mut self, closed: Vec<u64>) {
        for flow_id in std::mem::replace(&mut self.closed, closed) {
            self.of_flow.remove(&flow_id);
        }
    }

    /// Takes note of a program that got this handle.
    pub fn installed(&mut self, py: Python<'_>, handle: u32, program: &Program) {
        Arc::make_mut(&mut self.by_handle).insert(handle, Arc::new(Installed::new(py, handle, program)));
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

    /// Index and value of control registers of `program`, else of the flow's program.
    pub fn registers(
        &self,
        py: Python<'_>,
        flow_id: u64,
        program: Option<u32>,
        registers: Option<&HashMap<String, u64>>,
    ) -> PyResult<Controls> {
        let Some(registers) = registers.filter(|registers| !registers.is_empty()) else {
            return Ok(Controls::new());
        };
        let known = match program {
            Some(handle) => self.by_handle.get(&handle),
            None => self.of_flow.get(&flow_id),
        };
        let Some(known) = known else {
            return Err(errors::raise_new(
                py,
                "register.no_program",
                "registers were set of a flow that runs no program",
                "register names are those of the flow's program",
                "give the flow a program first, or in the same update",
            ));
        };
        registers.iter().map(|(name, value)| known.register(py, name)?.with(py, *value)).collect()
    }

    /// The same for many flows, a row each. `None` where a flow runs no program.
    fn rows(
        &self,
        py: Python<'_>,
        flow_ids: &[u64],
        registers: &HashMap<String, Vec<u64>>,
    ) -> PyResult<Vec<Option<Controls>>> {
        let mut places: HashMap<u32, Vec<(Place<'_>, &Vec<u64>)>> = HashMap::new();
        let mut rows = Vec::with_capacity(flow_ids.len());
        for (row, flow_id) in flow_ids.iter().enumerate() {
            let Some(known) = self.of_flow.get(flow_id) else {
                rows.push(None);
                continue;
            };
            let places = match places.entry(known.handle) {
                Entry::Occupied(there) => there.into_mut(),
                Entry::Vacant(free) => free.insert(known.places(py, registers)?),
            };
            rows.push(Some(
                places.iter().map(|(place, column)| place.with(py, column[row])).collect::<PyResult<_>>()?,
            ));
        }
        Ok(rows)
    }
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
    registers: HashMap<String, Vec<u64>>,
}

impl Many {
    /// Copies the columns; all must have the same length.
    pub fn new(
        py: Python<'_>,
        flow_ids: PyBuffer<u64>,
        cwnd_bytes: PyBuffer<u64>,
        rate_bytes_per_s: PyBuffer<u64>,
        registers: Option<HashMap<String, PyBuffer<u64>>>,
    ) -> PyResult<Self> {
        let n = flow_ids.item_count();
        let column = |name: &str, values: PyBuffer<u64>| {
            if values.item_count() == n {
                return values.to_vec(py);
            }
            let lengths = format!("{n} flows, and {} values of {name}", values.item_count());
            Err(PyValueError::new_err(lengths))
        };
        let registers = registers.unwrap_or_default().into_iter().map(|(name, values)| {
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

    /// The control registers of each row.
    pub fn controls(&self, py: Python<'_>, programs: &Programs) -> PyResult<Vec<Option<Controls>>> {
        if self.registers.is_empty() {
            return Ok(vec![Some(Controls::new()); self.flow_ids.len()]);
        }
        programs.rows(py, &self.flow_ids, &self.registers)
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

/// A control register.
struct Place<'a> {
    index: usize,
    program: &'a Installed,
}

impl Place<'_> {
    fn with(&self, py: Python<'_>, value: u64) -> PyResult<(usize, u64)> {
        let register = &self.program.controls[self.index];
        if register.is_bool && value > 1 {
            return Err(errors::raise_new(
                py,
                "register.not_bool",
                &format!("`{}` of program \"{}\" cannot be {value}", register.name, self.program.name),
                "it is declared as true or false, and conditions are computed from it",
                "set it to 0 or 1, or declare it as a number",
            ));
        }
        Ok((self.index, value))
    }
}

impl Installed {
    /// A program that a datapath has given this handle.
    pub fn new(py: Python<'_>, handle: u32, program: &Program) -> Self {
        // A register that is called as something that every report has gives way: no attribute is that string.
        let interned = program.report_fields();
        let interned = interned.iter().map(|name| {
            if OWN.contains(&name.as_str()) {
                PyString::new(py, name).unbind()
            } else {
                PyString::intern(py, name).unbind()
            }
        });
        Installed {
            handle,
            uid: program.inner.uid,
            name: program.name().to_owned(),
            interned: interned.collect(),
            report_fields: program.report_fields(),
            controls: program.inner.controls.clone(),
            dtype: PyOnceLock::new(),
        }
    }

    /// Where values of registers go, column by column.
    fn places<'a>(
        &'a self,
        py: Python<'_>,
        registers: &'a HashMap<String, Vec<u64>>,
    ) -> PyResult<Vec<(Place<'a>, &'a Vec<u64>)>> {
        registers.iter().map(|(name, column)| Ok((self.register(py, name)?, column))).collect()
    }

    fn register(&self, py: Python<'_>, name: &str) -> PyResult<Place<'_>> {
        let Some(index) = self.controls.iter().position(|r| r.name == name) else {
            let names: Vec<_> = self.controls.iter().map(|r| r.name.as_str()).collect();
            return Err(errors::raise_new(
                py,
                "register.unknown",
                &format!("program \"{}\" has no control register `{name}`", self.name),
                &format!("it has {}", names.join(", ")),
                "declare it in (def ...), outside of Report",
            ));
        };
        Ok(Place { index, program: self })
    }
}
