//! Capture files: every link type, every format, truncated anywhere.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::link::{ETHERNET, IPV6_ONLY, LINUX_SLL, LINUX_SLL2, LOOP, NULL, RAW};
use crate::samples::{bytes, options, tcp};
use crate::{Capture, Record, Summary, capture_writer, insert};

const USB_LINUX: u16 = 189;

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

/// The header of a pcap file in big-endian order.
fn pcap_header(magic: u32, minor: u16, link: u32) -> Vec<u8> {
    let version = u32::from(minor) | 2 << 16;
    [magic, version, 0, 0, 65_535, link].iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn pcap(link: u16, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = pcap_header(0xa1b2_c3d4, 4, link.into());
    for (second, frame) in (1000u32..).zip(frames) {
        let bytes = frame.len() as u32;
        file.extend([second, 5, bytes, bytes].iter().flat_map(|word| word.to_be_bytes()));
        file.extend(frame);
    }
    file
}

#[test]
fn packets_are_found_on_every_link() {
    let sll2 = "86dd 0000 00000003 0001 00 06 0200000000010000";
    for (link, around) in [
        (ETHERNET, "020000000001 020000000002 86dd"),
        (ETHERNET, "020000000001 020000000002 8100 0005 86dd"),
        (ETHERNET, "020000000001 020000000002 88a8 0005 8100 0006 86dd"),
        (RAW, ""),
        (IPV6_ONLY, ""),
        (LINUX_SLL, "0000 0001 0006 0200000000010000 86dd"),
        (LINUX_SLL, "0000 0001 0006 0200000000010000 8100 0005 86dd"),
        (LINUX_SLL2, sll2),
        (LOOP, "0000000a"),
        (NULL, "0a000000"),
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
    let (records, summary) = Scratch::new(&pcap(ETHERNET, &frames)).read();
    assert_eq!(records.iter().map(|record| record.packet).collect::<Vec<_>>(), [6]);
    assert_eq!((summary.packets, summary.ipv6, summary.with_options), (6, 3, 1));
    let (records, summary) = Scratch::new(&pcap(USB_LINUX, &frames)).read();
    assert!(records.is_empty());
    assert_eq!((summary.packets, summary.ipv6, summary.unknown_link), (6, 0, 6));
}

#[test]
fn malformed_packets_do_not_stop_it() {
    let mut wrong = telemetry();
    wrong[50] ^= 0x08; // NodeLen of the trace
    let cut = telemetry()[..60].to_vec();
    let (records, summary) = Scratch::new(&pcap(RAW, &[wrong, cut, telemetry()])).read();
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
    let mut file = pcap(RAW, &[]);
    file.extend([1u32, 2, 260, 290].iter().flat_map(|word| word.to_be_bytes()));
    let long = crate::samples::packet(6, &[&tcp()[40..], &[0; 500]].concat());
    let long = insert(&long, &options()).unwrap();
    file.extend(&long[..260]);
    let (records, summary) = Scratch::new(&file).read();
    assert_eq!(summary.broken, None);
    assert_eq!(records[0].decoded.options.len(), 3);
    assert_eq!((records[0].bytes, records[0].captured_bytes), (290, 260));
}

#[derive(Clone, Copy, PartialEq)]
enum Order {
    Big,
    Little,
}

use Order::{Big, Little};

impl Order {
    fn words(self, words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| if self == Big { w.to_be_bytes() } else { w.to_le_bytes() }).collect()
    }

    fn shorts(self, shorts: &[u16]) -> Vec<u8> {
        shorts.iter().flat_map(|s| if self == Big { s.to_be_bytes() } else { s.to_le_bytes() }).collect()
    }

    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let total = body.len().next_multiple_of(4) as u32 + 12;
        let mut block = [&self.words(&[kind, total]), body].concat();
        block.resize(total as usize - 4, 0);
        block.extend(self.words(&[total]));
        block
    }

    fn section(self, options: &[u8]) -> Vec<u8> {
        let start = [self.words(&[0x1a2b_3c4d]), self.shorts(&[1, 0]), vec![0xff; 8]].concat();
        self.block(0x0a0d_0d0a, &[&start, options].concat())
    }

    fn interface(self, link: u16, options: &[u8]) -> Vec<u8> {
        self.block(1, &[&self.shorts(&[link, 0]), &self.words(&[0]), options].concat())
    }

    fn option(self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut option = [&self.shorts(&[code, value.len() as u16]), value].concat();
        option.resize(option.len().next_multiple_of(4), 0);
        option
    }

    fn packet(self, interface: u32, ticks: u64, data: &[u8], options: &[u8]) -> Vec<u8> {
        let bytes = data.len() as u32;
        let fixed = self.words(&[interface, (ticks >> 32) as u32, ticks as u32, bytes, bytes]);
        self.block(
            6,
            &[&fixed, data, &vec![0; data.len().next_multiple_of(4) - data.len()], options].concat(),
        )
    }
}

