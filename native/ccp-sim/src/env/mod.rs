//! Worlds for learning: episodes on random paths; a learner multiplies the window of a connection once per
//! interval. The other side is `experiments/learning`.

mod domain;
mod driver;
mod episode;
mod vector;

use ccp_error::Error;

pub use domain::{Capacity, Cross, Domain, Path};
pub use driver::Totals;
pub use episode::{Heuristic, Step};
pub use vector::{Settings, Vector};

fn bad(message: impl Into<String>) -> Error {
    Error::new("learning.bad_domain", message).fix("see `Domain` in experiments/learning/domain.py")
}
