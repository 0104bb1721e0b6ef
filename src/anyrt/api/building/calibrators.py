"""The base classes of int8 calibrators.

class Images(trt.IInt8EntropyCalibrator2):
    def __init__(self, batches):
        trt.IInt8EntropyCalibrator2.__init__(self)      # must be called
        self.batches = iter(batches)
    def get_batch_size(self):
        return 8
    def get_batch(self, names):
        self.batch = next(self.batches, None)           # keep it, since its memory is read later
        return None if self.batch is None else [self.batch.ctypes.data]
    def read_calibration_cache(self):
        return None
    def write_calibration_cache(self, cache):
        Path("net.calib").write_bytes(cache)
"""

from __future__ import annotations

from anyrt.api.edge.fold import fold
from anyrt.api.edge.interfaces import Interface, pure
from anyrt.core.enums import CalibrationAlgoType


@fold
class IInt8Calibrator(Interface):
    """Supplies representative batches, from which the build determines the dynamic ranges of tensors."""

    __slots__ = ()

    def get_batch_size(self) -> int:
        """Return the number of samples in a batch; it must match the input shapes or the calibration
        profile."""
        pure(self, "get_batch_size")

    def get_batch(self, names: list[str]) -> list[int] | None:
        """Return the addresses of the next batch, one for each input in `names` and of its type, or None or
        an empty list after the last batch."""
        pure(self, "get_batch")

    def get_algorithm(self) -> CalibrationAlgoType:
        """Return the algorithm that computes ranges from magnitudes."""
        pure(self, "get_algorithm")

    def read_calibration_cache(self) -> bytes | None:
        """Return the content of an earlier `write_calibration_cache`, with which the build requests no batch,
        or None."""
        return None

    def write_calibration_cache(self, cache: memoryview) -> None:
        """Store the result, a text: a line of version and algorithm, then lines "tensor: scale" with the
        scale as the eight hexadecimal digits of a float32."""


@fold
class IInt8EntropyCalibrator(IInt8Calibrator):
    """Selects the ranges whose codes lose the least information (ENTROPY_CALIBRATION)."""

    __slots__ = ()

    def get_algorithm(self) -> CalibrationAlgoType:
        """ENTROPY_CALIBRATION."""
        return CalibrationAlgoType.ENTROPY_CALIBRATION


@fold
class IInt8EntropyCalibrator2(IInt8Calibrator):
    """Selects the ranges whose codes lose the least information (ENTROPY_CALIBRATION_2); the usual class."""

    __slots__ = ()

    def get_algorithm(self) -> CalibrationAlgoType:
        """ENTROPY_CALIBRATION_2."""
        return CalibrationAlgoType.ENTROPY_CALIBRATION_2


@fold
class IInt8MinMaxCalibrator(IInt8Calibrator):
    """Uses the largest magnitude as the range (MINMAX_CALIBRATION)."""

    __slots__ = ()

    def get_algorithm(self) -> CalibrationAlgoType:
        """MINMAX_CALIBRATION."""
        return CalibrationAlgoType.MINMAX_CALIBRATION


@fold
class IInt8LegacyCalibrator(IInt8Calibrator):
    """Uses a quantile of the magnitudes as the range (LEGACY_CALIBRATION).

    A subclass may have `get_quantile()`, the share of magnitudes inside the range (default: 1), and
    `get_regression_cutoff()`, the largest range as a share of the largest magnitude (default: 1).
    `read_histogram_cache` and `write_histogram_cache` are not called."""

    __slots__ = ()

    def get_algorithm(self) -> CalibrationAlgoType:
        """LEGACY_CALIBRATION."""
        return CalibrationAlgoType.LEGACY_CALIBRATION
