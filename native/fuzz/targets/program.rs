//! The text of programs.

#![no_main]

use ccp_fuzz::{TEXTS, compiled, exercise, seeds, send};
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: seeds(|| TEXTS.iter().map(|text| text.as_bytes().to_vec()).collect()),
    |data: &[u8]| {
        let Ok(text) = std::str::from_utf8(data) else { return };
        if let Some(program) = compiled(text) {
            exercise(&program);
            send(&program);
        }
    }
);
