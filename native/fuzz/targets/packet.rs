//! IPv6 packets with IOAM: read, removed, filled and written again.

#![no_main]

use ccp_fuzz::{options, packet, seeds};
use ccp_ioam::{Node, build, decode, decode_header, fill, fill_headers, insert, remove, remove_headers};
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: seeds(|| {
        let all = options();
        let mut made: Vec<_> = all.iter().map(|one| insert(&packet(), std::slice::from_ref(one)).unwrap()).collect();
        made.push(insert(&packet(), &all).unwrap());
        let headers = build(&all, 6).unwrap();
        made.extend([headers.hop_by_hop, headers.destination, packet()]);
        made
    }),
    |data: &[u8]| {
        for kind in [ccp_ioam::Kind::HopByHop, ccp_ioam::Kind::Destination] {
            let _ = decode_header(kind, data);
        }
        for first in [0, 60, 43, 51, 44, 6] {
            let _ = remove_headers(data, first);
            let mut copy = data.to_vec();
            let _ = fill_headers(&mut copy, first, 0, &Node::default());
            assert_eq!(copy.len(), data.len());
        }
        let mut copy = data.to_vec();
        let _ = fill(&mut copy, 0, &Node { queue_depth: Some(1), ..Node::default() });
        assert_eq!(copy.len(), data.len());
        let Ok(found) = decode(data) else { return };
        serde_json::to_string(&found).unwrap();
        if let Ok(without) = remove(data) {
            assert!(without.len() <= data.len());
            assert!(decode(&without).unwrap().options.is_empty());
        }
        let options: Vec<_> = found.options.into_iter().map(|placed| placed.option).collect();
        if let Ok(more) = insert(data, &options) {
            let written = decode(&more).unwrap().options;
            assert!(written.len() >= options.len());
            for option in options {
                assert!(written.iter().any(|placed| placed.option == option), "{option:?} of {written:?}");
            }
        }
    }
);
