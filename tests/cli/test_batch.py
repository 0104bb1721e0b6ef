"""`anyrt batch` converts files to files, each once, in several processes."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from onnx import parser
from PIL import Image

from anyrt.cli.main import main

TEXT = '<ir_version: 10, opset_import: ["": 21]> g (float[n, 3] x) => (float[n, 3] y) { y = Neg(x) }'
PHOTO = (
    '<ir_version: 10, opset_import: ["": 21]> g (float[n, 3, 2, 2] x) => (float[n, 3, 2, 2] y) { y = Neg(x) }'
)


@pytest.fixture
def place(tmp_path):
    (tmp_path / "m.onnx").write_bytes(parser.parse_model(TEXT).SerializeToString())
    (tmp_path / "in" / "sub").mkdir(parents=True)
    for k in range(4):
        np.savez(tmp_path / "in" / "sub" / f"{k}.npz", x=np.full((k + 1, 3), k, np.float32))
    np.save(tmp_path / "in" / "a.npy", np.float32([[1, 2, 3]]))
    return tmp_path


def batch(place, *more):
    return main(["batch", str(place / "m.onnx"), str(place / "in"), str(place / "out"), *more])


@pytest.mark.parametrize("processes", ["1", "2"])
def test_every_file_has_its_results(place, processes, capsys):
    assert batch(place, "--processes", processes) == 0
    assert "5 of 5 files computed" in capsys.readouterr().out
    assert np.load(place / "out/a.npy.npz")["y"].tolist() == [[-1, -2, -3]]
    for k in range(4):
        assert np.load(place / f"out/sub/{k}.npz")["y"].tolist() == [[-k] * 3] * (k + 1)


def test_existing_outputs_are_not_computed_again(place, capsys):
    batch(place)
    before = (place / "out/sub/1.npz").stat().st_mtime_ns
    (place / "out/sub/2.npz").unlink()
    assert batch(place) == 0
    assert "1 of 5 files computed, 4 up to date" in capsys.readouterr().out
    assert (place / "out/sub/1.npz").stat().st_mtime_ns == before


def test_changed_files_are_computed_again(place, capsys):
    batch(place)
    np.save(place / "in/a.npy", np.float32([[4, 5, 6]]))
    os.utime(place / "in/a.npy", (time.time() + 9, time.time() + 9))
    assert batch(place) == 0
    assert np.load(place / "out/a.npy.npz")["y"].tolist() == [[-4, -5, -6]]


def test_files_that_do_not_fit_are_named_and_hinder_no_others(place, capsys):
    (place / "in/bad.npz").write_bytes(b"no array")
    np.savez(place / "in/other.npz", z=np.float32([1]))
    assert batch(place) == 2
    output = capsys.readouterr().err
    assert "2 files" in output
    assert "bad.npz" in output
    assert "other.npz" in output
    assert sorted(p.name for p in (place / "out").rglob("*.npz")) == [
        "0.npz",
        "1.npz",
        "2.npz",
        "3.npz",
        "a.npy.npz",
    ]


def test_json_has_the_numbers_of_files_and_the_error_of_each_failed_one(place, capsys):
    batch(place)
    capsys.readouterr()
    (place / "out/sub/2.npz").unlink()
    (place / "in/bad.npz").write_bytes(b"no array")
    assert batch(place, "--json") == 2
    output = json.loads(capsys.readouterr().out)
    assert (output["computed"], output["up_to_date"], output["files"]) == (1, 4, 6)
    ((path, error),) = output["failed"].items()
    assert path == str(place / "in/bad.npz")
    assert "AR304" in error


def test_images_are_scaled_and_laid_out(tmp_path):
    (tmp_path / "m.onnx").write_bytes(parser.parse_model(PHOTO).SerializeToString())
    (tmp_path / "in").mkdir()
    Image.new("RGB", (2, 2), (255, 0, 51)).save(tmp_path / "in/p.png")
    assert batch(tmp_path, "--mean", "0.5,0.5,0.2", "--std", "0.5,1,1") == 0
    y = np.load(tmp_path / "out/p.png.npz")["y"]
    np.testing.assert_allclose(y[0, :, 0, 0], [-1, 0.5, 0], atol=1e-6)


def test_folder_without_files_is_reported(tmp_path, place, capsys):
    (tmp_path / "none").mkdir()
    assert main(["batch", str(place / "m.onnx"), str(tmp_path / "none"), str(tmp_path / "out")]) == 2
    assert "no input file" in capsys.readouterr().err


def test_killed_worker_leaves_whole_files_and_the_rest_is_done_next(place, capsys):
    for k in range(200):
        np.savez(place / "in" / f"more{k}.npz", x=np.full((2000, 3), k, np.float32))
    command = [sys.executable, "-m", "anyrt", "batch", *(str(place / n) for n in ("m.onnx", "in", "out"))]
    with subprocess.Popen([*command, "--processes", "2"], stderr=subprocess.PIPE, text=True) as running:
        until = time.monotonic() + 60
        while len(list((place / "out").rglob("*.npz"))) < 10 and time.monotonic() < until:
            time.sleep(0.01)
        children = subprocess.run(
            ["pgrep", "-P", str(running.pid), "-f", "spawn_main"], capture_output=True, text=True
        )
        os.kill(int(children.stdout.split()[0]), signal.SIGKILL)
        output = running.stderr.read()
    assert running.returncode == 2
    assert "computes only the missing results" in output
    done = {p: p.stat().st_mtime_ns for p in (place / "out").rglob("*.npz")}
    assert batch(place, "--processes", "2") == 0
    every = list((place / "out").rglob("*"))
    assert len([p for p in every if p.suffix == ".npz" and np.load(p)["y"].size]) == 205
    assert all(p.stat().st_mtime_ns == t for p, t in done.items())


def test_tables_get_columns(tmp_path, place):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install anyrt[batch]")
    pq = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "t").mkdir()
    rows = [[float(k), 1.0, 2.0] for k in range(100)]
    pq.write_table(pa.table({"id": list(range(100)), "x": rows}), tmp_path / "t/a.parquet")
    assert (
        main(["batch", str(place / "m.onnx"), str(tmp_path / "t"), str(tmp_path / "o"), "--rows", "32"]) == 0
    )
    result = pq.read_table(tmp_path / "o/a.parquet").to_pydict()
    assert result["id"] == list(range(100))
    assert result["y"] == [[-v for v in row] for row in rows]
