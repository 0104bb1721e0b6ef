"""What a single-shot detector (SSD) does with the numbers of its heads: boxes are decoded around anchors, the
best of each class are kept by non-maximum suppression, and their boxes and scores gathered. The data decide
how many there are.

python examples/detections.py
"""

from dataclasses import dataclass

import numpy as np

import anyrt as trt

VARIANCES = (
    0.1,
    0.1,
    0.2,
    0.2,
)  # what a unit of the heads' numbers is worth: centers, and logarithms of sizes


@dataclass(frozen=True)
class Detector:
    """Cells of each grid along a side, sizes of an anchor for each, classes beside the background; how much
    boxes of a class may overlap, what they must score, how many there may be."""

    grids: tuple[int, ...] = (19, 10, 5, 3)
    ratios: tuple[float, ...] = (0.5, 1.0, 2.0)
    classes: int = 20
    overlap: float = 0.45
    least: float = 0.3
    most: int = 50

    @property
    def anchors(self) -> np.ndarray:
        """Centers and sizes of all anchors, as fractions of the image: (anchors, 4)."""
        boxes = []
        for grid in self.grids:
            y, x = np.mgrid[:grid, :grid]
            for ratio in self.ratios:
                sides = (
                    np.full_like(x, 1.5, float) / grid * ratio**0.5,
                    np.full_like(x, 1.5, float) / grid / ratio**0.5,
                )
                boxes.append(np.stack([(y + 0.5) / grid, (x + 0.5) / grid, *sides], -1).reshape(-1, 4))
        return np.concatenate(boxes).astype(np.float32)


class Writer:
    """Adds layers to a network, with short names for those that are needed often."""

    def __init__(self, network: trt.INetworkDefinition) -> None:
        self.network = network

    def constant(self, array: np.ndarray) -> trt.ITensor:
        return self.network.add_constant(array.shape, np.ascontiguousarray(array)).get_output(0)

    def both(self, a: trt.ITensor, b: trt.ITensor, how: trt.ElementWiseOperation) -> trt.ITensor:
        return self.network.add_elementwise(a, b, how).get_output(0)

    def taken(self, x: trt.ITensor, columns: tuple[int, ...]) -> trt.ITensor:
        """The selected columns of a table."""
        layer = self.network.add_gather(x, self.constant(np.array(columns, np.int32)), 1)
        return layer.get_output(0)

    def gathered(self, x: trt.ITensor, at: trt.ITensor) -> trt.ITensor:
        """The elements at the index in each row of `at`."""
        return self.network.add_gather_v2(x, at, trt.GatherMode.ND).get_output(0)


def decoded(w: Writer, heads: trt.ITensor, anchors: np.ndarray) -> trt.ITensor:
    """Centers and sizes of boxes from what the heads say of each anchor: (batch, anchors, 4)."""
    op, network = trt.ElementWiseOperation, w.network
    scaled = w.both(heads, w.constant(np.array(VARIANCES, np.float32)[None, None]), op.PROD)
    sizes = w.constant(anchors[None, :, 2:])
    whole = network.add_shape(heads).get_output(0)
    half = w.both(whole, w.constant(np.array([1, 1, 2])), op.FLOOR_DIV)

    def part(start: int) -> trt.ITensor:
        layer = network.add_slice(scaled, (0, 0, start), (1, 1, 2), (1, 1, 1))
        layer.set_input(2, half)
        return layer.get_output(0)

    centers = w.both(w.both(part(0), sizes, op.PROD), w.constant(anchors[None, :, :2]), op.SUM)
    growth = network.add_unary(part(2), trt.UnaryOperation.EXP).get_output(0)
    layer = network.add_concatenation([centers, w.both(growth, sizes, op.PROD)])
    layer.axis = 2
    return layer.get_output(0)


