//! The primitives a datapath offers to a fold program, and the registers that every program has.

use ccp_record::intf;

/// All primitives, by `enum ccp_prim` in intf.h, whose comments describe them.
pub use ccp_record::PRIMITIVES;

/// How many primitives CCP itself defines; the rest are ccplane's own and unknown to portus.
pub const N_PORTUS_PRIMS: usize = 15;

/// Index of `Ack.now`, the datapath's clock [us].
pub const ACK_NOW: u8 = intf::CCP_ACK_NOW as u8;

/// Index of the first of `Int.*`, which are the last ones: a flow keeps them from ACK to ACK.
pub const INT_AGE_US: u8 = intf::CCP_INT_AGE_US as u8;

/// Room for the primitives of an ACK, by their index.
pub const MAX_PRIMITIVES: usize = intf::CCP_MAX_PRIM as usize;

/// The primitives of an ACK, by their index.
pub type Prims = [u64; MAX_PRIMITIVES];

/// What they are where nobody measures anything.
pub const NOTHING: Prims = {
    let mut prims = [0; MAX_PRIMITIVES];
    prims[RTT_SAMPLE_US as usize] = NO_RTT_SAMPLE as u64;
    prims[INT_AGE_US as usize] = u64::MAX;
    prims
};

/// Index of `Flow.rtt_sample_us`.
pub(crate) const RTT_SAMPLE_US: u8 = intf::CCP_FLOW_RTT_SAMPLE_US as u8;

/// Index of `Flow.srtt_us`.
pub(crate) const SRTT_US: u8 = intf::CCP_FLOW_SRTT_US as u8;

/// What `Flow.rtt_sample_us` is at an ACK that gives no sample.
pub(crate) const NO_RTT_SAMPLE: u32 = u32::MAX;

/// Returns the index of the primitive `name`.
pub fn find(name: &str) -> Option<u8> {
    PRIMITIVES.iter().position(|p| p.name == name).map(|i| i as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portus_gives_the_first_fifteen_the_same_numbers_and_types() {
        let scope = portus::lang::Scope::new();
        for (i, prim) in PRIMITIVES[..N_PORTUS_PRIMS].iter().enumerate() {
            let kind =
                if prim.is_bool { portus::lang::Type::Bool(None) } else { portus::lang::Type::Num(None) };
            assert_eq!(
                scope.get(prim.name),
                Some(&portus::lang::Reg::Primitive(i as u8, kind)),
                "{}",
                prim.name
            );
        }
    }

    #[test]
    fn portus_does_not_know_the_others() {
        let scope = portus::lang::Scope::new();
        assert!(PRIMITIVES[N_PORTUS_PRIMS..].iter().all(|p| !scope.has(p.name)));
    }

    #[test]
    fn those_of_in_band_telemetry_are_the_last() {
        assert_eq!(find("Int.age_us"), Some(INT_AGE_US));
        for (i, prim) in (0..).zip(&PRIMITIVES) {
            assert_eq!(prim.name.starts_with("Int."), i >= INT_AGE_US, "{}", prim.name);
        }
    }
}
