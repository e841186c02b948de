//! Datagrams of portus' wire protocol, from an agent or a datapath.

#![no_main]

use ccp_fuzz::{TEXTS, compiled, exercise, seeds};
use ccp_lang::bytecode::{Bytecode, decode, decode_with_rtt, encode};
use ccp_quic::wire::{Message, Values, messages};
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: seeds(|| {
        let mut all = vec![
            Message::Create {
                flow: 9,
                init_cwnd_bytes: 14480,
                mss_bytes: 1448,
                src_ip: 1,
                src_port: 2,
                dst_ip: 3,
                dst_port: 4,
                algorithm: "bbr".to_string(),
            },
            Message::Measure { flow: 9, program: 2, fields: vec![5, u64::MAX] },
            Message::Measure { flow: 9, program: 0, fields: vec![] },
            Message::Update { flow: 9, fields: vec![(0, 0, 7), (8, 1, 8), (2, 4, 14480)] },
            Message::ChangeProgram { flow: 9, program: 2, fields: vec![(0, 63, 7), (2, 5, 9)] },
            Message::Ready { datapath: 3 },
        ];
        for text in &TEXTS[..2] {
            let (n_events, n_instrs, code) = encode(&compiled(text).unwrap()).unwrap();
            all.push(Message::Install { program: 1, n_events, n_instrs, code });
        }
        let mut made: Vec<_> = all.iter().map(Message::to_bytes).collect();
        made.push(made.concat());
        made
    }),
    |data: &[u8]| {
        for message in messages(data) {
            let Ok(message) = message else { break };
            assert_eq!(messages(&message.to_bytes()).collect::<Vec<_>>(), [Ok(message.clone())]);
            match message {
                Message::Install { n_events, n_instrs, code, .. } => {
                    let code = Bytecode { n_events, n_instrs, raw: &code, name: "p", origin: "o" };
                    for program in [decode(&code), decode_with_rtt(&code)].into_iter().flatten() {
                        exercise(&program);
                    }
                }
                Message::Update { fields, .. } | Message::ChangeProgram { fields, .. } => {
                    if let Ok(values) = Values::of(&fields) {
                        let mut before = Values::default();
                        before.merge(&values);
                        assert_eq!(before, values);
                        values.named();
                        (0..=65).for_each(|n| _ = values.exceed(n));
                    }
                }
                _ => {}
            }
        }
    }
);
