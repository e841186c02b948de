"""What features add to an agent and to `ccp`; the agent knows them by these hooks alone.

A feature is a package in this folder with a `Feature` of the name `FEATURE`, or an entry point in the group
`ccplane.features`. Deleting the package removes the feature. `ccp` imports all packages at each start, so
their modules are imported by the hooks.
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
    """What prometheus-client asks at each scrape."""

    def collect(self) -> Iterator[Metric]:
        """Yield metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """The hooks of a feature; what it does not set is not called.

    Attributes:
        commands: Commands of `ccp`: panel -> path -> `module:typer_app`, as in `ccplane.agent.front`.
        loaded: Called once the kernel datapath is loaded and has the extensions of all algorithms.
        metrics: Returns what collects metrics of an agent while it runs. It is called with the rights of the
            start, for the pin directory of the kernel datapath; scrapes have no rights.
        unload: Takes away what is kept in the kernel beside the datapath; returns a line for each thing.
        trials: Returns what this kernel can do for the feature; it gets the names of the kernel's
            congestion controls.
    """

    commands: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    loaded: Callable[[Any], None] | None = None
    metrics: Callable[[str], AbstractContextManager[Collects]] | None = None
    unload: Callable[[], Sequence[str]] | None = None
    trials: Callable[[Sequence[str]], Sequence[Capability]] | None = None


@cache
def features() -> tuple[Feature, ...]:
    """Return all features, in the order of their names."""
    own = [module.name for module in pkgutil.iter_modules(__path__) if module.ispkg]
    found = {name: import_module(f"{__name__}.{name}").FEATURE for name in own}
    for entry in metadata.entry_points(group=ENTRY_POINTS):
        try:
            found[entry.name] = entry.load()
        except Exception as error:  # one that does not import must not break `ccp` and the other features
            log.warning("the feature %s = %s is left out: %r", entry.name, entry.value, error)
    return tuple(found[name] for name in sorted(found))
