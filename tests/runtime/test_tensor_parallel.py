"""An MLP and attention with weights split over ranks agree with one rank; engines run the layers between."""

import pickle
import subprocess
import sys
import uuid

import numpy as np
import pytest

CODE = """
import pickle, sys
import numpy as np
from onnx import helper, numpy_helper, parser
import anyrt
from anyrt.core.enums import ReduceOperation
from anyrt.core.enums import CollectiveOperation
from anyrt.runtime.collective import Exchange, exchange
from anyrt.runtime.ranks import SharedRanks
name, rank, size, text, weights, x = pickle.load(sys.stdin.buffer)
SUM = Exchange(CollectiveOperation.ALL_REDUCE, ReduceOperation.SUM)
model = parser.parse_model('<ir_version: 10, opset_import: ["": 21]> ' + text)
for key, array in weights.items():
    model.graph.initializer.append(numpy_helper.from_array(array, key))
part = anyrt.load(model)
with SharedRanks(name, rank, size) as ranks:
    found = [exchange(ranks, SUM, part.run({"x": x})["y"]) for _ in range(3)]
assert all(y.tobytes() == found[0].tobytes() for y in found)
pickle.dump(found[0], sys.stdout.buffer)
"""
MLP = "g (float[4, 64] x) => (float[4, 64] y) { a = MatMul(x, w1) b = Relu(a) y = MatMul(b, w2) }"
HEADS = """g (float[16, 64] x) => (float[16, 64] y) <int64[3] s = {16, -1, 16}, int64[2] f = {16, -1}> {
 q0 = MatMul(x, wq) k0 = MatMul(x, wk) v0 = MatMul(x, wv)
 q1 = Reshape(q0, s) k1 = Reshape(k0, s) v1 = Reshape(v0, s)
 q = Transpose<perm = [1, 0, 2]>(q1) k = Transpose<perm = [1, 2, 0]>(k1) v = Transpose<perm = [1, 0, 2]>(v1)
 a = MatMul(q, k) p = Softmax<axis = -1>(a) h = MatMul(p, v) t = Transpose<perm = [1, 0, 2]>(h)
 r = Reshape(t, f) y = MatMul(r, wo) }"""


def run(size, text, columns, rows, x):
    """The sum over ranks: each has its part of the columns of some weights, and of the rows of others."""
    name, children = f"tp-{uuid.uuid4().hex}", []
    for rank in range(size):
        mine = {n: np.ascontiguousarray(np.split(w, size, 1)[rank]) for n, w in columns.items()}
        mine |= {n: np.ascontiguousarray(np.split(w, size, 0)[rank]) for n, w in rows.items()}
        child = subprocess.Popen([sys.executable, "-c", CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        child.stdin.write(pickle.dumps((name, rank, size, text, mine, x)))
        child.stdin.close()
        children.append(child)
    results = []
    for child in children:
        with child:
            results.append(pickle.loads(child.stdout.read()))
    assert all(y.tobytes() == results[0].tobytes() for y in results)
    return results[0]


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("text", [MLP, HEADS], ids=["mlp", "attention"])
def test_parts_on_ranks_agree_with_the_whole_on_one(size, text):
    random = np.random.default_rng(0)

    def weight(*shape):
        return (random.standard_normal(shape) / 8).astype(np.float32)

    if text is MLP:
        x, columns, rows = weight(4, 64), {"w1": weight(64, 256)}, {"w2": weight(256, 64)}
    else:
        x, columns, rows = (
            weight(16, 64),
            {n: weight(64, 64) for n in ("wq", "wk", "wv")},
            {"wo": weight(64, 64)},
        )
    whole, parts = run(1, text, columns, rows, x), run(size, text, columns, rows, x)
    # Sums of at most 256 terms in another order: 2⁻²⁴ of the sum of magnitudes for each.
    bound = 256 * 2.0**-24 * np.abs(whole).max() * 4
    assert np.abs(whole - parts).max() <= bound
