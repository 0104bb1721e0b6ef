"""Few-bit codes extracted from words, and scales factored out of sums."""

import numpy as np
import pytest

from anyrt.backends.cpu.intrinsics import UNSIGNED
from anyrt.core.dims import Sym
from anyrt.ir.buffer import Space
from anyrt.ir.evaluate import DTYPES
from anyrt.ir.kernelrules import kernel_faults
from anyrt.ir.kerneltext import print_kernels
from anyrt.ir.run import run
from anyrt.ir.statements import buffers_of
from anyrt.loops.accumulate import accumulate
from anyrt.loops.codes import (
    Ahead,
    codes_in,
    factor_out,
    fill_words,
    make_smaller,
    rows_of_codes,
    smaller,
    sum_bytes,
    unpack,
    unpack_copies,
)
from anyrt.loops.pack import pack_n
from anyrt.loops.product import product_of
from tests.targets import parsed

ROW, LANE, TERM = Sym("i1", extent=2), Sym("i2", extent=8), Sym("k4", extent=8)
HEAD = """\
buffer acc f32 register 1 offset 0
buffer c {type} const 128 offset 0
buffer s FLOAT const 16 offset 0
buffer xs FLOAT arena 4 offset 0
buffer x {rows} input 32 offset 0
buffer y FLOAT output 16 offset 0
"""
LOOPS = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {{
  for serial i1 0.. < 2 {{
    for serial i2 0.. < 8 {{
      alloc acc = 0.0:f32
      for serial k3 0.. < 2 {{
        for serial k4 0.. < 8 {{
          fold acc add mul({first}, {second})
        }}
      }}
      store y[8*i1 + i2] = acc[0]
    }}
  }}
}}
"""
PLACE = "32*k3 + 4*i2 + mod(k4, 4)"
BITS = f"and(lshr(i32(c[{PLACE}]), mul(i32(index(mod(floordiv(k4, 4), 2))), 4:i32)), 15:i32)"
SIGNED = f"f32(shr(shl({BITS}, 28:i32), 28:i32))"
NUMBERS, CODES = "x[16*i1 + 8*k3 + k4]", "mul(f32(i32(x[16*i1 + 8*k3 + k4])), xs[2*i1 + k3])"
SCALE = "s[8*k3 + i2]"


def product(second, type="INT4", rows="FLOAT"):
    """Two rows times weights of eight lanes, in two blocks of eight terms."""
    first = NUMBERS if rows == "FLOAT" else CODES
    buffers = HEAD.format(type=type, rows=rows)
    used = buffers if rows == "INT8" else buffers.replace("buffer xs FLOAT arena 4 offset 0\n", "")
    return used + LOOPS.format(first=first, second=second)


EIGHT = product(f"mul(f32(i32(c[64*k3 + 8*k4 + i2])), {SCALE})", "INT8")
PLAIN = product(f"f32({BITS})", "UINT4")
FEW = product(f"mul({SIGNED}, {SCALE})")
BYTES = product(f"mul({SIGNED}, {SCALE})", rows="INT8")


def rooms(kernels):
    """Memory that kernels read: bytes of all values, small numbers, powers of two for scales."""
    results = {
        b for k in kernels for b in buffers_of(k.body) if b.space not in (Space.REGISTER, Space.SCRATCH)
    }
    rng, collected = np.random.default_rng(5), {}
    for b in sorted(results, key=lambda b: b.name):
        kind = np.dtype(DTYPES[b.stored])
        if kind.kind == "f" and b.name in ("s", "xs"):
            collected[b] = np.exp2(rng.integers(-2, 3, b.entries)).astype(kind)
        else:
            low, high = (-9, 9) if kind.kind == "f" else (np.iinfo(kind).min, np.iinfo(kind).max + 1)
            collected[b] = rng.integers(low, high, b.entries).astype(kind)
    return collected


def result(kernel, alike):
    """The content of y after a kernel."""
    memory = rooms(alike)
    run(kernel, {b: memory[b] for b in buffers_of(kernel.body) if b in memory}, {})
    (y,) = (a for b, a in memory.items() if b.name == "y")
    return y


@pytest.fixture
def becomes():
    """A kernel's text after a transformation; checks that its result is `times` the old one."""

    def apply(text, change, times=1.0):
        (kernel,) = parsed(text)
        changed = change(kernel)
        assert list(kernel_faults(changed)) == []
        before, now = (result(k, [kernel, changed]) for k in (kernel, changed))
        assert before.any()
        np.testing.assert_array_equal(now, before * np.float32(times))
        written = print_kernels([changed])
        assert parsed(written) == (changed,)
        return written[written.index("kernel ") :]

    return apply


