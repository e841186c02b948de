//! Packets at the end of a link direction, as pcapng (draft-ietf-opsawg-pcapng).

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
use super::writer::FileWriter;
use crate::ip::IpPacket;
use crate::packet::Packet;
use crate::{Error, Network, Result, Tapped};

const NANOSECONDS: u8 = 9;

/// Files by link.
#[derive(Default)]
pub struct Captures(HashMap<usize, Capture>);

struct Capture {
    blocks: PcapNgWriter<Vec<u8>>,
    writer: FileWriter,
}

impl Capture {
    /// Hands over what has been formatted.
    fn flush(&mut self) {
        self.writer.append(std::mem::take(self.blocks.get_mut()));
    }
}

impl Captures {
    /// Listens to a link.
    ///
    /// # Errors
    ///
    /// `emulator.cannot_write` or `emulator.no_link`.
    pub fn add(&mut self, network: &mut Network<IpPacket>, name: &str, path: &Path) -> Result<()> {
        let link = network.tap(name)?;
        let options = vec![
            InterfaceDescriptionOption::IfName(name.to_owned().into()),
            InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
        ];
        let interface = InterfaceDescriptionBlock { linktype: DataLink::RAW, snaplen: 0, options };
        let failed = |e: pcap_file::PcapError| {
            Error::new("emulator.cannot_write", "a capture cannot be written")
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

    /// Whether nothing is listened to.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes packets down.
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

    /// Writes the files.
    ///
    /// # Errors
    ///
    /// `emulator.cannot_write`.
    pub fn close(self) -> Result<()> {
        self.0.into_values().try_for_each(|capture| capture.writer.close())
    }
}
