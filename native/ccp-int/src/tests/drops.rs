//! Each drop by a queue is counted once, whichever of the programs that see drops it interrupts.

use crate::rules::Noted;

/// Programs that see drops, in the order of `ccp-node`.
const PROGRAMS: usize = 3;
/// Interrupts none of them.
const NONE: usize = PROGRAMS;
/// Addresses of packets: the kernel reuses them.
const PACKETS: [u64; 2] = [0x1000, 0x2000];
const MAX_DROPS: u32 = 5;

/// How often a packet is counted that is dropped while one of the programs runs, for which that one is skipped.
fn counted(noted: &mut Noted, packet: u64, skipped: usize) -> u32 {
    let mut counted = 0;
    if skipped != 0 {
        noted.note(packet);
        counted += 1;
    }
    if skipped != 1 && !noted.take_note(packet) {
        counted += 1;
    }
    if skipped != 2 {
        noted.forget();
    }
    counted
}

#[test]
fn drops_that_interrupt_a_program_are_counted_once() {
    let drops: Vec<_> = (0..=NONE).flat_map(|skipped| PACKETS.map(|packet| (packet, skipped))).collect();
    for number in 0..drops.len().pow(MAX_DROPS) {
        let sequence = (0..MAX_DROPS).map(|at| drops[number / drops.len().pow(at) % drops.len()]);
        let mut noted = Noted::default();
        for (packet, skipped) in sequence.clone() {
            let sequence: Vec<_> = sequence.clone().collect();
            assert_eq!(counted(&mut noted, packet, skipped), 1, "{sequence:x?}");
        }
    }
}
