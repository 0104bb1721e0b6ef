"""`python -m anyrt COMMAND …` is the command `anyrt`."""

from __future__ import annotations

import sys

from anyrt.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
