"""The classes that calibrators of int8 are derived from.

class Images(trt.IInt8EntropyCalibrator2):
    def __init__(self, batches):
        trt.IInt8EntropyCalibrator2.__init__(self)      # must be called
        self.batches = iter(batches)
    def get_batch_size(self):
        return 8
    def get_batch(self, names):
        self.batch = next(self.batches, None)           # kept, as its memory is read later
        return None if self.batch is None else [self.batch.ctypes.data]
    def read_calibration_cache(self):
        return None
    def write_calibration_cache(self, cache):
        Path("net.calib").write_bytes(cache)
"""

from __future__ import annotations

from anyrt.api.edge.fold import fold
from anyrt.api.edge.interfaces import Interface, pure
from anyrt.core.enums_more import CalibrationAlgoType


@fold
class IInt8Calibrator(Interface):
    """Shows a network representative batches, of which the ranges of tensors are learnt."""

    __slots__ = ()

    def get_batch_size(self) -> int:
        """How many samples a batch has; the shapes of inputs, or of the calibration profile, say it, too."""
        pure(self, "get_batch_size")

    def get_batch(self, names: list[str]) -> list[int] | None:
        """The addresses of the next batch, one for each input in `names`, of its type; None or an empty
        list when there are no more."""
        pure(self, "get_batch")

    def get_algorithm(self) -> CalibrationAlgoType:
        """How ranges follow from magnitudes."""
        pure(self, "get_algorithm")

    def read_calibration_cache(self) -> bytes | None:
        """The content of an earlier `write_calibration_cache`: no batch is requested then. None: there is
        none."""
        return None

    def write_calibration_cache(self, cache: memoryview) -> None:
        """Store the result, a text: a line of version and algorithm, then "tensor: scale" with float32 as
        eight hexadecimal digits."""


@fold
class IInt8EntropyCalibrator(IInt8Calibrator):
    """Chooses ranges whose codes tell most of a tensor (ENTROPY_CALIBRATION)."""

    __slots__ = ()

    def get_algorithm(self) -> CalibrationAlgoType:
        """ENTROPY_CALIBRATION."""
        return CalibrationAlgoType.ENTROPY_CALIBRATION


@fold
class IInt8EntropyCalibrator2(IInt8Calibrator):
    """Chooses ranges whose codes tell most of a tensor (ENTROPY_CALIBRATION_2); the usual one."""

    __slots__ = ()

    def get_algorithm(self) -> CalibrationAlgoType:
        """ENTROPY_CALIBRATION_2."""
        return CalibrationAlgoType.ENTROPY_CALIBRATION_2


@fold
class IInt8MinMaxCalibrator(IInt8Calibrator):
    """Takes the largest magnitude as the range (MINMAX_CALIBRATION)."""

    __slots__ = ()

    def get_algorithm(self) -> CalibrationAlgoType:
        """MINMAX_CALIBRATION."""
        return CalibrationAlgoType.MINMAX_CALIBRATION


@fold
class IInt8LegacyCalibrator(IInt8Calibrator):
    """Takes a quantile of magnitudes as the range (LEGACY_CALIBRATION).

    A subclass may have `get_quantile()`, the share of magnitudes inside the range (default: 1), and
    `get_regression_cutoff()`, the largest range as a share of the largest magnitude (default: 1).
    `read_histogram_cache` and `write_histogram_cache` are not called."""

    __slots__ = ()

    def get_algorithm(self) -> CalibrationAlgoType:
        """LEGACY_CALIBRATION."""
        return CalibrationAlgoType.LEGACY_CALIBRATION
