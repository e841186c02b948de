//! Reports and batches of them.

use std::collections::HashMap;
use std::sync::Arc;

use ::ccp_record::intf::{self, ccp_record};
use ::ccp_record::{HEAD_COLUMNS, Record, Records};
use pyo3::exceptions::PyAttributeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::flows::{Closed, Created, FlowInfo, FlowStats, Reported};
use crate::programs::STAMP_SHIFT;

/// The reader's knowledge of an installed program.
pub struct Installed {
    pub handle: u32,
    pub uid: u32,
    pub name: String,
    pub report_fields: Vec<String>,
    /// The first `QUICK` of `OWN` and then its registers, as Python's interned strings: attribute names in
    /// Python code are the same objects.
    pub interned: Vec<Py<PyString>>,
    pub control_names: Vec<Py<PyString>>,
    pub controls: Vec<ccp_lang::Register>,
    /// NumPy dtype of its reports, created on first use.
    pub dtype: PyOnceLock<Py<PyAny>>,
}

/// Attributes of every report besides its registers; the first `QUICK` are found as quickly as registers.
pub const OWN: [&str; 11] = [
    "EVENT_KIND",
    "flow_id",
    "program_handle",
    "now_us",
    "cwnd_bytes",
    "rate_bytes_per_s",
    "program",
    "missed",
    "timeout",
    "fold_error",
    "as_dict",
];

/// Number of entries of `OWN` before the registers in `Installed::interned`.
pub const QUICK: usize = 6;

/// Number of registers stored in the report itself.
const FEW: usize = 12;

/// One report. The report registers of its program are also attributes.
#[pyclass(frozen, module = "ccplane.base._native")]
pub struct Report {
    head: ccp_record,
    program: Arc<Installed>,
    few: [u64; FEW],
    /// All of them, if they are more.
    many: Vec<u64>,
}

impl Report {
    fn new(head: ccp_record, raw: &[u8], program: Arc<Installed>) -> Self {
        let mut report = Report { head, program, few: [0; FEW], many: Vec::new() };
        if usize::from(head.n_fields) > FEW {
            report.many = registers(raw).collect();
        } else {
            report.few.iter_mut().zip(registers(raw)).for_each(|(to, value)| *to = value);
        }
        report
    }

    fn values(&self) -> &[u64] {
        let n = usize::from(self.head.n_fields);
        if n > FEW { &self.many } else { &self.few[..n] }
    }

    /// One of `OWN`, or a register after them.
    fn quick(&self, index: usize) -> Option<u64> {
        Some(match index {
            0 => u64::from(Self::EVENT_KIND),
            1 => self.head.flow_id,
            2 => u64::from(self.program_handle()),
            3 => self.head.now_us,
            4 => self.head.cwnd_bytes,
            5 => self.head.rate_bytes_per_s,
            register => *self.values().get(register - QUICK)?,
        })
    }
}

#[pymethods]
impl Report {
    #[classattr]
    const EVENT_KIND: u8 = 0;

    #[getter]
    fn flow_id(&self) -> u64 {
        self.head.flow_id
    }

    #[getter]
    fn now_us(&self) -> u64 {
        self.head.now_us
    }

    #[getter]
    fn cwnd_bytes(&self) -> u64 {
        self.head.cwnd_bytes
    }

    #[getter]
    fn rate_bytes_per_s(&self) -> u64 {
        self.head.rate_bytes_per_s
    }

    #[getter]
    fn program(&self) -> &str {
        &self.program.name
    }

    #[getter]
    fn program_handle(&self) -> u32 {
        self.program.handle | u32::from(self.head.stamp) << STAMP_SHIFT
    }

    #[getter]
    fn missed(&self) -> u32 {
        self.head.missed
    }

    #[getter]
    fn timeout(&self) -> bool {
        u32::from(self.head.flags) & intf::CCP_REPORT_TIMEOUT != 0
    }

    #[getter]
    fn fold_error(&self) -> bool {
        u32::from(self.head.flags) & intf::CCP_REPORT_FOLD_ERROR != 0
    }

