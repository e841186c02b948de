//! `ccplane.base._native`: the compiler of the CCP language and the datapaths, for Python.

#[cfg(kernel)]
mod arrivals;
mod base;
#[cfg(kernel)]
mod datapath;
#[cfg(kernel)]
mod emulator;
mod errors;
#[cfg(kernel)]
mod features;
mod flows;
mod interop;
mod ioam;
#[cfg(kernel)]
mod kernel;
mod no_kernel;
#[cfg(kernel)]
mod node;
mod program;
mod programs;
mod report;
mod rows;
mod rtcp;
mod sim;
mod sim_env;
#[cfg(kernel)]
mod switch;
mod tcp_rows;
#[cfg(kernel)]
mod trace;
#[cfg(kernel)]
mod trials;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(program::compile, module)?)?;
    module.add_function(wrap_pyfunction!(flows::facts, module)?)?;
    module.add_function(wrap_pyfunction!(ioam::ioam_decode, module)?)?;
    module.add_function(wrap_pyfunction!(ioam::ioam_decode_header, module)?)?;
    module.add_function(wrap_pyfunction!(ioam::ioam_insert, module)?)?;
    module.add_function(wrap_pyfunction!(ioam::ioam_build, module)?)?;
    module.add_function(wrap_pyfunction!(ioam::ioam_remove, module)?)?;
    module.add_function(wrap_pyfunction!(ioam::ioam_fill, module)?)?;
    module.add_function(wrap_pyfunction!(ioam::int_overhead_bytes, module)?)?;
    module.add_class::<program::Program>()?;
    module.add_class::<program::Interpreter>()?;
    module.add_class::<report::Report>()?;
    module.add_class::<report::Batch>()?;
    module.add_class::<flows::FlowInfo>()?;
    module.add_class::<flows::FlowStats>()?;
    module.add_class::<flows::Created>()?;
    module.add_class::<flows::Closed>()?;
    module.add_class::<flows::Reported>()?;
    module.add_class::<ioam::IoamCapture>()?;
    module.add_class::<base::Datapath>()?;
    module.add_class::<sim::SimDatapath>()?;
    sim_env::register(module)?;
    interop::register(module)?;
    rtcp::register(module)?;
    #[cfg(kernel)]
    kernel::add(module)?;
    no_kernel::add(module)
}
