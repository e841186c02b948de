"""`ccp demo`: what ccplane is for, in a minute and one picture.

Entry point: `app`, the command. `runs` is what runs, `where` on which datapath, `picture` draws.
"""

from experiments.demo.command import app

__all__ = ["app"]
