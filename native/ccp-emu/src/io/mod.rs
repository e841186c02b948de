//! The network in real time: TUN devices, clock, control channel and records around the engine.

mod capture;
mod clock;
mod control;
mod lateness;
mod pace;
mod priority;
mod reports;
mod shell;
mod tun;

use std::os::fd::BorrowedFd;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

pub use shell::{Files, emulate};

fn set_nonblocking(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)
}
