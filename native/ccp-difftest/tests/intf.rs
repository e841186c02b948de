//! What ccp-lang repeats of intf.h, the header that the kernel side and the agent share, is the same there.

use ccp_lang::prims::{MAX_PRIMITIVES, PRIMITIVES};
use ccp_lang::{FoldError, Implicit, MAX_REGISTERS};

const INTF: &str = include_str!("../../ccp-bpf/src/bpf/intf.h");

/// Returns the names in an enumeration, without its end mark.
fn names(of: &str) -> Vec<String> {
    let start = INTF.find(&format!("enum {of} {{")).unwrap_or_else(|| panic!("no enum {of}"));
    let body = &INTF[start..start + INTF[start..].find("};").unwrap()];
    let words = body.lines().skip(1).filter_map(|line| line.trim().split([',', ' ', '=']).next());
    let mut names: Vec<String> = words.filter(|w| w.starts_with("CCP_")).map(str::to_string).collect();
    names.pop_if(|last| last.ends_with("_COUNT"));
    names
}

#[test]
fn primitives_have_the_same_numbers() {
    let ours: Vec<String> =
        PRIMITIVES.iter().map(|p| format!("CCP_{}", p.name.replace('.', "_").to_uppercase())).collect();
    assert_eq!(names("ccp_prim"), ours);
}

#[test]
fn implicit_registers_have_the_same_numbers() {
    let spelled = |i: Implicit| match i {
        Implicit::EventFlag => "CCP_IMPL_EVENT_FLAG",
        Implicit::ShouldContinue => "CCP_IMPL_SHOULD_CONTINUE",
        Implicit::ShouldReport => "CCP_IMPL_SHOULD_REPORT",
        Implicit::Micros => "CCP_IMPL_MICROS",
        Implicit::Cwnd => "CCP_IMPL_CWND",
        Implicit::Rate => "CCP_IMPL_RATE",
    };
    assert_eq!(names("ccp_impl"), Implicit::ALL.map(spelled));
}

#[test]
fn fold_errors_have_the_same_numbers() {
    let ours = [
        (FoldError::AddOverflow, "CCP_FOLD_ADD_OVERFLOW"),
        (FoldError::DivByZero, "CCP_FOLD_DIV_BY_ZERO"),
        (FoldError::MulOverflow, "CCP_FOLD_MUL_OVERFLOW"),
        (FoldError::SubUnderflow, "CCP_FOLD_SUB_UNDERFLOW"),
    ];
    let theirs = names("ccp_fold_error");
    assert_eq!(theirs.len(), ours.len() + 1);
    for (error, name) in ours {
        assert_eq!(theirs[error as usize], name);
    }
}

#[test]
fn a_flow_has_room_for_all_registers() {
    for name in ["CCP_MAX_REPORT", "CCP_MAX_CONTROL", "CCP_MAX_LOCAL"] {
        assert!(INTF.contains(&format!("{name} = {MAX_REGISTERS},")), "{name}");
    }
    assert!(PRIMITIVES.len() <= MAX_PRIMITIVES);
    assert!(INTF.contains(&format!("CCP_MAX_PRIM = {MAX_PRIMITIVES},")));
}
