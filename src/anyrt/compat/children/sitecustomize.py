"""Python runs this when a child process starts: `anyrt.compat.install` has put this folder on PYTHONPATH.

Every Python on the machine may be that child: one that AnyRT cannot run in goes on as if nothing were here,
any other waits until the program imports what stands for CUDA (`anyrt_later.py`). Then the one that this file
hides runs, if there is any. No syntax here is newer than Python 2.
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
