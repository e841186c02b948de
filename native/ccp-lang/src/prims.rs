//! The primitives of a datapath, and the registers of every program.

use ccp_record::intf;

/// All primitives; `enum ccp_prim` in intf.h documents them.
pub use ccp_record::PRIMITIVES;

/// Number of CCP's primitives; the rest are ccplane's own and unknown to portus.
pub const N_PORTUS_PRIMS: usize = 15;

pub const ACK_NOW: u8 = intf::CCP_ACK_NOW as u8;

/// Index of the first of `Int.*`, which come last: a flow keeps them between ACKs.
pub const INT_AGE_US: u8 = intf::CCP_INT_AGE_US as u8;

pub const MAX_PRIMITIVES: usize = intf::CCP_MAX_PRIM as usize;

/// The primitives of an ACK by index.
pub type Prims = [u64; MAX_PRIMITIVES];

/// Their values if nothing is measured.
pub const NOTHING: Prims = {
    let mut prims = [0; MAX_PRIMITIVES];
    prims[RTT_SAMPLE_US as usize] = NO_RTT_SAMPLE as u64;
    prims[INT_AGE_US as usize] = u64::MAX;
    prims
};

pub(crate) const RTT_SAMPLE_US: u8 = intf::CCP_FLOW_RTT_SAMPLE_US as u8;

pub(crate) const SRTT_US: u8 = intf::CCP_FLOW_SRTT_US as u8;

/// Value of `Flow.rtt_sample_us` for an ACK without a sample.
pub(crate) const NO_RTT_SAMPLE: u32 = u32::MAX;

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
