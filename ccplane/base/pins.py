"""The default location of the kernel datapath's pins."""

from __future__ import annotations

from typing import Final

DEFAULT_PIN_DIR: Final = "/sys/fs/bpf/ccplane"
"""Directory of the pinned maps and links; each agent has its own directory."""
