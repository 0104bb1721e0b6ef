"""Stand-in for `pycuda.autoinit`: importing it makes a context, which here always exists."""

from anyrt.compat.pycuda.driver import Context, Device

device = Device(0)
context = Context()
