"""Tests run the programs and do not import them: `tensorrt` exists only under `python -m anyrt.compat`."""

collect_ignore = ["programs"]
