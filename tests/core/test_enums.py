"""Enums behave like pybind11 enums and have the published numbers."""

import pickle

import numpy as np
import pytest

from anyrt.core import enums
from anyrt.core.enums import BuilderFlag, DataType, LayerType, Severity, TensorIOMode
from anyrt.core.trt_enum import TrtEnum


def test_str_and_repr_show_class_and_name():
    assert str(DataType.FLOAT) == "DataType.FLOAT"
    assert repr(DataType.FLOAT) == "<DataType.FLOAT: 0>"
    assert f"{Severity.ERROR}" == "Severity.ERROR"


def test_members_convert_from_and_to_numbers_and_names():
    assert (int(DataType.BF16), DataType.BF16.value, DataType.BF16.name) == (7, 7, "BF16")
    assert DataType(7) is DataType["BF16"] is DataType.__members__["BF16"] is DataType.BF16
    assert [10, 20, 30][TensorIOMode.OUTPUT] == 30


def test_members_equal_nothing_but_themselves():
    assert DataType.FLOAT != 0
    assert DataType.FLOAT != BuilderFlag.FP16
    assert len({DataType.FLOAT, BuilderFlag.FP16, 0}) == 3


def test_flags_take_part_in_integer_arithmetic():
    assert 1 << BuilderFlag.TF32 == 64
    assert (1 << int(BuilderFlag.TF32)) | BuilderFlag.INT8 == 65
    assert (BuilderFlag.INT8 | 4, 5 & BuilderFlag.INT8, BuilderFlag.INT8 ^ BuilderFlag.INT8) == (5, 1, 0)
    assert (BuilderFlag.DEBUG << 1, BuilderFlag.DEBUG >> 1, 8 >> BuilderFlag.DEBUG) == (4, 1, 2)


def test_order_is_defined_within_one_enum_only():
    assert Severity.ERROR < Severity.WARNING <= Severity.WARNING
    assert Severity.VERBOSE > Severity.INFO >= Severity.INFO
    with pytest.raises(TypeError):
        _ = Severity.ERROR < DataType.HALF


def test_aliases_are_one_member():
    assert BuilderFlag.STRIP_PLAN is BuilderFlag.WEIGHTLESS
    assert int(BuilderFlag.REFIT_IDENTICAL) == 20


def test_members_survive_pickling_and_lookup_by_numpy_integers():
    assert pickle.loads(pickle.dumps(LayerType.RESIZE)) is LayerType.RESIZE
    assert DataType(np.int64(3)) is DataType.INT32


def test_itemsize_is_in_bytes_and_half_for_packed_types():
    sizes = {t.name: t.itemsize for t in DataType}
    assert sizes == {
        "FLOAT": 4, "HALF": 2, "INT8": 1, "INT32": 4, "BOOL": 1, "UINT8": 1,
        "FP8": 1, "BF16": 2, "INT64": 8, "INT4": 0.5, "FP4": 0.5, "E8M0": 1,
        "DOUBLE": 8, "INT16": 2, "UINT16": 2, "UINT32": 4, "UINT64": 8, "UINT4": 0.5, "INT2": 0.25,
        "UINT2": 0.25, "FP8E5M2": 1, "FP8E4M3FNUZ": 1, "FP8E5M2FNUZ": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("member", "number"),
    [
        (enums.ActivationType.GELU_TANH, 13),
        (enums.BuilderFlag.DISTRIBUTIVE_INDEPENDENCE, 28),
        (enums.ElementWiseOperation.LESS, 13),
        (enums.ErrorCodeTRT.UNSUPPORTED_STATE, 10),
        (enums.InterpolationMode.CUBIC, 2),
        (enums.LayerType.CAST, 1),
        (enums.LayerType.SHUFFLE, 13),
        (enums.LayerType.NORMALIZATION, 45),
        (enums.LayerType.DIST_COLLECTIVE, 56),
        (enums.MemoryPoolType.TACTIC_SHARED_MEMORY, 5),
        (enums.ResizeRoundMode.CEIL, 3),
        (enums.SampleMode.REFLECT, 4),
        (enums.ScaleMode.ELEMENTWISE, 2),
        (enums.TensorFormat.DHWC, 12),
        (enums.UnaryOperation.ISNAN, 24),
        (enums.ErrorCode.REFIT_FAILED, 14),
        (enums.OnnxParserFlag.ADJUST_FOR_DLA, 4),
        (enums.PluginCreatorVersion.V1_PYTHON, 64),
        (enums.PluginFieldType.FP4, 13),
    ],
)
def test_last_and_notable_members_have_their_published_numbers(member: TrtEnum, number: int):
    assert int(member) == number


def test_values_of_each_enum_start_at_zero_and_leave_no_gap():
    every = [x for x in vars(enums).values() if isinstance(x, type)]
    results = [x for x in every if issubclass(x, TrtEnum) and x is not TrtEnum]
    theirs = {c: [int(x) for x in c if not getattr(x, "is_extension", False)] for c in results}
    gaps = {c.__name__ for c, numbers in theirs.items() if numbers != list(range(len(numbers)))}
    assert len(results) == 66
    assert gaps == {"PluginCreatorVersion"}
