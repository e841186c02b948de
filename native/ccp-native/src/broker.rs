//! Running the embedded MQTT broker.

use std::net::SocketAddr;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// Runs the MQTT broker on a thread that has nothing else to do; it never returns, unless the broker breaks.
#[pyfunction]
#[pyo3(signature = (listen, tls=None, users=None))]
pub fn serve_broker(
    py: Python<'_>,
    listen: &str,
    tls: Option<(String, String)>,
    users: Option<&str>,
) -> PyResult<()> {
    let listen: SocketAddr = listen.parse().map_err(|_| PyValueError::new_err("no address and port"))?;
    let users =
        users.map(ccp_broker::Users::parse).transpose().map_err(|e| PyValueError::new_err(e.to_string()))?;
    py.detach(|| ccp_broker::serve(ccp_broker::Settings { listen, tls, users }))
        .map_err(|e| PyRuntimeError::new_err(e.to_string()))
}