def probabilities(w: Writer, logits: trt.ITensor) -> trt.ITensor:
    """Of all classes but the background, which is the first: (batch, anchors, classes)."""
    softmax = w.network.add_softmax(logits)
    softmax.axes = 1 << 2
    whole = w.network.add_shape(logits).get_output(0)
    rest = w.both(whole, w.constant(np.array([0, 0, 1])), trt.ElementWiseOperation.SUB)
    layer = w.network.add_slice(softmax.get_output(0), (0, 0, 1), (1, 1, 1), (1, 1, 1))
    layer.set_input(2, rest)
    return layer.get_output(0)


def describe(network: trt.INetworkDefinition, detector: Detector) -> None:
    """From the heads' numbers to rows of image, class and anchor, with their boxes and scores."""
    w, count = Writer(network), len(detector.anchors)
    heads = network.add_input("heads", trt.float32, (-1, count, 4))
    logits = network.add_input("logits", trt.float32, (-1, count, detector.classes + 1))
    for tensor in (heads, logits):
        tensor.set_dimension_name(0, "batch")
    boxes, scores = decoded(w, heads, detector.anchors), probabilities(w, logits)

    most = w.constant(np.array(detector.most, np.int32))
    nms = network.add_nms(boxes, scores, most)
    nms.bounding_box_format = trt.BoundingBoxFormat.CENTER_SIZES
    nms.set_input(3, w.constant(np.array(detector.overlap, np.float32)))
    nms.set_input(4, w.constant(np.array(detector.least, np.float32)))
    rows = nms.get_output(0)
    outputs = {
        "rows": rows,
        "boxes": w.gathered(boxes, w.taken(rows, (0, 2))),
        "scores": w.gathered(scores, w.taken(rows, (0, 2, 1))),
    }
    for name, tensor in outputs.items():
        tensor.name = name
        network.mark_output(tensor)


def build(detector: Detector, batch: int) -> trt.ICudaEngine:
    """The engine for up to `batch` images at a time."""
    builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
    network, config = builder.create_network(), builder.create_builder_config()
    describe(network, detector)
    profile = builder.create_optimization_profile()
    for tensor in (network.get_input(0), network.get_input(1)):
        rest = tuple(tensor.shape)[1:]
        profile.set_shape(tensor.name, (1, *rest), (batch, *rest), (batch, *rest))
    config.add_optimization_profile(profile)
    engine = builder.build_engine_with_config(network, config)
    if engine is None:
        raise SystemExit("the build failed; the log says why")
    return engine


def random_heads(detector: Detector, batch: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Numbers as of a network that sees a few things in each image, from all anchors near, and is sure of
    little else."""
    random, anchors = np.random.default_rng(seed), detector.anchors
    heads = random.standard_normal((batch, len(anchors), 4)).astype(np.float32)
    logits = random.standard_normal((batch, len(anchors), detector.classes + 1)).astype(np.float32)
    logits[..., 0] += 6
    for image in range(batch):
        for thing in anchors[random.integers(0, len(anchors), 4)]:
            near = np.abs(anchors - thing).max(axis=1) < 0.1
            center, sizes = np.split(anchors[near], 2, axis=1)
            heads[image, near, :2] += (thing[:2] - center) / sizes / VARIANCES[0]
            heads[image, near, 2:] += np.log(thing[2:] / sizes) / VARIANCES[2]
            logits[image, near, random.integers(1, detector.classes + 1)] += 8
    return heads, logits


def main() -> None:
    """What is seen in two images."""
    detector = Detector()
    heads, logits = random_heads(detector, 2)
    seen = build(detector, 2).run(heads=heads, logits=logits)
    print(f"{len(seen['rows'])} detections of {heads.shape[0]} x {heads.shape[1]} boxes")
    for (image, of, _), score, box in zip(seen["rows"], seen["scores"], seen["boxes"], strict=True):
        center, sizes = (", ".join(f"{x:.2f}" for x in part) for part in (box[:2], box[2:]))
        print(f"image {image}: class {of:2} with {score:.2f}, {sizes} large around {center}")


if __name__ == "__main__":
    main()
