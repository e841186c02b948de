"""The commands of `ccp`, one module each; `ccplane.agent.cli` puts them together."""
