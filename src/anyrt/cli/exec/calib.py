"""Dynamic ranges for --int8 and --best: from the calibration cache of --calib, or placeholders for timing.

Without --calib each tensor gets the range of trtexec: −2 to 2 for inputs and −4 to 4 for other tensors. If
the file of --calib does not exist, the network is calibrated with random numbers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from anyrt.api.building.calibration_cache import NAMES
from anyrt.api.building.calibrators import IInt8Calibrator
from anyrt.api.building.config import IBuilderConfig, profiles_in
from anyrt.api.building.precision import is_coded
from anyrt.api.building.profile import IOptimizationProfile, shape_ranges
from anyrt.api.edge.interfaces import ILogger
from anyrt.api.model.network import INetworkDefinition
from anyrt.api.model.state import state_of
from anyrt.cli.exec.flags import Given
from anyrt.cli.exec.shapes import profile_of
from anyrt.core.dtype import is_float, numpy_dtype
from anyrt.core.enums import BuilderFlag, CalibrationAlgoType, Severity
from anyrt.core.errors import ArgumentError
from anyrt.plan.disk import open_regular

INPUT, OTHER = 2.0, 4.0  # the ranges of trtexec
MEANINGLESS = "int8 results are meaningless, only times are valid"


def calibrate(options: Given, network: INetworkDefinition, config: IBuilderConfig, logger: ILogger) -> None:
    """Set the dynamic ranges that the options specify."""
    if not config.get_flag(BuilderFlag.INT8) or is_coded(state_of(network)):
        return
    words = [f"{least}ShapesCalib" for least in ("min", "opt", "max")]
    profiles = profiles_in(config)
    chosen = profiles[_index(options, len(profiles))]
    if any(options.has(word) for word in words):
        chosen = profile_of(options, network, "ShapesCalib")
    config.set_calibration_profile(chosen)
    if not options.has("calib"):
        logger.log(Severity.WARNING, f"no --calib: {MEANINGLESS}")
        state = state_of(network)
        for tensor in state.inputs:
            tensor.it.set_dynamic_range(-INPUT, INPUT)
        for output in (t for layer in state.layers for t in layer.outputs):
            output.it.set_dynamic_range(-OTHER, OTHER)
        return
    path = Path(options.text("calib"))
    if not path.exists():
        logger.log(Severity.WARNING, f"{path}: no such file, calibrated with random numbers: {MEANINGLESS}")
    config.int8_calibrator = File(path, network, chosen)


def _index(options: Given, count: int) -> int:
    index = options.count("calibProfile", 0)
    if index >= count:
        raise ArgumentError(
            "AR304", "--calibProfile", f"{index}", f"0 to {count - 1}", "use the index of a profile"
        )
    return index


class File(IInt8Calibrator):
    """Supplies the cache in a file, or one batch of random numbers if there is no file."""

    def __init__(self, path: Path, network: INetworkDefinition, profile: IOptimizationProfile) -> None:
        IInt8Calibrator.__init__(self)
        self._cache: bytes | None = None
        if path.exists():
            with open_regular(path, str(path)) as file:
                self._cache = file.read()
        random = np.random.default_rng(0)
        self._batches: list[list[npt.NDArray[np.generic]]] = [[]]
        for tensor in state_of(network).inputs:
            range_ = shape_ranges(profile).get(tensor.name)
            shape = tensor.shape if range_ is None else range_.opt
            numbers = random.uniform(-1, 1, shape) if is_float(tensor.element_type) else np.ones(shape)
            self._batches[0].append(numbers.astype(numpy_dtype(tensor.element_type)))

    def get_algorithm(self) -> CalibrationAlgoType:
        """The algorithm that wrote the cache."""
        first = (self._cache or b"").partition(b"\n")[0].decode(errors="replace").strip()
        kinds = (kind for kind, name in NAMES.items() if first.endswith(f"-{name}"))
        return next(kinds, CalibrationAlgoType.ENTROPY_CALIBRATION_2)

    def get_batch_size(self) -> int:
        """1: shapes define the batch."""
        return 1

    def get_batch(self, names: list[str]) -> list[int] | None:
        """Random numbers, once."""
        if not self._batches:
            return None
        self._held = self._batches.pop()
        return [array.ctypes.data for array in self._held]

    def read_calibration_cache(self) -> bytes | None:
        """The content of the file."""
        return self._cache
