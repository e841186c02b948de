"""The learned policy: a small network in a safetensors file, evaluated with NumPy for all flows together.

    policy = load_policy(SHIPPED)              # checks the file against its hash
    actions = policy.actions(observe(...))     # (n, 7) -> (n,), from -1 to 1

Two hidden layers with tanh; the mean action is clipped to [-1, 1]. The file states its kind, its version and
the observation that it was trained on. A file with the policy's SHA-256 hash lies next to the policy. A
policy whose hash differs is rejected, since wrong weights cannot be recognised by their values.

Source of the format: the documentation of safetensors, "Format": 8 bytes of length (little endian), a JSON
header, the tensors. Deviation: 32-bit floats only.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ccp_algs.errors import AlgorithmError
from ccp_algs.hyvar.observation import N_FEATURES, OBSERVATION

KIND: Final = "hyvar-policy"
VERSION: Final = "1"
SHIPPED: Final = Path(__file__).with_name("policy.safetensors")
"""The shipped policy."""
SLIDES: Final = Path(__file__).with_name("slides.safetensors")
"""A policy that was trained with the slides' reward instead of ccplane's, otherwise alike."""
NAMED: Final[Mapping[str, Path]] = MappingProxyType({"": SHIPPED, "slides": SLIDES})
"""Files of the policies that have a name."""

_LAYERS: Final = 3
_HEAD_BYTES: Final = 8
_MAX_HEADER_BYTES: Final = 1 << 20
_FLOAT_BYTES: Final = 4
_LARGEST: Final = 1e6
_TRAIN: Final = "train one with `ccp train hyvar`, or reinstall ccplane"


class PolicyError(AlgorithmError):
    """A policy file cannot be used."""


@dataclasses.dataclass(frozen=True)
class Policy:
    """A loaded policy.

    Attributes:
        layers: Weight (out, in) and bias (out,) of each layer, float32, in order.
        about: The file's metadata: kind, version, observation, details of the training.
    """

    layers: tuple[tuple[NDArray[np.float32], NDArray[np.float32]], ...]
    about: Mapping[str, str]

    def actions(self, observations: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the mean actions a: the window is to be multiplied by 2^a.

        Args:
            observations: As returned by `observation.observe`, (n, 7) float32.

        Returns:
            Array of shape (n,), float32, from -1 to 1.
        """
        values = observations
        for weight, bias in self.layers[:-1]:
            values = np.tanh(values @ weight.T + bias)
        weight, bias = self.layers[-1]
        actions: NDArray[np.float32] = np.clip((values @ weight.T + bias)[:, 0], -1, 1)
        return actions


def load_policy(path: Path) -> Policy:
    """Read a policy and check it against its hash, in the file of the same name ending in `.sha256`.

    Args:
        path: The safetensors file.

    Raises:
        PolicyError: `policy.missing`, `policy.no_hash`, `policy.wrong_hash`, or as for `parse_policy`.
    """
    content = _read(path, "policy.missing", "cannot read the policy file", _TRAIN)
    alongside = path.with_suffix(".sha256")
    fix = f"if you trust the policy, run in its directory: sha256sum {path.name} > {alongside.name}"
    said = (
        _read(alongside, "policy.no_hash", "cannot read the policy's hash", fix)
        .decode(errors="replace")
        .split()
    )
    found = hashlib.sha256(content).hexdigest()
    if said[:1] != [found]:
        raise PolicyError(
            "policy.wrong_hash",
            "the policy file does not match its SHA-256",
            str(path),
            f"the file's SHA-256 is {found}, but {alongside.name} has {said[0] if said else 'none'}",
            _TRAIN,
        )
    return parse_policy(content, str(path))


def parse_policy(content: bytes, where: str) -> Policy:
    """Parse a policy from the content of a safetensors file.

    Args:
        content: Content of the file.
        where: Name of the file, for errors.

    Raises:
        PolicyError: `policy.not_safetensors`, `policy.wrong_kind` if the kind, version or observation
        differs,
            `policy.wrong_shape`, `policy.not_finite`.
    """
    header, start = _header(content, where)
    about = header.pop("__metadata__", {})
    for key, wanted in (("kind", KIND), ("version", VERSION), ("observation", OBSERVATION)):
        if about.get(key) != wanted:
            raise PolicyError(
                "policy.wrong_kind",
                f"this is not a policy with {key} = {wanted!r}",
                where,
                f"the file has {key} = {about.get(key)!r}",
                "use the policy shipped with this version of ccplane, or train one with `ccp train hyvar`",
            )
    names = [f"{i}.{what}" for i in range(_LAYERS) for what in ("weight", "bias")]
    if sorted(header) != sorted(names):
        raise _misshapen(where, f"it has the tensors {', '.join(sorted(header))}, not {', '.join(names)}")
    tensors = {name: _tensor(name, header[name], content[start:], where) for name in names}
    layers = []
    n_in = N_FEATURES
    for i in range(_LAYERS):
        weight, bias = tensors[f"{i}.weight"], tensors[f"{i}.bias"]
        n_out = 1 if i == _LAYERS - 1 else len(bias)
        if weight.shape != (n_out, n_in) or bias.shape != (n_out,):
            wanted = f"({n_out}, {n_in}) and ({n_out},)"
            raise _misshapen(where, f"layer {i} has the shapes {weight.shape} and {bias.shape}, not {wanted}")
        layers.append((weight, bias))
        n_in = n_out
    return Policy(tuple(layers), about)


def _read(path: Path, slug: str, message: str, fix: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PolicyError(slug, message, str(path), error.strerror or str(error), fix) from error


def _header(content: bytes, where: str) -> tuple[dict[str, Any], int]:
    """Return the header of a safetensors file, and the offset of its data."""
    size_bytes = int.from_bytes(content[:_HEAD_BYTES], "little")
    start = _HEAD_BYTES + size_bytes
    try:
        if len(content) < _HEAD_BYTES or size_bytes > _MAX_HEADER_BYTES or start > len(content):
            raise ValueError(f"a header of {size_bytes} bytes in a file of {len(content)}")
        header = json.loads(content[_HEAD_BYTES:start])
        if not isinstance(header, dict) or not isinstance(header.get("__metadata__", {}), dict):
            raise ValueError("its header is not a JSON object")
    except ValueError as error:
        raise _damaged(where, str(error)) from error
    return header, start


def _tensor(name: str, entry: Any, data: bytes, where: str) -> NDArray[np.float32]:
    try:
        dtype, shape, (begin, end) = entry["dtype"], tuple(map(int, entry["shape"])), entry["data_offsets"]
        fits = 0 <= begin <= end <= len(data) and min(shape) > 0
        if dtype != "F32" or not fits or end - begin != _FLOAT_BYTES * math.prod(shape):
            raise ValueError(f"{dtype}, shape {shape}, from {begin} to {end} of {len(data)} bytes")
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(where, f"tensor {name}: {error}") from error
    values = np.frombuffer(data[begin:end], "<f4").reshape(shape).astype(np.float32)
    if not (np.abs(values) < _LARGEST).all():  # also false for NaN
        why = f"trained weights are below {_LARGEST:g}"
        raise PolicyError(
            "policy.not_finite", f"tensor {name} contains values out of range", where, why, _TRAIN
        )
    return values


def _damaged(where: str, why: str) -> PolicyError:
    return PolicyError(
        "policy.not_safetensors", "this is not a safetensors file of 32-bit floats", where, why, _TRAIN
    )


def _misshapen(where: str, why: str) -> PolicyError:
    return PolicyError("policy.wrong_shape", "the network has an unexpected shape", where, why, _TRAIN)
