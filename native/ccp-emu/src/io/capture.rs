//! Captures of packets at the end of a link direction, as pcapng (draft-ietf-opsawg-pcapng).

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};

use super::clock;
use crate::ip::IpPacket;
use crate::packet::Packet;
use crate::record::FileWriter;
use crate::{Error, Network, Result, Tapped};

const NANOSECONDS: u8 = 9;

#[derive(Default)]
pub struct Captures(HashMap<usize, Capture>);

struct Capture {
    blocks: PcapNgWriter<Vec<u8>>,
    writer: FileWriter,
}

impl Capture {
    /// Passes on the formatted blocks.
    fn flush(&mut self) {
        self.writer.append(std::mem::take(self.blocks.get_mut()));
    }
}

impl Captures {
    /// Starts a capture of a link. Errors: `emulator.cannot_write` or `emulator.no_link`.
    pub fn add(&mut self, network: &mut Network<IpPacket>, name: &str, path: &Path) -> Result<()> {
        let link = network.tap(name)?;
        let options = vec![
            InterfaceDescriptionOption::IfName(name.to_owned().into()),
            InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
        ];
        let interface = InterfaceDescriptionBlock { linktype: DataLink::RAW, snaplen: 0, options };
        let failed = |e: pcap_file::PcapError| {
            Error::new("emulator.cannot_write", "cannot write a capture")
                .at(path.display().to_string())
                .why(e)
        };
        let mut blocks = PcapNgWriter::new(Vec::new()).map_err(failed)?;
        blocks.write_pcapng_block(interface).map_err(failed)?;
        let mut capture = Capture { blocks, writer: FileWriter::create(path)? };
        capture.flush();
        self.0.insert(link, capture);
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn take(&mut self, packets: Vec<Tapped<IpPacket>>) {
        let offset_ns = clock::real_offset_ns();
        for Tapped { link, at_ns, packet } in packets {
            let Some(capture) = self.0.get_mut(&link) else { continue };
            let data = packet.whole();
            let block = EnhancedPacketBlock {
                interface_id: 0,
                timestamp: Duration::from_nanos(at_ns.saturating_add(offset_ns)),
                original_len: packet.len_bytes(),
                data: (&data[..]).into(),
                options: Vec::new(),
            };
            // Writing to memory cannot fail.
            let _ = capture.blocks.write_pcapng_block(block);
            capture.flush();
        }
    }

    /// Completes the files. Errors: `emulator.cannot_write`.
    pub fn close(self) -> Result<()> {
        self.0.into_values().try_for_each(|capture| capture.writer.close())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use pcap_file::pcapng::{Block, PcapNgReader};

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
        let mut reader = PcapNgReader::new(File::open(&path).unwrap()).unwrap();
        let mut packets = Vec::new();
        while let Some(block) = reader.next_block() {
            match block.unwrap() {
                Block::InterfaceDescription(interface) => {
                    assert_eq!(interface.linktype, DataLink::RAW);
                    assert!(interface.options.contains(&InterfaceDescriptionOption::IfName("l>".into())));
                }
                Block::EnhancedPacket(packet) => packets.push((packet.timestamp, packet.data.to_vec())),
                other => panic!("{other:?}"),
            }
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(packets.len(), 1);
        assert!(is_right(&packets[0].1));
        // The two readings of the offset between the clocks may differ.
        assert!(packets[0].0.abs_diff(Duration::from_nanos(at_ns)) < Duration::from_millis(100));
    }
}
