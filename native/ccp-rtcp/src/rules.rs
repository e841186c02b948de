//! Which sockets are bounded.

use std::mem;

use ccp_load as load;
use ccp_trace::{Conditions, socket_conditions};
use libbpf_rs::{MapCore, MapFlags, Object};
use serde::Deserialize;

use crate::attach::refused;
use crate::{Error, Result};

/// From `src/bpf/rules.h`.
#[allow(non_camel_case_types, dead_code)]
#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks)]
mod shared {
    include!(concat!(env!("OUT_DIR"), "/rules.rs"));
}

use shared::{RTCP_MAX_RULES, rtcp_rule};

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Rule {
    #[serde(flatten)]
    pub conditions: Conditions,
    /// Otherwise they get the kernel's own congestion control.
    pub bounded: bool,
}

/// Whether sockets without a rule are bounded: if all rules are exceptions.
pub(crate) fn others_too(rules: &[Rule]) -> bool {
    rules.iter().all(|rule| !rule.bounded)
}

/// Writes the table of the programs; the first matching rule decides.
pub(crate) fn write(object: &Object, rules: &[Rule]) -> Result<()> {
    let table = load::map(object, "rules")?;
    for (index, entry) in (0u32..).zip(entries(rules)?) {
        // SAFETY: plain integers; the header has no gaps.
        let bytes =
            unsafe { std::slice::from_raw_parts((&raw const entry).cast::<u8>(), size_of::<rtcp_rule>()) };
        table.update(&index.to_ne_bytes(), bytes, MapFlags::ANY).map_err(|e| refused(&e))?;
    }
    Ok(())
}

fn entries(rules: &[Rule]) -> Result<Vec<rtcp_rule>> {
    if rules.len() > RTCP_MAX_RULES as usize {
        return Err(Error::new("rtcp.too_many_rules", format!("{} rules are too many", rules.len()))
            .why(format!("each new socket is compared with all rules; the maximum is {RTCP_MAX_RULES}"))
            .fix("use shorter prefixes, or a cgroup"));
    }
    let entry = |rule: &Rule| {
        let wanted = rule.conditions.in_kernel().ok_or_else(|| load::bug("prefix of more than 128 bits"))?;
        Ok(rtcp_rule {
            // SAFETY: both come from the same header.
            conditions: unsafe { mem::transmute::<socket_conditions, shared::socket_conditions>(wanted) },
            bounded: u64::from(rule.bounded),
        })
    };
    rules.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    fn rule(bounded: bool) -> Rule {
        let any = (Ipv6Addr::UNSPECIFIED, 0);
        Rule {
            conditions: Conditions { src: any, dst: any, sport: (0, 9), dport: (0, 9), cgroup: Some(7) },
            bounded,
        }
    }

    #[test]
    fn exceptions_alone_leave_the_others_bounded() {
        assert!(others_too(&[]) && others_too(&[rule(false), rule(false)]));
        assert!(!others_too(&[rule(false), rule(true)]));
    }

    #[test]
    fn a_rule_lies_as_the_programs_read_it() {
        let made = entries(&[rule(true), rule(false)]).expect("they are good");
        assert_eq!((made[0].bounded, made[1].bounded, made[1].conditions.cgroup), (1, 0, 7));
    }

    #[test]
    fn more_than_there_is_room_for_are_refused() {
        assert!(entries(&vec![rule(true); 256]).is_ok());
        assert_eq!(entries(&vec![rule(true); 257]).expect_err("too many").slug, "rtcp.too_many_rules");
    }
}
