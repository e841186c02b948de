"""Golden traces: what each algorithm did in a few simulated scenarios, kept, and what it does now.

The simulator is deterministic, so a trace changes only if an algorithm, a part of it or the simulator
decides otherwise. A change that is meant is accepted by `make bless`, which shows it; the diff of
tests/traces is part of the commit.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from ccp_algs import registry
from experiments.events import SetLink
from experiments.netlab.spec import Bernoulli, Buffer, Direction
from experiments.run import run
from experiments.runs.shapes import Dumbbell, PointToPoint
from experiments.scenario import FlowSpec, Scenario
from tests.carrying import PARAMS, RATE_BYTES_PER_S

KEPT: Final = Path(__file__).parent / "traces"
SHOWN: Final = Path(__file__).parents[1] / "out" / "golden"
"""Where the plots of differences go."""
STEP_S: Final = 0.2
COLUMNS: Final = ("cwnd_bytes", "srtt_us", "delivered_pkts", "lost_pkts")

Trace = dict[str, dict[str, list[int]]]
"""Scenario -> column of `COLUMNS` -> its values, one each STEP_S."""


def scenarios(algorithm: str) -> Iterator[Scenario]:
    """Yield the scenarios: a queue of its own, losses without a queue, a path that changes, a rival."""
    own = FlowSpec("flow", "sender", "receiver", algorithm, params=PARAMS.get(algorithm, {}))
    link = Direction(RATE_BYTES_PER_S, delay_us=10_000, buffer=Buffer(bdp=1))

    def on_link(name: str, link: Direction, **more: Any) -> Scenario:
        return scenario(name, topology=PointToPoint(link), flows=(own,), **more)

    def scenario(name: str, **more: Any) -> Scenario:
        step_us = round(1e6 * STEP_S)
        return Scenario(name=name, duration_s=5, datapath="sim", sample_interval_us=step_us, **more)

    yield on_link("queue", link)
    yield on_link("loss", Direction(RATE_BYTES_PER_S, delay_us=10_000, loss=Bernoulli(0.005)))
    yield on_link(
        "change",
        link,
        events=(
            SetLink(at_s=1.5, link="link>", fields={"rate_bytes_per_s": RATE_BYTES_PER_S / 2}),
            SetLink(at_s=3, link="link>", fields={"rate_bytes_per_s": RATE_BYTES_PER_S, "delay_us": 20_000}),
        ),
    )
    rival = FlowSpec("rival", "s1", "r1", "kernel/cubic")
    late = FlowSpec("flow", "s2", "r2", algorithm, params=PARAMS.get(algorithm, {}), start_s=1)
    yield scenario("rival", topology=Dumbbell(2, link), flows=(rival, late))


def trace(algorithm: str) -> Trace:
    """Return what an algorithm does now."""
    found: Trace = {}
    for scenario in scenarios(algorithm):
        samples = run(scenario).connection_samples
        samples = samples[samples["flow"] == "flow"]
        found[scenario.name] = {name: [int(value) for value in samples[name]] for name in COLUMNS}
    return found


def kept(algorithm: str) -> Trace | None:
    """Return what it did when that was last accepted; None if it never was."""
    file = KEPT / f"{algorithm}.json"
    return json.loads(file.read_text()) if file.exists() else None


def keep(algorithm: str, now: Trace) -> None:
    """Accept a trace."""
    rows = ",\n".join(
        f' "{name}": {{\n'
        + ",\n".join(f'  "{column}": {json.dumps(values)}' for column, values in columns.items())
        + "\n }"
        for name, columns in now.items()
    )
    (KEPT / f"{algorithm}.json").write_text(f"{{\n{rows}\n}}\n")


def difference(before: Trace, now: Trace) -> str:
    """Return in words where two traces differ; empty if they do not."""
    lines = [f"{name}: it is {'new' if name in now else 'gone'}" for name in before.keys() ^ now.keys()]
    for name in before.keys() & now.keys():
        counts = len(before[name][COLUMNS[0]]), len(now[name][COLUMNS[0]])
        if counts[0] != counts[1]:
            lines.append(f"{name}: {counts[0]} samples before, {counts[1]} now")
        for column in COLUMNS:
            old, new = before[name][column], now[name][column]
            apart = [i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b]
            if apart:
                worst = max(apart, key=lambda i: abs(new[i] - old[i]))
                lines.append(
                    f"{name}: {column} differs from {apart[0] * STEP_S:.1f} s on, most at"
                    f" {worst * STEP_S:.1f} s: {old[worst]} -> {new[worst]}; at the end"
                    f" {old[-1]} -> {new[-1]}"
                )
    return "\n".join(sorted(lines))


def plot(algorithm: str, before: Trace, now: Trace) -> Path:
    """Draw windows before and now; return the file."""
    SHOWN.mkdir(parents=True, exist_ok=True)
    names = [name for name in now if name in before]
    figure, axes = pyplot.subplots(len(names), 1, figsize=(8, 2 * len(names)), sharex=True, squeeze=False)
    for axis, name in zip(axes[:, 0], names, strict=True):
        for label, one, style in (("kept", before, "-"), ("now", now, "--")):
            windows = one[name]["cwnd_bytes"]
            axis.plot(
                [i * STEP_S for i in range(len(windows))], [w / 1448 for w in windows], style, label=label
            )
        axis.set_title(name, loc="left")
        axis.set_ylabel("cwnd [segments]")
    axes[0, 0].legend()
    axes[-1, 0].set_xlabel("time [s]")
    figure.suptitle(algorithm)
    figure.tight_layout()
    file = SHOWN / f"{algorithm}.png"
    figure.savefig(file)
    pyplot.close(figure)
    return file


def reported(algorithm: str, before: Trace, now: Trace) -> str:
    """Return the difference with the plot that shows it; empty if there is none."""
    words = difference(before, now)
    return words and f"{words}\nplot: {plot(algorithm, before, now)}; `make bless` accepts it"


def main() -> int:
    """Accept what algorithms do now; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=main.__doc__)
    parser.add_argument("algorithms", nargs="*", help="which; else all", default=[])
    for algorithm in parser.parse_args().algorithms or registry.names():
        before, now = kept(algorithm), trace(algorithm)
        what = "is new" if before is None else reported(algorithm, before, now)
        print(f"{algorithm}: {what or 'as it was'}", flush=True)
        keep(algorithm, now)
    return 0


if __name__ == "__main__":
    sys.exit(main())