fn pcapng(resolution: Option<u8>) -> Vec<u8> {
    let options = resolution.map_or(Vec::new(), |unit| Big.option(9, &[unit]));
    let interfaces = [Big.interface(ETHERNET, &[]), Big.interface(RAW, &options)].concat();
    let data = telemetry();
    let frame = [bytes("020000000001 020000000002 86dd"), data.clone()].concat();
    let simple = Big.block(3, &[&Big.words(&[frame.len() as u32])[..], &frame].concat());
    [Big.section(&[]), interfaces, Big.packet(1, 8 << 32, &data, &[]), simple].concat()
}

/// Blocks between an interface's description and two packets; afterwards one packet of another section.
fn around(order: Order, blocks: &[u8]) -> Vec<u8> {
    let packets = [order.packet(0, 1, &telemetry(), &[]), order.packet(0, 2, &telemetry(), &[])].concat();
    let other = if order == Big { Little } else { Big };
    let next =
        [other.section(&[]), other.interface(RAW, &[]), other.packet(0, 3, &telemetry(), &[])].concat();
    [order.section(&[]), order.interface(RAW, &[]), blocks.to_vec(), packets, next].concat()
}

#[test]
fn options_and_other_blocks_do_not_hide_packets() {
    let latin1 = b"St\xf6rung";
    for order in [Big, Little] {
        let data = telemetry();
        let end = order.option(0, &[]);
        let bytes = data.len() as u32;
        let old = [order.shorts(&[0, 0xffff]), order.words(&[0, 7, bytes, bytes]), data.clone()].concat();
        for (blocks, more, other) in [
            (order.packet(0, 7, &data, &order.option(1, latin1)), 1, 0),
            (order.packet(0, 7, &data, &[order.option(1, latin1), end.clone()].concat()), 1, 0),
            (order.packet(0, 7, &data, &order.shorts(&[1, 500])), 1, 0), // an option that ends too early
            (order.block(2, &old), 1, 0),
            (order.block(2, &[&old, &order.option(1, latin1)[..]].concat()), 1, 0),
            (order.interface(RAW, &order.option(3, latin1)), 0, 0),
            (order.block(1, &[order.shorts(&[RAW, 1]), order.words(&[9])].concat()), 0, 0), // reserved field
            ([order.section(&order.option(4, latin1)), order.interface(RAW, &[])].concat(), 0, 0),
            (order.block(4, &order.shorts(&[9, 60])), 0, 0), // names: a record longer than the block
            (order.block(4, &[]), 0, 0),
            (order.block(5, &order.shorts(&[4, 1])), 0, 0), // statistics, too short
            (order.block(9, b"MESSAGE=journal\n"), 0, 1),
            (order.block(10, b"KLST\0\0\0\x05CLIEN"), 0, 0), // secrets
            (order.block(0x0bad, &order.words(&[32_473, 1])), 0, 1),
            (order.block(0x4000_0bad, &order.words(&[32_473, 1])), 0, 1),
            (order.block(0x8000_0001, b"process"), 0, 0),
            (order.block(0x7777, &vec![7; 300_000]), 0, 1),
        ] {
            let (records, summary) = Scratch::new(&around(order, &blocks)).read();
            assert_eq!(records.len(), 3 + more, "{blocks:?}");
            assert!(records.iter().all(|record| record.decoded.options.len() == 3));
            assert_eq!(summary, Summary { other_blocks: other, ..with(records.len()) }, "{blocks:?}");
            if more == 1 {
                assert_eq!(records[0].time_ns, Some(7000));
            }
        }
    }
}

fn with(packets: usize) -> Summary {
    let packets = packets as u64;
    Summary { packets, ipv6: packets, with_options: packets, ..Summary::default() }
}

