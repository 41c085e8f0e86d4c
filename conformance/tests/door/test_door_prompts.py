"""Prompts are told apart by what they are made of; what is neither one nor several of a kind is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eredu.checkpoints.names import shipped_path
from eredu.checkpoints.opening import open_checkpoint
from eredu.contract.errors import OptionError, TokenizerError
from eredu.prompts import encode_prompt, split_prompts
from eredu.text.tokenizer import Tokenizer

TURN = {"role": "user", "content": "Hello."}
OTHER = {"role": "user", "content": "Good evening."}
SYSTEM = {"role": "system", "content": "Be brief."}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return open_checkpoint(shipped_path("tiny-qwen3.5")).tokenizer


@pytest.mark.parametrize(
    ("given", "several", "prompts"),
    [
        ("Hello.", False, ["Hello."]),
        ([SYSTEM, TURN], False, [[SYSTEM, TURN]]),
        ((TURN,), False, [(TURN,)]),
        ([1, 2, 3], False, [[1, 2, 3]]),
        ((1,), False, [(1,)]),
        (range(3), False, [range(3)]),
        (["a", "b"], True, ["a", "b"]),
        (("a",), True, ["a"]),
        ([[TURN], [SYSTEM, TURN]], True, [[TURN], [SYSTEM, TURN]]),
        ([[1, 2], [3]], True, [[1, 2], [3]]),
        ([(1, 2)], True, [(1, 2)]),
    ],
)
def test_one_prompt_and_several(given: Any, several: bool, prompts: list[Any]) -> None:
    assert split_prompts(given) == (several, prompts)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "the prompt is an empty list; expected a text, a chat"),
        ([[1], []], "prompt 1 is an empty list"),
        ([1, "a"], r"the prompt mixes a token id \(item 0\), a text \(item 1\)"),
        (["a", TURN], r"mixes a text \(item 0\), a message \(item 1\)"),
        (["a", [1]], r"mixes a text \(item 0\), a list \(item 1\)"),
        ([[1, TURN]], r"prompt 0 mixes a token id \(item 0\), a message \(item 1\)"),
        ([[1], [TURN]], "mixes chats and lists of token ids"),
        ([["a"], ["b"]], "themselves lists of several"),
        ([[[1]]], "themselves lists of several"),
        (TURN, "is a single message; .* put it in a list"),
        (b"Hello.", "is of type bytes"),
        (None, "is of type NoneType"),
        (5, "is of type int"),
        (iter(["a"]), "is of type list_iterator"),
        (np.array([1, 2]), r"is of type ndarray; .*array\.tolist\(\)"),
        ([1.5], "item 0 of the prompt is 1.5, of type float"),
        ([3, True], "item 1 of the prompt is True, of type bool"),
        ([np.int64(3)], "of type int64"),
        ([b"a"], "of type bytes"),
    ],
)
def test_what_is_no_prompt_is_refused(given: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        split_prompts(given)


def test_a_text_is_the_user_s_turn_and_raw_text_is_itself(tokenizer: Tokenizer) -> None:
    assert encode_prompt("Hello.", tokenizer) == tokenizer.apply_chat([TURN]) == encode_prompt([TURN], tokenizer)
    assert encode_prompt("Hello.", tokenizer, raw=True) == tokenizer.encode("Hello.")
    assert encode_prompt([SYSTEM, TURN], tokenizer) == tokenizer.apply_chat([SYSTEM, TURN])
    assert encode_prompt([7, 8], None) == (7, 8)


@pytest.mark.parametrize("role", ["system", "user", "assistant"])
def test_roles_that_templates_meet_pass(tokenizer: Tokenizer, role: str) -> None:
    assert encode_prompt([TURN, {"role": role, "content": "x"}, OTHER], tokenizer)


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("", "the prompt is empty"),
        (" \n", "the prompt is empty"),
        (["a", "b"], "several prompts were given where one belongs"),
        ([[1], [2]], "several prompts were given where one belongs"),
        (
            [TURN, {"role": "usr", "content": "x"}],
            "message 1 has the role 'usr', .* does not know; expected one",
        ),
        ([{"content": "x"}], "message 0 has the role None"),
        ([{"role": "user"}], r"message 0 \(user\) has the content None; expected a text"),
        ([{"role": "user", "content": 5}], "has the content 5"),
    ],
)
def test_chats_that_cannot_be(tokenizer: Tokenizer, prompt: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        encode_prompt(prompt, tokenizer)


def test_what_the_model_cannot_take(tokenizer: Tokenizer) -> None:
    with pytest.raises(OptionError, match="raw=True continues a plain text, and a list of messages was given"):
        encode_prompt([TURN], tokenizer, raw=True)
    with pytest.raises(OptionError, match=r"raw=True .* a list of token ids"):
        encode_prompt([1], tokenizer, raw=True)
    with pytest.raises(OptionError, match="loaded without a tokenizer; give the prompt as a list of token ids"):
        encode_prompt("Hello.", None)
    with pytest.raises(TokenizerError, match="lone surrogate"):
        encode_prompt("\ud800", tokenizer)
