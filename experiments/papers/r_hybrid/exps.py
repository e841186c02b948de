"""The experiments E1 to E17 of R-Hybrid's authors (`scripts/run_experiments.sh`), as scenarios.

T1 is a path within a zone, T2 one between zones, T3 one over the Internet; others use the latter two as well.
`docs/papers/r-hybrid.md` says what of the script is not here, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import msgspec
import pandas as pd

from experiments import plots
from experiments.metrics import NAN
from experiments.netlab.spec import Bernoulli, Buffer, CoDel, Direction, DropTail
from experiments.netlab.topologies import dumbbell
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.r_hybrid.path import (
    BBR,
    DCTCP,
    FLOW,
    OURS,
    PAPER_NOISE,
    SETTLED_S,
    STREAMS,
    decided,
    settled,
    watching,
)
from experiments.papers.r_hybrid.wrong import OWN, PAPERS, WRONGS, wrong
from experiments.papers.tables import Table
from experiments.papers.variants import KERNEL
from experiments.plots import Plot
from experiments.results import Result
from experiments.runs.shapes import Graph
from experiments.scenario import Flow, ReceiverAgent, Scenario
from experiments.sweep import Grid
from experiments.traffic.spec import Http, Iperf3, OnOff, Traffic

MIB_BYTES: Final = 1 << 20
BIG_BYTES: Final = 200 * MIB_BYTES
SEGMENT_BYTES: Final = 2 * MIB_BYTES
SEGMENTS: Final = 10

LOSS_RATIO: Final = 0.01
ECN_RATE_BYTES_PER_S: Final = 25e6
ECN_THRESHOLD_US: Final = 300
ECN_BUFFER_PKTS: Final = 400
"""100 packets for each of four streams, `flow_limit` of Linux' fq."""
FQ_CODEL_PKTS: Final = 2_000

OTHERS: Final = OnOff(on_s=0.5, off_s=0.5)
"""What each of two neighbours sends through T2 and T3."""

PathName = Literal["T1", "T2", "T3"]
PATHS: Final[Mapping[PathName, Direction]] = {
    "T1": Direction(rate_bytes_per_s=125e6, delay_us=500, buffer=Buffer(packets=500)),
    "T2": Direction(rate_bytes_per_s=125e6, delay_us=1_000, buffer=Buffer(packets=1_000)),
    "T3": Direction(
        rate_bytes_per_s=25e6, delay_us=15_000, jitter_us=2_000, buffer=Buffer(bdp=0.25), loss=Bernoulli(1e-4)
    ),
}
"""The bottleneck's way to the receiver; the other one neither loses nor jitters."""

_BOTTLENECKS: Final[Mapping[str, Mapping[str, Any]]] = {
    "": {},
    "ECN 200 Mbit/s": {
        "rate_bytes_per_s": ECN_RATE_BYTES_PER_S,
        "buffer": Buffer(packets=ECN_BUFFER_PKTS),
        "queue": DropTail(ce_threshold_us=ECN_THRESHOLD_US),
    },
    "CoDel": {"buffer": Buffer(packets=FQ_CODEL_PKTS), "queue": CoDel(ecn=True)},
}

_STREAMS: Final = Iperf3(parallel=STREAMS)