#[test]
fn malformed_blocks_are_counted_and_skipped_by_their_length() {
    for order in [Big, Little] {
        let data = telemetry();
        let bytes = data.len() as u32;
        let mut other_length = order.packet(0, 7, &data, &[]);
        let last = other_length.len() - 1;
        other_length[last] ^= 4;
        other_length[last - 3] ^= 4;
        for (block, why) in [
            (order.packet(9, 7, &data, &[]), "no interface has its number"),
            (order.block(6, &order.words(&[0, 0])), "too short"),
            (order.block(6, &order.words(&[0, 0, 7, bytes + 1, bytes])), "longer than the block"),
            (order.block(6, &order.words(&[0, 0, 7, u32::MAX, bytes])), "longer than the block"),
            (order.block(2, &order.words(&[0, 0])), "too short"),
            (order.block(3, &[]), "too short"),
            (order.block(3, &order.words(&[500])), "longer than the block"),
            (order.block(1, &order.words(&[0])), "too short"),
            (order.interface(RAW, &order.shorts(&[2, 500])), "an option is longer"),
            (order.interface(RAW, &order.option(9, &[6, 6])), "about times"),
            (order.interface(RAW, &order.option(14, &[6])), "about times"),
            (order.block(0x0a0d_0d0a, &order.words(&[0x1a2b_3c4d])), ""),
            (other_length, "lengths differ"),
        ] {
            let is_section = why.is_empty();
            let rest = if is_section { order.interface(RAW, &[]) } else { Vec::new() };
            let (records, summary) = Scratch::new(&around(order, &[block, rest].concat())).read();
            assert_eq!(records.len(), 3, "{why}");
            assert_eq!(summary.broken, None);
            assert_eq!(summary.malformed_blocks, u64::from(!is_section), "{why}");
            let Some(problem) = &summary.malformed_block else { continue };
            let problem = serde_json::to_value(problem).unwrap();
            assert_eq!(problem["slug"], "ioam.bad_block");
            assert!(problem["why"].as_str().unwrap().contains(why), "{problem}");
            assert!(problem["where"].as_str().unwrap().ends_with("after packet 0"), "{problem}");
        }
    }
}

#[test]
fn other_interfaces_keep_their_numbers_after_a_malformed_one() {
    let file = [
        Big.section(&[]),
        Big.block(1, &[]),
        Big.interface(RAW, &[]),
        Big.packet(0, 1, &telemetry(), &[]),
        Big.packet(1, 1, &telemetry(), &[]),
    ];
    let (records, summary) = Scratch::new(&file.concat()).read();
    assert_eq!((records.len(), summary.malformed_blocks), (1, 2));
}

#[test]
fn lengths_that_do_not_count_the_padding_are_understood() {
    for order in [Big, Little] {
        let mut block = order.packet(0, 7, &telemetry()[..telemetry().len() - 2], &[]);
        let total = order.words(&[block.len() as u32 - 2]);
        let end = block.len() - 4;
        block[4..8].copy_from_slice(&total);
        block[end..].copy_from_slice(&total);
        let (records, summary) = Scratch::new(&around(order, &block)).read();
        assert_eq!((records.len(), summary.malformed_blocks, summary.broken), (4, 0, None));
    }
}

#[test]
fn blocks_that_cannot_be_skipped_end_it() {
    for order in [Big, Little] {
        let magic = [order.words(&[0x0a0d_0d0a, 28, 0x1a2b_3c00]), vec![0; 16]].concat();
        let version =
            order.block(0x0a0d_0d0a, &[order.words(&[0x1a2b_3c4d]), order.shorts(&[2, 0])].concat());
        for (block, why) in [
            (order.words(&[0x7777, 0, 0]), "of 0 bytes"),
            (order.words(&[6, 11, 11]), "of 11 bytes"),
            (order.words(&[0x7777, 0xffff_fff0, 7]), "in the middle of a packet"),
            (order.words(&[6, 0xffff_ffff, 7]), "in the middle of a packet"),
            (magic, "byte order"),
            (version, "version 2 of pcapng"),
        ] {
            let file =
                [around(order, &[]), if order == Big { around(Big, &block) } else { around(Little, &block) }];
            let (records, summary) = Scratch::new(&file.concat()).read();
            assert_eq!(records.len(), 3);
            let broken = serde_json::to_value(summary.broken.unwrap()).unwrap();
            assert!(broken["why"].as_str().unwrap().contains(why), "{broken}");
            assert!(broken["where"].as_str().unwrap().ends_with("after packet 3"), "{broken}");
        }
    }
}

#[test]
fn old_and_unusual_pcap_files_are_read() {
    let data = telemetry();
    let bytes = data.len() as u32;
    let packet = |words: &[u32]| [&Big.words(words), &data[..]].concat();
    let raw = u32::from(RAW);
    for (file, time_ns) in [
        ([pcap_header(0xa1b2_c3d4, 2, raw), packet(&[1, 5, bytes + 9, bytes])].concat(), 1_000_005_000),
        ([pcap_header(0xa1b2_c3d4, 3, raw), packet(&[1, 5, bytes, bytes + 9])].concat(), 1_000_005_000),
        ([pcap_header(0xa1b2_c3d4, 3, raw), packet(&[1, 5, bytes + 9, bytes])].concat(), 1_000_005_000),
        ([pcap_header(0xa1b2_3c4d, 4, raw), packet(&[1, 5, bytes, bytes + 9])].concat(), 1_000_000_005),
        ([pcap_header(0xa1b2_cd34, 4, raw), packet(&[1, 5, bytes, bytes + 9, 3, 0])].concat(), 1_000_005_000),
        // The upper half says that frames end with a checksum of 4 bytes.
        (
            [pcap_header(0xa1b2_c3d4, 4, 0x4400_0000 | raw), packet(&[1, 5, bytes, bytes + 9])].concat(),
            1_000_005_000,
        ),
    ] {
        let (records, summary) = Scratch::new(&file).read();
        assert_eq!(summary, with(1));
        assert_eq!(
            (records[0].time_ns, records[0].bytes, records[0].captured_bytes),
            (Some(time_ns), bytes + 9, bytes)
        );
    }
}

