"""All cases, grouped by goal. A new case is one line here.

Names: form, network or kind, sizes, what follows, type when it is not float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.contractions import forms
from benchmarks.contractions.forms import Case, Convolution, Group, Mask, Product, Tail, Window
from benchmarks.contractions.networks import HIDDEN, IMAGE, TOKENS, WIDTH
from benchmarks.contractions.tables import NETWORKS, Row
from benchmarks.steps import Element, Shape, name_of

LARGE, CHANNELS, FEW_ROWS = 384, 32, 4
BIAS, GELU, RESIDUAL, RELU = Tail
NONE, ADDED, CAUSAL = Mask
MAX, AVERAGE = forms.Fold
F32, F16, BF16, _, I8 = Element
ROWS = (8, 49, 77, 197, 384)
OPEN_ROWS, OPEN_BATCH = (1, 197, 512), (1, 1, 8)  # of engines that serve several sizes
FUSED: tuple[Row, ...] = ((64, 64, 3, 1, 1, 1, 56), (64, 256, 1, 1, 0, 1, 56), (1024, 256, 1, 1, 0, 1, 14))
RESNET50_FLOPS, RESNET50_WEIGHTS = 8_178_368_512, 25_530_472


def product_cases() -> Iterator[Case]:
    """Squares, few rows, transformers' rows, odd sizes, batches of small ones, fused forms."""
    for n in (256, 384, 512, 768, 1024, 1536, 2048):
        yield _product(n, n, n)
    for m in (1, 2, 4):
        yield _product(m, 4096, 4096)
    yield _product(1, 4096, 11008)
    for m in ROWS:
        yield _product(m, 768, 768)
        yield replace(_product(m, 768, 3072), open=OPEN_ROWS)
        yield _product(m, 3072, 768)
    for n in (255, 1000, 1023):
        yield _product(n, n, n, odd=True)
    yield _product(49, 512, 2048)
    yield _product(197, 1000, 1023, odd=True)
    for m, k, n in ((128, 64, 128), (128, 128, 64), (197, 64, 197)):
        yield Case(f"product_12x{m}x{k}x{n}", Group.SMALL, Product(m, k, n, (12,), constant=False))
    yield Case("product_64x32x32x32", Group.SMALL, Product(32, 32, 32, (64,), constant=False))
    yield Case("product_1024x1024x1024_both", Group.LARGE, Product(1024, 1024, 1024, constant=False))
    for m in (8, 128, 197, 384):
        yield _product(m, 768, 3072, tail=(BIAS, GELU))
    for m, k, n in ((512, 512, 512), (128, 3072, 768)):
        yield _product(m, k, n, tail=(BIAS, RELU))
    yield _product(128, 3072, 768, tail=(BIAS, RESIDUAL))


def convolution_cases() -> Iterator[Case]:
    """Distinct convolutions of known networks with their bias; some in batches, some with fused layers."""
    known: dict[Row, str] = {}
    for network, table in NETWORKS.items():
        for row in table:
            if known.setdefault(row, network) == network:
                yield replace(_row(network, row), open=OPEN_BATCH if row in FUSED else ())
    for row in NETWORKS["resnet50"]:
        if (row[0] == row[1] and row[2] == 3) or row[:3] == (3, 64, 7):
            yield _row("resnet50", row, batch=8)
    for row in FUSED:
        yield _row("resnet50", row, tail=(BIAS, RELU))
        yield _row("resnet50", row, tail=(BIAS, RESIDUAL, RELU))


