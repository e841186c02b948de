use super::*;

/// Octets of portus itself; `native/ccp-lang/tests/messages.rs` holds the file against it.
const KEPT: &str = include_str!("../../ccp-lang/tests/messages.txt");

fn kept(name: &str) -> Vec<u8> {
    let hex =
        KEPT.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).expect("such a message");
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

fn measured(flow: u32, program: u32, fields: &[u64]) -> Vec<u8> {
    measure(&mut [0; MAX_MEASURE_BYTES], flow, program, fields).to_vec()
}

/// What `kept("update")` and `kept("change")` set.
fn kept_values() -> Values {
    let mut values = Values {
        cwnd_bytes: 14480,
        rate_bytes_per_s: u64::from(u32::MAX),
        controls: 0b11,
        ..Values::default()
    };
    values.control[..2].copy_from_slice(&[7, 8]);
    values
}

#[test]
fn what_is_written_is_portus_octets() {
    let ends = ("10.0.0.1:5001".parse().unwrap(), "10.0.0.2:35091".parse().unwrap());
    let create = Create { flow: 9, cwnd_bytes: 14480, mss_bytes: 1448, ends: Some(ends), algorithm: "" };
    assert_eq!(create.octets(), kept("create"));
    assert_eq!(Create { algorithm: "bbr", ..create.clone() }.octets(), kept("create-bbr"));
    let unknown = Create { ends: None, algorithm: &"x".repeat(100), ..create.clone() }.octets();
    assert_eq!(unknown[16..32], [0; 16]);
    assert_eq!(unknown[32..], [[b'x'; 63].as_slice(), &[0]].concat());
    let ends = ("[::1]:5001".parse().unwrap(), "[::1]:5002".parse().unwrap());
    assert_eq!(Create { ends: Some(ends), ..create }.octets()[16..32], [0; 16]);
    assert_eq!(ready(3), kept("ready"));
    assert_eq!(measured(9, 2, &[5, u64::MAX]), kept("measure"));
    assert_eq!(measured(9, 0, &[]), kept("close"));
    assert_eq!(measured(9, 2, &[1; MAX_REGISTERS]).len(), MAX_MEASURE_BYTES);
}

#[test]
fn what_portus_writes_is_read() {
    let datagram = [kept("install"), kept("change"), kept("update")].concat();
    let read: Vec<_> = messages(&datagram).map(Result::unwrap).collect();
    let Message::Install { program: 2, n_events, n_instrs, octets } = read[0] else { panic!("{read:?}") };
    assert_eq!(octets.len(), 16 * (n_events + n_instrs) as usize);
    assert_eq!(read[1], Message::ChangeProgram { flow: 9, program: 2, values: kept_values() });
    assert_eq!(read[2], Message::Update { flow: 9, values: kept_values() });
    assert_eq!(read.len(), 3);
}

#[test]
fn other_octets_are_refused_wherever_they_end() {
    for name in ["install", "change", "update"] {
        let octets = kept(name);
        for n in 1..octets.len() {
            assert!(messages(&octets[..n]).any(|message| message.is_err()), "{n} octets of {name}");
        }
    }
    for name in ["create", "measure", "close", "ready"] {
        assert!(messages(&kept(name)).next().unwrap().is_err(), "agents send no {name}");
    }
    let mut update = kept("update");
    update[13] = 64;
    assert!(messages(&update).next().unwrap().is_err(), "control register 64");
}

#[test]
fn later_values_go_over_those_before() {
    let mut values = Values::default();
    values.merge(&kept_values());
    values.merge(&Values { cwnd_bytes: 0, rate_bytes_per_s: 3, controls: 0b10, ..Values::default() });
    let mut control = [1; MAX_REGISTERS];
    values.write(&mut control);
    assert_eq!((control[0], control[1], control[2]), (7, 0, 1));
    assert_eq!((values.cwnd_bytes, values.rate_bytes_per_s), (14480, 3));
}