def one(lanes):
    """One vector of registers."""
    return 1


def summed(kernel, names):
    """Rows converted to smaller types, and their sums in registers."""
    in_words = fill_words(product_of(kernel).second)
    kernel = make_smaller(kernel, ROW, small(kernel))
    return accumulate(unpack(kernel, names, ROW) if in_words else kernel, names, ROW, one)


def small(kernel):
    return smaller(product_of(kernel))


def second_of(text):
    return product_of(parsed(text)[0]).second


@pytest.mark.parametrize(
    ("second", "type", "count", "in_words"),
    [
        (f"mul({SIGNED}, {SCALE})", "INT4", 8, True),
        (f"mul(f32({BITS}), {SCALE})", "UINT4", 8, True),
        (f"mul(f32(i32(c[64*k3 + 8*k4 + i2])), {SCALE})", "INT8", 4, False),
        (f"mul(s[k4], {SCALE})", "INT8", 0, False),
    ],
)
def test_codes_of_a_factor_are_counted(second, type, count, in_words):
    text = product(second, type)
    text = text if "c[" in second else text.replace("buffer c INT8 const 128 offset 0\n", "")
    assert (codes_in(second_of(text)), fill_words(second_of(text))) == (count, in_words)


def test_bytes_that_are_no_constant_are_no_codes():
    assert codes_in(second_of(EIGHT.replace("INT8 const", "INT8 input"))) == 0


def test_rows_are_made_small_enough_for_a_block_of_the_largest_codes(becomes):
    times = small(parsed(FEW)[0])
    assert times * 15 * 8 < 1 <= times * 2**4 * 8
    built = becomes(FEW, lambda k: make_smaller(k, ROW, times), times)
    assert f"mul(mul({NUMBERS}, {times}:f32), mul(" in built


