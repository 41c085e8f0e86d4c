"""The catalogue as a whole: complete, distinct, and harmless to plain decoding."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest

import eredu_spec
from eredu_conformance.faults import ELSEWHERE, FAULTS, Fault, fault_named
from eredu_conformance.harness.cases import near_case, table_case, twin_case
from eredu_reference import PIECES, Pieces, decode_plain, decode_speculative
from eredu_reference.errors import ReferenceFailure

REPORTS = (
    "transformers 32867", "transformers 47932", "transformers 47912", "vllm 40149", "vllm 10198", "vllm 54282",
    "vllm 41834", "vllm 42722", "vllm 2336", "vllm 54498", "vllm 47616", "vllm 26467", "vllm 42744", "vllm 53777",
    "vllm 34241", "vllm 6038", "vllm 49620", "vllm 41967", "z-lab/dflash 74", "DeepSpec 31", "sglang 35771",
    "sglang 30822", "sglang 33643", "sglang 28200", "sglang 26330", "sglang 24051", "sglang 22113", "sglang 31598",
    "sglang 37634", "mlxcel 992", "mlxcel 994", "oMLX 1330", "oMLX 3232", "oMLX 3695", "oMLX 2235", "oMLX 2166",
    "oMLX 1320", "oMLX 2678", "oMLX 3750", "lattice 280", "lattice 243", "lattice 509", "lattice 1396", "kronk 788",
    "openvino.genai 4490", "openvino.genai 3293", "aprender 2014", "mlx-lm 1109", "mlx-lm 1914", "mlx-lm 1512",
    "mlx-lm 1740", "mlx-lm 1528", "llama.cpp 20075", "llama.cpp 3812", "llama.cpp 27572", "mlx-swift-lm 424",
    "mlx-swift-lm 584", "mlx-vlm 1715", "ik_llama.cpp 1781", "ik_llama.cpp 2358", "mlx-dspark 33", "ferrox 311",
    "Rapid-MLX 2739", "Rapid-MLX 1874", "MTPLX 247", "MTPLX 306", "MTPLX 574", "TensorRT-LLM 17599", "ROCmFPX 44",
)  # fmt: skip
"""Public reports of faults in real engines that the catalogue answers for."""

PIECE_NAMES = {item.name for item in fields(Pieces)}


def test_every_public_report_is_planted_or_explained() -> None:
    sources = " ".join([fault.source for fault in FAULTS] + [item.source for item in ELSEWHERE])
    assert [report for report in REPORTS if report not in sources] == []


def test_names_are_unique_and_found() -> None:
    assert [name for name, count in Counter(fault.name for fault in FAULTS).items() if count > 1] == []
    assert fault_named("bonus-dropped").rule == "bonus.after-full-acceptance"
    with pytest.raises(KeyError, match="bonus-doubled"):
        fault_named("bonus-lost")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_replaces_named_pieces_and_nothing_else(fault: Fault) -> None:
    assert fault.rule.count(".") == 1
    assert fault.source
    assert len(fault.story) > 30
    engine = fault.engine()
    changed = {name for name in PIECE_NAMES if getattr(engine, name) is not getattr(PIECES, name)}
    assert changed, "a fault that replaces nothing is no fault"
    assert len(changed) <= 3, "one decision, not several"


def test_stateful_faults_start_afresh() -> None:
    for fault in FAULTS:
        if callable(fault.replace):
            first, second = fault.replace(), fault.replace()
            assert all(first[name] is not second[name] for name in first)


def test_no_fault_touches_plain_decoding() -> None:
    """Plain decoding gives the same before, between and after all wrong engines."""
    items = [make(2).with_request(max_tokens=6) for make in (table_case, twin_case, near_case)]
    before = [decode_plain(case.target, case.request) for case in items]
    for fault in FAULTS:
        case = items[len(fault.name) % len(items)]
        try:
            decode_speculative(case.target, case.drafter, case.request, pieces=fault.engine())
        except (ReferenceFailure, ArithmeticError, AssertionError, LookupError, ValueError):
            continue
    after = [decode_plain(case.target, case.request) for case in items]
    assert [(x.tokens, x.finish, x.text) for x in before] == [(x.tokens, x.finish, x.text) for x in after]


UNPLANTED = {
    "lookahead.bounded",
    "placement.changes-no-token",
    "scheduling.turn-uninterrupted",
    "scheduling.ring",
}
"""Rules about several requests, or about devices, which an engine of one request cannot break."""


def test_faults_break_rules_of_the_spec_and_leave_none_unbroken() -> None:
    written = set()
    for path in Path(eredu_spec.__file__).parent.glob("*.md"):
        written |= set(re.findall(r"^## ([a-z]+\.[a-z-]+)$", path.read_text(), re.MULTILINE))
    broken = {fault.rule for fault in FAULTS}
    assert broken - written == set()
    assert written - broken == UNPLANTED
