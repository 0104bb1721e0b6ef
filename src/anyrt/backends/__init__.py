"""One folder for each backend: `target.py` is its compile side, `device.py` its run side."""
