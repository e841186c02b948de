//! portus' messages for `ccplane.datapath.wire`: their octets and back.

use ccp_lang::wire::{self, CWND, Create, Field, IMPLICIT, Message, RATE, Settable};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::errors;

type Fields = Vec<(u8, u32, u64)>;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("WIRE_IMPLICIT", (IMPLICIT, CWND, RATE))?;
    module.add("WIRE_MAX_BYTES", wire::MAX_MESSAGE_BYTES)?;
    module.add_function(wrap_pyfunction!(wire_read, module)?)?;
    module.add_function(wrap_pyfunction!(wire_write, module)?)?;
    module.add_function(wrap_pyfunction!(wire_values, module)?)
}

/// Returns the first message of a datagram: its type, what it says, and the length of what follows it.
#[pyfunction]
fn wire_read<'py>(py: Python<'py>, datagram: &[u8]) -> PyResult<(u16, Bound<'py, PyTuple>, usize)> {
    let (message, rest) = wire::read(datagram).map_err(|what| {
        let why = "it is not what portus sends, or of a version of it that ccplane does not know";
        errors::raise_new(py, "wire.message", &what, why, "use an agent made with portus 0.9")
    })?;
    let (of_type, said) = match message {
        Message::Create(Create { flow, init_cwnd_bytes, mss_bytes, ends: [a, b, c, d], algorithm }) => {
            (0, (flow, init_cwnd_bytes, mss_bytes, a, b, c, d, algorithm).into_pyobject(py)?)
        }
        Message::Measure { flow, program, fields } => {
            (1, (flow, program, PyTuple::new(py, fields)?).into_pyobject(py)?)
        }
        Message::Install { program, n_events, n_instrs, octets } => {
            (2, (program, n_events, n_instrs, PyBytes::new(py, &octets)).into_pyobject(py)?)
        }
        Message::Update { flow, fields } => (3, (flow, tuples(&fields)).into_pyobject(py)?),
        Message::ChangeProgram { flow, program, fields } => {
            (4, (flow, program, tuples(&fields)).into_pyobject(py)?)
        }
        Message::Ready { datapath } => (5, (datapath,).into_pyobject(py)?),
    };
    Ok((of_type, said, rest.len()))
}

/// Returns the octets of a message, from its type and what it says.
#[pyfunction]
fn wire_write<'py>(
    py: Python<'py>,
    of_type: u16,
    said: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyBytes>> {
    let message = match of_type {
        0 => {
            let (flow, init_cwnd_bytes, mss_bytes, a, b, c, d, algorithm) = said.extract()?;
            Message::Create(Create { flow, init_cwnd_bytes, mss_bytes, ends: [a, b, c, d], algorithm })
        }
        1 => {
            let (flow, program, fields) = said.extract()?;
            Message::Measure { flow, program, fields }
        }
        2 => {
            let (program, n_events, n_instrs, octets) = said.extract()?;
            Message::Install { program, n_events, n_instrs, octets }
        }
        3 => {
            let (flow, fields) = said.extract()?;
            Message::Update { flow, fields: of_tuples(fields) }
        }
        4 => {
            let (flow, program, fields) = said.extract()?;
            Message::ChangeProgram { flow, program, fields: of_tuples(fields) }
        }
        5 => Message::Ready { datapath: said.extract::<(u32,)>()?.0 },
        _ => return Err(PyValueError::new_err(format!("no messages have type {of_type}"))),
    };
    let octets = message.octets().map_err(|length| {
        let what = format!("a message of {length} octets cannot be sent");
        let why = format!("its length has 16 bits: {} at most", wire::MAX_MESSAGE_BYTES);
        errors::raise_new(py, "wire.message", &what, &why, "shorten the program, or split it into several")
    })?;
    Ok(PyBytes::new(py, &octets))
}

/// Returns what a message sets, by the names that registers of `Program.from_bytecode` have.
#[pyfunction]
fn wire_values<'py>(py: Python<'py>, fields: Fields) -> PyResult<Bound<'py, PyDict>> {
    let values = PyDict::new(py);
    for field in of_tuples(fields) {
        let what = field.settable().map_err(|what| {
            let why = "agents set control registers, window and rate";
            errors::raise_new(py, "wire.read_only", &what, why, "declare a control register in the program")
        })?;
        match what {
            Settable::Control(index) => values.set_item(format!("c{index}"), field.value)?,
            Settable::Cwnd if field.value != 0 => values.set_item("cwnd_bytes", field.value)?,
            Settable::Rate if field.value != 0 => values.set_item("rate_bytes_per_s", field.value)?,
            Settable::Cwnd | Settable::Rate => {}
        }
    }
    Ok(values)
}

fn tuples(fields: &[Field]) -> Fields {
    fields.iter().map(|one| (one.kind, one.index, one.value)).collect()
}

fn of_tuples(fields: Fields) -> Vec<Field> {
    fields.into_iter().map(|(kind, index, value)| Field { kind, index, value }).collect()
}
