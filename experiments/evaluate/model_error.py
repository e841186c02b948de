"""How far the simulator is from the kernel: the errors that a simulated effect has to exceed.

They are in a file of their own, because a wheel does not have the results of `ccp validate`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

FILE: Final = "model_error.json"
"""90th percentiles by kind of path and quantity; `make docs-tables` writes the file."""


@cache
def errors() -> Mapping[str, Mapping[str, float]]:
    """Return the 90th percentiles of the error on drawn scenarios, by kind of path and quantity."""
    kept = json.loads((files(__package__) / FILE).read_text())
    found: Mapping[str, Mapping[str, float]] = kept["errors"]
    return found


def error(kind: str, quantity: str) -> float:
    """Return the relative error of a quantity on a kind of path."""
    return errors()[kind][quantity]
