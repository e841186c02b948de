//! The simulated datapath.
//!
//! Hosts and their TCP connections (`ccp-tcp`) send through an emulated network (`ccp-emu`), in virtual time. The same
//! scenario with the same seed gives the same result, packet for packet.