@dataclass(frozen=True)
class Experiment:
    """One line of the script.

    Attributes:
        label: What the script calls it.
        algorithm: As in scenarios.
        path: Which of `PATHS`.
        loses: Whether 1 % of packets is lost at random.
        bottleneck: Which of `_BOTTLENECKS`.
        ecn: Whether connections ask for ECN.
        traffic: What is sent.
    """

    label: str
    algorithm: str
    path: PathName = "T1"
    loses: bool = False
    bottleneck: str = ""
    ecn: bool = False
    traffic: Traffic = _STREAMS

    @property
    def setting(self) -> str:
        """The network in a few words."""
        return ", ".join([self.path, *["1 % loss"] * self.loses, *[self.bottleneck] * bool(self.bottleneck)])

    @property
    def is_bulk(self) -> bool:
        """Whether it sends all the time; else it downloads."""
        return isinstance(self.traffic, Iperf3)

    def scenario(self, name: str, duration_s: float, mode: str = PAPERS) -> Scenario:
        """Return it as a scenario.

        Args:
            name: Such as E1.
            duration_s: How long it sends [s].
            mode: Of the receiver.
        """
        plain = PATHS[self.path]
        given: dict[str, Any] = {"loss": Bernoulli(LOSS_RATIO)} if self.loses else {}
        forward = msgspec.structs.replace(plain, **given, **_BOTTLENECKS[self.bottleneck])
        back = msgspec.structs.replace(plain.one_way_back(), jitter_us=0)
        shared = self.path != "T1"
        flows = [Flow(FLOW, "s1", "r1", self.algorithm, traffic=self.traffic, ecn=self.ecn)]
        flows += [Flow(f"other{n}", f"s{n}", f"r{n}", KERNEL, traffic=OTHERS) for n in (2, 3) if shared]
        return Scenario(
            name=f"r-hybrid: {name} {self.label}",
            topology=Graph.of(dumbbell(3 if shared else 1, forward, backward=back)),
            flows=tuple(flows),
            duration_s=duration_s,
            receivers=(_watched(mode),),
        )


def _watched(mode: str) -> ReceiverAgent:
    return watching("r1", PAPER_NOISE) if mode == PAPERS else ReceiverAgent("r1", mode=mode)  # type: ignore[arg-type]


_HTTP: Final = Http(objects=(BIG_BYTES,))
_HLS: Final = Http(objects=(SEGMENT_BYTES,) * SEGMENTS)
_CLEAN_ECN: Final = Experiment("dctcp_clean", DCTCP, ecn=True)
_ECN: Final = replace(_CLEAN_ECN, label="dctcp_ecn200", bottleneck="ECN 200 Mbit/s")

EXPERIMENTS: Final[Mapping[str, Experiment]] = {
    "E1": Experiment("cubic_base", KERNEL),
    "E2": Experiment("bbr_base", BBR),
    "E3": Experiment("cubic_crossAZ", KERNEL, "T2"),
    "E4": Experiment("cubic_igw", KERNEL, "T3"),
    "E5": Experiment("cubic_loss", KERNEL, loses=True),
    "E6": Experiment("bbr_loss", BBR, loses=True),
    "E7": Experiment("cubic_http", KERNEL, traffic=_HTTP),
    "E8": Experiment("cubic_hls_loss", KERNEL, loses=True, traffic=_HLS),
    "E9": Experiment("rhybrid_base", OURS, ecn=True),
    "E10": Experiment("cubic_loss_react", KERNEL, loses=True),
    "E11": Experiment("bbr_loss_react", BBR, loses=True),
    "E12": Experiment("rhybrid_loss_flip", OURS, loses=True, ecn=True),
    "E13": _CLEAN_ECN,
    "E14": _ECN,
    "E15": replace(_ECN, label="cubic_ecn200", algorithm=KERNEL),
    "E16": replace(_CLEAN_ECN, label="dctcp_fqcodel", bottleneck="CoDel"),
    "E17": replace(_ECN, label="rhybrid_ecn200", algorithm=OURS),
}
"""By the script's names."""

FOLLOWED: Final = tuple(exp for exp, one in EXPERIMENTS.items() if one.algorithm == OURS)
"""Those whose flows follow the receiver: they are run in each mode."""
_IN_OWN: Final = f", mode {OWN}"
"""Behind the names of such runs in the mode `own`."""


