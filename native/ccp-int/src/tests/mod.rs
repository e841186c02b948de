mod drops;
mod fuzz;
mod json;
mod losses;
mod meter;
mod sink;
mod source;
mod super_packets;

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;
