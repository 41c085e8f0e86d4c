"""Chats for the tiny checkpoints: another tokenizer's ids become text and then their own ids, losing nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from eredu.text.chat_template import ChatTemplate
from eredu_benchmarks.training.chats import DEFAULT_SYSTEM, Chats, encode_halves, halves, read_archive, write_archive
from eredu_benchmarks.training.tokenizer import CHAT_TEMPLATE, SPECIAL_TOKENS, train_tokenizer, write_tokenizer

CHATS = [
    ("<|im_start|>user\nTell me of the sea.<|im_end|>\n<|im_start|>assistant\n", "The sea is deep.<|im_end|>"),
    ("<|im_start|>user\nZwei Bären 🐻?<|im_end|>\n<|im_start|>assistant\n", "Yes: 3.14, and cut"),
]


def tokenizer_of(text: str):  # type: ignore[no-untyped-def]
    return train_tokenizer([text] * 20)


def test_markers_are_the_first_ids_and_any_text_survives() -> None:
    tokenizer = tokenizer_of("The sea is deep and the sea is wide.")
    assert [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS] == [0, 1, 2]
    text = "Ein Bär – naïve\r\n\t\x00 🐻"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_chats_go_from_one_tokenizer_to_another(tmp_path: Path) -> None:
    first, second = tokenizer_of("The sea is deep."), tokenizer_of("Zwei Bären and a cut of 3.14")
    is_warm = np.array([True, False])
    with_system = [(DEFAULT_SYSTEM + CHATS[0][0], CHATS[0][1]), CHATS[1]]
    source = encode_halves(with_system, is_warm, first)
    write_archive(tmp_path / "chats.npz.xz", source.arrays("_1.0"))
    again = Chats.of(read_archive(tmp_path / "chats.npz.xz"), "_1.0")
    assert list(halves(again, first)) == CHATS
    assert again.is_warm.tolist() == [True, False]
    own = encode_halves(list(halves(again, first)), again.is_warm, second)
    assert list(halves(own, second)) == CHATS
    assert own.lengths.sum() == len(own.tokens)
    assert own.starts.tolist() == [0, own.lengths[0]]


def test_the_written_template_makes_the_prompts_of_the_training_text(tmp_path: Path) -> None:
    write_tokenizer(tokenizer_of("The sea is deep."), tmp_path, context=64)
    assert (tmp_path / "tokenizer.json").is_file()
    prompt = ChatTemplate(CHAT_TEMPLATE).render([{"role": "user", "content": "Tell me of the sea."}])
    assert prompt == CHATS[0][0]
