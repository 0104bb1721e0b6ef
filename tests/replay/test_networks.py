"""The sample of networks is fair, and the file lists it."""

from collections import Counter

from tools import replay
from tools.replays import rows
from tools.replays.lowering import MACHINES
from tools.replays.networks import QUICK, every, quick

ALL = every()
SAMPLE = quick(ALL)


def test_the_file_has_every_network_of_the_sample_for_every_machine():
    held = {*rows.read(replay.FILE.read_text(), replay.FILE.name)}
    expected = {(n.name, m) for n in SAMPLE for m in MACHINES}
    assert (expected - held, held - expected) == (set(), set())


def test_every_family_is_in_the_sample():
    all_of, taken = (Counter(n.family for n in some) for some in (ALL, SAMPLE))
    assert all(taken[family] >= min(QUICK, count) for family, count in all_of.items())


def test_every_product_of_half_types_and_of_bytes_is_in_the_sample():
    expected = {
        n.name for n in ALL if n.name.endswith(("_bf16", "_f16", "_i8")) and n.name.startswith("contr")
    }
    assert expected <= {n.name for n in SAMPLE}
    assert len(expected) == 33


def test_names_are_one_word_each_and_differ():
    assert len({n.name for n in ALL}) == len(ALL)
    assert not any(" " in n.name for n in ALL)
