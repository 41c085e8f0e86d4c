"""Options are validated once, name what is wrong, and cannot change afterwards."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from eredu.contract.errors import EreduError, OptionError
from eredu.contract.options import (
    MAX_PROPOSALS,
    AcceptanceRule,
    GenerationOptions,
    MtpSchedulerOptions,
    SamplingOptions,
)

BAD: list[tuple[type[Any], str, Any]] = [
    (SamplingOptions, "temperature", -0.1),
    (SamplingOptions, "temperature", math.nan),
    (SamplingOptions, "temperature", math.inf),
    (SamplingOptions, "temperature", "1"),
    (SamplingOptions, "temperature", True),
    (SamplingOptions, "top_k", -1),
    (SamplingOptions, "top_k", 1.5),
    (SamplingOptions, "top_p", 0),
    (SamplingOptions, "top_p", 1.01),
    (SamplingOptions, "min_p", -0.01),
    (SamplingOptions, "min_p", 1.01),
    (SamplingOptions, "repetition_penalty", 0),
    (SamplingOptions, "repeat_last_n", -1),
    (SamplingOptions, "frequency_penalty", math.nan),
    (SamplingOptions, "presence_penalty", 101),
    (SamplingOptions, "logit_bias", {-1: 0.0}),
    (SamplingOptions, "logit_bias", {0: math.inf}),
    (GenerationOptions, "max_tokens", 0),
    (GenerationOptions, "seed", -1),
    (GenerationOptions, "seed", 2**64),
    (GenerationOptions, "seed", True),
    (GenerationOptions, "acceptance", "typical"),
    (GenerationOptions, "max_proposals", -1),
    (GenerationOptions, "max_proposals", MAX_PROPOSALS + 1),
    (GenerationOptions, "lookahead_depth", 1),
    (GenerationOptions, "stop_sequences", ((),)),
    (GenerationOptions, "stop_strings", ("",)),
    (MtpSchedulerOptions, "adaptive_window", 0),
    (MtpSchedulerOptions, "max_in_flight", 0),
    (MtpSchedulerOptions, "max_branches", 0),
    (MtpSchedulerOptions, "prefill_chunk", 0),
]


@pytest.mark.parametrize(("kind", "field", "value"), BAD)
def test_a_bad_value_is_refused_by_name(kind: type[Any], field: str, value: Any) -> None:
    with pytest.raises(OptionError, match=field) as caught:
        kind(**{field: value})
    assert isinstance(caught.value, (EreduError, ValueError))


@pytest.mark.parametrize("kind", [SamplingOptions, GenerationOptions, MtpSchedulerOptions])
def test_options_are_sound_frozen_keyword_only_and_known(kind: type[Any]) -> None:
    options = kind()
    for item in dataclasses.fields(kind):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(options, item.name, None)
    with pytest.raises(TypeError):
        kind(1)
    with pytest.raises(TypeError):
        kind(no_such_option=1)


def test_a_bias_is_copied_and_read_only() -> None:
    given = {3: 1.0}
    options = SamplingOptions(logit_bias=given)
    given[3] = 2.0
    assert options.logit_bias == {3: 1.0}
    with pytest.raises(TypeError):
        options.logit_bias[3] = 2.0  # type: ignore[index]


@pytest.mark.parametrize("rule", AcceptanceRule)
def test_a_rule_may_be_given_by_name(rule: AcceptanceRule) -> None:
    assert GenerationOptions(acceptance=rule.value).acceptance is rule  # type: ignore[arg-type]


def test_a_branch_is_one_longer_than_a_block_unless_told_otherwise() -> None:
    assert GenerationOptions(max_proposals=3).branch_length == 4
    assert GenerationOptions(max_proposals=3, lookahead_depth=2).branch_length == 2


@pytest.mark.parametrize(
    ("options", "greedy", "penalised"),
    [
        (SamplingOptions(), True, False),
        (SamplingOptions(temperature=0.5), False, False),
        (SamplingOptions(repetition_penalty=1.1), True, True),
        (SamplingOptions(temperature=1, frequency_penalty=0.5), False, True),
        (SamplingOptions(presence_penalty=-0.5), True, True),
    ],
)
def test_what_sampling_needs(options: SamplingOptions, greedy: bool, penalised: bool) -> None:
    assert options.is_greedy is greedy
    assert options.has_penalties is penalised


def test_with_lookahead_changes_nothing_else() -> None:
    options = MtpSchedulerOptions(max_in_flight=2, adaptive_window=3)
    off = options.with_lookahead(False)
    assert not off.lookahead
    assert off.with_lookahead(True) == options
