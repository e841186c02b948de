//! What features add to the kernel's datapath: extensions that ship with ccplane.

use std::path::Path;

use ccp_bpf::Result;

/// An extension.
pub struct Extension {
    /// Algorithms ask for it by this name.
    pub name: &'static str,
    /// The compiled program.
    pub object: &'static [u8],
    /// Opens what an agent before has left in the extension's folder; another layout of the datapath would take it away.
    pub open: fn(&Path) -> Result<Box<dyn Left>>,
}

/// What an agent before has left of an extension.
pub trait Left: Send + Sync {
    /// Resumes with it, once the extension is loaded in this folder. Returns what became of it, and of how many things.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    fn resume(self: Box<Self>, folder: &Path) -> Result<(&'static str, usize)>;
}

/// All of them: a line for each feature.
pub const EXTENSIONS: &[Extension] = &[crate::rtcp::attached::EXTENSION];
