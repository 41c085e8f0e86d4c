"""The own encoder against the SentencePiece library, on models that the library trains here."""

import io
from typing import Any

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from eredu.contract.errors import TokenizerError
from eredu.text.gguf import load_metadata
from eredu.text.sentencepiece import merge_pieces
from eredu.text.tokenizer import Tokenizer

Metadata = dict[str, Any]
CORPUS = (
    "the lighthouse keeper lit the lamp and the ships came home again",
    "abababab abracadabra banana bananas anagram aaaa aaa aa",
    "a story about a small lighthouse on the coast: the light, the night, the sea",
    "naïve café déjà vu; 12345 67890",
)


def trained(*, prefix: bool) -> sentencepiece.SentencePieceProcessor:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 20),
        model_writer=model,
        model_type="bpe",
        vocab_size=420,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=prefix,
        user_defined_symbols=["<|user|>"],
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def as_metadata(library: sentencepiece.SentencePieceProcessor, *, prefix: bool) -> Metadata:
    """What a converter writes: pieces, scores and types."""

    def kind(i: int) -> int:
        flags = ((library.is_unknown(i), 2), (library.is_control(i), 3), (library.is_byte(i), 6))
        return next((value for flag, value in flags if flag), 4 if library.id_to_piece(i) == "<|user|>" else 1)

    ids = range(library.get_piece_size())
    values = {
        "model": "llama",
        "tokens": [library.id_to_piece(i) for i in ids],
        "scores": [float(library.get_score(i)) for i in ids],
        "token_type": [kind(i) for i in ids],
        "bos_token_id": library.bos_id(),
        "eos_token_id": library.eos_id(),
        "add_space_prefix": prefix,
    }
    return {f"tokenizer.ggml.{key}": value for key, value in values.items()}


@pytest.fixture(scope="module", params=[True, False], ids=["prefix", "no prefix"])
def pair(request: pytest.FixtureRequest) -> tuple[sentencepiece.SentencePieceProcessor, Tokenizer]:
    library = trained(prefix=request.param)
    return library, load_metadata(as_metadata(library, prefix=request.param))


@pytest.fixture(scope="module")
def metadata() -> Metadata:
    return as_metadata(trained(prefix=True), prefix=True)


TEXTS = st.one_of(
    st.text(alphabet="abn rlight", max_size=40),
    st.text(max_size=20).filter(lambda text: "\0" not in text),
    st.lists(
        st.sampled_from(("banana", "aaa", " the light", "é", "日本", "  ", "\n", "7", "<0x41>", "▁")), max_size=8
    ).map("".join),
)


@given(TEXTS)
@settings(deadline=None)
def test_ids_and_text_are_those_of_the_library(
    pair: tuple[sentencepiece.SentencePieceProcessor, Tokenizer], text: str
) -> None:
    library, tokenizer = pair
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert list(ids) == library.encode(text)
    assert tokenizer.decode(ids) == library.decode(list(ids)) == text.replace("▁", " ")


def test_symbols_defined_by_the_user_are_one_id(
    pair: tuple[sentencepiece.SentencePieceProcessor, Tokenizer],
) -> None:
    library, tokenizer = pair
    ids = tokenizer.encode("<|user|>", add_special_tokens=False)
    assert [tokenizer.vocabulary.token(i) for i in ids] == ["<|user|>"]
    assert ids[-1] == library.encode("<|user|>")[-1]


def test_begin_of_text_is_added_unless_the_file_says_no(metadata: Metadata) -> None:
    assert load_metadata(metadata).encode("a")[0] == metadata["tokenizer.ggml.bos_token_id"]
    without = load_metadata({**metadata, "tokenizer.ggml.add_bos_token": False, "tokenizer.ggml.add_eos_token": True})
    ids = without.encode("a")
    assert ids[0] != metadata["tokenizer.ggml.bos_token_id"]
    assert ids[-1] == metadata["tokenizer.ggml.eos_token_id"]


def test_ties_go_to_the_left() -> None:
    assert merge_pieces("aaa", {"aa": 0.0}) == ["aa", "a"]
    assert merge_pieces("ababa", {"ab": -1.0, "ba": -1.0, "aba": -2.0}) == ["ab", "aba"]
    assert merge_pieces("abc", {"ab": -2.0, "bc": -1.0}) == ["a", "bc"]
    assert merge_pieces("", {}) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": None}, "no list of numbers tokenizer.ggml.scores"),
        ({"scores": [0.0]}, "1 scores; expected one each"),
        ({"precompiled_charsmap": [1]}, "normalises its text"),
        ({"remove_extra_whitespaces": True}, "normalises its text"),
    ],
)
def test_damaged_metadata_are_errors(metadata: Metadata, change: Metadata, message: str) -> None:
    with pytest.raises(TokenizerError, match=message):
        load_metadata({**metadata, **{f"tokenizer.ggml.{key}": value for key, value in change.items()}})


def test_missing_byte_pieces_are_an_error(metadata: Metadata) -> None:
    tokens = ["other" if token == "<0x0A>" else token for token in metadata["tokenizer.ggml.tokens"]]
    with pytest.raises(TokenizerError, match="lacks 1 of the 256 byte pieces, such as <0x0A>"):
        load_metadata({**metadata, "tokenizer.ggml.tokens": tokens})
