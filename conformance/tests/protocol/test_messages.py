"""The wire format: messages fit their schemas, survive the round trip, and wrong ones are refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from referencing import Registry, Resource

from eredu_conformance.protocol import (
    Acceptance,
    Answer,
    Capabilities,
    Checkpoint,
    Errored,
    Feature,
    Finish,
    MessageError,
    Ok,
    Outcome,
    Request,
    Round,
    Run,
    RunOptions,
    RunResult,
    Schedule,
    Skipped,
)
from eredu_conformance.protocol.messages import (
    encode,
    read_run,
    read_run_reply,
    read_start_reply,
    run_command,
    run_reply,
    start_command,
    start_reply,
    stop_command,
)

SCHEMAS = ("start", "start-reply", "run", "run-reply", "stop")


def schema(name: str) -> dict[str, Any]:
    text = files("eredu_conformance.protocol").joinpath(f"schemas/{name}.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


def validator(name: str) -> Draft202012Validator:
    """One that follows references from schema to schema."""
    others = Registry().with_resources((f"{each}.json", Resource.from_contents(schema(each))) for each in SCHEMAS)
    return Draft202012Validator(schema(name), registry=others)


def through(message: dict[str, Any], name: str) -> dict[str, Any]:
    """What arrives at the other end, checked against the schema."""
    line = encode(message)
    assert "\n" not in line
    arrived: dict[str, Any] = json.loads(line)
    validator(name).validate(arrived)
    return arrived


RICH = Run(
    checkpoint=Checkpoint(target=Path("/t"), draft=Path("/d")),
    requests=(
        Request(
            prompt=(1, 2),
            options=RunOptions(
                max_tokens=7,
                temperature=0.7,
                top_k=3,
                top_p=0.9,
                min_p=0.05,
                logit_bias=((0, -1.5), (3, 2.0)),
                repetition_penalty=1.2,
                repeat_last_n=0,
                frequency_penalty=0.1,
                presence_penalty=-0.2,
                seed=2**64 - 1,
                max_proposals=4,
                acceptance=Acceptance.BLOCK,
                lookahead_depth=5,
                eos_ids=(3,),
                stop_sequences=((1, 2), (0,)),
                grammar=(((0, 1), (2, 0)), ()),
            ),
            cancel_after=2,
        ),
        Request(prompt=(0,)),
    ),
    schedule=Schedule(
        lookahead=True,
        adaptive_lookahead=True,
        adaptive_window=4,
        prefill_chunk=2,
        max_in_flight=1,
        max_branches=1,
        max_group=2,
    ),
    seed=9,
)
HEADED = Run(checkpoint=Checkpoint(target=Path("/t"), heads=Path("/t")), requests=(Request(prompt=(3,)),))
PLAIN = Run(checkpoint=Checkpoint(target=Path("/t")), requests=(Request(prompt=(0,)),), choices=(0, 2))

CAPABILITIES = Capabilities(
    name="e",
    version="1",
    architectures=frozenset({"llama", "qwen3"}),
    features=frozenset({Feature.SEEDS, Feature.SLIDING_WINDOW}),
    options=frozenset({"top_k"}),
    acceptance=(Acceptance.COUPLED,),
    max_proposals=3,
    max_batch=2,
    own_semantics={"top_k": "cuts ties"},
)

OUTCOMES: tuple[Outcome, ...] = (
    Ok(
        result=RunResult(
            answers=(
                Answer(
                    tokens=(1, 2),
                    finish=Finish.EOS,
                    statistics=MappingProxyType({"accepted": 1, "rounds_by_length": [0, 1]}),
                ),
                Answer(tokens=(), finish=Finish.CANCELLED, rounds=()),
                Answer(
                    tokens=(4, 4, 1),
                    finish=Finish.LENGTH,
                    rounds=(Round(proposals=2, emitted=1), Round(proposals=2, emitted=2, promoted=True)),
                ),
            ),
            trace=({"event": "round", "k": 2},),
            decisions=((0.25, 0.75), (1.0,)),
        )
    ),
    Ok(result=RunResult(answers=(Answer(tokens=(1,), finish=Finish.LENGTH),))),
    Skipped(reason="no such rule"),
    Errored(message="ValueError: x", detail="Traceback"),
)


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_valid(name: str) -> None:
    Draft202012Validator.check_schema(schema(name))


@pytest.mark.parametrize("run", [RICH, HEADED, PLAIN], ids=["rich", "headed", "plain"])
def test_run_round_trip(run: Run) -> None:
    assert read_run(through(run_command(5, run), "run")) == (5, run)


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda o: type(o).__name__)
def test_reply_round_trip(outcome: Outcome) -> None:
    assert read_run_reply(through(run_reply(4, outcome), "run-reply"), 4) == outcome


def test_start_and_stop() -> None:
    through(start_command(), "start")
    through(stop_command(), "stop")
    assert read_start_reply(through(start_reply(CAPABILITIES), "start-reply")) == CAPABILITIES


def test_an_older_adapter_sees_no_member_it_does_not_know() -> None:
    assert set(run_command(1, RICH)["checkpoint"]) == {"target", "draft"}
    assert set(run_command(1, HEADED)["checkpoint"]) == {"target", "draft", "heads"}


def test_every_option_was_exercised() -> None:
    """The round trip above means something only if no field kept its default."""
    assert RICH.requests[0].options.asked() == {item.name for item in fields(RunOptions)}
    assert RICH.schedule.asked() == {item.name for item in fields(Schedule)}


def test_schema_and_values_have_the_same_members() -> None:
    run = schema("run")["properties"]
    request = run["requests"]["items"]["properties"]
    assert set(request["options"]["properties"]) == {item.name for item in fields(RunOptions)}
    assert set(run["schedule"]["properties"]) == {item.name for item in fields(Schedule)}
    assert set(run) == {"cmd", "seq"} | {item.name for item in fields(Run)}
    assert set(request) == {item.name for item in fields(Request)}
    declared = schema("start-reply")["properties"]["capabilities"]["properties"]
    assert set(declared) == {item.name for item in fields(Capabilities)}
    assert set(declared["features"]["items"]["enum"]) == set(Feature)
    assert set(schema("run")["$defs"]["acceptance"]["enum"]) == set(Acceptance)
    answer = schema("run-reply")["oneOf"][0]["properties"]["answers"]["items"]["properties"]
    assert set(answer["finish"]["enum"]) == set(Finish)
    assert set(answer) == {item.name for item in fields(Answer)}
    assert set(answer["rounds"]["anyOf"][0]["items"]["properties"]) == {item.name for item in fields(Round)}
    assert set(run["checkpoint"]["properties"]) == {item.name for item in fields(Checkpoint)}


def test_the_readme_shows_valid_messages() -> None:
    lines = Path(__file__).parents[2].joinpath("README.md").read_text(encoding="utf-8").splitlines()
    shown = [(line[0], json.loads(line[2:])) for line in lines if line.startswith(("> {", "< {"))]
    names = [m.get("cmd", "run-reply" if "seq" in m else "start-reply") for _, m in shown]
    assert names == ["start", "start-reply", "run", "run-reply", "stop"]
    for name, (direction, message) in zip(names, shown, strict=True):
        validator(name).validate(message)
        assert direction == ("<" if name.endswith("reply") else ">")
    assert read_start_reply(shown[1][1]).max_proposals == 8
    assert read_run(shown[2][1])[1].requests[0].options.max_tokens == 4
    assert isinstance(read_run_reply(shown[3][1], 1), Ok)


def spoiled(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(encode(run_reply(1, OUTCOMES[0])))
    change(message)
    return message


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda m: m.pop("answers"), "lacks ['answers']"),
        (lambda m: m.update(extra=1), "unknown members ['extra']"),
        (lambda m: m.update(outcome="fine"), "'fine'; expected ok, skipped or errored"),
        (lambda m: m.update(answers={}), "run reply.answers is {}; expected an array"),
        (
            lambda m: m["answers"][1].update(finish="done"),
            "run reply.answers[1].finish is 'done'; expected one of stop",
        ),
        (lambda m: m["answers"][0].update(tokens=[1, "2"]), "run reply.answers[0].tokens[1] is '2'; expected a whole"),
        (lambda m: m["answers"][0].update(tokens=[True]), "tokens[0] is True"),
        (lambda m: m["answers"][0].update(statistics=[]), "statistics is []; expected an object"),
        (lambda m: m["answers"][2]["rounds"][0].update(emitted=-1), "rounds[0].emitted is -1; expected 0 or more"),
        (lambda m: m.update(trace=[1]), "run reply.trace[0] is 1; expected an object"),
        (lambda m: m.update(decisions=[["a"]]), "run reply.decisions[0][0] is 'a'; expected a finite number"),
    ],
)
def test_wrong_replies_are_refused_by_both(change: Callable[[dict[str, Any]], object], complaint: str) -> None:
    message = spoiled(change)
    with pytest.raises(MessageError) as refusal:
        read_run_reply(message, 1)
    assert complaint in str(refusal.value)
    assert not validator("run-reply").is_valid(message)


def test_wrong_runs_are_refused() -> None:
    with pytest.raises(MessageError, match="empty prompt"):
        Request(prompt=())
    with pytest.raises(MessageError, match="no request"):
        Run(checkpoint=Checkpoint(target=Path("/t")), requests=())
    with pytest.raises(MessageError, match="takes one"):
        Run(checkpoint=Checkpoint(target=Path("/t")), requests=(Request(prompt=(0,)),) * 2, choices=())
    message = json.loads(encode(run_command(1, RICH)))
    message["requests"][0]["options"]["logit_bias"] = [[0]]
    with pytest.raises(MessageError, match=r"logit_bias\[0\] is \[0\]; expected an array of two"):
        read_run(message)