def test_terms_of_a_word_are_taken_out_of_it(becomes, names):
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 2 {
    for serial i2 0.. < 8 {
      alloc acc = 0.0:f32
      for serial k3 0.. < 2 {
        for serial w11 0.. < 1 {
          fold acc add mul(x[16*i1 + 8*k3 + 8*w11], mul(code(word(c[4*i2 + 32*k3]), 0:i32), s[i2 + 8*k3]))
          fold acc add mul(x[1 + 16*i1 + 8*k3 + 8*w11], mul(code(word(c[4*i2 + 32*k3]), 8:i32), s[i2 + 8*k3]))
          fold acc add mul(x[2 + 16*i1 + 8*k3 + 8*w11], mul(code(word(c[4*i2 + 32*k3]), 16:i32), s[i2 + 8*k3]))
          fold acc add mul(x[3 + 16*i1 + 8*k3 + 8*w11], mul(code(word(c[4*i2 + 32*k3]), 24:i32), s[i2 + 8*k3]))
          fold acc add mul(x[4 + 16*i1 + 8*k3 + 8*w11], mul(code(word(c[4*i2 + 32*k3]), 4:i32), s[i2 + 8*k3]))
          fold acc add mul(x[5 + 16*i1 + 8*k3 + 8*w11], mul(code(word(c[4*i2 + 32*k3]), 12:i32), s[i2 + 8*k3]))
          fold acc add mul(x[6 + 16*i1 + 8*k3 + 8*w11], mul(code(word(c[4*i2 + 32*k3]), 20:i32), s[i2 + 8*k3]))
          fold acc add mul(x[7 + 16*i1 + 8*k3 + 8*w11], mul(code(word(c[4*i2 + 32*k3]), 28:i32), s[i2 + 8*k3]))
        }
      }
      store y[8*i1 + i2] = acc[0]
    }
  }
}
"""  # noqa: E501 (a statement is a line)
    assert becomes(FEW, lambda k: unpack(k, names, ROW)) == expected


def test_codes_without_a_sign_are_taken_out_of_words(becomes, names):
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 2 {
    for serial i2 0.. < 8 {
      alloc acc = 0.0:f32
      for serial k3 0.. < 2 {
        for serial w11 0.. < 1 {
          fold acc add mul(x[16*i1 + 8*k3 + 8*w11], f32(and(lshr(word(c[4*i2 + 32*k3]), 0:i32), 15:i32)))
          fold acc add mul(x[1 + 16*i1 + 8*k3 + 8*w11], f32(and(lshr(word(c[4*i2 + 32*k3]), 8:i32), 15:i32)))
          fold acc add mul(x[2 + 16*i1 + 8*k3 + 8*w11], f32(and(lshr(word(c[4*i2 + 32*k3]), 16:i32), 15:i32)))
          fold acc add mul(x[3 + 16*i1 + 8*k3 + 8*w11], f32(and(lshr(word(c[4*i2 + 32*k3]), 24:i32), 15:i32)))
          fold acc add mul(x[4 + 16*i1 + 8*k3 + 8*w11], f32(and(lshr(word(c[4*i2 + 32*k3]), 4:i32), 15:i32)))
          fold acc add mul(x[5 + 16*i1 + 8*k3 + 8*w11], f32(and(lshr(word(c[4*i2 + 32*k3]), 12:i32), 15:i32)))
          fold acc add mul(x[6 + 16*i1 + 8*k3 + 8*w11], f32(and(lshr(word(c[4*i2 + 32*k3]), 20:i32), 15:i32)))
          fold acc add mul(x[7 + 16*i1 + 8*k3 + 8*w11], f32(and(lshr(word(c[4*i2 + 32*k3]), 28:i32), 15:i32)))
        }
      }
      store y[8*i1 + i2] = acc[0]
    }
  }
}
"""
    assert becomes(PLAIN, lambda k: unpack(k, names, ROW)) == expected


