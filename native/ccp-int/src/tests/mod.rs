//! Tests over all modules.

mod causes;
mod fuzz;
mod json;
mod losses;
mod means;
mod meter;
mod network;
mod sink;
mod source;
mod super_packets;
