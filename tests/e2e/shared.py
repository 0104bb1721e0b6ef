"""Loads a plan, touches its weights, and holds them until its standard input closes."""

import sys
from pathlib import Path

import numpy as np

import anyrt as trt
from anyrt.api.model.state import state_of

engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(Path(sys.argv[1]))
state_of(engine).engine.infer({"x": np.zeros(engine.get_tensor_shape("x"), np.float32)})
print("loaded", flush=True)
sys.stdin.read()
