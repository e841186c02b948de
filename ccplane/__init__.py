"""A congestion control plane for Linux TCP.

    import ccplane
    from ccplane import Algorithm, Param, register      # an algorithm
    from ccplane.fold import Ack, Flow, FoldProgram, every, latest, total

    client = ccplane.connect()                          # a running agent
    result = ccplane.run(ccplane.Scenario(...))         # an experiment

Names are imported on first use, so `import ccplane` loads little. Scripts written for portus replace their
import line with `import ccplane.pyportus as portus`. After `import ccplane`, Gymnasium can make
`ccplane/CongestionControl-v0`.

May import: every other package. No other package imports this module; `ccplane.agent`, `ccplane.base` and
`ccplane.datapath` are separate layers.
"""

from __future__ import annotations

from ccplane.base import guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from ccp_algs import Algorithm, Param, Updates, VectorAlgorithm, check_algorithm, register
    from ccplane import fold, lab
    from ccplane.agent.client import Client
    from ccplane.agent.client import Client as connect  # noqa: N813 -- used like a function
    from ccplane.base.errors import CcpError
    from ccplane.base.flows import FlowInfo, FlowStats
    from experiments import metrics, plots, statistics, theory
    from experiments.netlab.spec import Buffer, Direction
    from experiments.results import Result, ResultSet
    from experiments.run import run
    from experiments.scenario import Dumbbell, FlowSpec, Scenario
    from experiments.sweep import Grid, sweep
    from experiments.watched import Watched

__all__ = [
    "Algorithm",
    "Buffer",
    "CcpError",
    "Client",
    "Direction",
    "Dumbbell",
    "FlowInfo",
    "FlowSpec",
    "FlowStats",
    "Grid",
    "Param",
    "Result",
    "ResultSet",
    "Scenario",
    "Updates",
    "VectorAlgorithm",
    "Watched",
    "check_algorithm",
    "connect",
    "fold",
    "lab",
    "load_result",
    "metrics",
    "plots",
    "register",
    "run",
    "statistics",
    "sweep",
    "theory",
]

_HOMES = {
    "ccp_algs": ("Algorithm", "Param", "Updates", "VectorAlgorithm", "check_algorithm", "register"),
    "ccplane": ("fold", "lab"),
    "ccplane.agent.client": ("Client", "connect"),
    "ccplane.base.errors": ("CcpError",),
    "ccplane.base.flows": ("FlowInfo", "FlowStats"),
    "experiments": ("metrics", "plots", "statistics", "theory"),
    "experiments.netlab.spec": ("Buffer", "Direction"),
    "experiments.results": ("Result", "ResultSet"),
    "experiments.run": ("run",),
    "experiments.scenario": ("Dumbbell", "FlowSpec", "Scenario"),
    "experiments.sweep": ("Grid", "sweep"),
    "experiments.watched": ("Watched",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def load_result(directory: str | Path) -> Result:
    """Return the result of a run from its directory; raises the same errors as `Result.load`."""
    from experiments.results import Result

    return Result.load(directory)


if not TYPE_CHECKING:  # type checkers see the imports above, where a wrong name is an error

    def __getattr__(name):
        """Import a name on first use, and keep it."""
        if (home := _HOME_OF.get(name)) is None:
            raise AttributeError(f"module 'ccplane' has no attribute {name!r}")
        from importlib import import_module

        if home in ("ccplane", "experiments"):  # their names are modules
            found = import_module(f"{home}.{name}")
        else:
            found = getattr(import_module(home), "Client" if name == "connect" else name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    """Return all names, including those not imported yet."""
    return sorted({*globals(), *__all__})


def _register_environments() -> None:
    from importlib.metadata import entry_points

    for entry in entry_points(group="gymnasium.envs"):
        if entry.dist is not None and entry.dist.name == "ccplane":
            entry.load()()


guard.install(_register_environments)
