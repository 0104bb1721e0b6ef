"""Stand-in for `pycuda.autoinit`, which creates the context; here the context always exists."""

from anyrt.compat.pycuda.driver import Context, Device

device = Device(0)
context = Context()
