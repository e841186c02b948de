"""Assembles the playground; `scripts/playground.sh` is its entry point."""
