"""The API of pyportus, for scripts that were written for it. All of `ccplane.agent.pyportus`.

import ccplane.pyportus as portus        # was: import pyportus as portus
"""

from ccplane.agent.pyportus import *  # noqa: F403
from ccplane.agent.pyportus import __all__ as __all__
