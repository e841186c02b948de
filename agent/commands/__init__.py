"""The commands of `ccp`, one module each; `agent.cli` puts them together."""