def other_cases() -> Iterator[Case]:
    """Depthwise by size, 1-D of an audio network, 3-D, deconvolutions of a decoder, pooling, softmax."""
    for kernel in (3, 5):
        for channels, size in ((32, 112), (256, 28), (512, 14)):
            yield _row("depthwise", (channels, channels, kernel, 1, kernel // 2, channels, size))
    for c_in, c_out, kernel, stride, size in (
        (80, 384, 3, 1, 3000), (384, 384, 3, 2, 3000), (1, 512, 10, 5, 16000), (512, 512, 3, 2, 3199),
        (512, 512, 2, 2, 199),
    ):  # fmt: skip
        pad = 1 if kernel == 3 and c_in != 512 else 0
        yield _convolution("audio", c_in, c_out, (size,), Window((kernel,), (stride,), (pad,)))
    for c_in, c_out, volume in ((3, 64, (16, 112, 112)), (64, 64, (8, 56, 56)), (128, 128, (4, 28, 28))):
        window = Window((3, 3, 3), (1, 1, 1) if c_in > 3 else (1, 2, 2), (1, 1, 1))
        yield _convolution("video", c_in, c_out, volume, window)
    for c_in, c_out, kernel, stride, pad, edge in (
        (1024, 512, 2, 2, 0, 16), (512, 256, 2, 2, 0, 32), (256, 128, 2, 2, 0, 64), (128, 64, 2, 2, 0, 128),
        (512, 256, 4, 2, 1, 16), (64, 3, 4, 2, 1, 64),
    ):  # fmt: skip
        window = Window((kernel,) * 2, (stride,) * 2, (pad,) * 2, transposed=True)
        yield _convolution("decoder", c_in, c_out, (edge, edge), window)
    yield from _pools()
    for rows, length in ((1024, 10), (12 * 128, 128), (12 * 197, 197), (512, 1000), (64, 4096), (16, 50000)):
        yield Case(f"softmax_{rows}x{length}", Group.OTHER, forms.Softmax(rows, length))


def _pools() -> Iterator[Case]:
    for fold in forms.Fold:
        for channels, edge, kernel, stride, pad in (
            (64, 112, 3, 2, 1), (64, 112, 2, 2, 0), (256, 28, 2, 2, 0), (256, 28, 3, 1, 1),
        ):  # fmt: skip
            window = Window((kernel,) * 2, (stride,) * 2, (pad,) * 2)
            name = f"pool_{fold.value}_{channels}x{edge}_k{kernel}s{stride}"
            yield Case(name, Group.OTHER, forms.Pool(fold, channels, (edge, edge), window))
    yield Case(
        "pool_avg_2048x7_k7s7", Group.OTHER, forms.Pool(AVERAGE, 2048, (7, 7), Window((7, 7), (7, 7), (0, 0)))
    )
    yield Case(
        "pool_max_128x20_k5s1", Group.OTHER, forms.Pool(MAX, 128, (20, 20), Window((5, 5), (1, 1), (2, 2)))
    )


def attention_cases() -> Iterator[Case]:
    """Encoders with and without a mask, decoders, and a decoding step with a cache."""
    for tokens in (64, 128, 197, 256, 512, 1024, 2048):
        yield _attention(12, tokens, tokens, 64)
        if tokens in (128, 512, 2048):
            yield _attention(12, tokens, tokens, 64, ADDED)
            yield _attention(12, tokens, tokens, 64, CAUSAL)
    yield _attention(8, 4096, 77, 40)
    yield _attention(32, 1024, 1024, 128, CAUSAL, shared=4)
    yield _attention(12, 1, 2048, 64)
    yield _attention(32, 1, 2048, 128)
    yield _attention(32, 1, 2048, 128, shared=4)


def typed_cases() -> Iterator[Case]:
    """bfloat16, float16 and int8, each beside a float32 case of the same name."""
    every = (*product_cases(), *convolution_cases(), *attention_cases())
    named = {c.name: c for c in every}
    for name in (
        "product_512x512x512", "product_1024x1024x1024", "product_384x768x3072", "product_1x4096x4096",
        "product_1x4096x11008", "product_128x768x3072_bias_gelu", "conv_resnet50_64x56to64_k3s1_bias",
        "conv_resnet50_256x14to256_k3s1_bias", "conv_resnet50_1024x14to256_k1s1_bias",
        "attention_12x512x512x64", "attention_32x1x2048x128_shared4",
    ):  # fmt: skip
        for dtype in (BF16, F16):
            yield _typed(named[name], dtype, Group.HALF)
    for form in (Product(n, n, n) for n in (256, 512, 1024, 2048)):
        yield Case(f"product_{form.m}x{form.k}x{form.n}_i8", Group.INT8, form, dtype=I8)
    for m, k, n in ((1, 4096, 4096), (384, 768, 3072), (128, 3072, 768)):
        yield Case(f"product_{m}x{k}x{n}_i8", Group.INT8, Product(m, k, n), dtype=I8)
    for row in ((64, 64, 3, 1, 1, 1, 56), (256, 256, 3, 1, 1, 1, 14), (1024, 256, 1, 1, 0, 1, 14),
                (128, 512, 1, 1, 0, 1, 28)):  # fmt: skip
        yield _typed(_row("resnet50", row, tail=()), I8, Group.INT8)


def network_cases() -> Iterator[Case]:
    """Whole networks."""
    rows = (1, TOKENS, WIDTH)
    each = 4 * WIDTH * (WIDTH + 1) + WIDTH * HIDDEN * 2 + HIDDEN + WIDTH + 4 * WIDTH
    flops = 12 * (2 * TOKENS * (4 * WIDTH * WIDTH + 2 * WIDTH * HIDDEN) + 4 * TOKENS * TOKENS * WIDTH)
    yield Case(
        "network_resnet50_1x3x224x224", Group.NETWORK,
        forms.Whole("resnet50", IMAGE, (1, 1000), RESNET50_FLOPS, RESNET50_WEIGHTS),
    )  # fmt: skip
    yield Case(
        "network_encoder12_1x128x768", Group.NETWORK,
        forms.Whole("encoder12", rows, rows, flops, 12 * each + 2 * WIDTH),
    )  # fmt: skip


def _product(m: int, k: int, n: int, tail: tuple[Tail, ...] = (), odd: bool = False) -> Case:
    group = Group.LARGE if min(m, k, n) >= LARGE and not odd else Group.SMALL
    group = Group.MEMORY if m <= FEW_ROWS else group
    return Case(_named(f"product_{m}x{k}x{n}", tail), group, Product(m, k, n), tail)


def _row(network: str, row: Row, batch: int = 1, tail: tuple[Tail, ...] = (BIAS,)) -> Case:
    c_in, c_out, kernel, stride, pad, groups, edge = row
    window = Window((kernel,) * 2, (stride,) * 2, (pad,) * 2, groups)
    return _convolution(network, c_in, c_out, (edge, edge), window, batch, tail)


def _convolution(
    network: str, c_in: int, c_out: int, size: Shape, window: Window, batch: int = 1,
    tail: tuple[Tail, ...] = (BIAS,),
) -> Case:  # fmt: skip
    is_plain = len(size) == 2 and window.groups == 1 and not window.transposed
    group = Group.LARGE if is_plain and min(c_in, c_out) >= CHANNELS else Group.OTHER
    if set(size) == {1}:
        group = Group.SMALL  # a product of one row
    edges = name_of(size[:1] if len(set(size)) == 1 and len(size) < 3 else size)
    groups = f"g{window.groups}" if window.groups > 1 else ""
    kind, images = "deconv" if window.transposed else "conv", f"{batch}x" if batch > 1 else ""
    stem = f"{kind}_{network}_{images}{c_in}x{edges}to{c_out}"
    name = f"{stem}_k{window.kernel[0]}s{window.stride[-1]}{groups}"
    form = Convolution(c_in, c_out, size, window, batch)
    return Case(_named(name, tail), group, form, tail)


def _attention(
    heads: int, queries: int, keys: int, size: int, mask: Mask = Mask.NONE, shared: int = 1
) -> Case:
    kinds = [*([mask.value] if mask is not NONE else []), *([f"shared{shared}"] if shared > 1 else [])]
    name = "_".join((f"attention_{heads}x{queries}x{keys}x{size}", *kinds))
    return Case(name, Group.ATTENTION, forms.Attention(heads, queries, keys, size, mask, shared))


def _typed(case: Case, dtype: Element, group: Group) -> Case:
    return replace(case, name=f"{case.name}_{dtype.name.lower()}", dtype=dtype, group=group, open=())


def _named(stem: str, tail: Sequence[Tail]) -> str:
    return "_".join((stem, *(t.value for t in tail)))


def float_name(case: Case) -> str:
    """The name of the same case in float32."""
    return case.name.removesuffix(f"_{case.dtype.name.lower()}")


ALL: tuple[Case, ...] = (
    *product_cases(),
    *convolution_cases(),
    *other_cases(),
    *attention_cases(),
    *typed_cases(),
    *network_cases(),
)
