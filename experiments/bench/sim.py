"""`ccp bench sim`: speed of the simulator on one core, in CPU time of this process.

Packet events: a packet reaches a link, leaves its transmitter, or reaches its end, including the work of TCP
and the application. One flow over one link; with `.dumbbell`, a hundred flows over three links each.

Environment steps: intervals of the learning environment in 64 simultaneous worlds, with random actions and
new episodes. Paths are drawn as in training, so a step simulates up to 200 ms of 192 Mbit/s; with
`.48mbit_10ms` it simulates 10 ms of 48 Mbit/s.

`simulated_ratio` is simulated time per CPU time of a whole run, from the scenario to its tables: `kernel`
with the simulator's CUBIC, `agent` with ccplane's, whose reports go through Python.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import msgspec
import numpy as np

from ccplane.datapath import sim
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, measure_rounds
from experiments.disturbance import disturbances_alone
from experiments.learning.domain import Domain, single_path
from experiments.learning.worlds import Worlds
from experiments.netlab.network_spec import emulator_spec
from experiments.netlab.routes import graph_of
from experiments.netlab.spec import Buffer, Direction
from experiments.run import run as run_scenario
from experiments.runs import sim_traffic
from experiments.runs.recording import FlowRecord
from experiments.runs.shapes import Dumbbell, PointToPoint
from experiments.scenario import FlowSpec, Scenario

EVENTS_GOAL: Final = ">= 1500000"
STEPS_GOAL: Final = ">= 20000"

LINK: Final = Direction(12.5e6, delay_us=10_000, buffer=Buffer(bdp=1))
FLOWS: Final = 100
EVENTS_S: Final = 20.0
"""How long flows send, in simulated time [s]."""

WORLDS: Final = 64
STEPS: Final = 200
"""Steps of each world per round: about an episode."""

ACTIONS_STD: Final = 0.2
"""Standard deviation of actions: small, like that of a trained policy."""
SHORT_STEPS: Final = single_path(rate_bytes_per_s=6e6, rtt_us=30e3, mtp_us=10e3)

RUN_S: Final = 10.0


def run(plan: Plan) -> BenchResult:
    """Measure.

    Returns:
        `packet_events_per_s`, also with the suffix `.dumbbell`; `env_steps_per_s`, also with the suffix
        `.48mbit_10ms`; `simulated_ratio.kernel` and `simulated_ratio.agent`.

    Raises:
        BenchError: As `measure_rounds`.
    """
    result = BenchResult("sim", plan)
    measures: dict[str, tuple[str, str | None, Callable[[int], float]]] = {
        "packet_events_per_s": ("events/s", EVENTS_GOAL, lambda seed: _events_per_s(_link(seed))),
        "packet_events_per_s.dumbbell": ("events/s", None, lambda seed: _events_per_s(_dumbbell(seed))),
        "env_steps_per_s": ("steps/s", STEPS_GOAL, lambda seed: _env_steps_per_s(Domain(), seed)),
        "env_steps_per_s.48mbit_10ms": ("steps/s", None, lambda seed: _env_steps_per_s(SHORT_STEPS, seed)),
        "simulated_ratio.kernel": ("ratio", None, lambda seed: _simulated_ratio("kernel/cubic", seed)),
        "simulated_ratio.agent": ("ratio", None, lambda seed: _simulated_ratio("cubic", seed)),
    }
    measured = measure_rounds(
        tuple(measures),
        lambda name, number: measures[name][2](number),
        plan,
        title="sim",
        headlines=lambda samples: [samples["packet_events_per_s"], samples["env_steps_per_s"]],
        judge=disturbances_alone,
    )
    result.rounds["sim"] = measured.tally
    for name, (unit, goal, _) in measures.items():
        result.add(name, measured.samples[name], unit, goal)
    return result


def _link(seed: int) -> Scenario:
    flow = FlowSpec("flow", "sender", "receiver", "kernel/cubic")
    return Scenario(name="link", topology=PointToPoint(LINK), flows=(flow,), duration_s=EVENTS_S, seed=seed)


def _dumbbell(seed: int) -> Scenario:
    numbers = range(1, FLOWS + 1)
    flows = tuple(
        FlowSpec(f"f{one}", f"s{one}", f"r{one}", "kernel/cubic", start_s=0.01 * one) for one in numbers
    )
    topology = Dumbbell(FLOWS, LINK)
    return Scenario(name="dumbbell", topology=topology, flows=flows, duration_s=EVENTS_S, seed=seed)


def _events_per_s(scenario: Scenario) -> float:
    """Return packet events per second of CPU time, without samples."""
    spec = emulator_spec(graph_of(scenario.network), scenario.seed)
    spec["sample_interval_us"] = scenario.sample_interval_us
    end_us = sim.START_US + round(scenario.duration_s * 1e6)
    with sim.open_world(spec, samples=False) as world:
        for number, flow in enumerate(scenario.flows):
            record = FlowRecord(flow.name, flow.algorithm, flow.sender, flow.receiver, "cubic")
            record.start_us, record.stop_us = sim.START_US + round(flow.start_s * 1e6), end_us
            world.connect(msgspec.json.encode(sim_traffic.plan(scenario, number, record)))
        begin_s = time.process_time()
        world.run_until(end_us)
        return float(world.packet_events / (time.process_time() - begin_s))


def _env_steps_per_s(domain: Domain, seed: int) -> float:
    worlds, rng = Worlds(WORLDS, domain), np.random.default_rng(seed)
    worlds.reset(seed=seed * WORLDS)
    actions = np.clip(rng.normal(0, ACTIONS_STD, (STEPS, WORLDS)), -1, 1)
    begin_s = time.process_time()
    for each in actions:
        worlds.step(each)
    return WORLDS * STEPS / (time.process_time() - begin_s)


def _simulated_ratio(algorithm: str, seed: int) -> float:
    flow = FlowSpec("flow", "sender", "receiver", algorithm)
    scenario = Scenario(
        name="run", topology=PointToPoint(LINK), flows=(flow,), duration_s=RUN_S, seed=seed, datapath="sim"
    )
    begin_s = time.process_time()
    run_scenario(scenario)
    return RUN_S / (time.process_time() - begin_s)
