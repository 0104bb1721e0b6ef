"""Spark, Dask and Daft: outputs as columns, by two workers."""

import sys

import numpy as np
import pytest

from anyrt.onnx.predictor import Predictor

pd = pytest.importorskip("pandas", reason="pandas is not installed: make engines runs this")
pytestmark = [pytest.mark.programs, pytest.mark.filterwarnings("ignore")]
ROWS = 100


@pytest.fixture(scope="module")
def spark():
    sql = pytest.importorskip("pyspark.sql", reason="Spark is not installed: make engines runs this")
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    session = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    yield session
    session.stop()
    monkeypatch.undo()


def vectors(rows):
    return [[float(k), 1.0, 2.0] for k in range(rows)]


def pairs(rows):
    return {"a": [[1.0, 2.0, 3.0, float(k)] for k in range(rows)], "b": [k % 256 for k in range(rows)]}


def check_pairs(twice, same):
    np.testing.assert_array_equal(np.stack(list(twice)), [[2, 4, 6, 2 * k] for k in range(ROWS)])
    np.testing.assert_array_equal(same, [k % 256 for k in range(ROWS)])


def test_spark_with_one_output(spark, neg):
    from anyrt.integrations.spark import batch_udf

    table = spark.createDataFrame(list(enumerate(vectors(ROWS))), "id long, x array<float>").repartition(2)
    predict = batch_udf(Predictor(neg, threads=1), batch_size=16)
    rows = table.select("id", predict("x").alias("y")).collect()
    assert sorted(r.id for r in rows) == list(range(ROWS))
    assert all(r.y == [-r.id, -1, -2] for r in rows)


def test_spark_with_several_inputs_and_outputs(spark, wide):
    from anyrt.integrations.spark import batch_udf

    rows = list(zip(*pairs(ROWS).values(), strict=True))
    table = spark.createDataFrame(rows, "a array<float>, b int").coalesce(1)
    result = table.select(batch_udf(Predictor(wide, threads=1))("a", "b").alias("r")).select("r.*").toPandas()
    check_pairs(result["twice"], result["same"])


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip(
        "dask.distributed", reason="Dask is not installed: make engines runs this"
    )
    # Dask would convert lists to text.
    dask = pytest.importorskip("dask", reason="Dask is not installed: make engines runs this")
    with (
        dask.config.set({"dataframe.convert-string": False}),
        distributed.Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client,
    ):
        yield client


@pytest.mark.parametrize("partitions", [1, 7])
def test_dask(cluster, wide, partitions):
    dd = pytest.importorskip("dask.dataframe", reason="Dask is not installed: make engines runs this")
    from anyrt.integrations.dask import with_outputs

    frame = dd.from_pandas(pd.DataFrame(pairs(ROWS)), npartitions=partitions)
    lazy = with_outputs(frame, Predictor(wide, threads=1))
    assert list(lazy.columns) == ["a", "b", "twice", "same"]
    result = lazy.compute()
    check_pairs(result["twice"], result["same"])
    assert len(lazy[lazy.b < 0].compute()) == 0


def test_dask_without_rows(cluster, neg):
    dd = pytest.importorskip("dask.dataframe", reason="Dask is not installed: make engines runs this")
    from anyrt.integrations.dask import with_outputs

    frame = dd.from_pandas(pd.DataFrame({"x": vectors(10), "k": 1}), npartitions=2)
    assert len(with_outputs(frame[frame.k < 0], Predictor(neg, threads=1)).compute()) == 0


def test_daft(wide):
    daft = pytest.importorskip("daft", reason="Daft is not installed: make engines runs this")
    from anyrt.integrations.daft import with_outputs

    frame = daft.from_pydict(pairs(ROWS)).into_partitions(4)
    result = with_outputs(frame, Predictor(wide, threads=1), batch_size=16).to_pydict()
    check_pairs(result["twice"], result["same"])
