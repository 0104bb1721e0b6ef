"""Where programs look for the plug-ins that were registered.

from tensorrt.plugin._lib import QDP_REGISTRY
QDP_REGISTRY["my::scaled"].input_attrs          # {"factor": float}
"""

from anyrt.api.plugins.functions.define import QDP_REGISTRY

__all__ = ["QDP_REGISTRY"]
