//! Capture files: every link type, every format, truncated anywhere.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::simple_packet::SimplePacketBlock;
use pcap_file::{DataLink, TsResolution};

use crate::samples::{bytes, options, tcp};
use crate::{Capture, Record, Summary, insert};

fn telemetry() -> Vec<u8> {
    insert(&tcp(), &options()).unwrap()
}

/// A file that the test removes.
struct Scratch(PathBuf);

impl Scratch {
    fn new(content: &[u8]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ccp-ioam-{}-{number}.pcap", std::process::id()));
        fs::write(&path, content).unwrap();
        Scratch(path)
    }

    fn read(&self) -> (Vec<Record>, Summary) {
        let mut capture = Capture::open(&self.0).unwrap();
        let mut records = Vec::new();
        while !capture.is_finished() {
            records.extend(capture.read(3));
        }
        (records, capture.summary().clone())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It may not exist.
        let _ = fs::remove_file(&self.0);
    }
}

fn pcap(link: DataLink, frames: &[Vec<u8>]) -> Vec<u8> {
    let header =
        PcapHeader { datalink: link, ts_resolution: TsResolution::MicroSecond, ..PcapHeader::default() };
    let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
    for (second, frame) in (1000..).zip(frames) {
        let time = Duration::from_micros(second * 1_000_000 + 5);
        writer.write_packet(&PcapPacket::new(time, frame.len() as u32, frame)).unwrap();
    }
    writer.into_writer()
}

#[test]
fn packets_are_found_on_every_link() {
    let sll2 = "86dd 0000 00000003 0001 00 06 0200000000010000";
    for (link, around) in [
        (DataLink::ETHERNET, "020000000001 020000000002 86dd"),
        (DataLink::ETHERNET, "020000000001 020000000002 8100 0005 86dd"),
        (DataLink::ETHERNET, "020000000001 020000000002 88a8 0005 8100 0006 86dd"),
        (DataLink::RAW, ""),
        (DataLink::IPV6, ""),
        (DataLink::LINUX_SLL, "0000 0001 0006 0200000000010000 86dd"),
        (DataLink::LINUX_SLL, "0000 0001 0006 0200000000010000 8100 0005 86dd"),
        (DataLink::LINUX_SLL2, sll2),
        (DataLink::LOOP, "0000000a"),
        (DataLink::NULL, "0a000000"),
    ] {
        let frame = [bytes(around), telemetry()].concat();
        let (records, summary) = Scratch::new(&pcap(link, std::slice::from_ref(&frame))).read();
        let [record] = &records[..] else { panic!("{link:?} {around}") };
        assert_eq!(record.decoded.options.len(), 3);
        assert_eq!((record.packet, record.time_ns), (1, Some(1_000_000_005_000)));
        assert_eq!((record.bytes, record.captured_bytes), (frame.len() as u32, frame.len() as u32));
        let expected = Summary { packets: 1, ipv6: 1, with_options: 1, ..Summary::default() };
        assert_eq!(summary, expected);
    }
}

#[test]
fn other_packets_are_counted_and_passed_over() {
    let ethernet = bytes("020000000001 020000000002 86dd");
    let frames = [
        bytes("020000000001 020000000002 0800 4500"),
        bytes("020000000001"),
        bytes("020000000001 020000000002 8100"),
        [&ethernet[..], &tcp()].concat(),
        [&ethernet[..], &[0x60; 20]].concat(),
        [&ethernet[..], &telemetry()].concat(),
    ];
    let (records, summary) = Scratch::new(&pcap(DataLink::ETHERNET, &frames)).read();
    assert_eq!(records.iter().map(|record| record.packet).collect::<Vec<_>>(), [6]);
    assert_eq!((summary.packets, summary.ipv6, summary.with_options), (6, 3, 1));
    let (records, summary) = Scratch::new(&pcap(DataLink::USB_LINUX, &frames)).read();
    assert!(records.is_empty());
    assert_eq!((summary.packets, summary.ipv6, summary.unknown_link), (6, 0, 6));
}

#[test]
fn malformed_packets_do_not_stop_it() {
    let mut wrong = telemetry();
    wrong[50] ^= 0x08; // NodeLen of the trace
    let cut = telemetry()[..60].to_vec();
    let (records, summary) = Scratch::new(&pcap(DataLink::RAW, &[wrong, cut, telemetry()])).read();
    let found: Vec<_> =
        records.iter().map(|r| (r.packet, r.decoded.options.len(), r.decoded.errors.len())).collect();
    assert_eq!(found, [(1, 2, 1), (2, 0, 1), (3, 3, 0)]);
    assert_eq!((summary.with_options, summary.malformed), (2, 2));
    let json = serde_json::to_value(&records[0]).unwrap();
    assert_eq!(json["errors"][0]["slug"], "ioam.bad_value");
    assert_eq!(json["errors"][0]["where"], "NodeLen, byte 50 of the packet");
}

