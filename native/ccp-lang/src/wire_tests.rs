use super::*;

/// Octets of portus itself; `tests/messages.rs` holds the file against it.
const KEPT: &str = include_str!("../tests/messages.txt");

fn kept(name: &str) -> Vec<u8> {
    let hex =
        KEPT.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).expect("such a message");
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

#[test]
fn a_report_is_written_without_allocating_as_with_it() {
    for fields in [vec![], vec![5, u64::MAX], vec![1; MAX_REGISTERS]] {
        let message = Message::Measure { flow: 9, program: 2, fields: fields.clone() };
        assert_eq!(measure(&mut [0; MAX_MEASURE_BYTES], 9, 2, &fields), message.octets().unwrap());
    }
    assert_eq!(measure(&mut [0; MAX_MEASURE_BYTES], 9, 2, &[5, u64::MAX]), kept("measure"));
}

#[test]
fn other_octets_are_refused_wherever_they_end() {
    for name in ["create", "measure", "install", "update", "change", "ready"] {
        let octets = kept(name);
        for n in 1..octets.len() {
            assert!(messages(&octets[..n]).any(|message| message.is_err()), "{n} octets of {name}");
        }
    }
}
