//! Tests over all modules.

mod causes;
mod fuzz;
mod json;
mod losses;
mod means;
mod meter;
mod network;
mod sink;
mod source;
mod super_packets;

#[test]
fn all_work_can_be_done() {
    for what in crate::WORK {
        assert!(crate::work(what, 3000).unwrap(), "{what}");
    }
    assert!(!crate::work("sleep", 1).unwrap());
}
