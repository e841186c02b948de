//! Loading of BPF objects.

pub mod bpffs;
pub mod clock;
mod echoes;
mod object;

pub use ccp_error::Error;
pub use echoes::EchoPin;
pub use object::{bug, kernel_types, lacks_rights, map, open, set_constants};

pub type Result<T> = std::result::Result<T, Error>;
