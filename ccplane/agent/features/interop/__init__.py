"""Interop: agents made with portus steer flows (`ccp serve-ccp`), and scripts written for pyportus run.

`session` is what is between such an agent and flows; `pyportus` is its API.
"""

from __future__ import annotations

from ccplane.agent.features import Feature

FEATURE = Feature(commands={"research": {"serve-ccp": "ccplane.agent.features.interop.commands:app"}})
