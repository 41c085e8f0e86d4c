"""How far a fault is off on a checkpoint that is asked for a few tokens again and again: by enumerating its outputs.

What the engine draws is followed along every path, as the exact law oracle does, so it takes no account of how the
fault works: numbers that are read twice are met twice.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable

from eredu_conformance.harness.enumeration import EnumeratingSource, enumerate_law
from eredu_conformance.validator_power.checkpoint_subject import CheckpointSubject
from eredu_conformance.validator_power.laws import Distance
from eredu_reference.rows import Row, processed_row

MOST_PATHS = 20_000
"""Bound of an enumeration."""
Tokens = tuple[int, ...]


def enumerated_distance(subject: CheckpointSubject) -> Distance:
    """Mean distances a token of a subject that is asked for the same chat again and again.

    Raises `TooManyPaths` where its outputs are too long or its ids too many to be enumerated.
    """
    assert not subject.varied, "one chat is enumerated, not several in turn"
    request, rows = subject.request, subject.checkpoint.rows

    def experiment(source: EnumeratingSource) -> Tokens:
        return subject.decode(request, source)[0]

    def right(output: Tokens) -> Row:
        history = request.prompt + output
        row = rows.target_row(history)
        start = len(request.prompt)
        return processed_row(row, history=history, prompt_length=start, sampling=request.sampling, mask=None)

    return distance_of_outputs(enumerate_law(experiment, most_paths=MOST_PATHS), right)


def distance_of_outputs(law: dict[Tokens, float], right: Callable[[Tokens], Row]) -> Distance:
    """Mean distances a token of outputs from rows.

    Args:
        law: Probability of each output.
        right: The row that the token behind some output should be drawn from.
    """
    following: defaultdict[Tokens, defaultdict[int, float]] = defaultdict(lambda: defaultdict(float))
    for output, weight in law.items():
        for place, token in enumerate(output):
            following[output[:place]][token] += weight
    tokens = sum(len(output) * weight for output, weight in law.items())
    variation = divergence = 0.0
    for before, weights in following.items():
        row, reached = right(before), sum(weights.values())
        unseen = 1.0 - sum(row[token] for token in weights)
        variation += (
            sum(abs(weight - reached * row[token]) for token, weight in weights.items()) + reached * unseen
        ) / 2
        divergence += sum(w * math.log(w / (reached * row[token])) for token, w in weights.items() if w > 0)
    return Distance(float(variation / tokens), float(divergence / tokens))
