//! A million broken packets: no access outside the packet, no forbidden changes.

use crate::option::IoamOption;
use crate::samples::{ALL_FIELDS, node, options, tcp, trace};
use crate::{Node, TraceType, decode, fill, insert, options as read, remove};

const INPUTS: u32 = 1_000_000;

/// Reproducible pseudorandom numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % limit
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let full = trace(ALL_FIELDS | TraceType::SNAPSHOT, 30, vec![node()]);
    let small = trace(TraceType::NODE | TraceType::SNAPSHOT, 30, vec![node(), Node::default()]);
    vec![
        insert(&tcp(), &options()).unwrap(),
        insert(&tcp(), &[IoamOption::Trace(full)]).unwrap(),
        insert(&tcp(), &[IoamOption::Trace(small.clone()), IoamOption::Trace(small)]).unwrap(),
        insert(&tcp(), &options()[1..]).unwrap(),
    ]
}

fn mutate(packet: &mut Vec<u8>, random: &mut Random) {
    const INTERESTING: [u8; 12] = [0, 1, 2, 3, 4, 0x11, 0x1e, 0x31, 0x3c, 0x7f, 0x80, 0xff];
    for _ in 0..=random.below(4) {
        // Mostly within the options, where the lengths are.
        let range = packet.len().min(if random.below(4) == 0 { usize::MAX } else { 80 });
        let at = random.below(range.max(1));
        match (random.below(8), packet.get_mut(at)) {
            (0, _) => packet.truncate(at),
            (1, Some(_)) => drop(packet.remove(at)),
            (2, _) => packet.insert(at.min(packet.len()), INTERESTING[random.below(INTERESTING.len())]),
            (3 | 4, Some(byte)) => *byte = INTERESTING[random.below(INTERESTING.len())],
            (5, Some(byte)) => *byte ^= 1 << random.below(8),
            (6, Some(byte)) => *byte = byte.wrapping_add(1),
            (_, Some(byte)) => *byte = random.below(256) as u8,
            (_, None) => {}
        }
    }
}

#[test]
fn a_million_mutated_packets_do_no_harm() {
    let seeds = seeds();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut fine, mut refused, mut filled, mut removed) = (0u32, 0u32, 0u32, 0u32);
    let node = node();
    for n in 0..INPUTS {
        let mut packet = seeds[n as usize % seeds.len()].clone();
        mutate(&mut packet, &mut random);
        let Ok(found) = read(&packet) else { continue };
        let mut all_read = true;
        for option in found {
            match option {
                Ok(option) => {
                    assert!(option.at + 2 + option.data_bytes <= packet.len());
                    all_read &= option.option.to_option().is_ok();
                }
                Err(e) => {
                    assert!(!e.place.is_empty());
                    all_read = false;
                }
            }
        }
        *if all_read { &mut fine } else { &mut refused } += 1;
        if n % 4 != 0 {
            continue;
        }
        let mut copy = packet.clone();
        match fill(&mut copy, 0, &node) {
            Ok(outcome) => {
                filled += u32::from(outcome.filled > 0);
                assert_eq!(copy.len(), packet.len());
                // Still readable after the change.
                let errors = |packet: &[u8]| decode(packet).unwrap().errors.len();
                assert_eq!(errors(&copy), errors(&packet));
            }
            Err(_) => assert_eq!(copy, packet),
        }
        if let Ok(without) = remove(&packet) {
            removed += 1;
            let decoded = decode(&without).unwrap();
            assert!(decoded.options.is_empty() && decoded.errors.is_empty());
        }
    }
    // Both branches were covered.
    for count in [fine, refused, filled, removed] {
        assert!(count > INPUTS / 50, "{fine} {refused} {filled} {removed}");
    }
}