def test_copied_codes_are_extracted_from_words_once(becomes, names):
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 512 {
  for serial k3 0.. < 2 {
    for serial w13 0.. < 1 {
      for vector i2 0.. < 8 {
        store panel11[i2 + 64*k3 + 64*w13] = mul(code(word(c[4*i2 + 32*k3]), 0:i32), s[i2 + 8*k3])
        store panel11[8 + i2 + 64*k3 + 64*w13] = mul(code(word(c[4*i2 + 32*k3]), 8:i32), s[i2 + 8*k3])
        store panel11[16 + i2 + 64*k3 + 64*w13] = mul(code(word(c[4*i2 + 32*k3]), 16:i32), s[i2 + 8*k3])
        store panel11[24 + i2 + 64*k3 + 64*w13] = mul(code(word(c[4*i2 + 32*k3]), 24:i32), s[i2 + 8*k3])
        store panel11[32 + i2 + 64*k3 + 64*w13] = mul(code(word(c[4*i2 + 32*k3]), 4:i32), s[i2 + 8*k3])
        store panel11[40 + i2 + 64*k3 + 64*w13] = mul(code(word(c[4*i2 + 32*k3]), 12:i32), s[i2 + 8*k3])
        store panel11[48 + i2 + 64*k3 + 64*w13] = mul(code(word(c[4*i2 + 32*k3]), 20:i32), s[i2 + 8*k3])
        store panel11[56 + i2 + 64*k3 + 64*w13] = mul(code(word(c[4*i2 + 32*k3]), 28:i32), s[i2 + 8*k3])
      }
    }
  }
  for serial i1 0.. < 2 {
    for serial i2 0.. < 8 {
      alloc acc = 0.0:f32
      for serial k3 0.. < 2 {
        for serial k4 0.. < 8 {
          fold acc add mul(x[16*i1 + 8*k3 + k4], panel11[i2 + 64*k3 + 8*k4])
        }
      }
      store y[8*i1 + i2] = acc[0]
    }
  }
}
"""
    assert becomes(FEW, lambda k: unpack_copies(pack_n(k, names, ROW, ROW, 8, 1), names, TERM)) == expected


def test_scales_multiply_the_sums_of_blocks(becomes, names):
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for vector i2 0.. < 8 {
    alloc acc12 = 0.0:f32
    for serial k3 0.. < 2 {
      alloc part15 = 0.0:f32
      for unroll w11 0.. < 1 {
        for unroll i1 0.. < 2 {
          fold part15[i1] add mul(mul(x[16*i1 + 8*k3 + 8*w11], 0.0078125:f32), code(word(c[4*i2 + 32*k3]), 0:i32))
        }
        for unroll i1 0.. < 2 {
          fold part15[i1] add mul(mul(x[1 + 16*i1 + 8*k3 + 8*w11], 0.0078125:f32), code(word(c[4*i2 + 32*k3]), 8:i32))
        }
        for unroll i1 0.. < 2 {
          fold part15[i1] add mul(mul(x[2 + 16*i1 + 8*k3 + 8*w11], 0.0078125:f32), code(word(c[4*i2 + 32*k3]), 16:i32))
        }
        for unroll i1 0.. < 2 {
          fold part15[i1] add mul(mul(x[3 + 16*i1 + 8*k3 + 8*w11], 0.0078125:f32), code(word(c[4*i2 + 32*k3]), 24:i32))
        }
        for unroll i1 0.. < 2 {
          fold part15[i1] add mul(mul(x[4 + 16*i1 + 8*k3 + 8*w11], 0.0078125:f32), code(word(c[4*i2 + 32*k3]), 4:i32))
        }
        for unroll i1 0.. < 2 {
          fold part15[i1] add mul(mul(x[5 + 16*i1 + 8*k3 + 8*w11], 0.0078125:f32), code(word(c[4*i2 + 32*k3]), 12:i32))
        }
        for unroll i1 0.. < 2 {
          fold part15[i1] add mul(mul(x[6 + 16*i1 + 8*k3 + 8*w11], 0.0078125:f32), code(word(c[4*i2 + 32*k3]), 20:i32))
        }
        for unroll i1 0.. < 2 {
          fold part15[i1] add mul(mul(x[7 + 16*i1 + 8*k3 + 8*w11], 0.0078125:f32), code(word(c[4*i2 + 32*k3]), 28:i32))
        }
      }
      for unroll e16 0.. < 2 {
        fold acc12[e16] add mul(mul(part15[e16], s[i2 + 8*k3]), 128.0:f32)
      }
    }
    for unroll e13 0.. < 2 {
      store y[8*e13 + i2] = acc12[e13]
    }
  }
}
"""  # noqa: E501 (a statement is a line)
    assert becomes(FEW, lambda k: factor_out(summed(k, names), names, LANE, small(k))) == expected


def test_operands_of_later_blocks_are_prefetched_a_line_at_a_time(becomes, names):
    built = becomes(FEW, lambda k: factor_out(summed(k, names), names, LANE, small(k), Ahead(40, 16)))
    asked = [line.strip() for line in built.splitlines() if "fetch" in line]
    assert sorted(asked) == [
        "fetch c[64 + 32*k3] nearest",
        "fetch c[80 + 32*k3] nearest",
        "fetch s[16 + 8*k3] nearest",
        "fetch s[20 + 8*k3] nearest",
    ]


