//! Draining the ring buffer of the kernel side.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;

use crate::bell::Bell;
use crate::{Error, Records, Result};

/// Records per batch: bounds its memory and the delay until Python receives it.
const BATCH_RECORDS: usize = 16384;

/// The only reader of a datapath's ring.
pub(crate) struct Ring {
    ring: NonNull<libbpf_sys::ring_buffer>,
    /// Filled by the callback; boxed so that its address stays.
    records: Box<Records>,
    fd: OwnedFd,
}

// SAFETY: the ring is used through &mut only, and libbpf binds nothing to a thread.
unsafe impl Send for Ring {}

/// Why a wait ended; neither: the timeout.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Woken {
    pub rang: bool,
    /// There is a record, possibly an unfinished one.
    pub ready: bool,
}

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
        Ok(Ring { ring, records, fd })
    }

    /// Returns the available records without waiting.
    pub fn drain(&mut self) -> Records {
        // SAFETY: the ring is alive; the callback only touches self.records.
        unsafe { libbpf_sys::ring_buffer__consume_n(self.ring.as_ptr(), BATCH_RECORDS as u64) };
        std::mem::take(&mut *self.records)
    }

    /// Waits for a record or the bell, up to the timeout.
    pub fn wait(&self, bell: &Bell, timeout_ms: i32) -> Woken {
        // The map itself, not libbpf's epoll descriptor, which is not ready for records without a wake-up.
        let mut events = [self.fd.as_raw_fd(), bell.as_raw_fd()].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        // SAFETY: two pollfds, valid for the call. A signal ends the wait early, which callers tolerate.
        unsafe { libc::poll(events.as_mut_ptr(), events.len() as libc::nfds_t, timeout_ms) };
        Woken { rang: events[1].revents != 0 && bell.received(), ready: events[0].revents != 0 }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: made by ring_buffer__new and freed once.
        unsafe { libbpf_sys::ring_buffer__free(self.ring.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::FromRawFd;

    use super::*;

    const NO_WAKEUP: i32 = libbpf_sys::BPF_RB_NO_WAKEUP as i32;

    fn owned(fd: i32) -> OwnedFd {
        assert!(fd >= 0, "{}", std::io::Error::from_raw_os_error(-fd));
        // SAFETY: a new descriptor that nothing else owns.
        unsafe { OwnedFd::from_raw_fd(fd) }
    }

    /// A program that puts 8 bytes into a ring without a wake-up.
    fn silent_writer(ring: &OwnedFd) -> OwnedFd {
        let insn = |opcode: u64, dst: u64, src: u64, off: i16, imm: i32| {
            opcode | dst << 8 | src << 12 | (off as u16 as u64) << 16 | (imm as u32 as u64) << 32
        };
        let insns = [
            insn(0x7a, 10, 0, -8, 0),              // *(u64 *)(R10 - 8) = 0
            insn(0x18, 1, 1, 0, ring.as_raw_fd()), // R1 = the ring
            0,
            insn(0xbf, 2, 10, 0, 0), // R2 = R10 - 8
            insn(0x07, 2, 0, 0, -8),
            insn(0xb7, 3, 0, 0, 8),         // R3 = 8
            insn(0xb7, 4, 0, 0, NO_WAKEUP), // R4 = flags
            insn(0x85, 0, 0, 0, 130),       // bpf_ringbuf_output()
            insn(0x95, 0, 0, 0, 0),         // exit
        ];
        let opts = libbpf_sys::bpf_prog_load_opts {
            sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as _,
            prog_flags: libbpf_sys::BPF_F_SLEEPABLE,
            ..Default::default()
        };
        // SAFETY: a bpf_insn is 8 bytes; name, license and options outlive the call.
        owned(unsafe {
            libbpf_sys::bpf_prog_load(
                libbpf_sys::BPF_PROG_TYPE_SYSCALL,
                c"silent_writer".as_ptr(),
                c"GPL".as_ptr(),
                insns.as_ptr().cast(),
                insns.len() as _,
                (&raw const opts).cast_mut(),
            )
        })
    }

    #[test]
    fn a_record_that_woke_none_ends_the_next_wait() {
        // SAFETY: asks for nothing but a number.
        if unsafe { libc::geteuid() } != 0 {
            println!("skipped: needs root");
            return;
        }
        let kind = libbpf_sys::BPF_MAP_TYPE_RINGBUF;
        // SAFETY: the name outlives the call.
        let map = owned(unsafe {
            libbpf_sys::bpf_map_create(kind, c"ring".as_ptr(), 0, 0, 4096, std::ptr::null())
        });
        let writer = silent_writer(&map);
        let mut ring = Ring::new(map).unwrap();
        let bell = Bell::new().unwrap();
        assert!(!ring.wait(&bell, 0).ready);
        let mut run = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as _,
            ..Default::default()
        };
        // SAFETY: the options say that there is neither input nor output.
        assert_eq!(unsafe { libbpf_sys::bpf_prog_test_run_opts(writer.as_raw_fd(), &raw mut run) }, 0);
        assert!(ring.wait(&bell, 0).ready, "as it would stay for the whole wait");
        assert_eq!(ring.drain().len(), 1);
        assert!(!ring.wait(&bell, 0).ready);
        bell.ring();
        assert!(ring.wait(&bell, 0).rang);
    }
}
