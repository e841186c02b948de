"""Where the kernel datapath is pinned."""

from __future__ import annotations

from typing import Final

DEFAULT_PIN_DIR: Final = "/sys/fs/bpf/ccplane"
"""Where the maps and links are pinned; each agent has its own directory."""
