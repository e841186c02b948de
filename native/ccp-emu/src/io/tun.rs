//! A TUN device: reads and writes packets with their vnet headers.

use std::io::IoSlice;
use std::os::fd::{AsRawFd, BorrowedFd};

use bytes::{BufMut, Bytes, BytesMut};
use rustix::io::Errno;

use super::set_nonblocking;
use crate::ip::VnetHeader;
use crate::{Error, Result};

/// Maximum size of a read: a super-packet with its header.
const FRAME_BYTES: usize = 65_536 + 64;
/// Size of an allocation; packets stay in it where they were read.
const BLOCK_BYTES: usize = 1 << 20;
const VNET_BYTES: usize = 10;

const TUN_F_CSUM: libc::c_uint = 0x01;
const TUN_F_TSO4: libc::c_uint = 0x02;
const TUN_F_TSO6: libc::c_uint = 0x04;
const TUN_F_TSO_ECN: libc::c_uint = 0x08;
const TUN_F_USO4: libc::c_uint = 0x20;
const TUN_F_USO6: libc::c_uint = 0x40;
const OFFLOADS: libc::c_uint = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;

/// A device; its descriptor belongs to the caller.
#[derive(Debug)]
pub struct Tun<'a> {
    fd: BorrowedFd<'a>,
}

#[derive(Debug)]
pub enum Read {
    Frame(VnetHeader, Bytes),
    Empty,
    Gone,
}

impl<'a> Tun<'a> {
    /// Sets a device up for super-packets and non-blocking reads. Errors: `emulator.bad_tun` if it is not a
    /// TUN device with vnet headers.
    pub fn new(fd: BorrowedFd<'a>) -> Result<Self> {
        let place = format!("descriptor {}", fd.as_raw_fd());
        let bad = |message: &str, why: String| Error::new("emulator.bad_tun", message).at(&place).why(why);
        // SAFETY: an ifreq of zeros is a value; the kernel fills it.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // SAFETY: TUNGETIFF writes one ifreq.
        if unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNGETIFF, &raw mut request) } < 0 {
            return Err(bad("this is not a TUN device", std::io::Error::last_os_error().to_string()));
        }
        // SAFETY: TUNGETIFF has set the flags of the union.
        let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags });
        let wanted = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        if flags & wanted != wanted {
            let why = format!("its flags are {flags:#x}; required are {wanted:#x}");
            return Err(bad("the device was opened with the wrong flags", why)
                .fix("open the TUN device with IFF_TUN | IFF_NO_PI | IFF_VNET_HDR"));
        }
        // Kernels before 6.2 have no segmentation offload of UDP.
        let offloads = [OFFLOADS | TUN_F_USO4 | TUN_F_USO6, OFFLOADS];
        let set = |value: libc::c_uint| {
            // SAFETY: TUNSETOFFLOAD takes its bits as the argument itself.
            unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(value)) }
        };
        if offloads.into_iter().all(|value| set(value) < 0) {
            return Err(bad(
                "the device does not support offloads",
                std::io::Error::last_os_error().to_string(),
            ));
        }
        set_nonblocking(fd).map_err(|e| bad("cannot make the device non-blocking", e.to_string()))?;
        Ok(Tun { fd })
    }

    pub fn fd(&self) -> BorrowedFd<'a> {
        self.fd
    }

    pub fn read(&self, buffer: &mut Buffer) -> Read {
        loop {
            return match buffer.fill(self.fd) {
                Ok(frame) => match VnetHeader::read(&frame) {
                    Some(header) => Read::Frame(header, frame.slice(VNET_BYTES..)),
                    None => Read::Empty,
                },
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => Read::Empty,
                Err(_) => Read::Gone,
            };
        }
    }

    /// Writes a frame; false if the device did not accept it.
    pub fn write(&self, parts: &[IoSlice<'_>]) -> bool {
        loop {
            match rustix::io::writev(self.fd, parts) {
                Err(Errno::INTR) => (),
                result => return result.is_ok(),
            }
        }
    }
}

/// Memory for frames, kept as long as one of their packets exists.
#[derive(Debug, Default)]
pub struct Buffer(BytesMut);

impl Buffer {
    fn fill(&mut self, fd: BorrowedFd<'_>) -> std::result::Result<Bytes, Errno> {
        if self.0.capacity() < FRAME_BYTES && !self.0.try_reclaim(BLOCK_BYTES) {
            self.0 = BytesMut::with_capacity(BLOCK_BYTES);
        }
        // SAFETY: read() only writes to the memory.
        let spare = unsafe { self.0.chunk_mut().as_uninit_slice_mut() };
        let (filled, _) = rustix::io::read(fd, spare)?;
        let n = filled.len();
        // SAFETY: read() has filled this many bytes.
        unsafe { self.0.advance_mut(n) };
        Ok(self.0.split_to(n).freeze())
    }
}
