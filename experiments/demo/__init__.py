"""`ccp demo`: what ccplane is for, in a minute and one picture.

Entry point: `app`, the command, with `ccp demo wifi` below it. `runs` is what runs, `where` on
which datapath, `picture` draws. `wifi` and `wifi_picture` use `experiments.mininet_wifi`;
the wheel lacks them.
"""

from experiments.demo.command import app

__all__ = ["app"]
