//! Records of a network.

mod int_records;
mod samples;
mod writer;

pub use int_records::IntRecords;
pub use samples::Samples;
pub use writer::FileWriter;

use serde_json::{Map, Value, json};

use crate::Network;
use crate::packet::Packet;

/// State and counters of each link direction, by name.
pub fn link_stats<P: Packet>(network: &Network<P>) -> Map<String, Value> {
    let link = |(index, name): (usize, &str)| {
        let sample = network.sample(index);
        let mut value = json!(sample.counters);
        value["queue_bytes"] = sample.queue_bytes.into();
        value["queue_pkts"] = sample.queue_pkts.into();
        value["flying_pkts"] = sample.flying_pkts.into();
        (name.to_owned(), value)
    };
    network.link_names().enumerate().map(link).collect()
}
