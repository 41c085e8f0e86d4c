"""A third party's engine joins through the wire alone; its right and wrong variants are told apart.

A wrong variant is the engine's source with one line replaced, so the engine itself has no switches.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from eredu_conformance.crafted import crafted_pair
from eredu_conformance.protocol import (
    Blame,
    Checkpoint,
    Ok,
    ProgramSubject,
    Request,
    Run,
    RunOptions,
    Skipped,
    SmokeReport,
    Subject,
    attempt,
    output_law,
    smoke,
)

Engine = Callable[..., ProgramSubject]

SOURCE = Path(__file__).with_name("third_party_engine.py").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Variant:
    name: str
    old: str
    new: str
    hint: str


ADAPTER_FAULTS = (
    Variant("prompt echoed", '{"tokens": tokens,', '{"tokens": r["prompt"] + tokens,', "begins with the prompt"),
    Variant("shifted vocabulary", '{"tokens": tokens,', '{"tokens": [t + 100 for t in tokens],', "outside of the"),
    Variant("budget not passed on", 'len(out) >= o["max_tokens"]', "len(out) >= 20", "too many tokens"),
    Variant("end id left out", 'in o["eos_ids"]: return out,', 'in o["eos_ids"]: return out[:-1],', "too few tokens"),
    Variant("end id not passed on", 'if y in o["eos_ids"]', "if y in []", "too many tokens"),
    Variant("prompt cut", "prompt[-1]", "prompt[0]", "shifted by one token"),
    Variant("first token lost", '{"tokens": tokens,', '{"tokens": tokens[1:],', "shifted by one token"),
    Variant("nothing sent", '{"tokens": tokens,', '{"tokens": [],', "Nothing came back"),
    Variant("wrong weights", "return w[", "return -w[", "come from another law"),
    Variant(
        "another directory", 'in (m["checkpoint"]["target"]', 'in (m["checkpoint"]["draft"]', "ended with status 1"
    ),
    Variant("wrong reason", 'return out, "eos"', 'return out, "stop"', "finish reason is stop"),
    Variant("garbage", "    if m[", "    print('hello')\n    if m[", "is not JSON: 'hello'"),
    Variant("crash", 'reply = {"seq"', 'sys.exit(3); reply = {"seq"', "ended with status 3"),
    Variant("wrong number", 'm["seq"], **', 'm["seq"] + 1, **', "expected 1, the one that was asked"),
    Variant("unknown member", '{"outcome": "ok",', '{"outcome": "ok", "text": "",', "unknown members ['text']"),
    Variant("wrong version", '"version": 1', '"version": 7', "version 7"),
    Variant("answer missing", '"answers": answers', '"answers": []', "got 0 answers"),
)

SMOKE_FAULTS = (
    Variant("first proposal unverified", "if dice.draw([a", "if emitted and dice.draw([a", "come from another law"),
    Variant("replacement from the draft", "rest = np.maximum(p - q, 0)", "rest = q", "come from another law"),
    Variant("residual is not clipped", "np.maximum(p - q, 0)", "np.abs(p - q)", "come from another law"),
    Variant("bonus doubled", "for y in emitted:", "for y in emitted + emitted[max(k, 1):]:", "come from another law"),
    Variant(
        "budget counts rounds",
        '(out) >= o["max_tokens"]',
        '(out) >= o["max_tokens"] * (1 + o["max_proposals"])',
        "too many",
    ),
)

EQUALITY_FAULTS = (
    Variant("bonus from the draft", "draw(law(target, token", "draw(law(draft if k else target, token", ""),
    Variant("ties to the highest id", "z.argmax()", "len(z) - 1 - z[::-1].argmax()", ""),
)
"""Not seen where there is one possible output and the draft is always right or always wrong."""

HARMLESS = (
    Variant("unchanged", "import", "import", ""),
    Variant("draft starts elsewhere", "block, token = [], last", "block, token = [], prompt[-1]", ""),
    Variant("budget not clipped for proposals", "len(out) - 1)", "len(out) + 1)", ""),
    Variant("coins the other way round", "dice.draw([a, 1 - a])", "1 - dice.draw([1 - a, a])", ""),
)
"""Poor or different, but lossless: a suite that calls these wrong is itself wrong."""


LAW_FAULTS = (
    Variant("residual is p", "rest = np.maximum(p - q, 0)", "rest = p", ""),
    Variant("lenient coin", "min(1.0, p[x] / q[x])", "min(1.0, 1.05 * p[x] / q[x])", ""),
    Variant("draft declared hotter than drawn", "block.append((token, q))", "block.append((token, q ** 0.9))", ""),
    Variant("matching with the proposal", "min(1.0, p[x] / q[x])", "p[x]", ""),
)
"""Greedy decoding can't see these: only randomness brings them out."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    started: list[ProgramSubject] = []

    def make(variant: Variant | None = None) -> ProgramSubject:
        source = SOURCE
        if variant is not None:
            assert source.count(variant.old) >= 1, f"{variant.name}: the line is gone"
            source = source.replace(variant.old, variant.new)
        script = tmp_path / "engine.py"
        script.write_text(source, encoding="utf-8")
        started.append(ProgramSubject([sys.executable, str(script)], start_timeout_s=30, run_timeout_s=30))
        return started[-1]

    yield make
    for program in started:
        program.stop()


