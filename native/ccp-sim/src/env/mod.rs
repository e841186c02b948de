//! Worlds for learning: episodes on paths drawn at random, in each a connection whose window somebody multiplies once an
//! interval. `experiments/learning` is the other side.

mod domain;
mod driver;
mod episode;
mod interval;
mod net;
mod reasoner;
mod vector;

use ccp_error::Error;

pub use domain::{Capacity, Cross, Domain, Mode, Path};
pub use episode::{Heuristic, Step};
pub use interval::{FEATURES, Interval};
pub use net::Net;
pub use reasoner::Hyvar;
pub use vector::{Settings, Vector};

fn bad(message: impl Into<String>) -> Error {
    Error::new("learning.bad_domain", message).fix("see `Domain` in experiments/learning/domain.py")
}
