"""Interop: agents built with portus control flows (`ccp serve-ccp`), and scripts for pyportus run unchanged.

`session` connects such an agent to flows; `pyportus` is the API of pyportus.
"""

from __future__ import annotations

from ccplane.agent.features import Feature

FEATURE = Feature(commands={"research": {"serve-ccp": "ccplane.agent.features.interop.commands:app"}})
