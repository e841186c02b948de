//! Written data is read back unchanged.

use proptest::prelude::*;

use crate::option::IoamOption;
use crate::samples::{numbers, packet, tcp};
use crate::{
    Filled, Kind, Node, Snapshot, State, TraceType, build, decode, decode_header, fill, fill_headers, insert,
    read_headers, remove, remove_headers, set_flow_dropped, set_transit_delay,
};

/// Options in the order of reading: traces first, since they are in the first header.
fn in_order(options: &[IoamOption]) -> Vec<IoamOption> {
    let (mut traces, rest): (Vec<_>, Vec<_>) = options.iter().cloned().partition(IoamOption::is_hop_by_hop);
    traces.extend(rest);
    traces
}

fn found(packet: &[u8]) -> Vec<IoamOption> {
    let decoded = decode(packet).unwrap();
    assert_eq!(decoded.errors, []);
    decoded.options.into_iter().map(|found| found.option).collect()
}

proptest! {
    #[test]
    fn options_are_read_as_they_were_inserted(mut numbers in numbers()) {
        let options = numbers.options(6);
        let with = insert(&tcp(), &options).unwrap();
        prop_assert_eq!(found(&with), in_order(&options));
        prop_assert_eq!(remove(&with).unwrap(), tcp());
        let headers = build(&options, 6).unwrap();
        prop_assert_eq!(&with[40..with.len() - 25], [&headers.hop_by_hop[..], &headers.destination].concat());
        let mut alone = Vec::new();
        for (kind, header) in [(Kind::HopByHop, headers.hop_by_hop), (Kind::Destination, headers.destination)] {
            if !header.is_empty() {
                let contents = decode_header(kind, &header).unwrap();
                prop_assert_eq!(contents.errors, []);
                alone.extend(contents.options.into_iter().map(|found| found.option));
            }
        }
        prop_assert_eq!(alone, in_order(&options));
    }

    #[test]
    fn options_may_be_added_one_after_the_other(mut numbers in numbers()) {
        let options = numbers.options(6);
        let mut with = tcp();
        for option in &options {
            with = insert(&with, std::slice::from_ref(option)).unwrap();
        }
        prop_assert_eq!(found(&with), in_order(&options));
        prop_assert_eq!(remove(&with).unwrap(), tcp());
    }

    #[test]
    fn options_survive_json(mut numbers in numbers()) {
        let option = numbers.option();
        let json = serde_json::to_string(&option).unwrap();
        prop_assert_eq!(serde_json::from_str::<IoamOption>(&json).unwrap(), option);
    }

    #[test]
    fn nodes_fill_traces_from_the_back(mut numbers in numbers()) {
        let trace = numbers.trace();
        let node = numbers.node(trace.trace_type);
        let mut packet = insert(&tcp(), &[IoamOption::Trace(trace.clone())]).unwrap();
        let words = node.size(trace.trace_type) / 4;
        let fits = !trace.overflow && words <= usize::from(trace.remaining_words);
        let outcome = fill(&mut packet, trace.namespace_id, &node).unwrap();
        prop_assert_eq!(outcome, Filled { filled: fits.into(), overflowed: (!fits).into(), ..outcome });
        let mut expected = trace;
        if fits {
            expected.remaining_words -= words as u8;
            expected.nodes.push(node);
        } else {
            expected.overflow = true;
        }
        prop_assert_eq!(found(&packet), [IoamOption::Trace(expected)]);
    }

    #[test]
    fn headers_without_their_packet_are_treated_alike(mut numbers in numbers()) {
        let mut packet = insert(&tcp(), &numbers.options(6)).unwrap();
        let end = packet.len() - 25;
        let (first, mut headers) = (packet[6], packet[40..end].to_vec());
        let found = read_headers(&headers, first).map(|one| one.unwrap().option.to_option().unwrap());
        prop_assert!(found.eq(decode(&packet).unwrap().options.into_iter().map(|found| found.option)));
        let node = numbers.node(TraceType(0xfff002));
        let outcome = fill(&mut packet, 0, &node).unwrap();
        let [transit_delay_at, flow_dropped_at] =
            [outcome.transit_delay_at, outcome.flow_dropped_at].map(|at| at.map(|at| at - 40));
        let here = Filled { transit_delay_at, flow_dropped_at, ..outcome };
        prop_assert_eq!(fill_headers(&mut headers, first, 0, &node).unwrap(), here);
        prop_assert_eq!(&headers, &packet[40..end]);
        prop_assert_eq!(remove_headers(&headers, first).unwrap(), (vec![], 6));
    }

    #[test]
    fn a_delay_and_what_the_queue_dropped_may_come_later(
        mut numbers in numbers(), delay_ns: u64, dropped_pkts: u64,
    ) {
        let trace = numbers.trace();
        let node = numbers.node(trace.trace_type);
        let headers = build(&[IoamOption::Trace(trace.clone())], 6).unwrap().hop_by_hop;
        let (mut later, mut at_once) = (headers.clone(), headers);
        let outcome = fill_headers(&mut later, 0, trace.namespace_id, &node).unwrap();
        let asked = |field| trace.trace_type.has(field) && outcome.filled == 1;
        prop_assert_eq!(outcome.transit_delay_at.is_some(), asked(TraceType::TRANSIT_DELAY));
        let own = matches!(node.snapshot, Some(Snapshot::Ccplane(_)));
        prop_assert_eq!(outcome.flow_dropped_at.is_some(), asked(TraceType::SNAPSHOT) && own);
        if let Some(at) = outcome.transit_delay_at {
            set_transit_delay(&mut later, at, delay_ns);
        }
        if let Some(at) = outcome.flow_dropped_at {
            set_flow_dropped(&mut later, at, dropped_pkts);
        }
        let snapshot = node.snapshot.map(|snapshot| match snapshot {
            Snapshot::Ccplane(state) => {
                Snapshot::Ccplane(State { flow_dropped_pkts: Some(dropped_pkts), ..state })
            }
            other => other,
        });
        let node = Node { transit_delay_ns: Some(delay_ns), snapshot, ..node };
        fill_headers(&mut at_once, 0, trace.namespace_id, &node).unwrap();
        prop_assert_eq!(later, at_once);
    }

    #[test]
    fn a_nodes_size_is_what_it_writes(mut numbers in numbers()) {
        let kind = numbers.trace_type();
        let node = numbers.node(kind);
        let mut out = vec![0x55; node.size(kind)];
        node.write(kind, &mut out).unwrap();
        let (read, size) = Node::read(&out, kind, 0).unwrap();
        prop_assert_eq!(size, out.len());
        prop_assert_eq!(read, node);
    }

    #[test]
    fn other_options_keep_their_place_modulo_eight(mut numbers in numbers()) {
        let own = numbers.option();
        let mut header = vec![59, 0];
        for _ in 0..=numbers.below(3) {
            let length = numbers.below(20) as u8;
            header.extend([2 + numbers.below(14) as u8, length]);
            header.extend((0..length).map(|_| numbers.below(256) as u8));
        }
        let missing = header.len().next_multiple_of(8) - header.len();
        crate::ipv6::pad(&mut header, missing);
        header[1] = (header.len() / 8 - 1) as u8;
        let protocol = if own.is_hop_by_hop() { 0 } else { 60 };
        let before = packet(protocol, &header);
        let with = insert(&before, std::slice::from_ref(&own)).unwrap();
        prop_assert_eq!(found(&with), [own]);
        prop_assert_eq!(remove(&with).unwrap(), &before[..]);
        prop_assert_eq!(remove_headers(&with[40..], protocol).unwrap(), (before[40..].to_vec(), protocol));
    }
}
