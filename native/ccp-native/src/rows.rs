//! C structures as structured NumPy arrays.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// A column: name, NumPy format, offset.
pub type Column = (&'static str, &'static str, usize);

/// The column of a structure's member.
macro_rules! column {
    ($row:ident, $name:ident, $format:expr) => {
        (stringify!($name), $format, std::mem::offset_of!($row, $name))
    };
}
pub(crate) use column;

/// The dtype of rows with this length.
pub fn dtype(py: Python<'_>, columns: &[Column], row_bytes: usize) -> PyResult<Py<PyAny>> {
    let spec = PyDict::new(py);
    spec.set_item("names", columns.iter().map(|c| c.0).collect::<Vec<_>>())?;
    spec.set_item("formats", columns.iter().map(|c| c.1).collect::<Vec<_>>())?;
    spec.set_item("offsets", columns.iter().map(|c| c.2).collect::<Vec<_>>())?;
    spec.set_item("itemsize", row_bytes)?;
    Ok(py.import("numpy")?.call_method1("dtype", (spec,))?.unbind())
}

/// A read-only copy of the bytes.
pub fn as_array<'py>(py: Python<'py>, bytes: &[u8], dtype: &Py<PyAny>) -> PyResult<Bound<'py, PyAny>> {
    py.import("numpy")?.call_method1("frombuffer", (PyBytes::new(py, bytes), dtype))
}