def test_codes_that_are_bytes_lie_beside_those_of_other_lanes(becomes, names):
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for vector i2 0.. < 8 {
    alloc acc11 = 0.0:f32
    for serial k3 0.. < 2 {
      alloc part14 = 0.0:f32
      for serial k4 0.. < 8 {
        for unroll i1 0.. < 2 {
          fold part14[i1] add mul(mul(x[16*i1 + 8*k3 + k4], 0.00048828125:f32), f32(i32(c[i2 + 64*k3 + 8*k4])))
        }
      }
      for unroll e15 0.. < 2 {
        fold acc11[e15] add mul(mul(part14[e15], s[i2 + 8*k3]), 2048.0:f32)
      }
    }
    for unroll e12 0.. < 2 {
      store y[8*e12 + i2] = acc11[e12]
    }
  }
}
"""  # noqa: E501 (a statement is a line)
    assert becomes(EIGHT, lambda k: factor_out(summed(k, names), names, LANE, small(k))) == expected


def test_rows_of_codes_are_summed_as_bytes(becomes, names):
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 64 {
  for serial r13 0.. < 2 {
    for vector w15 0.. < 2 {
      store less12[2*r13 + w15] = sub(0:i32, add(dot4u(16843009:i32, word(x[16*r13 + 8*w15])), dot4u(16843009:i32, word(x[4 + 16*r13 + 8*w15]))))
    }
    for serial k3 0.. < 2 {
      alloc sum14 = 0:i32
      for unroll w11 0.. < 1 {
        fold sum14 add less12[k3 + 2*r13 + w11]
      }
      store less12[k3 + 2*r13] = sum14[0]
    }
  }
  for serial i1 0.. < 2 {
    for serial i2 0.. < 8 {
      alloc acc = 0.0:f32
      for serial k3 0.. < 2 {
        for serial w11 0.. < 1 {
          e0 = xor(word(c[4*i2 + 32*k3]), -2004318072:i32)
          fold acc add mul(mul(f32(dot4u(and(lshr(e0, 0:i32), 252645135:i32), word(x[16*i1 + 8*k3 + 8*w11]))), s[i2 + 8*k3]), xs[2*i1 + k3])
          fold acc add mul(mul(f32(dot4u(and(lshr(e0, 4:i32), 252645135:i32), word(x[4 + 16*i1 + 8*k3 + 8*w11]))), s[i2 + 8*k3]), xs[2*i1 + k3])
          fold acc add mul(mul(mul(f32(mul(less12[2*i1 + k3], 8:i32)), 1.0:f32), s[i2 + 8*k3]), xs[2*i1 + k3])
        }
      }
      store y[8*i1 + i2] = acc[0]
    }
  }
}
"""  # noqa: E501 (a statement is a line)
    assert becomes(BYTES, lambda k: sum_bytes(k, names, ROW, ROW, 2, UNSIGNED)) == expected


def in_whole_blocks(kernel, names):
    """Sums of bytes in registers, which scales multiply a block at a time."""
    summed = accumulate(sum_bytes(kernel, names, ROW, ROW, 2, UNSIGNED), names, ROW, one)
    return factor_out(summed, names, LANE, None)


