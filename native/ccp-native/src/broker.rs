//! The embedded MQTT broker.

use std::net::SocketAddr;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::errors::raise;

/// A broker that listens; `serve` runs it.
#[pyclass(module = "ccp_base._native")]
pub struct MqttBroker {
    broker: Option<ccp_broker::Broker>,
    #[pyo3(get)]
    port: u16,
}

#[pymethods]
impl MqttBroker {
    #[new]
    #[pyo3(signature = (listen, tls=None, users=None, acl=None))]
    fn new(
        py: Python<'_>,
        listen: &str,
        tls: Option<(Vec<u8>, Vec<u8>)>,
        users: Option<&str>,
        acl: Option<&str>,
    ) -> PyResult<Self> {
        let listen: SocketAddr = listen.parse().map_err(|_| PyValueError::new_err("no address and port"))?;
        let tls = tls.as_ref().map(|(certificates, key)| (certificates.as_slice(), key.as_slice()));
        let settings = ccp_broker::Settings { listen, tls, users, acl };
        let broker = ccp_broker::Broker::bind(&settings).map_err(|e| raise(py, &e))?;
        let port = broker.address()?.port();
        Ok(Self { broker: Some(broker), port })
    }

    /// Runs the broker on a thread that has nothing else to do.
    fn serve(&mut self, py: Python<'_>) -> PyResult<()> {
        let broker = self.broker.take().ok_or_else(|| PyRuntimeError::new_err("it was served already"))?;
        let Err(e) = py.detach(|| broker.serve());
        Err(e.into())
    }
}
