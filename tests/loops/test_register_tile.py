"""A product in register tiles: its text before and after each step of the recipe, for several tiles."""

from dataclasses import replace
from unittest.mock import patch

import pytest

from anyrt.backends.cpu.strategies import contraction
from anyrt.core.dims import Sym
from anyrt.core.machine import REFERENCE
from anyrt.ir.rewrite import Fail
from anyrt.loops.nest import Names
from anyrt.loops.product import product_of
from anyrt.loops.register_tile import Fused, Pack, Shape, Tile
from anyrt.schedule.cost import Sizes
from anyrt.schedule.pieces import pieces
from anyrt.schedule.step import Context, Recipe
from anyrt.schedule.tables import Tables
from tests.loops.products import PRODUCT

(RECIPE,) = (part for part in contraction.CONTRACTION if isinstance(part, Recipe))
IMAGE = """
buffer acc f32 register 1 offset 0
buffer w FLOAT const 30 offset 0
buffer x FLOAT input 18 offset 0
buffer y FLOAT output 60 offset 0
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial m1 0.. < 3 {
    for serial m2 0.. < 2 {
      for serial n3 0.. < 10 {
        alloc acc = 0.0:f32
        for serial k4 0.. < 3 {
          fold acc add mul(x[6*m1 + 3*m2 + k4], w[10*k4 + n3])
        }
        store y[20*m1 + 10*m2 + n3] = acc[0]
      }
    }
  }
}
"""


def plain(product):
    """Two rows of a register with four lanes; items of two tiles and two panels."""
    return Tile(product, product.m[0], product.n[0], Shape(2, 1, 4), tiles=2, panels=2)


def wide(product):
    """Five rows of two registers with four lanes, an item each."""
    return Tile(product, product.m[0], product.n[0], Shape(5, 2, 4))


def joined(product):
    """Four rows, which are whole iterations of a loop of two."""
    outer, inner = product.m
    fused = Fused(outer, inner, Sym("f9", extent=6), beside=False)
    return Tile(replace(product.at(fused.values), m=(fused.m,)), fused.m, product.n[0], Shape(4, 1, 4), fused)


CASES = {
    "each panel": (PRODUCT, lambda p: replace(plain(p), pack_n=Pack.EACH)),
    "all panels of an item": (PRODUCT, lambda p: replace(plain(p), pack_n=Pack.ITEM)),
    "rows": (PRODUCT, lambda p: replace(plain(p), pack_m=True)),
    "results along the rows": (
        PRODUCT.replace("10*m1 + n2", "m1 + 5*n2"),
        lambda p: replace(plain(p), across=(p.m[0],)),
    ),
    "a last panel of fewer registers": (PRODUCT, wide),
    "two loops of rows": (IMAGE, joined),
}


def until(step, tile):
    """The kernel after the steps of the recipe up to the one of this name, or the reason why it does not
    apply."""

    def apply(kernel):
        rest = pieces(REFERENCE), 50, lambda: None, {}, {}
        context = Context(Names(10), Tables(), Sizes({}), REFERENCE, *rest)
        with patch.object(contraction, "choose", lambda kernel, c: tile(product_of(kernel))):
            steps = RECIPE.steps(kernel, context)
        for each in steps:
            result = each.apply(kernel, context)
            if each.name == step:
                return result
            kernel = kernel if isinstance(result, Fail) else result
        raise AssertionError(f"no step is called {step}")

    return apply


