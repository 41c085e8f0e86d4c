import pytest

from eredu.checkpoints.matching import ModelSide, match_assistant
from eredu.contract.errors import CheckpointError, TokenizerError
from eredu.text.fingerprint import fingerprint
from eredu.text.vocabulary import Vocabulary

WORDS = Vocabulary(("a", "b", None, "<end>"))


def side(name: str, vocabulary: Vocabulary = WORDS, rows: int = 4, context: int | None = 64) -> ModelSide:
    return ModelSide(name, vocabulary, rows, context)


def test_a_fit_says_what_may_be_proposed_and_how_far() -> None:
    fit = match_assistant(side("target", rows=8, context=128), side("assistant", rows=5, context=64))
    assert fit.fingerprint == fingerprint(WORDS)
    assert fit.proposals_end_early
    assert fit.to_json() == {
        "tokenizer": {"vocabulary_size": 4, "sha256": fingerprint(WORDS).digest},
        "target_rows": 8,
        "assistant_rows": 5,
        "proposable_rows": 4,
        "padding_ids": [2],
        "target_context": 128,
        "assistant_context": 64,
        "proposals_end_early": True,
    }


@pytest.mark.parametrize(
    ("target", "assistant", "early"),
    [(64, 64, False), (64, 65, False), (64, None, False), (None, 64, True), (None, None, False)],
)
def test_the_shorter_context_ends_proposals(target: int | None, assistant: int | None, early: bool) -> None:
    fit = match_assistant(side("target", context=target), side("assistant", context=assistant))
    assert fit.proposals_end_early == early


# rule: capability.same-vocabulary
def test_another_tokenizer_is_refused() -> None:
    with pytest.raises(TokenizerError, match="first difference is id 1: 'b' in the target, 'c' in the assistant"):
        match_assistant(side("target"), side("assistant", Vocabulary(("a", "c", None, "<end>"))))


@pytest.mark.parametrize("short", ["target", "assistant"])
def test_ids_without_a_row_are_refused(short: str) -> None:
    sides = {name: side(name, rows=3 if name == short else 4) for name in ("target", "assistant")}
    with pytest.raises(
        CheckpointError, match=f"{short} has 3 embedding rows, and its tokenizer 4 ids, such as '<end>'"
    ):
        match_assistant(sides["target"], sides["assistant"])
