"""Beam search gives NumPy's sentences, and they are the best of the candidates."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "beam_search.py"


@pytest.fixture(scope="module")
def example():
    return SimpleNamespace(**runpy.run_path(str(PROGRAM)))


def in_numpy(example, size, weights, length):
    """Each beam of each sentence separately: (score, words, state), the best of all continuations."""
    w = {name: x.astype(np.float64) for name, x in weights.items()}
    out = []
    for n in range(size.batch):
        beams = [(0.0, [], np.where(np.arange(size.hidden) == 0, float(n), 0.0))]
        for _ in range(length):
            following = []
            for score, words, state in beams:
                last = words[-1] if words else example.START
                after = np.tanh(w["words"][last] @ w["of_word"] + state @ w["of_state"])
                logits = after @ w["scores"]
                own = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
                if last == example.END:
                    own = np.where(np.arange(size.vocabulary) == example.END, 0, -np.inf)
                following += [(score + own[k], [*words, k], after) for k in range(size.vocabulary)]
            beams = sorted(following, key=lambda beam: -beam[0])[: size.beams]
        out.append(beams)
    return out


@pytest.mark.parametrize("seed", range(2))
def test_sentences_and_scores_are_those_of_numpy(example, seed):
    size = example.Size(batch=3, beams=3, vocabulary=20, width=8, hidden=12)
    weights = example.random_weights(size, seed)
    weights["scores"][:, example.END] *= 3  # so that some sentences end
    match, scores = example.search(example.build(size, weights), size, 6)
    expected = in_numpy(example, size, weights, 6)
    assert match.tolist() == [[words for _, words, _ in beams] for beams in expected]
    np.testing.assert_allclose(scores, [[score for score, _, _ in beams] for beams in expected], atol=1e-4)


def test_a_beam_that_ended_stays_as_it_is(example):
    size = example.Size(batch=1, beams=2, vocabulary=5, width=4, hidden=4)
    engine = example.build(size, example.random_weights(size))
    words, scores = np.int32([[example.END, 3]]), np.float32([[-1, -90]])
    step = engine.run(words=words, scores=scores, states=np.zeros((1, 2, 4), np.float32))
    assert (step["chosen"][0, 0], step["parents"][0, 0], step["totals"][0, 0]) == (example.END, 0, -1)


def test_the_program_prints_a_sentence_for_each_of_the_batch(example, capsys):
    example.main()
    assert [len(line.split()) for line in capsys.readouterr().out.splitlines()] == [11, 11]
