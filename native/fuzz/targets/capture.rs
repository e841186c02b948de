//! Capture files: pcap and pcapng.

#![no_main]

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use ccp_fuzz::{options, packet, seeds};
use ccp_ioam::{Capture, insert};
use libfuzzer_sys::fuzz_target;
use rustix::fs::{MemfdFlags, memfd_create};

/// A frame of Ethernet.
fn frame() -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([0x86, 0xdd]);
    frame.extend(insert(&packet(), &options()).unwrap());
    frame
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn pcap(magic: u32) -> Vec<u8> {
    let length = frame().len() as u32;
    [words(&[magic, 0x0004_0002, 0, 0, 65535, 1, 1000, 5, length, length]), frame()].concat()
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = [body, &vec![0; body.len().next_multiple_of(4) - body.len()]].concat();
    let length = padded.len() as u32 + 12;
    [words(&[kind, length]), padded, words(&[length])].concat()
}

fn pcapng() -> Vec<u8> {
    let length = frame().len() as u32;
    [
        block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX])),
        // Times in nanoseconds (option 9).
        block(1, &words(&[1, 0, 9 | 1 << 16, 9, 0])),
        block(6, &[words(&[0, 1, 2, length, length]), frame()].concat()),
        block(3, &[words(&[length]), frame()].concat()),
    ]
    .concat()
}

fuzz_target!(
    init: seeds(|| vec![pcap(0xa1b2_c3d4), pcap(0xa1b2_3c4d), pcapng()]),
    |data: &[u8]| {
        let file = memfd_create("capture", MemfdFlags::CLOEXEC).unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        File::from(file.try_clone().unwrap()).write_all(data).unwrap();
        let Ok(mut capture) = Capture::open(&path) else { return };
        let mut steps = 0;
        while !capture.is_finished() {
            for record in capture.read(7) {
                serde_json::to_string(&record).unwrap();
            }
            steps += 1;
            assert!(steps <= 1 + data.len(), "no end");
        }
        let summary = capture.summary();
        assert!(summary.packets <= data.len() as u64);
        assert!(summary.with_options.max(summary.malformed) <= summary.ipv6);
    }
);
