"""`ccp top`: a live screen of flows.

`source` brings numbers from the datapath and the rest from the agent, `history` and `model` keep, sort and
choose (pure, no clock, no terminal), `app`, `detail` and `prompts` show it with textual.

May import: `ccplane.agent`, `ccplane.datapath`. Entry point: `ccplane.agent.commands.top`.
"""
