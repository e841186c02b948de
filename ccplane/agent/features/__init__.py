"""Hooks through which features extend the agent and `ccp`.

A feature is a package in this folder with a `Feature` named `FEATURE`, or an entry point in the group
`ccplane.features`. Deleting the package removes the feature. `ccp` imports all these packages at each start,
so a package imports its modules only inside the hooks.
"""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from ccplane.datapath.ebpf import Capability

ENTRY_POINTS: Final = "ccplane.features"

log = logging.getLogger("ccplane.agent")


class Collects(Protocol):
    """A collector of prometheus-client, called at each scrape."""

    def collect(self) -> Iterator[Metric]:
        """Yield metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """The hooks of a feature, all optional.

    Attributes:
        commands: Commands of `ccp`: panel -> path -> `module:typer_app`, as in `ccplane.agent.front`.
        loaded: Called once the kernel datapath is loaded with the extensions of all algorithms.
        metrics: Returns a collector for a running agent. It takes the pin directory of the kernel datapath,
            and is called before capabilities are dropped; scrapes run without capabilities.
        unload: Removes what the feature keeps in the kernel outside the datapath; returns one line for each
            removed item.
        trials: Takes the names of the kernel's congestion controls; returns what this kernel supports of the
            feature.
    """

    commands: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    loaded: Callable[[Any], None] | None = None
    metrics: Callable[[str], AbstractContextManager[Collects]] | None = None
    unload: Callable[[], Sequence[str]] | None = None
    trials: Callable[[Sequence[str]], Sequence[Capability]] | None = None


@cache
def features() -> tuple[Feature, ...]:
    """Return all features, sorted by name."""
    own = [module.name for module in pkgutil.iter_modules(__path__) if module.ispkg]
    found = {name: import_module(f"{__name__}.{name}").FEATURE for name in own}
    for entry in metadata.entry_points(group=ENTRY_POINTS):
        try:
            found[entry.name] = entry.load()
        except Exception as error:  # a broken feature must not break `ccp` and the other features
            log.warning("skipped the feature %s = %s: cannot import it: %r", entry.name, entry.value, error)
    return tuple(found[name] for name in sorted(found))
