"""The five runs of the demo, one flow each, and their measurement."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ccplane.agent.commands.first import FILE

if TYPE_CHECKING:
    import pandas as pd

    from experiments.scenario import Scenario

RATE_BYTES_PER_S: Final = 12.5e6
RTT_US: Final = 50_000
PAYLOAD_SHARE: Final = 1448 / 1500
"""Share of the rate that is TCP payload: with timestamps, an IP packet of 1500 bytes carries 1448."""
LOSS_RATIO: Final = 0.005
"""Random packet loss on the lossy path."""
MINE: Final = FILE
"""An algorithm as a user might write it: that of `ccp new`."""
EDITED: Final = Path(__file__).parent / "mine_edited.py"
"""The same algorithm with one line changed; saved while its flow runs."""

_FIGURES: Final = ("goodput_bytes_per_s", "retrans_pct", "rtt_p50_us", "rtt_p95_us")
_EXTRA_S: Final = 3.0
"""Time that a run takes in addition to its duration, for the progress bar [s]."""


@dataclass(frozen=True)
class Run:
    """One of the runs.

    Attributes:
        act: Title of its panel in the plot.
        algorithm: As in scenarios.
        label: Display name of the algorithm.
        loss_ratio: Share of packets that the path loses at random.
        edited: Whether the algorithm is edited halfway.
    """

    act: str
    algorithm: str
    label: str
    loss_ratio: float = 0.0
    edited: bool = False


CLEAN: Final = "No loss: ccplane and kernel CUBIC agree"
LOSSY: Final = "0.5 % random loss: a rule in Python"
EDIT: Final = "0.5 % random loss: a live edit"
ACTS: Final = (CLEAN, LOSSY, EDIT)
RUNS: Final = (
    Run(CLEAN, "kernel/cubic", "kernel CUBIC"),
    Run(CLEAN, "cubic", "ccplane CUBIC"),
    Run(LOSSY, "kernel/cubic", "kernel CUBIC", LOSS_RATIO),
    Run(LOSSY, "lt_cubic", "lt_cubic", LOSS_RATIO),
    Run(EDIT, str(MINE), "mine.py", LOSS_RATIO, edited=True),
)


@dataclass(frozen=True)
class Transfer:
    """One flow, measured.

    Attributes:
        run: The run.
        goodput_bytes_per_s: Payload acknowledged, by time [bytes/s].
        retrans_pct: Share of sent bytes that were retransmissions [%].
        rtt_p50_us: Median RTT [us].
        rtt_p95_us: 95th percentile of the RTT [us].
        samples: The flow over time, a table `flow_samples`.
        saved_s: Time from the start of the run to the save of the edited file [s]; None without an edit.
    """

    run: Run
    goodput_bytes_per_s: float
    retrans_pct: float
    rtt_p50_us: float
    rtt_p95_us: float
    samples: pd.DataFrame
    saved_s: float | None = None

    @property
    def goodput_by_version_bytes_per_s(self) -> tuple[float, ...]:
        """Goodput before and after the edit; of the whole run if there are no samples of both [bytes/s]."""
        edit_s = self.samples["t_s"].max() if self.saved_s is None else self.saved_s
        before = self.samples[self.samples["t_s"] <= edit_s]
        after = self.samples[self.samples["t_s"] > edit_s]
        if before.empty or after.empty:
            return (self.goodput_bytes_per_s,)
        acked, t_s = before["bytes_acked"].iloc[-1], before["t_s"].iloc[-1]
        return (
            float(acked / t_s),
            float((after["bytes_acked"].iloc[-1] - acked) / (after["t_s"].iloc[-1] - t_s)),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the figures by name; for the samples only their number."""
        return {
            "act": self.run.act,
            "algorithm": self.run.label,
            "loss_ratio": self.run.loss_ratio,
            **{name: getattr(self, name) for name in _FIGURES},
            "saved_s": self.saved_s,
            "goodput_by_version_bytes_per_s": self.goodput_by_version_bytes_per_s,
            "samples": len(self.samples),
        }


def scenario(one: Run, seconds: float) -> Scenario:
    """Return a run as a scenario that sends for `seconds` [s]."""
    from experiments.netlab.spec import Bernoulli, Buffer, Direction
    from experiments.scenario import Edit, FlowSpec, PointToPoint, Scenario

    forward = Direction(
        rate_bytes_per_s=RATE_BYTES_PER_S,
        delay_us=RTT_US // 2,
        buffer=Buffer(bdp=1),
        loss=Bernoulli(ratio=one.loss_ratio) if one.loss_ratio else None,
    )
    return Scenario(
        name=f"demo: {one.label}",
        topology=PointToPoint(forward),
        flows=(FlowSpec(name="flow", sender="sender", receiver="receiver", algorithm=one.algorithm),),
        duration_s=seconds,
        events=(Edit(seconds / 2, one.algorithm, str(EDITED)),) if one.edited else (),
    )


def measure(seconds: int, datapath: str) -> list[Transfer]:
    """Do all runs, with a progress bar on stderr.

    Args:
        seconds: Duration of each run [s].
        datapath: `ebpf` or `sim`.

    Returns:
        The transfers, in the order of `RUNS`.

    Raises:
        CcpError: If a run fails.
    """
    from experiments.run import run

    columns = (TextColumn("{task.description:<35}"), BarColumn(None), TimeRemainingColumn())
    each_s = seconds + _EXTRA_S
    transfers: list[Transfer] = []
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=len(RUNS) * each_s)
        for one in RUNS:
            bar.update(task, description=f"{one.label}, {one.loss_ratio:.1%} loss")
            before_s = len(transfers) * each_s

            def reported(_what: str, passed_s: float, before_s: float = before_s) -> None:
                bar.update(task, completed=before_s + min(passed_s, each_s))

            result = run(scenario(one, seconds), datapath=datapath, progress=reported)
            row = result.flows.iloc[0]
            figures = {name: float(row[name]) for name in _FIGURES}
            edits = result.events.loc[result.events["kind"] == "edit", "t_s"]
            saved_s = float(edits.iloc[0]) if len(edits) else None
            transfers.append(Transfer(one, **figures, samples=result.flow_samples, saved_s=saved_s))
    return transfers
