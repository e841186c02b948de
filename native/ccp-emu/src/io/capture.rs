//! Captures of packets at the end of a link direction, as pcapng (draft-ietf-opsawg-pcapng).

use std::collections::HashMap;
use std::path::Path;

use ccp_ioam::capture_writer;

use super::clock;
use crate::ip::IpPacket;
use crate::packet::Packet;
use crate::record::FileWriter;
use crate::{Network, Result, Tapped};

#[derive(Default)]
pub struct Captures(HashMap<usize, FileWriter>);

impl Captures {
    /// Starts a capture of a link. Errors: `emulator.cannot_write` or `emulator.no_link`.
    pub fn add(&mut self, network: &mut Network<IpPacket>, name: &str, path: &Path) -> Result<()> {
        let link = network.tap(name)?;
        let file = FileWriter::create(path)?;
        file.append(capture_writer::header(name));
        self.0.insert(link, file);
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn take(&mut self, packets: Vec<Tapped<IpPacket>>) {
        let offset_ns = clock::real_offset_ns();
        for Tapped { link, at_ns, packet } in packets {
            let Some(file) = self.0.get_mut(&link) else { continue };
            let at_ns = at_ns.saturating_add(offset_ns);
            file.append(capture_writer::packet(at_ns, packet.len_bytes(), &packet.whole()));
        }
    }

    /// Completes the files. Errors: `emulator.cannot_write`.
    pub fn close(self) -> Result<()> {
        self.0.into_values().try_for_each(FileWriter::close)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::samples::{Tcp, is_right};
    use crate::spec::Spec;

    #[test]
    fn packets_are_written_with_their_times_and_checksums() {
        let path = std::env::temp_dir().join(format!("ccp-emu-capture-{}.pcapng", std::process::id()));
        let json = br#"{"seed": 1, "mtu_bytes": 1500, "sample_interval_us": 1, "routes": [[-1, 0], [1, -1]],
            "nodes": [{"name": "a", "addresses": ["10.0.0.1"]}, {"name": "b", "addresses": ["10.0.0.2"]}],
            "links": [{"name": "l>", "from": 0, "to": 1, "direction": {"delay_us": 5}},
                {"name": "l<", "from": 1, "to": 0, "direction": {}}]}"#;
        let now_ns = clock::now_ns();
        let mut network = Network::new(Spec::from_json(json).unwrap(), now_ns);
        let mut captures = Captures::default();
        assert!(captures.is_empty());
        captures.add(&mut network, "l>", &path).unwrap();
        assert!(!captures.is_empty());
        assert_eq!(captures.add(&mut network, "m>", &path).unwrap_err().slug, "emulator.no_link");
        let tcp = Tcp::default();
        let packet = IpPacket::new(tcp.bytes(), Some(tcp.partial())).unwrap();
        network.arrive(now_ns, 0, 1, packet.clone());
        network.arrive(now_ns, 1, 0, packet); // this link is not captured
        network.advance(now_ns + 10_000, &mut Vec::new());
        let at_ns = now_ns + 5_000 + clock::real_offset_ns();
        captures.take(network.take_tapped());
        captures.close().unwrap();
        let file = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let block = file.strip_prefix(&capture_writer::header("l>")[..]).unwrap();
        let word = |at: usize| u32::from_be_bytes(*block[at..].first_chunk().unwrap());
        assert_eq!((word(4) as usize, word(8)), (block.len(), 0), "one packet, of the only interface");
        assert!(is_right(&block[28..28 + word(20) as usize]));
        // The two readings of the offset between the clocks may differ.
        let written_ns = u64::from(word(12)) << 32 | u64::from(word(16));
        assert!(written_ns.abs_diff(at_ns) < 100_000_000);
    }
}
