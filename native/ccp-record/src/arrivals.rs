//! Counts of arrivals on a socket: their bins, and their growth.

use crate::flow::{ARRIVALS_BINS, ARRIVALS_BITS, ARRIVALS_STEP_BITS, ARRIVALS_STEPS, tcp_arrivals};

/// Lower bound of each bin of `tcp_arrivals.bins` [us]; the last bin has no upper bound.
pub fn bin_bounds_us() -> Vec<u64> {
    let bounds = (0..ARRIVALS_BINS).map(|bin| {
        let (doubling, step) = (bin >> ARRIVALS_STEP_BITS, bin % ARRIVALS_STEPS);
        match doubling {
            0 => u64::from(bin),
            _ => u64::from(ARRIVALS_STEPS + step) << (doubling - 1),
        }
    });
    bounds.collect()
}

/// The bin of a delay, as computed by the program in the kernel.
pub fn bin_of_us(delay_us: u64) -> usize {
    if delay_us < u64::from(ARRIVALS_STEPS) {
        return delay_us as usize;
    }
    let delay_us = delay_us.min((1 << ARRIVALS_BITS) - 1);
    let shift = delay_us.ilog2() - ARRIVALS_STEP_BITS;
    let step = (delay_us >> shift) as u32 - ARRIVALS_STEPS;
    (((shift + 1) << ARRIVALS_STEP_BITS) + step) as usize
}

/// Growth between two readings of a flow, in `segs`, `ce_segs`, `resent_segs` and `bins`; the rest is the
/// present state.
pub fn growth(now: &tcp_arrivals, before: &tcp_arrivals) -> tcp_arrivals {
    let mut grown = *now;
    grown.segs = now.segs.wrapping_sub(before.segs);
    grown.ce_segs = now.ce_segs.wrapping_sub(before.ce_segs);
    grown.resent_segs = now.resent_segs.wrapping_sub(before.resent_segs);
    for (bin, before) in grown.bins.iter_mut().zip(before.bins) {
        *bin = bin.wrapping_sub(before);
    }
    grown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bytes_of, copy_out};

    #[test]
    fn bins_begin_where_the_one_before_ends_and_are_never_wider_than_an_eighth() {
        let bounds = bin_bounds_us();
        assert_eq!(&bounds[..9], [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(&bounds[14..20], [14, 15, 16, 18, 20, 22]);
        assert_eq!(bounds.last(), Some(&(15 << 20)));
        for pair in bounds.windows(2) {
            assert!(pair[0] < pair[1] && (pair[1] - pair[0]) * 8 <= pair[0].max(8));
        }
    }

    #[test]
    fn each_delay_is_in_the_bin_whose_bounds_it_is_between() {
        let bounds = bin_bounds_us();
        for delay_us in (0..5000).chain([15 << 20, 1 << 24, u64::MAX]) {
            let bin = bin_of_us(delay_us);
            assert!(bounds[bin] <= delay_us, "{delay_us}");
            assert!(bounds.get(bin + 1).is_none_or(|next| delay_us < *next), "{delay_us}");
        }
    }

    #[test]
    fn only_what_grew_is_reported() {
        let mut before = tcp_arrivals { cookie: 7, segs: 100, ce_segs: 3, ticks: 50, ..Default::default() };
        before.resent_segs = 9;
        before.bins[5] = u32::MAX;
        let mut now = tcp_arrivals { segs: 104, ce_segs: 4, ticks: 60, resent_segs: 11, ..before };
        now.bins[5] = 1;
        let grown: tcp_arrivals = copy_out(bytes_of(&growth(&now, &before))).expect("it is whole");
        assert_eq!((grown.cookie, grown.segs, grown.ce_segs, grown.resent_segs), (7, 4, 1, 2));
        assert_eq!(grown.ticks, 60);
        assert_eq!((grown.bins[5], grown.bins.iter().sum::<u32>()), (2, 2)); // it wrapped
        assert!(copy_out::<tcp_arrivals>(&bytes_of(&now)[1..]).is_none());
    }
}