def exps(name: str, duration_s: float, repeats: int) -> Grid:
    """Return all of them as a grid.

    Args:
        name: Of the grid.
        duration_s: Length of each run [s].
        repeats: How often each is run.
    """
    scenarios = {exp: one.scenario(exp, duration_s) for exp, one in EXPERIMENTS.items()}
    scenarios |= {f"{exp}{_IN_OWN}": EXPERIMENTS[exp].scenario(exp, duration_s, OWN) for exp in FOLLOWED}
    fields = ("name", "topology", "flows", "receivers")
    points = {exp: {field: one.plain()[field] for field in fields} for exp, one in scenarios.items()}
    return Grid(scenarios["E1"], {"exp": points}, name, repeats)


def _grids(size: Size) -> list[Grid]:
    return [exps(size.name, size.seconds(6, 10), size.times(1, 10))]


def _about(result: Result) -> tuple[str, Experiment, str]:
    """Return which experiment a run was, and what its flows ran, with the mode if it is `own`."""
    name = str(result.axes["exp"])
    exp = name.removesuffix(_IN_OWN)
    one = EXPERIMENTS[exp]
    return exp, one, one.algorithm + name[len(exp) :]


def exps_row(result: Result) -> dict[str, Any]:
    """Return what an experiment was, and what it came to; `r_hybrid_path` says what the columns are.

    Of downloads: `first_byte_s` is the mean time to the first byte, `completion_s` that to the last.
    """
    exp, one, algorithm = _about(result)
    flow = result.flows.set_index("flow").loc[FLOW]
    objects = result.objects[result.objects["flow"] == FLOW]
    return {
        "exp": exp,
        "label": one.label,
        "algorithm": algorithm,
        "setting": one.setting,
        "bulk": one.is_bulk,
        "retrans_pkts": flow["retrans_pkts"],
        **settled(result, FLOW),
        **decided(result),
        "first_byte_s": objects["first_byte_s"].mean() if len(objects) else NAN,
        "completion_s": objects["completion_s"].mean() if len(objects) else NAN,
    }


def wrong_of_exp(result: Result) -> pd.DataFrame:
    """Return how wrong each mode's detector is of an experiment: a flow that follows one, of that one's run.

    Downloads count from their beginning: most are over when others have settled.
    """
    exp, one, _ = _about(result)
    modes = [result.scenario.receivers[0].mode] if exp in FOLLOWED else [PAPERS, OWN]
    found = wrong(result, modes, SETTLED_S if one.is_bulk else 0.0)
    return found.assign(exp=exp, label=one.label, setting=one.setting)


def _findings(runs: Runs) -> Findings:
    table = _in_order(runs.table)
    bulk, downloads = table[table["bulk"]], table[~table["bulk"]]
    by = ["exp", "label", "setting", "algorithm"]
    values = ["goodput_bytes_per_s", "retrans_pkts", "rtt_p50_us", "rtt_p95_us", "shared_ratio"]
    tables = [Table.of(bulk, "E1 to E17, bulk transfers", by, values)] if len(bulk) else []
    if len(downloads):
        tables += [Table.of(downloads, "E7 and E8, downloads", by, ["first_byte_s", "completion_s"])]
    found = _in_order(runs.rows(wrong_of_exp))
    title = "E1 to E17: time in which a detector is wrong, of the time in which it can be"
    tables.append(Table.of(found, title, ["exp", "label", "setting", "mode"], WRONGS))
    return Findings(tables, figures(bulk) if len(bulk) else {})


def _in_order(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values("exp", key=lambda names: names.map([*EXPERIMENTS].index), kind="stable")


def figures(table: pd.DataFrame) -> dict[str, Plot]:
    """Return goodput and retransmissions of the bulk transfers, by network.

    Args:
        table: A row for each run.
    """
    words: dict[str, Any] = {"group": "setting", "subtitle": "four streams"}
    return {
        "exps-goodput": plots.bars(table, "goodput_bytes_per_s", title="E1 to E17: goodput", **words),
        "exps-retransmitted": plots.bars(
            table, "retrans_pkts", log=True, title="E1 to E17: retransmissions", **words
        ),
    }


EXPS: Final = Part("exps", "E1 to E17 of the authors' script", _grids, _findings, exps_row)
