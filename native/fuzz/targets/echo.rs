//! The bytes of a path echo, in the option of an ACK: what is read is written again in the same way.

#![no_main]

use ccp_fuzz::{echo, seeds};
use ccp_ioam::{IoamOption, Kind, build, decode_header};
use libfuzzer_sys::fuzz_target;

/// Bytes of an option with an echo before its data, from the header's start: next header, length; option type, length;
/// number of the experiment, kind.
const HEAD_BYTES: usize = 7;

fuzz_target!(
    init: seeds(|| vec![build(&[IoamOption::PathEcho(echo())], 6).unwrap().destination[HEAD_BYTES..].to_vec()]),
    |data: &[u8]| {
        let mut header = build(&[IoamOption::PathEcho(echo())], 6).unwrap().destination;
        for (place, byte) in header[HEAD_BYTES..].iter_mut().zip(data) {
            *place = *byte;
        }
        let Ok(found) = decode_header(Kind::Destination, &header) else { return };
        for placed in found.options {
            if let IoamOption::PathEcho(read) = placed.option {
                let written = build(&[IoamOption::PathEcho(read)], 6).unwrap().destination;
                let again = decode_header(Kind::Destination, &written).unwrap();
                assert_eq!(again.options[0].option, IoamOption::PathEcho(read));
            }
        }
    }
);
