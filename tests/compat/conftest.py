"""The programs are run, not imported: `tensorrt` exists only under `python -m anyrt.compat`."""

collect_ignore = ["programs"]