#[test]
fn packets_longer_than_what_was_captured_are_read() {
    // 290 bytes, of which the file keeps 260, including all headers.
    let header = PcapHeader { datalink: DataLink::RAW, snaplen: 260, ..PcapHeader::default() };
    let mut file = PcapWriter::with_header(Vec::new(), header).unwrap().into_writer();
    file.extend([1u32, 2, 260, 290].iter().flat_map(|word| word.to_be_bytes()));
    let long = crate::samples::packet(6, &[&tcp()[40..], &[0; 500]].concat());
    let long = insert(&long, &options()).unwrap();
    file.extend(&long[..260]);
    let (records, summary) = Scratch::new(&file).read();
    assert_eq!(summary.broken, None);
    assert_eq!(records[0].decoded.options.len(), 3);
    assert_eq!((records[0].bytes, records[0].captured_bytes), (290, 260));
}

fn pcapng(resolution: Option<u8>) -> Vec<u8> {
    let mut writer = PcapNgWriter::new(Vec::new()).unwrap();
    for (link, options) in [
        (DataLink::ETHERNET, vec![]),
        (DataLink::RAW, resolution.map(InterfaceDescriptionOption::IfTsResol).into_iter().collect()),
    ] {
        writer.write_pcapng_block(InterfaceDescriptionBlock { linktype: link, snaplen: 0, options }).unwrap();
    }
    let data = telemetry();
    let enhanced = EnhancedPacketBlock {
        interface_id: 1,
        timestamp: Duration::from_nanos(8 << 32),
        original_len: data.len() as u32,
        data: (&data[..]).into(),
        options: vec![],
    };
    writer.write_pcapng_block(enhanced).unwrap();
    let frame = [bytes("020000000001 020000000002 86dd"), data].concat();
    let original_len = frame.len() as u32;
    writer.write_pcapng_block(SimplePacketBlock { original_len, data: frame.into() }).unwrap();
    writer.into_inner()
}

#[test]
fn times_have_the_unit_of_their_interface() {
    for (resolution, time_ns) in [
        (None, Some((8 << 32) * 1000)), // microseconds
        (Some(9), Some(8 << 32)),
        (Some(0x80 | 32), Some(8_000_000_000)), // 2^-32 seconds
        (Some(0), None),                        // beyond what 64 bits of nanoseconds can tell
        (Some(0x7f), None),
    ] {
        let (records, summary) = Scratch::new(&pcapng(resolution)).read();
        let found: Vec<_> = records.iter().map(|r| (r.time_ns, r.decoded.options.len())).collect();
        assert_eq!(found, [(time_ns, 3), (None, 3)]);
        assert_eq!(summary.broken, None);
    }
}

#[test]
fn a_file_that_ends_in_the_middle_is_read_until_there() {
    for whole in [pcap(DataLink::RAW, &[telemetry(), telemetry()]), pcapng(None)] {
        let (records, summary) = Scratch::new(&whole[..whole.len() - 20]).read();
        assert_eq!(records.len(), 1);
        let broken = serde_json::to_value(summary.broken.unwrap()).unwrap();
        assert_eq!(broken["slug"], "ioam.broken_file");
        assert!(broken["where"].as_str().unwrap().ends_with("after packet 1"), "{broken}");
        assert!(broken["why"].as_str().unwrap().contains("in the middle of a packet"), "{broken}");
    }
}

#[test]
fn broken_files_do_no_harm() {
    for whole in [pcap(DataLink::RAW, &[telemetry(), telemetry()]), pcapng(Some(9))] {
        let mut ends = 0;
        for at in 0..whole.len().min(300) {
            for byte in [0, 0x7f, 0xff, whole[at].wrapping_add(1)] {
                let mut broken = whole.clone();
                broken[at] = byte;
                let scratch = Scratch::new(&broken);
                let Ok(mut capture) = Capture::open(&scratch.0) else { continue };
                let records = capture.read(10);
                assert!(capture.is_finished() && records.len() <= 2);
                ends += u32::from(capture.summary().broken.is_some());
            }
        }
        assert!(ends > 10, "{ends}");
    }
}
