//! The network of tests: two hosts, `a` and `b`, and the links between them.

use ccp_emu::spec::Spec;

use crate::{App, Options, Plan, World};

/// Its description, with the JSON of both directions.
pub fn two_hosts(there: &str, back: &str) -> Spec {
    let json = format!(
        r#"{{"seed": 1, "mtu_bytes": 1500, "sample_interval_us": 100000, "routes": [[-1, 0], [1, -1]],
        "nodes": [{{"name": "a", "addresses": ["10.0.0.1", "fd00::1"]}},
            {{"name": "b", "addresses": ["10.0.0.2", "fd00::2"]}}],
        "links": [{{"name": "l>", "from": 0, "to": 1, "direction": {there}}},
            {{"name": "l<", "from": 1, "to": 0, "direction": {back}}}]}}"#
    );
    Spec::from_json(json.as_bytes()).unwrap()
}

/// A world with a JSON description of the forward path, and a delay back.
pub fn world(there: &str, back_delay_us: u64) -> World {
    let back = format!(r#"{{"delay_us": {back_delay_us}}}"#);
    World::new(two_hosts(there, &back), &Options::default()).unwrap()
}

/// Adds a flow that always sends.
pub fn add_bulk(world: &mut World, congestion: &str) {
    let app = App::Bulk { total_bytes: None, rate_bytes_per_s: None, parallel: 1 };
    world.add(Plan::new("a", "b", congestion, app)).unwrap();
}
