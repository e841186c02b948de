//! Draining the kernel side's ring buffer.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;

use crate::bell::Bell;
use crate::{Error, Records, Result};

/// Records taken at once: bounds the memory of a batch and the time until Python sees it.
const BATCH_RECORDS: usize = 16384;

/// The reader. There is one for a datapath.
pub(crate) struct Ring {
    ring: NonNull<libbpf_sys::ring_buffer>,
    /// What the callback fills; boxed so that its address stays.
    records: Box<Records>,
    _fd: OwnedFd,
}

// SAFETY: the ring is used through &mut only, and libbpf binds nothing to a thread.
unsafe impl Send for Ring {}

unsafe extern "C" fn take(records: *mut c_void, data: *mut c_void, size: u64) -> c_int {
    // SAFETY: Ring passes a pointer to its Records, libbpf one to `size` readable bytes.
    unsafe {
        let data = std::slice::from_raw_parts(data.cast::<u8>(), size as usize);
        (*records.cast::<Records>()).push(data);
    }
    0
}

impl Ring {
    pub fn new(fd: OwnedFd) -> Result<Self> {
        let mut records = Box::<Records>::default();
        let context = (&raw mut *records).cast();
        // SAFETY: the descriptor is a ring buffer map; the context outlives the ring (both are ours).
        let ring =
            unsafe { libbpf_sys::ring_buffer__new(fd.as_raw_fd(), Some(take), context, std::ptr::null()) };
        let ring = NonNull::new(ring).ok_or_else(|| {
            Error::new("load.ring", "cannot map the ring buffer of reports")
                .why(std::io::Error::last_os_error())
                .fix("see ccp doctor")
        })?;
        Ok(Ring { ring, records, _fd: fd })
    }

    /// What is there now, without waiting.
    pub fn drain(&mut self) -> Records {
        // SAFETY: the ring is alive; the callback only touches self.records.
        unsafe { libbpf_sys::ring_buffer__consume_n(self.ring.as_ptr(), BATCH_RECORDS as u64) };
        std::mem::take(&mut *self.records)
    }

    /// Waits until something is there or the bell rings, at most so long. Returns whether it rang.
    pub fn wait(&self, bell: &Bell, timeout_ms: i32) -> bool {
        // SAFETY: the ring is alive.
        let records = unsafe { libbpf_sys::ring_buffer__epoll_fd(self.ring.as_ptr()) };
        let mut events =
            [records, bell.as_raw_fd()].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        // SAFETY: two pollfds, valid for the call. A signal ends the wait early, which callers bear.
        unsafe { libc::poll(events.as_mut_ptr(), events.len() as libc::nfds_t, timeout_ms) };
        events[1].revents != 0 && bell.heard()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: made by ring_buffer__new and freed once.
        unsafe { libbpf_sys::ring_buffer__free(self.ring.as_ptr()) };
    }
}
