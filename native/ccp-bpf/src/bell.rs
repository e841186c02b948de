//! Lets other threads interrupt a wait for reports.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::{Error, Result};

/// An event counter of the kernel: stays set until it is read.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub fn new() -> Result<Self> {
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(Error::new("load.bell", "cannot create an event counter")
                .why(std::io::Error::last_os_error())
                .fix("raise the limit of open files, ulimit -n"));
        }
        // SAFETY: a new descriptor that nothing else owns.
        Ok(Bell(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub fn ring(&self) {
        let one = 1u64;
        // SAFETY: eight readable bytes, as an event counter requires. It fails only when full, and then it is set.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
    }

    /// Returns whether it rang since the last call, and resets it.
    pub fn received(&self) -> bool {
        let mut count = 0u64;
        // SAFETY: eight writable bytes.
        let n = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
        n > 0
    }
}

impl AsRawFd for Bell {
    fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_until_received() {
        let bell = Bell::new().unwrap();
        assert!(!bell.received());
        bell.ring();
        bell.ring();
        assert!(bell.received());
        assert!(!bell.received());
    }
}
