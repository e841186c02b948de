use super::*;

/// Bytes from portus itself; `native/ccp-lang/tests/messages.rs` checks the file.
const KEPT: &str = include_str!("../../ccp-lang/tests/messages.txt");

fn kept(name: &str) -> Vec<u8> {
    let hex =
        KEPT.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).expect("such a message");
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

fn control(control: &[u64]) -> Values {
    let fields: Vec<Field> = (0..).zip(control).map(|(index, value)| (0, index, *value)).collect();
    Values::of(&fields).unwrap()
}

/// Values that `kept("update")` and `kept("change")` set.
fn kept_values() -> Values {
    Values { cwnd_bytes: 14480, rate_bytes_per_s: u64::from(u32::MAX), ..control(&[7, 8]) }
}

#[test]
fn messages_are_portus_bytes() {
    let end = |address: &str| end(address.parse().unwrap());
    let ((src_ip, src_port), (dst_ip, dst_port)) = (end("10.0.0.1:5001"), end("10.0.0.2:35091"));
    assert_eq!(end("[::1]:5001"), (0, 0));
    let create = |name: &str| Message::Create {
        flow: 9,
        init_cwnd_bytes: 14480,
        mss_bytes: 1448,
        src_ip,
        src_port,
        dst_ip,
        dst_port,
        algorithm: name.to_string(),
    };
    let fields = vec![(0, 0, 7), (8, 1, 8), (IMPLICIT, CWND, 14480), (IMPLICIT, RATE, u64::from(u32::MAX))];
    assert_eq!(Values::of(&fields), Ok(kept_values()));
    for (name, message) in [
        ("create", create("")),
        ("create-bbr", create("bbr")),
        ("ready", Message::Ready { datapath: 3 }),
        ("measure", Message::Measure { flow: 9, program: 2, fields: vec![5, u64::MAX] }),
        ("close", Message::Measure { flow: 9, program: 0, fields: vec![] }),
        ("update", Message::Update { flow: 9, fields: fields.clone() }),
        ("change", Message::ChangeProgram { flow: 9, program: 2, fields }),
    ] {
        assert_eq!(message.to_bytes(), kept(name), "{name}");
        assert_eq!(messages(&kept(name)).collect::<Vec<_>>(), [Ok(message)], "{name}");
        for n in 1..kept(name).len() {
            assert!(messages(&kept(name)[..n]).any(|message| message.is_err()), "{n} bytes of {name}");
        }
    }
    let Some(Ok(install)) = messages(&kept("install")).next() else { panic!("no message") };
    assert_eq!(install.to_bytes(), kept("install"));
    assert_eq!(create(&"x".repeat(100)).to_bytes()[32..], [[b'x'; 63].as_slice(), &[0]].concat());
    let mut buffer = [0; MAX_MEASURE_BYTES];
    assert_eq!(measure(&mut buffer, 9, 2, &[5, u64::MAX]), kept("measure"));
    assert_eq!(measure(&mut buffer, 9, 2, &[1; MAX_REGISTERS]).len(), MAX_MEASURE_BYTES);
}

#[test]
fn later_values_go_over_those_before() {
    let mut values = Values::default();
    values.merge(&kept_values());
    values.merge(&Values { rate_bytes_per_s: 3, ..Values::of(&[(8, 1, 0)]).unwrap() });
    let mut control = [1; MAX_REGISTERS];
    values.write(&mut control);
    assert_eq!((control[0], control[1], control[2]), (7, 0, 1));
    assert_eq!((values.cwnd_bytes, values.rate_bytes_per_s), (14480, 3));
    assert_eq!((values.exceed(1), values.exceed(2), values.exceed(64)), (true, false, false));
    let named = [("c0", 7), ("c1", 0), ("cwnd_bytes", 14480), ("rate_bytes_per_s", 3)];
    assert_eq!(values.named(), named.map(|(name, value)| (name.to_string(), value)));
    for refused in [(0, 64, 1), (5, 0, 1), (IMPLICIT, 3, 1)] {
        assert!(Values::of(&[refused]).is_err(), "{refused:?}");
    }
}
