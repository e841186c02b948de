//! Rules, as they come and as the programs read them.

use std::ffi::c_char;
use std::mem;

use ccp_trace::{Conditions, socket_conditions};
use serde::Deserialize;

use crate::shared::{SWITCH_HASH, SWITCH_HASH_BITS};
use crate::shared::{SWITCH_MAX_RULES, SWITCH_NAME_BYTES, SWITCH_NO_RATE, SWITCH_NO_RULE};
use crate::shared::{switch_rule, switch_table};
use crate::{Error, Result, shared};

/// Which sockets, and their settings.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Rule {
    #[serde(flatten)]
    pub conditions: Conditions,
    pub congestion: String,
    /// Only sockets that negotiated ECN get it.
    pub needs_ecn: bool,
    /// New connections request ECN, and accept it.
    pub asks_ecn: bool,
    /// Maximum pacing rate [bytes/s].
    pub rate_bytes_per_s: Option<u32>,
    /// Produces a row of each matching socket, switched or not.
    pub emit: bool,
}

/// `struct switch_table` of these rules. Errors: `switch.too_many`, or `switch.bad_rule`.
pub(crate) fn table(rules: &[Rule], version: u32, ending: u32) -> Result<Box<switch_table>> {
    if rules.len() > SWITCH_MAX_RULES as usize {
        return Err(Error::new("switch.too_many", format!("{} rules are too many", rules.len()))
            .why(format!(
                "the kernel's table has {SWITCH_MAX_RULES} entries; each rule counts once for every path"
            ))
            .fix("use fewer rules, or match the receiver"));
    }
    let mut table = Box::<switch_table>::default();
    table.count = rules.len() as u32;
    table.version = version;
    table.ending = ending;
    for (entry, rule) in table.rules.iter_mut().zip(rules) {
        *entry = rule.entry()?;
    }
    chain(&mut table, rules.len());
    Ok(table)
}

/// Puts the rules into their chains, from the last to the first, so that each chain keeps their order.
fn chain(table: &mut switch_table, count: usize) {
    table.first.fill(SWITCH_NO_RULE as u16);
    table.first_of_all.fill(SWITCH_NO_RULE as u16);
    for (index, rule) in table.rules[..count].iter().enumerate().rev() {
        let wanted = &rule.conditions;
        let names_one = wanted.dst_mask == [u64::MAX; 2];
        let [any, ..] = &mut table.first_of_all;
        let first = if names_one { &mut table.first[chain_of(wanted.dst)] } else { any };
        table.next[index] = *first;
        *first = index as u16;
    }
}

/// As in the programs.
fn chain_of([high, low]: [u64; 2]) -> usize {
    ((high ^ low).wrapping_mul(SWITCH_HASH as u64) >> (64 - SWITCH_HASH_BITS)) as usize
}

impl Rule {
    fn entry(&self) -> Result<switch_rule> {
        let name = self.congestion.as_bytes();
        if name.is_empty() || name.len() >= SWITCH_NAME_BYTES as usize {
            return Err(self.bad("a congestion-control name has 1 to 15 bytes"));
        }
        let rate_bytes_per_s = match self.rate_bytes_per_s {
            None => SWITCH_NO_RATE,
            Some(rate) if (1..SWITCH_NO_RATE).contains(&rate) => rate,
            Some(_) => {
                return Err(
                    self.bad("a rate has 32 bits in the kernel, and the largest value means no limit")
                );
            }
        };
        let wanted = self.conditions.in_kernel().ok_or_else(|| self.bad("a prefix has 0 to 128 bits"))?;
        let mut entry = switch_rule {
            // SAFETY: both come from the same header.
            conditions: unsafe { mem::transmute::<socket_conditions, shared::socket_conditions>(wanted) },
            rate_bytes_per_s,
            needs_ecn: u8::from(self.needs_ecn),
            asks_ecn: u8::from(self.asks_ecn),
            emit: u8::from(self.emit),
            ..Default::default()
        };
        for (to, byte) in entry.congestion.iter_mut().zip(name) {
            *to = c_char::from_ne_bytes([*byte]);
        }
        Ok(entry)
    }

    fn bad(&self, why: &str) -> Error {
        Error::new("switch.bad_rule", "cannot write a rule to the kernel's table")
            .at(self.congestion.clone())
            .why(why)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    fn to(address: &str, bits: u8) -> Conditions {
        Conditions {
            src: (Ipv6Addr::UNSPECIFIED, 0),
            dst: (address.parse().expect("an address"), bits),
            sport: (0, u16::MAX),
            dport: (5001, 5010),
            cgroup: None,
        }
    }

    fn rule() -> Rule {
        Rule {
            conditions: to("::ffff:10.1.2.0", 120),
            congestion: "dctcp".into(),
            needs_ecn: true,
            asks_ecn: false,
            rate_bytes_per_s: None,
            emit: false,
        }
    }

    #[test]
    fn a_rule_lies_as_the_programs_read_it() {
        let table = table(&[rule()], 7, 0).expect("it is good");
        let entry = table.rules[0];
        assert_eq!((table.count, table.version, table.ending), (1, 7, 0));
        assert_eq!(entry.conditions.dst[1].to_ne_bytes(), [0, 0, 255, 255, 10, 1, 2, 0]);
        assert_eq!((entry.conditions.dport_low, entry.needs_ecn, entry.asks_ecn), (5001, 1, 0));
        assert_eq!(entry.rate_bytes_per_s, SWITCH_NO_RATE);
        assert_eq!(entry.congestion[..6].iter().map(|c| c.to_ne_bytes()[0]).collect::<Vec<_>>(), b"dctcp\0");
    }

    #[test]
    fn rules_of_one_address_are_found_by_it_and_the_others_in_their_order() {
        let one = |last: u8| Rule { conditions: to(&format!("::ffff:10.1.2.{last}"), 128), ..rule() };
        let rules = [one(1), rule(), one(2), one(1), rule(), one(1)];
        let table = table(&rules, 1, 0).expect("they are good");
        let is_one = |&index: &u16| u32::from(index) != SWITCH_NO_RULE;
        let all_from = |first: u16| -> Vec<u16> {
            let next = |&index: &u16| Some(table.next[usize::from(index)]).filter(is_one);
            std::iter::successors(Some(first).filter(is_one), next).collect()
        };
        let of_one = |index: usize| chain_of(table.rules[index].conditions.dst);
        let of = |index: usize| all_from(table.first[of_one(index)]);
        assert_ne!(of_one(0), of_one(2));
        assert_eq!((of(0), of(2), all_from(table.first_of_all[0])), (vec![0, 3, 5], vec![2], vec![1, 4]));
        assert_eq!(table.first.iter().filter(|first| is_one(first)).count(), 2);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let slug = |rules: &[Rule]| table(rules, 1, 0).map_or_else(|e| e.slug, |_| "");
        assert_eq!(slug(&vec![rule(); 4096]), "");
        assert_eq!(slug(&vec![rule(); 4097]), "switch.too_many");
        assert_eq!(slug(&[Rule { congestion: "x".repeat(16), ..rule() }]), "switch.bad_rule");
        assert_eq!(slug(&[Rule { conditions: to("::", 129), ..rule() }]), "switch.bad_rule");
        assert_eq!(slug(&[Rule { rate_bytes_per_s: Some(0), ..rule() }]), "switch.bad_rule");
        assert_eq!(slug(&[Rule { rate_bytes_per_s: Some(u32::MAX), ..rule() }]), "switch.bad_rule");
    }
}
