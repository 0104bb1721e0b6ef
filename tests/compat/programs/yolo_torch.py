"""Export a small PyTorch YOLO with torch.onnx, build it in FP32, FP16 and INT8, run it on tensors, and
compare with PyTorch.

usage: yolo_torch.py DIRECTORY
"""

import json
import sys
from collections import OrderedDict, namedtuple
from pathlib import Path

import numpy as np
import tensorrt as trt
import torch
from torch import nn

IMGSZ, NC, BINS, STRIDE = 64, 3, 8, 8
LOGGER = trt.Logger(trt.Logger.ERROR)
DEVICE = torch.device("cuda:0")
Binding = namedtuple("Binding", ("name", "dtype", "shape", "data", "ptr"))


class Conv(nn.Module):
    def __init__(self, c_in, c_out, k=1, s=1):
        super().__init__()
        self.conv, self.bn, self.act = (
            nn.Conv2d(c_in, c_out, k, s, k // 2, bias=False),
            nn.BatchNorm2d(c_out),
            nn.SiLU(),
        )

    def forward(self, x):
        return self.act(self.bn(self.conv(x)))


class C2f(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.cv1, self.cv2 = Conv(c, c), Conv(c // 2 * 3, c)
        self.m = nn.Sequential(Conv(c // 2, c // 2, 3), Conv(c // 2, c // 2, 3))

    def forward(self, x):
        a, b = self.cv1(x).chunk(2, 1)
        return self.cv2(torch.cat((a, b, b + self.m(b)), 1))


class Yolo(nn.Module):
    """One head with stride 8; the output is (batch, 4 + classes, anchors), centers and sizes in pixels."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(Conv(3, 8, 3, 2), Conv(8, 16, 3, 2), C2f(16), Conv(16, 32, 3, 2), C2f(32))
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.mix, self.neck = Conv(64, 32), nn.Upsample(scale_factor=2.0, mode="nearest")
        self.down = Conv(32, 32, 3, 2)
        self.box, self.cls = nn.Conv2d(32, 4 * BINS, 1), nn.Conv2d(32, NC, 1)
        self.register_buffer("project", torch.arange(BINS, dtype=torch.float32))
        y, x = torch.meshgrid(*[torch.arange(IMGSZ // STRIDE) + 0.5] * 2, indexing="ij")
        self.register_buffer("anchors", torch.stack((x.flatten(), y.flatten()))[None])

    def forward(self, x):
        y = self.body(x)
        y = self.mix(torch.cat((y, self.pool(y)), 1))
        y = y + self.down(self.neck(y))
        b, _, h, w = y.shape
        box = self.box(y).view(b, 4, BINS, h * w).softmax(2)
        sides = (box * self.project.view(1, 1, BINS, 1)).sum(2)
        low, high = self.anchors - sides[:, :2], self.anchors + sides[:, 2:]
        boxes = torch.cat(((low + high) / 2, high - low), 1) * STRIDE
        return torch.cat((boxes, self.cls(y).view(b, NC, h * w).sigmoid()), 1)


class Calibrator(trt.IInt8Calibrator):
    def __init__(self, loader):
        trt.IInt8Calibrator.__init__(self)
        self.loader, self.iter, self.held = loader, iter(loader), None

    def get_algorithm(self):
        return trt.CalibrationAlgoType.MINMAX_CALIBRATION

    def get_batch_size(self):
        return self.loader.batch_size

    def get_batch(self, names):
        try:
            (images,) = next(self.iter)
        except StopIteration:
            return None
        self.held = (images.to(DEVICE).float() / 255.0).contiguous()
        return [int(self.held.data_ptr())]

    def read_calibration_cache(self):
        return None

    def write_calibration_cache(self, cache):
        self.cache = bytes(cache)


def export(onnx_file, engine_file, metadata, half=False, loader=None):
    builder = trt.Builder(LOGGER)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 30)
    parser = trt.OnnxParser(network, LOGGER)
    assert parser.parse_from_file(str(onnx_file)), parser.get_error(0)
    profile = builder.create_optimization_profile()
    profile.set_shape("images", (1, 3, IMGSZ, IMGSZ), (2, 3, IMGSZ, IMGSZ), (4, 3, IMGSZ, IMGSZ))
    config.add_optimization_profile(profile)
    if loader is not None:
        config.set_flag(trt.BuilderFlag.INT8)
        config.int8_calibrator = Calibrator(loader)
    if half:
        config.set_flag(trt.BuilderFlag.FP16)
    with builder.build_serialized_network(network, config) as engine, open(engine_file, "wb") as f:
        meta = json.dumps(metadata)
        f.write(len(meta).to_bytes(4, byteorder="little", signed=True))
        f.write(meta.encode())
        f.write(engine)


class Detector:
    def __init__(self, file):
        with open(file, "rb") as f, trt.Runtime(LOGGER) as runtime:
            self.metadata = json.loads(f.read(int.from_bytes(f.read(4), byteorder="little")).decode("utf-8"))
            self.model = runtime.deserialize_cuda_engine(f.read())
        self.context, self.bindings = self.model.create_execution_context(), OrderedDict()
        self.bind((2, 3, IMGSZ, IMGSZ))

    def bind(self, shape):
        self.context.set_input_shape("images", shape)
        for i in range(self.model.num_io_tensors):
            name = self.model.get_tensor_name(i)
            dtype, shape = (
                trt.nptype(self.model.get_tensor_dtype(name)),
                tuple(self.context.get_tensor_shape(name)),
            )
            data = torch.from_numpy(np.empty(shape, dtype=dtype)).to(DEVICE)
            self.bindings[name] = Binding(name, dtype, shape, data, int(data.data_ptr()))
        self.addresses = OrderedDict((n, b.ptr) for n, b in self.bindings.items())

    def __call__(self, im):
        if im.shape != self.bindings["images"].shape:
            self.bind(tuple(im.shape))
        self.addresses["images"] = int(im.data_ptr())
        assert self.context.execute_v2(list(self.addresses.values()))
        return self.bindings["output0"].data


def trained(loader):
    torch.manual_seed(0)
    model = Yolo().train()
    with torch.no_grad():
        for (images,) in loader:
            model(images / 255.0)
    return model.eval()


def main():
    directory, generator = Path(sys.argv[1]), torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (16, 3, IMGSZ, IMGSZ), dtype=torch.uint8, generator=generator)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images), batch_size=4)
    model, onnx_file = trained(loader), directory / "yolo.onnx"
    axes = {"images": {0: "batch"}, "output0": {0: "batch"}}
    torch.onnx.export(
        model,
        (images[:2] / 255.0,),
        str(onnx_file),
        opset_version=17,
        dynamo=False,
        input_names=["images"],
        output_names=["output0"],
        dynamic_axes=axes,
    )
    kinds = {
        "fp32": ({}, 1e-4),
        "fp16": ({"half": True}, 0.02),
        "int8": ({"loader": loader, "half": True}, 0.3),
    }
    for kind, (flags, limit) in kinds.items():
        file = directory / f"yolo-{kind}.engine"
        export(onnx_file, file, {"stride": STRIDE, "batch": 2, "imgsz": [IMGSZ, IMGSZ]}, **flags)
        detector = Detector(file)
        assert detector.metadata["imgsz"] == [IMGSZ, IMGSZ]
        for n in (2, 4, 1):
            im = (images[:n].to(DEVICE) / 255.0).contiguous()
            with torch.no_grad():
                want = model.to(DEVICE)(im)
            error = (detector(im) - want).abs()
            boxes, scores = float(error[:, :4].max()) / IMGSZ, float(error[:, 4:].max())
            assert max(boxes, scores) < limit, (kind, n, boxes, scores)
        print(f"{kind}: differs by {boxes:.1e} of the image's side, {scores:.1e} of scores")
    print("PASSED")


if __name__ == "__main__":
    main()
