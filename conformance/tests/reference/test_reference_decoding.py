"""Plain and speculative decoding as a whole, and that the rare situations occur in the cases that test them."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eredu_reference
from eredu_conformance.harness.cases import near_case, table_case, twin_case
from eredu_reference import (
    AcceptanceError,
    AcceptanceRule,
    Drafter,
    FinishReason,
    PrefixStore,
    Report,
    Request,
    RequestError,
    Sampling,
    ThreefrySource,
    decode_plain,
    decode_speculative,
    decode_together,
)
from eredu_reference.models import ScriptedModel, TableModel
from eredu_reference.sources import Address, Role
from eredu_spec import randomness


def test_plain_decoding_by_hand() -> None:
    """A bigram, drawn token by token with the numbers of the target's role."""
    model = TableModel.random(4, order=1, seed=3)
    request = Request(prompt=(2, 0), max_tokens=12, seed=8)
    source, last, output = ThreefrySource(randomness.root(8)), 0, []
    for position in range(12):
        last = source.categorical(Address(Role.TARGET, position), np.array(model.rows[(last,)]))
        output.append(last)
    result = decode_plain(model, request)
    assert (result.tokens, result.finish) == (tuple(output), FinishReason.LENGTH)
    assert len(result.cache) == len(request.prompt) + 12 - 1


def test_plain_greedy_by_hand() -> None:
    model = TableModel({(0,): (0.2, 0.4, 0.4), (1,): (0.5, 0.0, 0.5), (2,): (0.0, 0.0, 1.0)})
    request = Request(prompt=(0,), max_tokens=5, sampling=Sampling(temperature=0.0))
    assert decode_plain(model, request).tokens == (1, 0, 1, 0, 1)


@pytest.mark.parametrize("rule", [AcceptanceRule.REJECTION, AcceptanceRule.BLOCK, AcceptanceRule.COUPLED])
def test_a_drafter_that_is_the_target_is_always_accepted(rule: Any) -> None:
    case = twin_case(3).with_request(acceptance=rule, max_tokens=20)
    report = decode_speculative(case.target, case.drafter, case.request)
    assert report.statistics.rejected == 0
    assert report.statistics.accepted == report.statistics.drafted - report.statistics.unexamined


def test_decoding_without_a_drafter_is_plain() -> None:
    case = table_case(2)
    report = decode_speculative(case.target, None, case.request)
    assert report.tokens == decode_plain(case.target, case.request).tokens
    assert {done.reason.value for done in report.rounds} == {"capability"}


def test_requests_do_not_depend_on_each_other() -> None:
    case = near_case(1)
    requests = [replace(case.request, seed=seed, batch_index=index) for index, seed in enumerate((4, 4, 9))]
    together = decode_together(case.target, case.drafter, requests)
    backwards = decode_together(case.target, case.drafter, requests[::-1])[::-1]
    outputs = [report.tokens for report in together if isinstance(report, Report)]
    assert outputs == [report.tokens for report in backwards if isinstance(report, Report)]
    assert len(set(outputs)) == 3


def test_report_is_json() -> None:
    case = near_case(2)
    report = decode_speculative(case.target, case.drafter, case.request)
    plain = json.loads(json.dumps(report.as_dict()))
    assert plain["tokens"] == list(report.tokens)
    assert plain["statistics"]["emitted"] == len(report.tokens)
    assert [event["event"] for event in plain["events"]][-1] == "end"


def test_a_failure_leaves_no_trace_and_reaches_the_caller() -> None:
    nan = ScriptedModel(4, 1, (1, 2, (float("nan"),) * 4, 0))
    target = TableModel.random(4, order=1, seed=1)
    request = Request(prompt=(0,), max_tokens=9, max_proposals=3)
    states = []
    with pytest.raises(AcceptanceError, match="NaN"):
        decode_speculative(target, Drafter(nan, raw=True), request, observe=lambda kind, state: states.append(state))
    state = states[-1]
    assert (state.output, state.published, len(state.target_cache)) == ((), (), 0)


def test_requests_are_checked() -> None:
    with pytest.raises(RequestError, match="empty"):
        Request(prompt=(), max_tokens=1)
    with pytest.raises(RequestError, match="max_tokens"):
        Request(prompt=(0,), max_tokens=0)
    with pytest.raises(RequestError, match="temperature"):
        Sampling(temperature=-1.0)
    with pytest.raises(RequestError, match="stop sequence"):
        Request(prompt=(0,), max_tokens=1, stop_sequences=((),))
    with pytest.raises(RequestError, match="temperature 0"):
        Request(prompt=(0,), max_tokens=1, acceptance=AcceptanceRule.GREEDY)


def test_prefix_store_is_used() -> None:
    case = table_case(1).greedy()
    store = PrefixStore()
    events: list[Any] = []
    first = decode_speculative(case.target, case.drafter, case.request, store=store)
    prompt = (*case.request.prompt, *first.tokens, 1)
    longer = replace(case.request, prompt=prompt)
    warm = decode_speculative(case.target, case.drafter, longer, store=store, events=events)
    assert events[0] == {"event": "restore", "length": len(prompt) - 2}
    assert warm.tokens == decode_plain(case.target, longer).tokens
    assert len(store.entries) == 2


def imports_of(path: Any) -> Any:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module


SOURCES = sorted(Path(eredu_reference.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_the_reference_imports_neither_library_nor_arrays_but_numpy(path: Any) -> None:
    roots = {name.split(".")[0] for name in imports_of(path)}
    assert roots & {"eredu", "mlx", "mlx_lm", "eredu_conformance", "transformers"} == set()


def test_plain_decoding_knows_no_piece() -> None:
    names = set(imports_of(Path(eredu_reference.__file__).parent / "plain.py"))
    assert not any(name.rsplit(".", 1)[-1] in {"pieces", "engine", "drafting", "settlement"} for name in names)
