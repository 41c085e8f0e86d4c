"""The law of a subject that takes injected randomness: every outcome of every decision, with its exact weight.

The subject keeps no state for this. It is run again for every path: the first choices are prescribed, later decisions
take their first possible outcome, and the weights that come back say which other paths there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eredu_conformance.protocol.capabilities import Capabilities
from eredu_conformance.protocol.errors import MessageError, SkippedRunError, SubjectError
from eredu_conformance.protocol.run import Run
from eredu_conformance.protocol.subject import Errored, Ok, Skipped, Subject, attempt

OutputLaw = dict[tuple[int, ...], float]
"""Probability of each output of a request."""


def output_law(subject: Subject, capabilities: Capabilities, run: Run, *, most_runs: int = 20_000) -> OutputLaw:
    """Walk the whole tree of outcomes of a run with one request.

    Args:
        subject: Started already.
        capabilities: Its declaration.
        run: Its `choices` are ignored.
        most_runs: Bound on the paths.

    Returns:
        The law of the output; its values sum to 1 up to rounding.

    Raises:
        SkippedRunError: the subject can't do the run.
        SubjectError: it erred, or the tree has more than `most_runs` paths.
        MessageError: the decisions that it reports contradict the choices that it was given.
    """
    law: OutputLaw = {}
    pending: list[tuple[int, ...]] = [()]
    for _ in range(most_runs):
        if not pending:
            return law
        choices = pending.pop()
        tokens, decisions = _follow(subject, capabilities, replace(run, choices=choices))
        path, weight = _path(choices, decisions)
        law[tokens] = law.get(tokens, 0.0) + weight
        for step in range(len(choices), len(decisions)):
            others = [i for i, w in enumerate(decisions[step]) if w > 0 and i != path[step]]
            pending += [(*path[:step], other) for other in others]
    raise SubjectError(f"the run has more than {most_runs} paths; ask for fewer tokens or proposals")


def _follow(
    subject: Subject, capabilities: Capabilities, run: Run
) -> tuple[tuple[int, ...], tuple[tuple[float, ...], ...]]:
    match attempt(subject, capabilities, run):
        case Skipped(reason=reason):
            raise SkippedRunError(reason)
        case Errored(message=message, detail=detail):
            raise SubjectError(message, detail=detail)
        case Ok(result=result):
            if result.decisions is None:
                raise MessageError(f"{capabilities.name} declares injected randomness and reports no decisions")
            return result.answers[0].tokens, result.decisions


def _path(choices: Sequence[int], decisions: Sequence[Sequence[float]]) -> tuple[tuple[int, ...], float]:
    """The outcome of each decision, and the weight of the path."""
    if len(decisions) < len(choices):
        raise MessageError(f"{len(choices)} choices were prescribed and {len(decisions)} decisions reported")
    path, weight = list(choices), 1.0
    for step, weights in enumerate(decisions):
        total = sum(weights)
        if min(weights, default=0.0) < 0 or total <= 0:
            raise MessageError(f"decision {step} has weights {list(weights)}; expected some above 0 and none below")
        if step >= len(choices):
            path.append(next(i for i, w in enumerate(weights) if w > 0))
        elif not 0 <= path[step] < len(weights) or weights[path[step]] <= 0:
            raise MessageError(
                f"decision {step} has weights {list(weights)} now; outcome {path[step]} was possible there before"
            )
        weight *= weights[path[step]] / total
    return tuple(path), weight
