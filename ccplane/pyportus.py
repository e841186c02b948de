"""The API of pyportus, for existing scripts. Re-exports `ccplane.agent.features.interop.pyportus`.

import ccplane.pyportus as portus        # was: import pyportus as portus
"""

from ccplane.agent.features.interop.pyportus import *  # noqa: F403
from ccplane.agent.features.interop.pyportus import __all__ as __all__
