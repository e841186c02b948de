"""Fold programs: what the datapath does on every ACK, and when it reports. Re-exports `ccp_algs.fold`.

from ccplane.fold import Ack, Flow, FoldProgram, every, latest, total
"""

from ccp_algs.fold import *  # noqa: F403
from ccp_algs.fold import __all__ as __all__
