//! The BPF file system.

use std::ffi::CString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Default place of the BPF file system.
pub const ROOT: &str = "/sys/fs/bpf";
const MAGIC: i64 = 0xcafe_4a11;

/// Creates a directory for pins, accessible only to its owner, and mounts the BPF file system at [`ROOT`] if
/// it is missing. Errors: it cannot be created, or is not in a BPF file system.
pub fn make(dir: &Path) -> io::Result<()> {
    let root = Path::new(ROOT);
    if dir.starts_with(root) && !is_mounted(root) {
        mount(root)?;
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    if is_mounted(dir) { Ok(()) } else { Err(io::Error::other("the directory is not in a BPF file system")) }
}

pub fn is_mounted(path: &Path) -> bool {
    let Ok(name) = CString::new(path.as_os_str().as_encoded_bytes()) else {
        return false;
    };
    // SAFETY: statfs fills the structure or fails.
    let mut info: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call.
    let done = unsafe { libc::statfs(name.as_ptr(), &raw mut info) };
    done == 0 && i64::from(info.f_type as u32) == MAGIC
}

pub fn mount(place: &Path) -> io::Result<()> {
    let place = CString::new(place.as_os_str().as_encoded_bytes())?;
    // SAFETY: C strings that outlive the call.
    let done = unsafe { libc::mount(c"bpf".as_ptr(), place.as_ptr(), c"bpf".as_ptr(), 0, std::ptr::null()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
