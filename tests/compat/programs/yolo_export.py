"""Export a small YOLO to engines in FP32, FP16 and INT8, with EfficientNMS at the end and a JSON header
before the plan; load them and compare them with ONNX Runtime, with suppression in NumPy and with each other.

usage: yolo_export.py DIRECTORY [fp32] [fp16] [int8]
"""

import json
import sys
from collections import OrderedDict, namedtuple
from pathlib import Path

import numpy as np
import onnxruntime
import tensorrt as trt
import yolo_model
from cuda import cudart

IMGSZ, CLASSES = 64, {0: "person", 1: "bicycle", 2: "car", 3: "dog"}
NMS = {"max_output_boxes": 20, "score_threshold": 0.25, "iou_threshold": 0.5}
META = {"description": "tiny YOLO", "names": CLASSES, "stride": 16, "imgsz": [IMGSZ, IMGSZ], "dla": None}
LIMITS = {"fp32": (0, 0), "fp16": (0.05, 0.002), "int8": (2.0, 0.05)}
LOGGER = trt.Logger(trt.Logger.WARNING)
Binding = namedtuple("Binding", ("name", "dtype", "shape", "ptr", "nbytes", "is_input"))


def cuda(status, *values):
    assert status == cudart.cudaError_t.cudaSuccess, status
    return values[0] if values else None


