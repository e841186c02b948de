"""Exports a trained policy for `ccp_algs.hyvar.policy`: a safetensors file, and its hash in a second file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save

from ccp_algs.hyvar.observation import OBSERVATION
from ccp_algs.hyvar.policy import KIND, VERSION, Policy, parse_policy
from experiments.learning.errors import LearningError
from experiments.learning.training import (
    Training,
    actor,
    model_of,
    read_about,
    shipped_reward,
    source_hash,
)


def policy_of(state: dict[str, Any], about: dict[str, Any]) -> bytes:
    """Return the content of a policy file."""
    tensors: dict[str, NDArray[np.float32]] = {}
    for i, (weight, bias) in enumerate(actor(state).layers):
        tensors |= {f"{i}.weight": weight, f"{i}.bias": bias}
    reported = {
        "kind": KIND,
        "version": VERSION,
        "observation": OBSERVATION,
        "source_hash": about["source_hash"],
        "config": msgspec.json.encode(about["config"]).decode(),
        "trained": msgspec.json.encode({"steps": about["steps"], "seed": about["seed"]}).decode(),
    }
    content: bytes = save(tensors, reported)
    return content


def policy_at(checkpoint: Path) -> Policy:
    """Return the policy of a checkpoint; errors as in `training.read_about`."""
    return parse_policy(_content(checkpoint), str(checkpoint))


def initial_policy(training: Training) -> Policy:
    """Return the policy of a training run before its first step."""
    about = {
        "source_hash": source_hash(),
        "config": msgspec.to_builtins(training),
        "steps": 0,
        "seed": training.seed,
    }
    return parse_policy(
        policy_of(model_of(training, shipped_reward()).policy.state_dict(), about), "initial weights"
    )


def export(checkpoint: Path, file: Path) -> str:
    """Write the policy of a checkpoint, and its SHA-256 to a file with the suffix `.sha256`.

    Returns:
        The hash, hexadecimal.

    Raises:
        LearningError: `learning.cannot_write`, or as in `training.read_about`.
    """
    content = _content(checkpoint)
    digest = hashlib.sha256(content).hexdigest()
    try:
        file.write_bytes(content)
        file.with_suffix(".sha256").write_text(f"{digest}  {file.name}\n")
    except OSError as error:
        raise LearningError(
            "learning.cannot_write", "cannot write the policy", str(file), error.strerror or str(error)
        ) from error
    return digest


def _content(checkpoint: Path) -> bytes:
    about = read_about(checkpoint)
    return policy_of(torch.load(checkpoint, weights_only=True)["policy"], about)
