"""Python executes this file when a child process starts: `anyrt.compat.install` adds this folder to
PYTHONPATH.

The child may be any Python on the machine. One without AnyRT continues unchanged; any other waits until the
program imports a stand-in (`anyrt_later.py`). Then this file executes the sitecustomize that it hides, if
there is one. Its syntax must be valid in Python 2, too.
"""

import os
import sys

HERE = os.path.realpath(os.path.dirname(os.path.abspath(__file__)))

if "ANYRT_COMPAT" in os.environ and sys.version_info >= (3, 11):
    __import__("anyrt_later").wait()

sys.path[:] = [p for p in sys.path if os.path.realpath(p) != HERE]
ours = sys.modules.pop("sitecustomize")
try:
    __import__("sitecustomize")
except ImportError:
    if getattr(sys.exc_info()[1], "name", "sitecustomize") != "sitecustomize":
        raise
finally:
    sys.modules.setdefault("sitecustomize", ours)