#[test]
fn files_of_another_kind_are_named() {
    for (start, why) in [
        (&b""[..], "empty"),
        (&b"\x1f\x8b\x08"[..], "zcat FILE"),
        (&b"\x28\xb5\x2f\xfd"[..], "zstdcat FILE"),
        (&b"\xfd7zXZ"[..], "xzcat FILE"),
        (&b"\x0a\x0d\x0d\x0a\0\0\0\x1cabcd"[..], "byte order"),
        (&b"\xa1\xb2\xc3\xd4\0\x03\0\0 and sixteen more."[..], "version 3.0"),
        (&b"\xa1\xb2\xc3\xd4\0"[..], "in the middle"),
    ] {
        let refused = Capture::open(&Scratch::new(start).0).err().unwrap();
        assert_eq!(refused.slug, "ioam.no_capture");
        assert!(format!("{refused:?}").contains(why), "{refused:?}");
    }
}

#[test]
fn written_files_are_read() {
    let data = telemetry();
    let packet = capture_writer::packet(1_700_000_000_000_000_005, data.len() as u32 + 1, &data);
    let file = [capture_writer::header("a>b"), packet].concat();
    let (records, summary) = Scratch::new(&file).read();
    assert_eq!(summary, with(1));
    assert_eq!(records[0].time_ns, Some(1_700_000_000_000_000_005));
    assert_eq!((records[0].bytes, records[0].captured_bytes), (data.len() as u32 + 1, data.len() as u32));
}

#[test]
fn reading_a_pipe_does_not_wait_for_more_than_there_is() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let whole = pcap(RAW, &[telemetry(), telemetry(), telemetry()]);
    let mut capture = {
        writer.write_all(&whole[..24]).unwrap();
        Capture::read_from("a pipe".to_owned(), Box::new(reader)).unwrap()
    };
    let each = (whole.len() - 24) / 3;
    writer.write_all(&whole[24..24 + 2 * each]).unwrap();
    assert_eq!(capture.read(256).len(), 2);
    writer.write_all(&whole[24 + 2 * each..]).unwrap();
    assert_eq!(capture.read(256).len(), 1);
    drop(writer);
    assert!(capture.read(256).is_empty() && capture.is_finished());
    assert_eq!(*capture.summary(), with(3));
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
fn times_are_moved_by_the_offset_of_their_interface() {
    for (offset_s, ticks, time_ns) in [
        (3600i64, 5, Some(3_600_000_005_000)),
        (-3600, 3_600_000_005, Some(5000)),
        (-3600, 5, None),
        (i64::MAX, 5, None),
        (i64::MIN, u64::MAX, None),
    ] {
        let options = Big.option(14, &offset_s.to_be_bytes());
        let file = [Big.section(&[]), Big.interface(RAW, &options), Big.packet(0, ticks, &telemetry(), &[])];
        let (records, summary) = Scratch::new(&file.concat()).read();
        assert_eq!((records[0].time_ns, summary), (time_ns, with(1)));
    }
}

#[test]
fn a_file_that_ends_in_the_middle_is_read_until_there() {
    for whole in [pcap(RAW, &[telemetry(), telemetry()]), pcapng(None)] {
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
    for whole in [pcap(RAW, &[telemetry(), telemetry()]), pcapng(Some(9))] {
        let mut ends = 0;
        for at in 0..whole.len().min(300) {
            for byte in [0, 0x7f, 0xff, whole[at].wrapping_add(1)] {
                let mut broken = whole.clone();
                broken[at] = byte;
                let scratch = Scratch::new(&broken);
                let Ok(mut capture) = Capture::open(&scratch.0) else { continue };
                let mut records = 0;
                while !capture.is_finished() {
                    records += capture.read(10).len();
                }
                assert!(records <= 2);
                ends += u32::from(capture.summary().broken.is_some());
            }
        }
        assert!(ends > 10, "{ends}");
    }
}
