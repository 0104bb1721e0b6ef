"""What was tried for cases that miss their goal, by a pattern of their names: three ways, and what each gave.

Figures are of the machine in the table's head, in µs, or in GFLOP/s of one thread, whose arithmetic ends at
214 to 234. Of several patterns the first one counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tried:
    """Cases whose whole name the pattern is, and the attempts in their order."""

    pattern: str
    first: str
    second: str
    third: str

    @property
    def attempts(self) -> tuple[str, str, str]:
        """All three."""
        return self.first, self.second, self.third


TRIED: tuple[Tried, ...] = (
    Tried(
        "product_1024x1024x1024_both",
        "tiles of ten rows, not copies of rows that collide: 174 to 190 with constant lanes",
        "all tiles of a panel in one item, so that it is copied once: 140",
        "four times as many items: 7330 to 7880 µs, no change",
    ),
    Tried(
        "product_.*",
        "terms in blocks of 256 to 1024, whose lanes stay in the first cache: 0.97 to 1.05 ×",
        "lanes fetched 4, 16 and 32 terms ahead: 211 to 212; kept for few rows",
        "four times as many items of a quarter: 748 to 732 and 748 µs at 512, 6180 to 6280 at 1024",
    ),
    Tried(
        "conv_.*_k3s1_bias_f16",
        "factors widened to float32 in panels: 0.80 × float32 on two threads",
        "split into two bfloat16, tiles of matrices, windows copied: 1.17 × on one",
        "rows of several image lines in one item: 1.24 to 1.46 ×, then bound by the second cache",
    ),
    Tried(
        "conv_.*_k1s1_bias_f16",
        "factors widened to float32 in panels: 0.73 × float32",
        "split into two bfloat16, tiles of matrices: 1.7 × on one thread, 1.0 on two",
        "",
    ),
    Tried(
        "conv_mobilenetv2_(96x112to96|144x56to144)_k3s2.*",
        "the next image fetched while one is copied: no steady change",
        "strided rests read by whole vectors: 18 to 14 µs at 192x28, nothing at 144x56",
        "zeros all over the image first, as leftovers in scratch are slow: 260 to 97 µs for 5 × 5",
    ),
    Tried(
        "deconv_decoder_1024x16.*",
        "one contraction for all residues, rows between lanes stored together: 7971 to 4143 µs",
        "a panel copied once for all rows: 4.3 to 7.2 ms, weights come from the last cache each time",
        "tiles of 28, 22 and 16 rows: 4.8, 4.3 and 4.2 ms; of 14 and two registers 11.8",
    ),
    Tried(
        "deconv_decoder_512x16.*",
        "one contraction for four residues: 3726 to between 3355 and 4700 µs by run",
        "two residues as rows of one tile: 8496 µs on one thread, 7057 without",
        "stores as they are: scatters take about 2 %",
    ),
    Tried(
        "deconv_decoder_64x64to3.*",
        "one contraction instead of four: with the next, 424 to 199 µs",
        "positions as lanes, without channels innermost",
        "both rows of outputs in one thread: 225 to 154 µs",
    ),
    Tried(
        "conv_.*_k[1-7]s2_bias|conv_audio_.*|conv_video_.*",
        "results across memory transposed in registers: 1039 to 933 µs at 16x320",
        "results stored once for all tiles of an item, whole lines each: 161 to 186 at 64x256",
        "so many panels an item as a quarter of the second cache keeps: 123 to 187 at 512x16",
    ),
    Tried(
        "conv_.*_k3s1_bias.*",
        "Winograd's tiles where they are less work: 1.2 to 2.5 × at 128 channels and more, not for fewer",
        "results stored once for all tiles of an item, whole lines each: 161 to 186 at 64x256",
        "terms in blocks of 256, whose lanes stay in the first cache: no change",
    ),
    Tried(
        "conv_.*_k1s1_bias.*",
        "channels as lanes where positions fill panels badly: 142 to 188 at 1024x14",
        "lanes that lie a page apart copied to panels once for all rows: 144 to 169 at 256x56",
        "rows copied side by side for each term: 188 to 151 at 1024x14, dropped",
    ),
    Tried(
        "attention_32x1x2048x128_shared4_f16",
        "keys gathered lane by lane: 0.69 × float32",
        "squares of keys transposed in registers: 1.26 to 1.41 × on one thread",
        "split for tiles of matrices: reckoned 317 µs against 360 for the scores, not built",
    ),
    Tried(
        "attention_.*",
        "division after the product with the weights: 3007 to 2637 µs at 512",
        "panels once for each head, low strips: 44.5 to 41.0 ms at 2048, nothing at 512",
        "strips of 48 or 64 rows, or half the scores: within noise",
    ),
    Tried(
        "softmax_.*",
        "exponentials in 14 instructions instead of 23: 204 to 161 µs at 512x1000 with the next",
        "exponentials computed twice instead of stored and loaded: with the first",
        "one reciprocal for each row instead of divisions: 211 to 152 µs with both",
    ),
)


def attempts(case: str, every: tuple[Tried, ...] = TRIED) -> tuple[str, str, str]:
    """What was tried for a case; empty texts where nothing is written down.

    >>> attempts("product_8x8x8", (Tried("product_.*", "a", "b", "c"),))
    ('a', 'b', 'c')
    """
    found = (t.attempts for t in every if re.fullmatch(t.pattern, case))
    return next(found, ("", "", ""))