    /// Report registers and the head come first: ordinary attribute look-up would find them only after an
    /// AttributeError. Attributes of every report take precedence over registers.
    fn __getattribute__<'py>(
        slf: &Bound<'py, Self>,
        name: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let report = slf.get();
        let index = report.program.interned.iter().position(|field| field.as_ptr() == name.as_ptr());
        if let Some(value) = index.and_then(|i| report.quick(i)) {
            return Ok(value.into_pyobject(slf.py())?.into_any());
        }
        // SAFETY: both are alive; it returns a new reference or sets an exception.
        unsafe {
            Bound::from_owned_ptr_or_err(slf.py(), ffi::PyObject_GenericGetAttr(slf.as_ptr(), name.as_ptr()))
        }
    }

    /// Register names created at run time, or an error.
    fn __getattr__(&self, name: &str) -> PyResult<u64> {
        let index = self.program.report_fields.iter().position(|f| f == name);
        index.and_then(|i| self.values().get(i).copied()).ok_or_else(|| {
            PyAttributeError::new_err(format!(
                "program \"{}\" does not report `{name}`; it reports {}",
                self.program.name,
                self.program.report_fields.join(", ")
            ))
        })
    }

    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        for (name, value) in self.program.report_fields.iter().zip(self.values()) {
            fields.set_item(name, value)?;
        }
        Ok(fields)
    }

    fn __dir__(&self) -> Vec<String> {
        OWN.iter().map(ToString::to_string).chain(self.program.report_fields.iter().cloned()).collect()
    }

    fn __repr__(&self) -> String {
        let fields: Vec<_> =
            self.program.report_fields.iter().zip(self.values()).map(|(n, v)| format!("{n}={v}")).collect();
        format!("Report({:#x} at {} us: {})", self.head.flow_id, self.head.now_us, fields.join(", "))
    }
}

/// An event that waits for the agent.
#[derive(FromPyObject)]
pub enum Answered<'py> {
    Report(PyRef<'py, Report>),
    Created(PyRef<'py, Created>),
}

impl Answered<'_> {
    /// The flow, and the time of the event.
    pub fn of(&self) -> (u64, u64) {
        match self {
            Answered::Report(report) => (report.head.flow_id, report.head.now_us),
            Answered::Created(created) => (created.flow_id, created.now_us),
        }
    }
}

/// Names by their number in records.
#[derive(Clone, Debug)]
pub struct Names {
    /// Congestion-control names by `cc_id`; empty for free ones.
    pub cc: Vec<String>,
    /// Names of extensions by index.
    pub extensions: Vec<String>,
}

pub type ByHandle = HashMap<u32, Arc<Installed>>;

/// Records of one poll, in order.
#[pyclass(frozen, module = "ccplane.base._native")]
pub struct Batch {
    records: Records,
    programs: Arc<ByHandle>,
    names: Arc<Names>,
}

impl Batch {
    pub fn new(records: Records, programs: Arc<ByHandle>, names: Arc<Names>) -> Self {
        Batch { records, programs, names }
    }

    /// The program of a report, unless it was uninstalled meanwhile.
    fn program_of(&self, head: &ccp_record) -> Option<&Arc<Installed>> {
        self.programs.get(&u32::from(head.program)).filter(|p| p.uid == head.program_uid)
    }

    fn event(&self, py: Python<'_>, record: &Record<'_>) -> PyResult<Option<Py<PyAny>>> {
        Ok(match record {
            Record::Create(create) => {
                let name = self.names.cc.get(create.info.cc_id as usize).cloned().unwrap_or_default();
                let info = FlowInfo::new(create.record.flow_id, &create.info, name);
                let (flow_id, now_us) = (create.record.flow_id, create.record.now_us);
                Some(Py::new(py, Created { info: Py::new(py, info)?, flow_id, now_us })?.into_any())
            }
            Record::Close(close) => {
                let stats = Py::new(py, FlowStats::of_close(close))?;
                Some(Py::new(py, Closed { flow_id: close.record.flow_id, stats })?.into_any())
            }
            Record::Extension { head, raw } => {
                let extension =
                    self.names.extensions.get(usize::from(head.program)).cloned().unwrap_or_default();
                let raw = PyBytes::new(py, raw).unbind();
                let reported = Reported { flow_id: head.flow_id, now_us: head.now_us, extension, raw };
                Some(Py::new(py, reported)?.into_any())
            }
            Record::Report { .. } => None,
        })
    }

    /// The next object from `index` on, and the index after it. Reports of uninstalled programs are skipped,
    /// as their fields are unknown.
    fn next_from(&self, py: Python<'_>, mut index: usize) -> PyResult<Option<(Py<PyAny>, usize)>> {
        while index < self.records.len() {
            if let Some(record) = self.records.get(index) {
                if let Record::Report { head, raw } = &record {
                    if let Some(program) = self.program_of(head) {
                        let report = Report::new(*head, raw, Arc::clone(program));
                        return Ok(Some((Py::new(py, report)?.into_any(), index + 1)));
                    }
                } else if let Some(event) = self.event(py, &record)? {
                    return Ok(Some((event, index + 1)));
                }
            }
            index += 1;
        }
        Ok(None)
    }
}