def seen(report: SmokeReport) -> str:
    return "\n".join(check.message for check in report.checks if check.passed is False)


def unequal_pairs(subject: Subject, directory: Path) -> list[str]:
    """Pairs on which greedy speculation differs from the one output that the law allows."""
    capabilities = subject.start()
    unequal = []
    for name in ("table", "table-near", "table-equal", "disjoint", "holes", "ties"):
        pair = crafted_pair(name)
        place = pair.write(directory / pair.name)
        options = [RunOptions(max_tokens=24, max_proposals=depth) for depth in (1, 2, 5)]
        run = Run(
            checkpoint=Checkpoint(target=place.target, draft=place.draft),
            requests=tuple(Request(prompt=pair.prompt, options=option) for option in options),
        )
        outcome = attempt(subject, capabilities, run)
        assert isinstance(outcome, Ok), outcome
        if {answer.tokens for answer in outcome.result.answers} != {pair.target.greedy_path(pair.prompt, 24)}:
            unequal.append(name)
    return unequal


@pytest.mark.parametrize("variant", HARMLESS, ids=lambda v: v.name)
def test_right_engine_passes(variant: Variant, engine: Engine, tmp_path: Path) -> None:
    program = engine(variant)
    report = smoke(program, tmp_path)
    assert report.verdict is None, seen(report)
    skipped = {check.name: check.message for check in report.checks if check.passed is None}
    assert skipped["smoke.whole-prompt"] == "nano doesn't load the architecture qwen3"
    assert sum(check.passed is True for check in report.checks) >= 10
    assert unequal_pairs(program, tmp_path) == []


def test_engine_skips_what_it_finds_out_late(engine: Engine, tmp_path: Path) -> None:
    program = engine()
    pair = crafted_pair("order-2")
    run = Run(checkpoint=Checkpoint(target=pair.write(tmp_path).target), requests=(Request(prompt=(0, 1)),))
    assert attempt(program, program.start(), run) == Skipped(reason="nano has no attention")


@pytest.mark.parametrize("variant", ADAPTER_FAULTS, ids=lambda v: v.name)
def test_wrong_adapter_is_named(variant: Variant, engine: Engine, tmp_path: Path) -> None:
    report = smoke(engine(variant), tmp_path)
    assert report.verdict is Blame.ADAPTER
    assert variant.hint in seen(report)
    assert all(check.blame is Blame.ADAPTER for check in report.checks), "the engine was judged behind a bad adapter"


@pytest.mark.parametrize("variant", SMOKE_FAULTS, ids=lambda v: v.name)
def test_wrong_engine_is_named(variant: Variant, engine: Engine, tmp_path: Path) -> None:
    report = smoke(engine(variant), tmp_path)
    assert report.verdict is Blame.ENGINE
    assert variant.hint in seen(report)


@pytest.mark.parametrize("variant", EQUALITY_FAULTS, ids=lambda v: v.name)
def test_subtle_engine_fault_breaks_equality(variant: Variant, engine: Engine, tmp_path: Path) -> None:
    program = engine(variant)
    assert smoke(program, tmp_path).verdict is None
    assert unequal_pairs(program, tmp_path)


SAMPLED = (("table", 1, 3, 1.0), ("holes", 2, 2, 0.7), ("disjoint", 2, 3, 1.0))
"""Pair, K, output tokens and temperature of the runs whose whole law is enumerated: 64 to 700 paths each."""


def law_distance(subject: Subject, directory: Path, name: str, depth: int, length: int, temperature: float) -> float:
    """Total variation between the law of some sampled tokens and the crafted law."""
    pair = crafted_pair(name)
    place = pair.write(directory / name)
    options = RunOptions(max_tokens=length, max_proposals=depth, temperature=temperature)
    run = Run(
        checkpoint=Checkpoint(target=place.target, draft=place.draft),
        requests=(Request(prompt=pair.prompt, options=options),),
    )
    law = output_law(subject, subject.start(), run)
    stated = pair.target.output_law(pair.prompt, length, temperature=temperature)
    return sum(abs(law.get(t, 0) - stated.get(t, 0)) for t in law.keys() | stated.keys()) / 2


@pytest.mark.parametrize("variant", [v for v in HARMLESS if "clipped" not in v.name], ids=lambda v: v.name)
def test_right_engine_has_the_law(variant: Variant, engine: Engine, tmp_path: Path) -> None:
    program = engine(variant)
    for case in SAMPLED:
        assert law_distance(program, tmp_path, *case) < 1e-6, "the weights are float32"


@pytest.mark.parametrize("variant", LAW_FAULTS, ids=lambda v: v.name)
def test_sampling_fault_changes_the_law(variant: Variant, engine: Engine, tmp_path: Path) -> None:
    program = engine(variant)
    assert smoke(program, tmp_path).verdict is None
    assert any(law_distance(program, tmp_path, *case) > 1e-3 for case in SAMPLED)
