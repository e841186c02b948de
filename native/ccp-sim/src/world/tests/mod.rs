//! Whole worlds: two hosts and the links between them.

mod agent;
mod apps;
mod errors;
mod media;
mod packets;
mod watching;

use ccp_emu::spec::{Buffer, Direction, Spec};

use super::{Options, Outcome, World};
use crate::plan::{App, Family, Plan};
use crate::test_world::two_hosts;

const US: u64 = 1000;
const MS: u64 = 1000 * US;
const S: u64 = 1000 * MS;
const START: u64 = S;

fn spec(there: Direction, back: Direction) -> Spec {
    let mut spec = two_hosts("{}", "{}");
    spec.links[0].direction = there;
    spec.links[1].direction = back;
    spec
}

fn delayed(delay_us: u64) -> Direction {
    Direction { delay_us, ..Direction::default() }
}

/// 10 Mbit/s, RTT 20 ms, and a buffer of 40 packets.
fn bottleneck() -> Direction {
    let buffer = Some(Buffer::Packets(40));
    Direction { rate_bytes_per_s: Some(1.25e6), buffer, ..delayed(10_000) }
}

fn plan(congestion: &str, app: App) -> Plan {
    Plan { name: "flow".to_owned(), ..Plan::new("a", "b", congestion, app) }
}

fn bulk(total_bytes: Option<u64>) -> App {
    App::Bulk { total_bytes, rate_bytes_per_s: None, parallel: 1 }
}

fn world_of(spec: Spec) -> World {
    World::new(spec, &Options { samples: true, arrivals: true, ..Options::default() }).unwrap()
}

fn world(there: Direction) -> World {
    let back = delayed(there.delay_us);
    world_of(spec(there, back))
}

fn outcome(world: &World) -> Outcome {
    world.outcomes().next().unwrap()
}