fn registers(raw: &[u8]) -> impl Iterator<Item = u64> + '_ {
    raw[size_of::<ccp_record>()..].as_chunks::<8>().0.iter().map(|b| u64::from_ne_bytes(*b))
}

fn make_dtype(py: Python<'_>, program: &Installed) -> PyResult<Py<PyAny>> {
    let head = size_of::<ccp_record>();
    let (mut names, mut formats, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
    for (name, format, offset) in HEAD_COLUMNS {
        names.push(name.to_owned());
        formats.push(format);
        offsets.push(offset);
    }
    for (i, field) in program.report_fields.iter().enumerate() {
        names.push(field.clone());
        formats.push("u8");
        offsets.push(head + 8 * i);
    }
    let spec = PyDict::new(py);
    spec.set_item("names", names)?;
    spec.set_item("formats", formats)?;
    spec.set_item("offsets", offsets)?;
    spec.set_item("itemsize", head + 8 * program.report_fields.len())?;
    Ok(py.import("numpy")?.call_method1("dtype", (spec,))?.unbind())
}

#[pymethods]
impl Batch {
    /// Time at which the wait ended.
    #[getter]
    fn woken_us(&self) -> u64 {
        self.records.woken_us
    }

    /// Time at which the records were taken.
    #[getter]
    fn taken_us(&self) -> u64 {
        self.records.taken_us
    }

    /// Time at which each ACK's report was made, by the ACK's time.
    fn made_us(&self) -> HashMap<u64, u64> {
        let reports = (0..self.records.len()).filter_map(|index| match self.records.get(index)? {
            Record::Report { head, .. } => Some((head.now_us, head.now_us + u64::from(head.age_us))),
            _ => None,
        });
        reports.collect()
    }

    fn __len__(&self) -> usize {
        self.records.len()
    }

    fn __iter__(slf: Py<Self>) -> BatchIter {
        BatchIter { batch: slf, index: 0 }
    }

    /// Reports by program: `[(handle, structured array), ...]`, each in order of arrival.
    fn arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut columns: Vec<(&Arc<Installed>, Vec<&[u8]>)> = Vec::new();
        for index in 0..self.records.len() {
            let Some(Record::Report { head, raw }) = self.records.get(index) else {
                continue;
            };
            if let Some((_, rows)) = columns.iter_mut().find(|(p, _)| p.handle == u32::from(head.program)) {
                rows.push(raw);
            } else if let Some(program) = self.program_of(&head) {
                columns.push((program, vec![raw]));
            }
        }
        static FROMBUFFER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let frombuffer = FROMBUFFER
            .get_or_try_init(py, || Ok::<_, PyErr>(py.import("numpy")?.getattr("frombuffer")?.unbind()))?
            .bind(py);
        let list = PyList::empty(py);
        for (program, rows) in columns {
            let n_bytes = rows.iter().map(|row| row.len()).sum();
            let bytes = PyBytes::new_with(py, n_bytes, |mut to| {
                for row in rows {
                    let (here, rest) = to.split_at_mut(row.len());
                    here.copy_from_slice(row);
                    to = rest;
                }
                Ok(())
            })?;
            let dtype = program.dtype.get_or_try_init(py, || make_dtype(py, program))?;
            let array = frombuffer.call1((bytes, dtype))?;
            list.append((program.handle, array))?;
        }
        Ok(list)
    }

    /// Flows that were created or closed, and messages of extensions.
    fn events(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        let mut events = Vec::new();
        for index in 0..self.records.len() {
            if let Some(record) = self.records.get(index) {
                events.extend(self.event(py, &record)?);
            }
        }
        Ok(events)
    }
}

#[pyclass(module = "ccplane.base._native")]
struct BatchIter {
    batch: Py<Batch>,
    index: usize,
}

#[pymethods]
impl BatchIter {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        match self.batch.get().next_from(py, self.index)? {
            Some((item, next)) => {
                self.index = next;
                Ok(Some(item))
            }
            None => {
                self.index = self.batch.get().records.len();
                Ok(None)
            }
        }
    }
}
