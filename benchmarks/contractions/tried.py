"""Attempts for cases that miss their goal, by a pattern of the whole name: three, each with its result.

Figures are of the machine in the table's head, in µs, or in GFLOP/s of one thread, whose peak is 214 to 234.
If several patterns match, the first one counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

TRIED: dict[str, tuple[str, str, str]] = {
    "product_1024x1024x1024_both": (
        "rows 4 KB apart in tiles of ten, not copied: 174 to 190 GFLOP/s with constant lanes",
        "several panels copied before all tiles: 7531 to 5685 µs, items of 103 tiles and 4 panels",
        "items of 103 tiles and 2 panels, 52 and 4, 35 and 6: 6043, 6120, 6047 µs",
    ),
    "product_128x768x3072_bias_gelu": (
        "lanes prefetched 16 terms ahead: 1888 to 1790 µs",
        "epilogue on registers, not on scratch: 1.00 ×",
        "the next panel prefetched: 5 to 15 % with 49 to 197 rows",
    ),
    "product_.*_(i8|bf16)": (
        "divisions as multiplications, rows streamed: 821 to 676 µs at 1024 of int8, one thread",
        "epilogue of a tile beside the next tile: 676 to between 650 and 660",
        "items counted by all panels, or tiles chained over panels: 2 % at most",
    ),
    "product_(49|77|197|384)x.*": (
        "the next panel prefetched: 5 to 15 % at 49, 77 and 197 rows",
        "lanes prefetched 16 terms ahead: 1.01 to 1.11 × alone, 0.98 to 1.01 beside the next panel",
        "items of 7 or 14 tiles and one panel: 0.98 to 1.03 ×; all tiles in one item: 0.92 ×",
    ),
    "product_[124]x.*": (
        "plans in large pages: 1331 to between 1158 and 1175 µs at 4x4096x4096",
        "lanes prefetched 16 terms ahead, because they are read once: kept, not measured alone",
        "one of two threads without a core of its own, because of other programs: 2404 µs",
    ),
    "product_.*": (
        "terms in blocks of 256 to 1024, whose lanes stay in L1: 0.97 to 1.05 ×",
        "lanes prefetched 4, 8, 16 and 24 terms ahead: 0.99 to 1.03 × at 1024; kept for few rows",
        "11, 12 and 14 rows in place, or rows copied: 0.97 to 1.03 × at 1024",
    ),
    "conv_.*_256x14.*_k3s1_bias_f16": (
        "panels filled in one pass, epilogue beside the next tile: 947 to 904 µs, one thread",
        "twice as many items: 463–480 to 558–595 µs",
        "two bfloat16 for each number, matrix tiles; AnyRT's float32 has Winograd's tiles there",
    ),
    "conv_.*_k3s1_bias_f16": (
        "two bfloat16 for each number, matrix tiles: 1.17 × float32 on one thread",
        "rows of several image lines in one item: 1.24 to 1.46 ×",
        "seven tiles per item instead of four, panels in one pass: 826–899 to 692 µs, one thread",
    ),
    "conv_.*_k1s1_bias_f16": (
        "factors widened to float32 in panels: 0.73 × float32",
        "two bfloat16 for each number, matrix tiles: 1.7 × on one thread, 1.0 on two",
        "panels in one pass: 386–394 to 366 µs, one thread; twice as many items: 193 to 230",
    ),
    "conv_.*_64x56to64_k3s1.*_i8": (
        "divisions as multiplications, rows streamed: 150 to 139 µs",
        "epilogue of a tile beside the next tile: no change alone",
        "tiles chained over panels, too: 173–176 to 175 µs",
    ),
    "conv_.*_i8": (
        "divisions as multiplications, rows streamed: 94 to 99 µs at 256x14",
        "epilogue of a tile beside the next tile: 103 to 93–96 µs",
        "twice as many items: 55–58 to 67 µs",
    ),
    "conv_(mobilenetv2|efficientnetb0)_.*_k[35]s[12]g.*": (
        "the next image prefetched while one is copied: no consistent change",
        "strided remainders read by whole vectors: 18 to 14 µs at 192x28, no change at 144x56",
        "the whole image zeroed first, because leftovers in scratch are slow: 260 to 97 µs for 5 × 5",
    ),
    "deconv_decoder_1024x16.*": (
        "a transposed operand, results stored in turns: 9077 to 5421 µs, one thread",
        "items of 16 panels, so that weights are read once: 8316 to 8951 µs",
        "terms and weights fetched in the old order: 8551 to 7298 µs in a separate loop",
    ),
    "deconv_decoder_512x16.*": (
        "results of two residues stored together: 7527 to 6428 µs, one thread",
        "lanes prefetched 8 terms ahead: 6428 to 6171 µs",
        "four panels per item: 5650 to 6799 µs",
    ),
    "deconv_decoder_64x64to3.*": (
        "positions as lanes, not gathered: 702 to 234 µs, one thread",
        "one contraction instead of four: with the next, 424 to 199 µs",
        "both rows of outputs in one thread: 225 to 154 µs",
    ),
    "deconv_decoder_.*": (
        "the next panel prefetched: 6370 to 6603 µs at 256x64, one thread",
        "constant rows prefetched 8 terms ahead: 6227 to 6099 and 6264 to 6440 µs",
        "operand transposed as for long sums: not built, its copy alone estimated at 400 of 6200 µs",
    ),
    "conv_audio_(80|384)x3000.*": (
        "cache lines of results prefetched before a tile: 3645 to 3110–3430 µs at 80, one thread",
        "the same into L2 only: 3480 µs",
        "results at a stride transposed in registers: 1039 to 933 µs at 16x320",
    ),
    "conv_yolov5n_3x640.*": (
        "cache lines of results prefetched before a tile: 2442 to 2372 µs, one thread",
        "results at a stride transposed in registers: 1039 to 933 µs at 16x320",
        "a copy of the image for each item: not built, one copy already takes 350 of 2750 µs",
    ),
    "conv_resnet50_8x128x56.*_k3s2.*": (
        "panels in 0.6 of L2 instead of a quarter: 6861 to 5899 µs",
        "rows of the next item prefetched: 5996 to 5877 µs",
        "panels in 3/4 of L2 instead of 1/2: 8962 to 10072 µs beside other programs",
    ),
    "conv_resnet50_8x256x28.*_k3s2.*": (
        "panels in 0.6 of L2 instead of a quarter: 6206 to 5468 µs",
        "rows of the next item prefetched: 5748 to 5879 µs",
        "items of 4 or 2 tiles: 6643 to 6612 and 6373 µs",
    ),
    "conv_video_128x4x28x28.*": (
        "two panels at once instead of one: 8151 to 7830 µs",
        "rows of the next item prefetched: 7152 to 6973 µs",
        "tiles one register wide: 7830 to 9372 µs",
    ),
    "conv_resnet50_512x7to512_k3s1.*": (
        "the next panel prefetched by two lines per term: 688 to 636 µs",
        "the next panel prefetched by one line per term: 760 to 641 µs",
        "the same for up to 32 tiles: 708 µs",
    ),
    "conv_yolov5n_.*_k3s2.*": (
        "panels in 0.6 of L2 instead of a quarter: 754 to 683 µs at 128x40to256",
        "rows of the next item prefetched: 675 to 608 µs at 128x40to256, 740 to 684 at 32x160",
        "results at a stride transposed in registers: 1039 to 933 µs at 16x320",
    ),
    "conv_.*_k[1-7]s2_bias|conv_audio_.*|conv_video_.*": (
        "results at a stride transposed in registers: 1039 to 933 µs at 16x320",
        "rows of the next item prefetched: 651 to 639 µs at 256x28",
        "panels in 0.6 of L2 instead of a quarter: 818 to 674 µs at 128x56",
    ),
    "conv_.*_k3s1_bias.*": (
        "Winograd's tiles if they are less work: 1.2 to 2.5 × from 128 channels, not for fewer",
        "rows of the next item prefetched: 383 to 375 µs at 16x160, 540 to 534 at 64x56",
        "panels in 1/2 of L2 instead of a quarter: 619 to 620 µs at 64x56",
    ),
    "conv_.*_k1s1_bias.*": (
        "channels as lanes if positions fill panels badly: 142 to 188 GFLOP/s at 1024x14",
        "lanes a page apart copied to panels once for all rows: 144 to 169 GFLOP/s at 256x56",
        "rows copied side by side for each term: 188 to 151 GFLOP/s at 1024x14",
    ),
    "attention_32x1x2048x128_shared4_f16": (
        "keys gathered lane by lane: 0.69 × float32",
        "squares of keys transposed in registers: 1.26 to 1.41 × on one thread",
        "split for matrix tiles: not built, estimated at 317 µs against 360 for the scores",
    ),
    "attention_.*": (
        "division after the product with the weights: 3007 to 2637 µs at 512",
        "strips of 64 rows instead of 128: 5668 to 5814 µs, one thread",
        "keys of a head copied to panels once: 5813 µs; without any copy at most 3 % of the whole",
    ),
    "softmax_.*": (
        "exponentials in 14 instructions instead of 23: 204 to 161 µs at 512x1000 with the next",
        "exponentials computed twice instead of stored and loaded: with the first",
        "one reciprocal for each row instead of divisions: 211 to 152 µs with both",
    ),
    "network_encoder.*": (
        "the next panel and the next item's rows prefetched: 85.2 to 78.2 ms",
        "both products of an MLP in strips: 78.9 to 99.3 ms, reverted",
        "rows of every tensor between kernels prefetched: 97.8 to 100.1 ms, not kept",
    ),
    "network_resnet50.*": (
        "Winograd's tiles: 32.6 to 27.6 ms",
        "the next panel prefetched: 27.8 to 23.7 ms, without other programs",
        "rows of the next item prefetched: 1 to 9 % of its strided sums",
    ),
}


def attempts(case: str, every: Mapping[str, tuple[str, str, str]] = TRIED) -> tuple[str, str, str]:
    """The attempts for a case; empty texts if there are none.

    >>> attempts("product_8x8x8", {"product_.*": ("a", "b", "c")})
    ('a', 'b', 'c')
    """
    matches = (tried for pattern, tried in every.items() if re.fullmatch(pattern, case))
    return next(matches, ("", "", ""))