EXPECTED = {
    ("each panel", "split m"): """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial tc11 0.. < 2 {
    for serial r13 0.. < min(4, 5 + -4*tc11) {
      for serial n2 0.. < 10 {
        alloc acc = 0.0:f32
        for serial k3 0.. < 3 {
          fold acc add mul(x[k3 + 3*r13 + 12*tc11], w[10*k3 + n2])
        }
        store y[n2 + 10*r13 + 40*tc11] = acc[0]
      }
    }
  }
}
""",
    ("each panel", "split n"): """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial tc11 0.. < 2 {
    for serial r13 0.. < min(4, 5 + -4*tc11) {
      for serial pc15 0.. < 2 {
        for serial p16 0.. < min(2, 3 + -2*pc15) {
          for serial j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
            alloc acc = 0.0:f32
            for serial k3 0.. < 3 {
              fold acc add mul(x[k3 + 3*r13 + 12*tc11], w[j17 + 10*k3 + 4*p16 + 8*pc15])
            }
            store y[j17 + 4*p16 + 8*pc15 + 10*r13 + 40*tc11] = acc[0]
          }
        }
      }
    }
  }
}
""",
    ("each panel", "reorder loops"): """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial pc15 0.. < 2 {
    for serial tc11 0.. < 2 {
      for serial p16 0.. < min(2, 3 + -2*pc15) {
        for serial r13 0.. < min(4, 5 + -4*tc11) {
          for serial j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
            alloc acc = 0.0:f32
            for serial k3 0.. < 3 {
              fold acc add mul(x[k3 + 3*r13 + 12*tc11], w[j17 + 10*k3 + 4*p16 + 8*pc15])
            }
            store y[j17 + 4*p16 + 8*pc15 + 10*r13 + 40*tc11] = acc[0]
          }
        }
      }
    }
  }
}
""",
    ("each panel", "pack n"): """\
kernel "k" p0 0.. < 1 work 32 scratch 64 {
  for serial pc15 0.. < 2 {
    for serial tc11 0.. < 2 {
      for serial p16 0.. < min(2, 3 + -2*pc15) {
        for serial k3 0.. < 3 {
          for vector j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
            store panel18[j17 + 4*k3] = w[j17 + 10*k3 + 4*p16 + 8*pc15]
          }
        }
        for serial r13 0.. < min(4, 5 + -4*tc11) {
          for serial j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
            alloc acc = 0.0:f32
            for serial k3 0.. < 3 {
              fold acc add mul(x[k3 + 3*r13 + 12*tc11], panel18[j17 + 4*k3])
            }
            store y[j17 + 4*p16 + 8*pc15 + 10*r13 + 40*tc11] = acc[0]
          }
        }
      }
    }
  }
}
""",
    ("each panel", "split tiles"): """\
kernel "k" p0 0.. < 1 work 32 scratch 64 {
  for serial pc15 0.. < 2 {
    for serial tc11 0.. < 2 {
      for serial p16 0.. < min(2, 3 + -2*pc15) {
        for serial k3 0.. < 3 {
          for vector j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
            store panel18[j17 + 4*k3] = w[j17 + 10*k3 + 4*p16 + 8*pc15]
          }
        }
        for serial t12 0.. < min(2, 3 + -2*tc11) {
          for serial i14 0.. < min(2, 5 + -2*t12 + -4*tc11) {
            for serial j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
              alloc acc = 0.0:f32
              for serial k3 0.. < 3 {
                fold acc add mul(x[3*i14 + k3 + 6*t12 + 12*tc11], panel18[j17 + 4*k3])
              }
              store y[10*i14 + j17 + 4*p16 + 8*pc15 + 20*t12 + 40*tc11] = acc[0]
            }
          }
        }
      }
    }
  }
}
""",
    ("each panel", "peel"): """\
kernel "k" p0 0.. < 1 work 32 scratch 64 {
  for serial pc15 0.. < 2 {
    for serial tc11 0.. < 2 {
      for serial p16 0.. < min(2, 3 + -2*pc15) {
        for serial k3 0.. < 3 {
          for vector j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
            store panel18[j17 + 4*k3] = w[j17 + 10*k3 + 4*p16 + 8*pc15]
          }
        }
        for serial t12 0.. < min(2, 3 + -2*tc11) {
          e0 = le(index(2 + 2*t12 + 4*tc11), 5:i64)
          if e0 {
            for serial i14 0.. < 2 {
              for serial j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
                alloc acc = 0.0:f32
                for serial k3 0.. < 3 {
                  fold acc add mul(x[3*i14 + k3 + 6*t12 + 12*tc11], panel18[j17 + 4*k3])
                }
                store y[10*i14 + j17 + 4*p16 + 8*pc15 + 20*t12 + 40*tc11] = acc[0]
              }
            }
          }
          if not(e0) {
            for serial i14 0.. < 1 {
              for serial j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
                alloc acc = 0.0:f32
                for serial k3 0.. < 3 {
                  fold acc add mul(x[3*i14 + k3 + 6*t12 + 12*tc11], panel18[j17 + 4*k3])
                }
                store y[10*i14 + j17 + 4*p16 + 8*pc15 + 20*t12 + 40*tc11] = acc[0]
              }
            }
          }
        }
      }
    }
  }
}
""",
    ("each panel", "accumulate"): """\
kernel "k" p0 0.. < 1 work 32 scratch 64 {
  for serial pc15 0.. < 2 {
    for serial tc11 0.. < 2 {
      for serial p16 0.. < min(2, 3 + -2*pc15) {
        for serial k3 0.. < 3 {
          for vector j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
            store panel18[j17 + 4*k3] = w[j17 + 10*k3 + 4*p16 + 8*pc15]
          }
        }
        for serial t12 0.. < min(2, 3 + -2*tc11) {
          e0 = le(index(2 + 2*t12 + 4*tc11), 5:i64)
          if e0 {
            for vector j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
              alloc acc20 = 0.0:f32
              for serial k3 0.. < 3 {
                for unroll i14 0.. < 2 {
                  fold acc20[i14] add mul(x[3*i14 + k3 + 6*t12 + 12*tc11], panel18[j17 + 4*k3])
                }
              }
              for unroll e21 0.. < 2 {
                store y[10*e21 + j17 + 4*p16 + 8*pc15 + 20*t12 + 40*tc11] = acc20[e21]
              }
            }
          }
          if not(e0) {
            for vector j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
              alloc acc23 = 0.0:f32
              for serial k3 0.. < 3 {
                for unroll i14 0.. < 1 {
                  fold acc23[i14] add mul(x[3*i14 + k3 + 6*t12 + 12*tc11], panel18[j17 + 4*k3])
                }
              }
              for unroll e24 0.. < 1 {
                store y[10*e24 + j17 + 4*p16 + 8*pc15 + 20*t12 + 40*tc11] = acc23[e24]
              }
            }
          }
        }
      }
    }
  }
}
""",
    ("each panel", "parallelise items"): """\
kernel "k" p26 0.. < 4 work 152 scratch 64 {
  let pc15 0.. < 2 = floordiv(p26, 2)
  let tc11 0.. < 2 = mod(p26, 2)
  for serial p16 0.. < min(2, 3 + -2*pc15) {
    for serial k3 0.. < 3 {
      for vector j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
        store panel18[j17 + 4*k3] = w[j17 + 10*k3 + 4*p16 + 8*pc15]
      }
    }
    for serial t12 0.. < min(2, 3 + -2*tc11) {
      e0 = le(index(2 + 2*t12 + 4*tc11), 5:i64)
      if e0 {
        for vector j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
          alloc acc20 = 0.0:f32
          for serial k3 0.. < 3 {
            for unroll i14 0.. < 2 {
              fold acc20[i14] add mul(x[3*i14 + k3 + 6*t12 + 12*tc11], panel18[j17 + 4*k3])
            }
          }
          for unroll e21 0.. < 2 {
            store y[10*e21 + j17 + 4*p16 + 8*pc15 + 20*t12 + 40*tc11] = acc20[e21]
          }
        }
      }
      if not(e0) {
        for vector j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
          alloc acc23 = 0.0:f32
          for serial k3 0.. < 3 {
            for unroll i14 0.. < 1 {
              fold acc23[i14] add mul(x[3*i14 + k3 + 6*t12 + 12*tc11], panel18[j17 + 4*k3])
            }
          }
          for unroll e24 0.. < 1 {
            store y[10*e24 + j17 + 4*p16 + 8*pc15 + 20*t12 + 40*tc11] = acc23[e24]
          }
        }
      }
    }
  }
}
""",
    ("all panels of an item", "pack n"): """\
kernel "k" p0 0.. < 1 work 32 scratch 128 {
  for serial pc15 0.. < 2 {
    for serial tc11 0.. < 2 {
      for serial k3 0.. < 3 {
        for serial p16 0.. < min(2, 3 + -2*pc15) {
          for vector j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
            store panel18[j17 + 4*k3 + 12*p16] = w[j17 + 10*k3 + 4*p16 + 8*pc15]
          }
        }
      }
      for serial p16 0.. < min(2, 3 + -2*pc15) {
        for serial r13 0.. < min(4, 5 + -4*tc11) {
          for serial j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
            alloc acc = 0.0:f32
            for serial k3 0.. < 3 {
              fold acc add mul(x[k3 + 3*r13 + 12*tc11], panel18[j17 + 4*k3 + 12*p16])
            }
            store y[j17 + 4*p16 + 8*pc15 + 10*r13 + 40*tc11] = acc[0]
          }
        }
      }
    }
  }
}
""",
    ("all panels of an item", "split tiles"): """\
kernel "k" p0 0.. < 1 work 32 scratch 128 {
  for serial pc15 0.. < 2 {
    for serial tc11 0.. < 2 {
      for serial k3 0.. < 3 {
        for serial p16 0.. < min(2, 3 + -2*pc15) {
          for vector j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
            store panel18[j17 + 4*k3 + 12*p16] = w[j17 + 10*k3 + 4*p16 + 8*pc15]
          }
        }
      }
      for serial t12 0.. < min(2, 3 + -2*tc11) {
        for serial p16 0.. < min(2, 3 + -2*pc15) {
          for serial i14 0.. < min(2, 5 + -2*t12 + -4*tc11) {
            for serial j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
              alloc acc = 0.0:f32
              for serial k3 0.. < 3 {
                fold acc add mul(x[3*i14 + k3 + 6*t12 + 12*tc11], panel18[j17 + 4*k3 + 12*p16])
              }
              store y[10*i14 + j17 + 4*p16 + 8*pc15 + 20*t12 + 40*tc11] = acc[0]
            }
          }
        }
      }
    }
  }
}
""",
    ("all panels of an item", "accumulate"): """\
kernel "k" p0 0.. < 1 work 32 scratch 128 {
  for serial pc15 0.. < 2 {
    for serial tc11 0.. < 2 {
      for serial k3 0.. < 3 {
        for serial p16 0.. < min(2, 3 + -2*pc15) {
          for vector j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
            store panel18[j17 + 4*k3 + 12*p16] = w[j17 + 10*k3 + 4*p16 + 8*pc15]
          }
        }
      }
      for serial t12 0.. < min(2, 3 + -2*tc11) {
        for serial p16 0.. < min(2, 3 + -2*pc15) {
          e0 = le(index(2 + 2*t12 + 4*tc11), 5:i64)
          if e0 {
            for vector j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
              alloc acc20 = 0.0:f32
              for serial k3 0.. < 3 {
                for unroll i14 0.. < 2 {
                  fold acc20[i14] add mul(x[3*i14 + k3 + 6*t12 + 12*tc11], panel18[j17 + 4*k3 + 12*p16])
                }
              }
              for unroll e21 0.. < 2 {
                store y[10*e21 + j17 + 4*p16 + 8*pc15 + 20*t12 + 40*tc11] = acc20[e21]
              }
            }
          }
          if not(e0) {
            for vector j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
              alloc acc23 = 0.0:f32
              for serial k3 0.. < 3 {
                for unroll i14 0.. < 1 {
                  fold acc23[i14] add mul(x[3*i14 + k3 + 6*t12 + 12*tc11], panel18[j17 + 4*k3 + 12*p16])
                }
              }
              for unroll e24 0.. < 1 {
                store y[10*e24 + j17 + 4*p16 + 8*pc15 + 20*t12 + 40*tc11] = acc23[e24]
              }
            }
          }
        }
      }
    }
  }
}
""",
    ("rows", "pack m"): """\
kernel "k" p0 0.. < 1 work 32 scratch 128 {
  for serial pc15 0.. < 2 {
    for serial tc11 0.. < 2 {
      for serial r18 0.. < min(4, 5 + -4*tc11) {
        for vector k3 0.. < 3 {
          store rows19[k3 + 7*r18] = x[k3 + 3*r18 + 12*tc11]
        }
      }
      for serial p16 0.. < min(2, 3 + -2*pc15) {
        for serial r13 0.. < min(4, 5 + -4*tc11) {
          for serial j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
            alloc acc = 0.0:f32
            for serial k3 0.. < 3 {
              fold acc add mul(rows19[k3 + 7*r13], w[j17 + 10*k3 + 4*p16 + 8*pc15])
            }
            store y[j17 + 4*p16 + 8*pc15 + 10*r13 + 40*tc11] = acc[0]
          }
        }
      }
    }
  }
}
""",
    ("rows", "accumulate"): """\
kernel "k" p0 0.. < 1 work 32 scratch 128 {
  for serial pc15 0.. < 2 {
    for serial tc11 0.. < 2 {
      for serial r18 0.. < min(4, 5 + -4*tc11) {
        for vector k3 0.. < 3 {
          store rows19[k3 + 7*r18] = x[k3 + 3*r18 + 12*tc11]
        }
      }
      for serial p16 0.. < min(2, 3 + -2*pc15) {
        for serial t12 0.. < min(2, 3 + -2*tc11) {
          e0 = le(index(2 + 2*t12 + 4*tc11), 5:i64)
          if e0 {
            for vector j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
              alloc acc21 = 0.0:f32
              for serial k3 0.. < 3 {
                for unroll i14 0.. < 2 {
                  fold acc21[i14] add mul(rows19[7*i14 + k3 + 14*t12], w[j17 + 10*k3 + 4*p16 + 8*pc15])
                }
              }
              for unroll e22 0.. < 2 {
                store y[10*e22 + j17 + 4*p16 + 8*pc15 + 20*t12 + 40*tc11] = acc21[e22]
              }
            }
          }
          if not(e0) {
            for vector j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
              alloc acc24 = 0.0:f32
              for serial k3 0.. < 3 {
                for unroll i14 0.. < 1 {
                  fold acc24[i14] add mul(rows19[7*i14 + k3 + 14*t12], w[j17 + 10*k3 + 4*p16 + 8*pc15])
                }
              }
              for unroll e25 0.. < 1 {
                store y[10*e25 + j17 + 4*p16 + 8*pc15 + 20*t12 + 40*tc11] = acc24[e25]
              }
            }
          }
        }
      }
    }
  }
}
""",
    ("results along the rows", "cache write of items"): """\
kernel "k" p0 0.. < 1 work 32 scratch 64 {
  for serial pc15 0.. < 2 {
    for serial tc11 0.. < 2 {
      for serial p16 0.. < min(2, 3 + -2*pc15) {
        for serial r13 0.. < min(4, 5 + -4*tc11) {
          for serial j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
            alloc acc = 0.0:f32
            for serial k3 0.. < 3 {
              fold acc add mul(x[k3 + 3*r13 + 12*tc11], w[j17 + 10*k3 + 4*p16 + 8*pc15])
            }
            store tiles18[j17 + 4*r13] = acc[0]
          }
        }
        for vector e19 0.. < min(4, 5 + -4*tc11) {
          for tile j21 0.. < min(10 + -4*p16 + -8*pc15, 4) {
            store y[e19 + 5*j21 + 20*p16 + 40*pc15 + 4*tc11] = tiles18[4*e19 + j21]
          }
        }
      }
    }
  }
}
""",
    ("results along the rows", "split tiles"): """\
kernel "k" p0 0.. < 1 work 32 scratch 64 {
  for serial pc15 0.. < 2 {
    for serial tc11 0.. < 2 {
      for serial p16 0.. < min(2, 3 + -2*pc15) {
        for serial t12 0.. < min(2, 3 + -2*tc11) {
          for serial i14 0.. < min(2, 5 + -2*t12 + -4*tc11) {
            for serial j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
              alloc acc = 0.0:f32
              for serial k3 0.. < 3 {
                fold acc add mul(x[3*i14 + k3 + 6*t12 + 12*tc11], w[j17 + 10*k3 + 4*p16 + 8*pc15])
              }
              store tiles18[4*i14 + j17 + 8*t12] = acc[0]
            }
          }
        }
        for vector e19 0.. < min(4, 5 + -4*tc11) {
          for tile j21 0.. < min(10 + -4*p16 + -8*pc15, 4) {
            store y[e19 + 5*j21 + 20*p16 + 40*pc15 + 4*tc11] = tiles18[4*e19 + j21]
          }
        }
      }
    }
  }
}
""",
    ("results along the rows", "accumulate"): """\
kernel "k" p0 0.. < 1 work 32 scratch 64 {
  for serial pc15 0.. < 2 {
    for serial tc11 0.. < 2 {
      for serial p16 0.. < min(2, 3 + -2*pc15) {
        for serial t12 0.. < min(2, 3 + -2*tc11) {
          e0 = le(index(2 + 2*t12 + 4*tc11), 5:i64)
          if e0 {
            for serial l22 0.. < min(10 + -4*p16 + -8*pc15, 4) {
              for vector z23 0.. < 16 {
                fetch y[5*l22 + 20*p16 + 40*pc15 + 2*t12 + 4*tc11 + z23] nearest
              }
            }
            for vector j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
              alloc acc26 = 0.0:f32
              for serial k3 0.. < 3 {
                for unroll i14 0.. < 2 {
                  fold acc26[i14] add mul(x[3*i14 + k3 + 6*t12 + 12*tc11], w[j17 + 10*k3 + 4*p16 + 8*pc15])
                }
              }
              for unroll e27 0.. < 2 {
                store tiles18[4*e27 + j17 + 8*t12] = acc26[e27]
              }
            }
          }
          if not(e0) {
            for serial l24 0.. < min(10 + -4*p16 + -8*pc15, 4) {
              for vector z25 0.. < 16 {
                fetch y[5*l24 + 20*p16 + 40*pc15 + 2*t12 + 4*tc11 + z25] nearest
              }
            }
            for vector j17 0.. < min(10 + -4*p16 + -8*pc15, 4) {
              alloc acc29 = 0.0:f32
              for serial k3 0.. < 3 {
                for unroll i14 0.. < 1 {
                  fold acc29[i14] add mul(x[3*i14 + k3 + 6*t12 + 12*tc11], w[j17 + 10*k3 + 4*p16 + 8*pc15])
                }
              }
              for unroll e30 0.. < 1 {
                store tiles18[4*e30 + j17 + 8*t12] = acc29[e30]
              }
            }
          }
        }
        for vector e19 0.. < min(4, 5 + -4*tc11) {
          for tile j21 0.. < min(10 + -4*p16 + -8*pc15, 4) {
            store y[e19 + 5*j21 + 20*p16 + 40*pc15 + 4*tc11] = tiles18[4*e19 + j21]
          }
        }
      }
    }
  }
}
""",
    ("a last panel of fewer registers", "specialize"): """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial pc15 0.. < 2 {
    e0 = le(index(8 + 8*pc15), 10:i64)
    if e0 {
      for serial i14 0.. < 5 {
        for serial j17 0.. < 8 {
          alloc acc = 0.0:f32
          for serial k3 0.. < 3 {
            fold acc add mul(x[3*i14 + k3], w[j17 + 10*k3 + 8*pc15])
          }
          store y[10*i14 + j17 + 8*pc15] = acc[0]
        }
      }
    }
    if not(e0) {
      for serial i14 0.. < 5 {
        for serial j17 0.. < 2 {
          alloc acc = 0.0:f32
          for serial k3 0.. < 3 {
            fold acc add mul(x[3*i14 + k3], w[j17 + 10*k3 + 8*pc15])
          }
          store y[10*i14 + j17 + 8*pc15] = acc[0]
        }
      }
    }
  }
}
""",
    ("a last panel of fewer registers", "accumulate"): """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial pc15 0.. < 2 {
    e0 = le(index(8 + 8*pc15), 10:i64)
    if e0 {
      for vector*2 j17 0.. < 8 {
        alloc acc18 = 0.0:f32
        for serial k3 0.. < 3 {
          for unroll i14 0.. < 5 {
            fold acc18[i14] add mul(x[3*i14 + k3], w[j17 + 10*k3 + 8*pc15])
          }
        }
        for unroll e19 0.. < 5 {
          store y[10*e19 + j17 + 8*pc15] = acc18[e19]
        }
      }
    }
    if not(e0) {
      for vector j17 0.. < 2 {
        alloc acc21 = 0.0:f32
        for serial k3 0.. < 3 {
          for unroll i14 0.. < 5 {
            fold acc21[i14] add mul(x[3*i14 + k3], w[j17 + 10*k3 + 8*pc15])
          }
        }
        for unroll e22 0.. < 5 {
          store y[10*e22 + j17 + 8*pc15] = acc21[e22]
        }
      }
    }
  }
}
""",
    ("two loops of rows", "fuse loops"): """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial n3 0.. < 10 {
    for serial f9 0.. < 6 {
      alloc acc = 0.0:f32
      for serial k4 0.. < 3 {
        fold acc add mul(x[3*f9 + k4], w[10*k4 + n3])
      }
      store y[10*f9 + n3] = acc[0]
    }
  }
}
""",
    ("two loops of rows", "split m"): """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial n3 0.. < 10 {
    for serial tc11 0.. < 2 {
      for serial r13 0.. < min(4, 6 + -4*tc11) {
        alloc acc = 0.0:f32
        for serial k4 0.. < 3 {
          fold acc add mul(x[k4 + 3*r13 + 12*tc11], w[10*k4 + n3])
        }
        store y[n3 + 10*r13 + 40*tc11] = acc[0]
      }
    }
  }
}
""",
    ("two loops of rows", "split tiles"): """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial pc15 0.. < 3 {
    for serial tc11 0.. < 2 {
      for serial i14 0.. < min(4, 6 + -4*tc11) {
        for serial j17 0.. < min(10 + -4*pc15, 4) {
          alloc acc = 0.0:f32
          for serial k4 0.. < 3 {
            fold acc add mul(x[3*i14 + k4 + 12*tc11], w[j17 + 10*k4 + 4*pc15])
          }
          store y[10*i14 + j17 + 4*pc15 + 40*tc11] = acc[0]
        }
      }
    }
  }
}
""",
    ("two loops of rows", "accumulate"): """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial pc15 0.. < 3 {
    for serial tc11 0.. < 2 {
      e0 = le(index(4 + 4*tc11), 6:i64)
      if e0 {
        for vector j17 0.. < min(10 + -4*pc15, 4) {
          alloc acc18 = 0.0:f32
          for serial k4 0.. < 3 {
            for unroll i14 0.. < 4 {
              fold acc18[i14] add mul(x[3*i14 + k4 + 12*tc11], w[j17 + 10*k4 + 4*pc15])
            }
          }
          for unroll e19 0.. < 4 {
            store y[10*e19 + j17 + 4*pc15 + 40*tc11] = acc18[e19]
          }
        }
      }
      if not(e0) {
        for vector j17 0.. < min(10 + -4*pc15, 4) {
          alloc acc21 = 0.0:f32
          for serial k4 0.. < 3 {
            for unroll i14 0.. < 2 {
              fold acc21[i14] add mul(x[3*i14 + k4 + 12*tc11], w[j17 + 10*k4 + 4*pc15])
            }
          }
          for unroll e22 0.. < 2 {
            store y[10*e22 + j17 + 4*pc15 + 40*tc11] = acc21[e22]
          }
        }
      }
    }
  }
}
""",
}


@pytest.mark.parametrize(("case", "step"), EXPECTED)
def test_a_product_after_each_step(case, step, after):
    text, tile = CASES[case]
    assert after(text, until(step, tile)) == EXPECTED[case, step]


def test_steps_that_a_tile_does_not_ask_for_say_why(after):
    text, tile = CASES["each panel"]
    assert after(text, until("fuse loops", tile)) == "m has enough iterations for a tile"
    assert after(text, until("pack m", tile)) == "its first factor is read in place"
    assert after(text, until("specialize", tile)) == "its last panel needs as many registers as the others"
    assert after(text, until("tensorize", tile)) == "no instruction multiplies matrices of its words"
