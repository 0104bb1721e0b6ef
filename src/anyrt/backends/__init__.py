"""One folder per kind of device: `target.py` compiles for it, `device.py` runs on it."""
