//! Extensions of the kernel datapath that ship with ccplane, by feature.

use std::path::Path;

use ccp_bpf::Result;

pub struct Extension {
    /// Name in algorithms.
    pub name: &'static str,
    pub object: &'static [u8],
    /// Opens the previous agent's state in the extension's folder, which another layout of the datapath would remove.
    pub open: fn(&Path) -> Result<Box<dyn Left>>,
}

/// State that the previous agent left of an extension.
pub trait Left: Send + Sync {
    /// Resumes with it, once the extension is loaded in this folder. Returns the outcome, and the number of
    /// objects. Errors: the kernel's.
    fn resume(self: Box<Self>, folder: &Path) -> Result<(&'static str, usize)>;
}

/// All extensions, one line per feature.
pub const EXTENSIONS: &[Extension] = &[crate::rtcp::attached::EXTENSION];