def test_sums_of_integers_are_numbers_a_block_at_a_time(becomes, names):
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 64 {
  for serial r13 0.. < 2 {
    for vector w15 0.. < 2 {
      store less12[2*r13 + w15] = sub(0:i32, add(dot4u(16843009:i32, word(x[16*r13 + 8*w15])), dot4u(16843009:i32, word(x[4 + 16*r13 + 8*w15]))))
    }
    for serial k3 0.. < 2 {
      alloc sum14 = 0:i32
      for unroll w11 0.. < 1 {
        fold sum14 add less12[k3 + 2*r13 + w11]
      }
      store less12[k3 + 2*r13] = sum14[0]
    }
  }
  for vector i2 0.. < 8 {
    alloc acc16 = 0.0:f32
    for serial k3 0.. < 2 {
      alloc part19 = 0:i32
      for unroll w11 0.. < 1 {
        for unroll i1 0.. < 2 {
          e0 = xor(word(c[4*i2 + 32*k3]), -2004318072:i32)
          fold part19[i1] add dot4u(and(lshr(e0, 0:i32), 252645135:i32), word(x[16*i1 + 8*k3 + 8*w11]))
        }
        for unroll i1 0.. < 2 {
          e1 = xor(word(c[4*i2 + 32*k3]), -2004318072:i32)
          fold part19[i1] add dot4u(and(lshr(e1, 4:i32), 252645135:i32), word(x[4 + 16*i1 + 8*k3 + 8*w11]))
        }
      }
      for unroll e20 0.. < 2 {
        fold acc16[e20] add mul(mul(f32(add(part19[e20], mul(less12[2*e20 + k3], 8:i32))), s[i2 + 8*k3]), xs[2*e20 + k3])
      }
    }
    for unroll e17 0.. < 2 {
      store y[8*e17 + i2] = acc16[e17]
    }
  }
}
"""  # noqa: E501 (a statement is a line)
    assert becomes(BYTES, lambda k: in_whole_blocks(k, names)) == expected


ZERO = "f32(i32(z[8*k3 + i2]))"
ZEROS = product(f"mul(sub({SIGNED}, {ZERO}), {SCALE})", rows="INT8").replace(
    "buffer x ", "buffer z INT8 const 16 offset 0\nbuffer x "
)


def coded(second, zero="", type="INT4", cells=128):
    """Rows of int8 times such weights with a zero point for each lane of a block."""
    text = product(second, type, "INT8").replace("const 128", f"const {cells}")
    return text.replace("buffer x ", f"buffer z {zero} const 16 offset 0\nbuffer x ") if zero else text


WORD = "c[64*k3 + 4*i2 + mod(k4, 4) + 32*floordiv(k4, 4)]"
NUMBER = "z[8*k3 + i2]"
EIGHTS = {
    "a sign": coded(f"mul(f32(i32({WORD})), {SCALE})", type="INT8"),
    "no sign": coded(f"mul(f32(i32({WORD})), {SCALE})", type="UINT8"),
    "a code as zero point": coded(f"mul(sub(f32(i32({WORD})), {ZERO}), {SCALE})", "INT8", "INT8"),
    "a number as zero point": coded(f"mul(sub(f32(i32({WORD})), {NUMBER}), {SCALE})", "FLOAT", "UINT8"),
    "four bits and a number": coded(f"mul(sub(f32({BITS}), {NUMBER}), {SCALE})", "FLOAT", "UINT4"),
}


def test_zero_points_are_multiplied_by_the_sum_of_a_block(becomes, names):
    built = becomes(ZEROS, lambda k: in_whole_blocks(k, names))
    assert "f32(add(part19[e20], mul(less12[2*e20 + k3], add(i32(z[i2 + 8*k3]), 8:i32))))" in built


@pytest.mark.parametrize("text", EIGHTS.values(), ids=EIGHTS)
def test_codes_of_all_kinds_are_summed_as_bytes(text, becomes, names):
    assert rows_of_codes(product_of(parsed(text)[0]))
    becomes(text, lambda k: in_whole_blocks(k, names))


def test_zero_points_that_are_numbers_multiply_the_sum_as_a_number(becomes, names):
    built = becomes(EIGHTS["a number as zero point"], lambda k: in_whole_blocks(k, names))
    assert "add(f32(part19[e20]), mul(f32(less12[4*e20 + 2*k3]), z[i2 + 8*k3]))" in built
    assert "dot4u(word(c[4*i2 + 64*k3 + 32*w11]), " in built


def test_no_bytes_are_summed_that_int32_does_not_hold():
    """255 × 128 × 65 792 is the largest sum that fits."""
    texts = [EIGHTS["a sign"].replace("k4 0.. < 8", f"k4 0.. < {terms}") for terms in (65792, 65796)]
    assert [rows_of_codes(product_of(parsed(text)[0])) for text in texts] == [True, False]


TEXTS = {"few": FEW, "bytes": EIGHT, "no sign": PLAIN, "no scale": product(SIGNED)}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_sums_of_blocks_are_the_same_with_scales_and_without(text, becomes, names):
    built = becomes(text, lambda k: factor_out(summed(k, names), names, LANE, small(k)))
    assert "alloc part" in built


def test_rows_of_codes_are_distinguished_from_numbers():
    results = [product_of(parsed(text)[0]) for text in (FEW, BYTES, EIGHT, ZEROS)]
    assert [rows_of_codes(p) for p in results] == [False, True, False, True]


def test_rows_with_a_scale_for_each_term_are_not_summed_as_bytes():
    each = BYTES.replace("xs[2*i1 + k3]", "xs[16*i1 + 8*k3 + k4]")
    assert not rows_of_codes(product_of(parsed(each)[0]))