def make_images(count, seed):
    """Smooth blobs of colour on noise, between 0 and 1, (count, 3, IMGSZ, IMGSZ)."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:IMGSZ, :IMGSZ] / IMGSZ
    images = rng.random((count, 3, IMGSZ, IMGSZ)) * 0.2
    for image in images:
        for cy, cx, r in rng.uniform(0.1, 0.9, (3, 3)):
            image += rng.random((3, 1, 1)) * np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / (0.02 + 0.1 * r))
    return np.clip(images, 0, 1).astype(np.float32)


class EngineCalibrator(trt.IInt8Calibrator):
    """Feeds batches of a dataset; a method returns the algorithm, as in exporters that offer several."""

    def __init__(self, dataset, batch, cache):
        trt.IInt8Calibrator.__init__(self)
        self.dataset, self.batch, self.cache = dataset, batch, Path(cache)
        self.algo = trt.CalibrationAlgoType.ENTROPY_CALIBRATION_2
        self.batches = iter(np.split(dataset, len(dataset) // batch))
        self.device = cuda(*cudart.cudaMalloc(dataset[:batch].nbytes))

    def get_algorithm(self) -> trt.CalibrationAlgoType:
        return self.algo

    def get_batch_size(self) -> int:
        return self.batch or 1

    def get_batch(self, names) -> list[int] | None:
        try:
            im = np.ascontiguousarray(next(self.batches))
        except StopIteration:
            return None
        kind = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
        cuda(*cudart.cudaMemcpy(self.device, im.ctypes.data, im.nbytes, kind))
        return [int(self.device)]

    def read_calibration_cache(self) -> bytes | None:
        if self.cache.exists() and self.cache.suffix == ".cache":
            return self.cache.read_bytes()
        return None

    def write_calibration_cache(self, cache: bytes) -> None:
        _ = self.cache.write_bytes(cache)


def export_engine(
    onnx_file,
    engine_file,
    half=False,
    int8=False,
    dynamic=False,
    shape=(2, 3, IMGSZ, IMGSZ),
    dataset=None,
    workspace=1,
    metadata=None,
):
    builder = trt.Builder(LOGGER)
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, int(workspace * (1 << 30)))
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    half = builder.platform_has_fast_fp16 and half
    int8 = builder.platform_has_fast_int8 and int8
    parser = trt.OnnxParser(network, LOGGER)
    if not parser.parse_from_file(str(onnx_file)):
        print(*(parser.get_error(i) for i in range(parser.num_errors)), sep="\n")
        raise RuntimeError(f"failed to load ONNX file: {onnx_file}")
    inputs = [network.get_input(i) for i in range(network.num_inputs)]
    outputs = [network.get_output(i) for i in range(network.num_outputs)]
    for t in inputs + outputs:
        print(f'  "{t.name}" with shape{t.shape} {t.dtype}')
    if dynamic:
        profile = builder.create_optimization_profile()
        for inp in inputs:
            profile.set_shape(inp.name, min=(1, *shape[1:]), opt=shape, max=(shape[0] * 2, *shape[1:]))
        config.add_optimization_profile(profile)
        if int8:
            config.set_calibration_profile(profile)
    if int8:
        config.set_flag(trt.BuilderFlag.INT8)
        config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
        config.int8_calibrator = EngineCalibrator(dataset, shape[0], Path(onnx_file).with_suffix(".cache"))
    if half:
        config.set_flag(trt.BuilderFlag.FP16)
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        raise RuntimeError("engine build failed, check the log")
    with open(engine_file, "wb") as t:
        if metadata is not None:
            meta = json.dumps(metadata)
            t.write(len(meta).to_bytes(4, byteorder="little", signed=True))
            t.write(meta.encode())
        t.write(engine)
    return engine_file


class Backend:
    """Loads such a file, with or without a header, and runs it."""

    def __init__(self, engine_file):
        self.metadata = {}
        with open(engine_file, "rb") as f, trt.Runtime(LOGGER) as runtime:
            try:
                meta_len = int.from_bytes(f.read(4), byteorder="little")
                self.metadata = json.loads(f.read(meta_len).decode("utf-8"))
                if (dla := self.metadata.get("dla")) is not None:
                    runtime.DLA_core = int(dla)
            except UnicodeDecodeError:
                f.seek(0)  # a plan of another program without a header
            self.model = runtime.deserialize_cuda_engine(f.read())
        self.context = self.model.create_execution_context()
        is_trt10 = not hasattr(self.model, "num_bindings")
        self.names = [self.model.get_tensor_name(i) for i in range(self.model.num_io_tensors)]
        assert is_trt10
        self.dynamic = -1 in tuple(self.model.get_tensor_shape("images"))
        if self.dynamic:
            self.context.set_input_shape("images", tuple(self.model.get_tensor_profile_shape("images", 0)[1]))
        self.bindings = OrderedDict((name, self.bind(name)) for name in self.names)

    def bind(self, name):
        dtype = np.dtype(trt.nptype(self.model.get_tensor_dtype(name)))
        shape = tuple(self.context.get_tensor_shape(name))
        nbytes = int(np.prod(shape)) * dtype.itemsize
        is_input = self.model.get_tensor_mode(name) == trt.TensorIOMode.INPUT
        return Binding(name, dtype, shape, cuda(*cudart.cudaMalloc(nbytes)), nbytes, is_input)

    def __call__(self, im):
        if self.dynamic and im.shape != self.bindings["images"].shape:
            self.context.set_input_shape("images", im.shape)
            for name in self.names:
                cuda(*cudart.cudaFree(self.bindings[name].ptr))
                self.bindings[name] = self.bind(name)
        b = self.bindings["images"]
        assert im.shape == b.shape, f"input size {im.shape} not equal to model size {b.shape}"
        im = np.ascontiguousarray(im, b.dtype)
        kind = cudart.cudaMemcpyKind
        cuda(*cudart.cudaMemcpy(b.ptr, im.ctypes.data, im.nbytes, kind.cudaMemcpyHostToDevice))
        assert self.context.execute_v2([int(b.ptr) for b in self.bindings.values()])
        results = {}
        for b in (b for b in self.bindings.values() if not b.is_input):
            results[b.name] = np.empty(b.shape, b.dtype)
            to = results[b.name].ctypes.data
            cuda(*cudart.cudaMemcpy(to, b.ptr, b.nbytes, kind.cudaMemcpyDeviceToHost))
        return results


def areas(boxes):
    return np.maximum(boxes[..., 2:] - boxes[..., :2], 0).prod(-1)


def iou(box, boxes):
    low, high = np.maximum(box[:2], boxes[:, :2]), np.minimum(box[2:], boxes[:, 2:])
    inter = np.maximum(high - low, 0).prod(-1)
    return inter / (areas(box) + areas(boxes) - inter)


def nms(boxes, scores):
    """Suppression per class in NumPy, the best first: (score, class, box)."""
    kept = []
    for c in range(scores.shape[1]):
        order = [i for i in np.argsort(-scores[:, c]) if scores[i, c] >= NMS["score_threshold"]]
        while order:
            best = order.pop(0)
            kept.append((scores[best, c], c, boxes[best]))
            order = [i for i in order if iou(boxes[best], boxes[i : i + 1])[0] <= NMS["iou_threshold"]]
    return sorted(kept, key=lambda d: -d[0])[: NMS["max_output_boxes"]]


def check_detections(actual, raw):
    """Compare the output of EfficientNMS with suppression in NumPy of the same boxes and scores."""
    for i in range(len(actual["num_dets"])):
        want, count = nms(raw["boxes"][i], raw["scores"][i]), int(actual["num_dets"][i, 0])
        assert count == len(want) > 0, (count, len(want))
        assert actual["det_classes"][i, :count].tolist() == [c for _, c, _ in want]
        np.testing.assert_allclose(actual["det_scores"][i, :count], [s for s, _, _ in want], rtol=1e-5)
        np.testing.assert_allclose(actual["det_boxes"][i, :count], [b for _, _, b in want], atol=1e-3)


def differences(raw, exact):
    """The mean differences of boxes in pixels and of scores from FP32."""
    return tuple(float(np.abs(raw[n] - exact[n]).mean()) for n in ("boxes", "scores"))


def export_all(directory, kind, flags, data):
    """Export engines of the model with and without suppression, and load them."""
    backends = []
    for model in ("raw", "nms"):
        file = directory / f"{model}-{kind}.engine"
        export_engine(directory / f"{model}.onnx", file, dynamic=True, dataset=data, metadata=META, **flags)
        backends.append(Backend(file))
        assert backends[-1].metadata["names"] == {str(k): v for k, v in CLASSES.items()}
    return backends


def check_fp32(directory, raw, nms, images):
    session = onnxruntime.InferenceSession(str(directory / "raw.onnx"), providers=["CPUExecutionProvider"])
    for batch in (images, images[:1]):
        boxes, scores = session.run(["boxes", "scores"], {"images": batch})
        result = raw(batch)
        np.testing.assert_allclose(result["boxes"], boxes, atol=1e-3)
        np.testing.assert_allclose(result["scores"], scores, atol=1e-4)
        check_detections(nms(batch), result)


def main():
    directory, kinds = Path(sys.argv[1]), sys.argv[2:] or list(LIMITS)
    trt.init_libnvinfer_plugins(LOGGER, "")
    yolo_model.save(directory / "raw.onnx", size=IMGSZ, classes=len(CLASSES))
    yolo_model.save(directory / "nms.onnx", size=IMGSZ, classes=len(CLASSES), nms=NMS)
    images, data = make_images(2, seed=1), make_images(16, seed=2)
    raw, nms = export_all(directory, "fp32", {}, data)
    check_fp32(directory, raw, nms, images)
    exact = raw(images)
    for kind in kinds:
        if kind == "fp32":
            continue
        raw, nms = export_all(directory, kind, {"half": True, "int8": kind == "int8"}, data)
        differs = differences(raw(images), exact)
        print(kind, "differs from FP32 by {:.1e} pixels, {:.1e} of scores".format(*differs))
        assert all(result < limit for result, limit in zip(differs, LIMITS[kind], strict=True))
        # FP16 is permitted: on a processor where it is no faster, AnyRT computes in float32.
        assert all(result > 0 for result in differs) or kind == "fp16"
        assert (nms(images)["num_dets"] > 0).all()
    if "int8" in kinds:
        assert (directory / "raw.cache").read_bytes().startswith(b"TRT-")
    plain = export_engine(directory / "raw.onnx", directory / "plain.engine", dynamic=True)
    np.testing.assert_array_equal(Backend(plain)(images)["boxes"], exact["boxes"])
    print("PASSED")


if __name__ == "__main__":
    main()
