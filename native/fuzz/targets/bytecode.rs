//! Bytecode of programs from third-party agents; the first two bytes are the number of events.

#![no_main]

use ccp_fuzz::{TEXTS, compiled, exercise, seeds};
use ccp_lang::bytecode::{Bytecode, decode, decode_with_rtt, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: seeds(|| {
        let encoded = TEXTS[..2].iter().map(|text| encode(&compiled(text).unwrap()).unwrap());
        encoded.map(|(n_events, _, raw)| [&(n_events as u16).to_le_bytes()[..], &raw].concat()).collect()
    }),
    |data: &[u8]| {
        let Some((n_events, raw)) = data.split_first_chunk() else { return };
        let n_events = u32::from(u16::from_le_bytes(*n_events));
        let n_instrs = (raw.len() as u32 / 16).wrapping_sub(n_events);
        let code = Bytecode { n_events, n_instrs, raw, name: "p", origin: "o" };
        for read in [decode(&code), decode_with_rtt(&code)] {
            match read {
                Ok(program) => exercise(&program),
                Err(error) => assert!(error.to_string().len() < 1 << 20),
            }
        }
    }
);
