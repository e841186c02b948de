"""`ccp top`: a live screen of flows.

`source` reads the datapath and the agent; `history` and `model` store, sort and filter (no clock, no
terminal); `app`, `detail` and `prompts` display with textual.

May import: `ccplane.agent`, `ccplane.datapath`. Entry point: `ccplane.agent.commands.top`.
"""
