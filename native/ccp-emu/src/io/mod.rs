//! The network in real time: TUN devices, clock, control channel and records around the engine.

mod capture;
mod clock;
mod control;
mod lateness;
mod pace;
mod priority;
mod samples;
mod shell;
mod tun;
mod writer;

pub use shell::emulate;
