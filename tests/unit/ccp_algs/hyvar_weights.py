"""Files of weights for tests, written by hand: what `ccp_algs.hyvar.policy` reads, and what it must not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

ABOUT = {"kind": "hyvar-policy", "version": "1", "observation": "hyvar-1", "trained": "not at all"}
HIDDEN = 5


def random_weights(seed: int = 1, hidden: int = HIDDEN) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {"0": (hidden, 7), "1": (hidden, hidden), "2": (1, hidden)}
    made = {}
    for layer, shape in shapes.items():
        made[f"{layer}.weight"] = rng.normal(0, 0.5, shape).astype(np.float32)
        made[f"{layer}.bias"] = rng.normal(0, 0.1, shape[0]).astype(np.float32)
    return made


def constant(action: float) -> dict[str, np.ndarray]:
    """Weights of a policy that always does the same."""
    made = {name: np.zeros_like(values) for name, values in random_weights().items()}
    made["2.bias"][:] = action
    return made


def file_of(
    weights: Mapping[str, np.ndarray], about: Mapping[str, str] | None = ABOUT, dtype: str = "F32"
) -> bytes:
    header: dict[str, Any] = {} if about is None else {"__metadata__": dict(about)}
    data = b""
    for name, values in weights.items():
        raw = values.astype("<f4").tobytes()
        places = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": places}
        data += raw
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def save(content: bytes, path: Path) -> Path:
    path.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    path.with_suffix(".sha256").write_text(f"{digest}  {path.name}\n")
    return path
