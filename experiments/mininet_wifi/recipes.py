"""The recipes of `ccp demo wifi`: algorithms and losses, run one flow after the other, and the picture.

The recipes of Figures 4 to 7 are those of `experiments.papers.int_adaptive`, adapted to a slower path: more
loss in Figure 4, fewer loss rates in Figure 6, and longer runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ccp_algs import registry
from ccplane.agent import params as settings_of
from ccplane.agent.names import derived
from ccplane.base.errors import ParamError
from experiments.mininet_wifi.errors import WifiError
from experiments.papers.int_adaptive.chain import OWN
from experiments.papers.int_adaptive.growth import INCREMENTS
from experiments.papers.int_adaptive.paper import VARIANTS
from experiments.papers.variants import KERNEL

_OF_KERNEL: Final = "kernel/"


@dataclass(frozen=True)
class Variant:
    """A congestion control with parameters.

    Attributes:
        label: Display name; it selects the colour in figures.
        algorithm: `kernel/NAME`, or an algorithm as for `ccp run`.
        params: Parameters of ccplane's algorithm that differ from its defaults.
    """

    label: str
    algorithm: str
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_kernel(self) -> bool:
        """Whether this is a built-in congestion control of the kernel."""
        return self.algorithm.startswith(_OF_KERNEL)

    @property
    def name(self) -> str:
        """Name of the congestion control in the kernel or in the agent.

        Raises:
            RegistryError: If ccplane has no algorithm of this name.
        """
        if self.is_kernel:
            return self.algorithm.removeprefix(_OF_KERNEL)
        return registry.get(self.algorithm).name

    @property
    def congestion(self) -> str:
        """Congestion control to set on sockets."""
        return self.name if self.is_kernel else derived(self.name)


@dataclass(frozen=True)
class Run:
    """One flow.

    Attributes:
        variant: Its congestion control.
        loss_ratio: Share of its packets that the air after ap2 loses.
    """

    variant: Variant
    loss_ratio: float


@dataclass(frozen=True)
class Recipe:
    """Flows that run one after the other, and their picture.

    Attributes:
        title: Title of the picture.
        variants: Each runs at each loss.
        losses: Shares of packets that the air after ap2 loses.
        seconds: Duration of each flow [s].
        panels: Columns of `Transfer.rows` to draw over time, from top to bottom; empty for a bar of goodput
            for each flow.
    """

    title: str
    variants: tuple[Variant, ...]
    losses: tuple[float, ...]
    seconds: int
    panels: tuple[str, ...] = ()

    @property
    def runs(self) -> list[Run]:
        """The flows in order."""
        return [Run(variant, loss_ratio) for loss_ratio in self.losses for variant in self.variants]

    @property
    def steered(self) -> dict[str, str]:
        """Arguments of `ccp run` for ccplane's algorithms, by name."""
        return {one.name: one.algorithm for one in self.variants if not one.is_kernel}


def _variants(points: Mapping[str, Mapping[str, Any]]) -> tuple[Variant, ...]:
    return tuple(
        Variant(name, point["flows.*.algorithm"], point["flows.*.params"]) for name, point in points.items()
    )


_KERNEL: Final = Variant(KERNEL, KERNEL)

FREE: Final = Recipe(
    "One flow over two wireless hops and a wire",
    (_KERNEL, Variant(OWN, OWN)),
    (0.05,),
    12,
    ("cwnd_bytes", "goodput_bytes_per_s", "queue_depth_pkts", "lost_pkts"),
)
"""A recipe that repeats no figure of the paper: the user's algorithms, by default two side by side."""

FIGURES: Final[Mapping[int, Recipe]] = {
    4: Recipe(
        "Losses that telemetry sees, and the window", (_KERNEL,), (0.02,), 15, ("cwnd_bytes", "lost_pkts")
    ),
    5: Recipe(
        "The bounded queue of ap1, and the window",
        (_KERNEL,),
        (0.0,),
        15,
        ("cwnd_bytes", "queue_depth_pkts"),
    ),
    6: Recipe("Goodput over a lossy hop", _variants(VARIANTS), (0.0, 0.05, 0.2), 10),
    7: Recipe("Progression of the window", _variants(INCREMENTS), (0.0,), 10, ("cwnd_bytes", "srtt_us")),
}
"""Figures of the paper, by number."""

_COMPARISONS: Final = (6, 7)
"""Figures with fixed algorithms."""


def choose(
    figure: int | None,
    algorithms: Sequence[str] = (),
    params: Sequence[str] = (),
    *,
    loss_ratio: float | None = None,
    seconds: int | None = None,
) -> Recipe:
    """Return the recipe that the command line asks for.

    Args:
        figure: Figure of the paper; None for none.
        algorithms: Replace the recipe's.
        params: `NAME=VALUE` or `ALGORITHM.NAME=VALUE`, for ccplane's algorithms.
        loss_ratio: Replaces the recipe's losses.
        seconds: Replaces the recipe's duration [s].

    Raises:
        WifiError: `wifi.no_figure`, `wifi.fixed_algorithms`.
        ParamError: If no algorithm has a parameter, or its value is invalid.
        RegistryError: If an algorithm does not exist.
        Several: If more than one parameter is wrong.
    """
    if figure is not None and figure not in FIGURES:
        raise WifiError(
            "wifi.no_figure",
            f"figure {figure} cannot be reproduced over Wi-Fi",
            "--figure",
            "the figure does not show an experiment with a flow",
            f"choose one of {', '.join(map(str, FIGURES))}",
        )
    if figure in _COMPARISONS and (algorithms or params):
        raise WifiError(
            "wifi.fixed_algorithms",
            f"the algorithms of figure {figure} are fixed",
            "--algorithm or --param",
            fix="remove --algorithm and --param, or remove --figure",
        )
    recipe = FREE if figure is None else FIGURES[figure]
    if algorithms:
        recipe = replace(recipe, variants=tuple(Variant(one, one) for one in dict.fromkeys(algorithms)))
    return replace(
        recipe,
        variants=_with_params(recipe.variants, params),
        losses=recipe.losses if loss_ratio is None else (loss_ratio,),
        seconds=seconds or recipe.seconds,
    )


def _with_params(variants: tuple[Variant, ...], params: Sequence[str]) -> tuple[Variant, ...]:
    mine = {one.name: registry.get(one.algorithm) for one in variants if not one.is_kernel}
    own: dict[str, dict[str, Any]] = {name: {} for name in mine}
    for name, value in settings_of.parse(params, example="int_cubic.wireless_loss=mild").items():
        if not mine:
            raise ParamError(
                "param.unknown_params",
                f"no algorithm of the run has a parameter `{name}`",
                f"--param {name}={value}",
                "only kernel congestion controls run",
                f"add --algorithm {OWN}",
            )
        for one in settings_of.resolve({name: value}, mine)[name]:
            own[one.algorithm][one.parameter.name] = value
    return tuple(
        one if one.is_kernel else replace(one, params={**one.params, **own[one.name]}) for one in variants
    )
