from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eredu.contract.errors import OptionError, TokenizerError
from eredu.text.pieces import BYTE_OF_CHARACTER, Alphabet, TokenPieces, pieces_of_decoder
from eredu.text.stops import StopStrings
from eredu.text.streaming import Detokenizer, StreamingText, decode
from eredu.text.vocabulary import Vocabulary

CHARACTER_OF_BYTE = {byte: character for character, byte in BYTE_OF_CHARACTER.items()}
BYTES = Vocabulary((*(CHARACTER_OF_BYTE[i] for i in range(256)), "<end>"), frozenset({256}), frozenset({256}))
BYTE_PIECES = TokenPieces(BYTES, Alphabet.BYTE_LEVEL)


def streamed(pieces: TokenPieces, tokens: Iterable[int]) -> tuple[list[str], str]:
    state, deltas = Detokenizer(pieces), []
    for token in tokens:
        state, text = state.advance(token)
        deltas.append(text)
    return deltas, state.finish()[1]


def test_alphabet_is_one_character_for_each_byte() -> None:
    assert sorted(BYTE_OF_CHARACTER.values()) == list(range(256))
    assert BYTE_OF_CHARACTER["Ġ"] == 0x20
    assert BYTE_OF_CHARACTER["Ċ"] == 0x0A


@given(st.text())
def test_text_spelled_byte_by_byte_comes_out_character_by_character(text: str) -> None:
    deltas, rest = streamed(BYTE_PIECES, text.encode())
    assert "".join(deltas) == text
    assert rest == ""
    assert all(len(delta) <= 1 for delta in deltas)


@given(st.binary())
def test_any_bytes_give_the_text_of_decoding_them_at_once(data: bytes) -> None:
    deltas, rest = streamed(BYTE_PIECES, data)
    assert "".join(deltas) + rest == data.decode("utf-8", "replace")


def test_partial_character_is_flushed_as_one_replacement() -> None:
    deltas, rest = streamed(BYTE_PIECES, "€".encode()[:2])
    assert (deltas, rest) == (["", ""], "\ufffd")


def test_special_ids_are_hidden_unless_asked_for() -> None:
    assert decode(BYTE_PIECES, [*b"hi", 256]) == "hi"
    assert decode(TokenPieces(BYTES, Alphabet.BYTE_LEVEL, hide_special=False), [*b"hi", 256]) == "hi<end>"


def test_padding_id_is_an_error() -> None:
    with pytest.raises(TokenizerError, match="id 257 has no token"):
        decode(BYTE_PIECES, [257])


def test_states_do_not_share() -> None:
    before, _ = Detokenizer(BYTE_PIECES).advance(0xE2)
    before.advance(0x41)
    after, _ = before.advance(0x82)
    assert after.advance(0xAC)[1] == "€"


SPM = Vocabulary(("<unk>", "▁Hello", "▁world", "<0xE2>", "<0x82>", "<0xAC>", "▁"), frozenset({0}), frozenset({0}))


def test_sentencepiece_spaces_and_bytes() -> None:
    pieces = TokenPieces(SPM, Alphabet.SENTENCEPIECE, strip_leading_space=True)
    assert decode(pieces, [1, 2, 3, 4, 5, 6, 6]) == "Hello world€  "
    assert decode(TokenPieces(SPM, Alphabet.SENTENCEPIECE), [1, 2]) == " Hello world"


LLAMA_DECODER = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ],
}


def test_decoders_are_recognised() -> None:
    assert pieces_of_decoder(BYTES, {"type": "ByteLevel"}).alphabet is Alphabet.BYTE_LEVEL
    llama = pieces_of_decoder(SPM, LLAMA_DECODER)
    assert (llama.alphabet, llama.strip_leading_space) == (Alphabet.SENTENCEPIECE, True)
    gemma = pieces_of_decoder(SPM, {"type": "Sequence", "decoders": LLAMA_DECODER["decoders"][:3]})
    assert not gemma.strip_leading_space
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    assert pieces_of_decoder(SPM, metaspace).strip_leading_space
    assert not pieces_of_decoder(SPM, metaspace | {"prepend_scheme": "never"}).strip_leading_space


@pytest.mark.parametrize(
    "decoder",
    [None, {"type": "WordPiece"}, {"type": "Sequence", "decoders": [{"type": "ByteLevel"}, {"type": "CTC"}]}],
)
def test_unknown_decoder_is_refused(decoder: dict[str, Any] | None) -> None:
    with pytest.raises(TokenizerError, match="decoder is"):
        pieces_of_decoder(BYTES, decoder)


ALPHABET = st.text(alphabet="ab", max_size=12)
STOPS = st.lists(st.text(alphabet="ab", min_size=1, max_size=4), max_size=3).map(tuple)


def matched(stops: tuple[str, ...], chunks: Iterable[str]) -> tuple[str, str | None]:
    state, shown = StopStrings(stops), []
    for chunk in chunks:
        state, text = state.advance(chunk)
        shown.append(text)
    held = state.finish()[1]
    return "".join(shown) + held, state.matched


def expected(stops: tuple[str, ...], text: str) -> tuple[str, str | None]:
    """The definition, character by character: the first end of a stop string, and its longest match there."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            longest = max(ending, key=len)
            return text[: end - len(longest)], longest
    return text, None


@given(STOPS, ALPHABET, st.randoms())
def test_cut_is_that_of_the_definition_for_every_chunking(stops: tuple[str, ...], text: str, random: Random) -> None:
    cuts = sorted(random.sample(range(len(text) + 1), random.randint(0, len(text))))
    chunks = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert matched(stops, chunks) == expected(stops, text)


@given(STOPS, ALPHABET)
def test_nothing_shown_is_ever_part_of_a_stop_string(stops: tuple[str, ...], text: str) -> None:
    state, shown = StopStrings(stops), ""
    for character in text:
        state, visible = state.advance(character)
        shown += visible
        assert text.startswith(shown)
        if state.matched is None:
            assert shown + state.held == text[: len(shown + state.held)]
    assert shown == expected(stops, text)[0][: len(shown)]


def test_no_more_is_held_back_than_needed() -> None:
    state, shown = StopStrings(("END",)).advance("the E")
    assert (shown, state.held) == ("the ", "E")
    state, shown = state.advance("x")
    assert (shown, state.held) == ("Ex", "")


def test_empty_stop_string_is_refused() -> None:
    with pytest.raises(OptionError, match="empty"):
        StopStrings(("", "a"))


def test_output_text_cuts_in_the_middle_of_a_token() -> None:
    words = Vocabulary(("Hello", "Ġwo", "rld!ĊUser", ":"))
    text = StreamingText.before(TokenPieces(words, Alphabet.BYTE_LEVEL), ["\nUser:"])
    text, stopped = text.advance(0)
    assert not stopped
    text, shown = text.take()
    assert shown == "Hello"
    text, _ = text.advance(1)
    text, stopped = text.advance(2)
    text, shown = text.take()
    assert (shown, stopped) == (" world!", False)
    branch, stopped = text.advance(3)
    assert stopped
    assert branch.finish()[1] == ""
    assert text.finish()[1] == "\nUser"


@given(st.lists(st.integers(0, 255), max_size=30), STOPS, st.data())
def test_output_text_does_not_depend_on_when_it_is_taken(
    tokens: list[int], stops: tuple[str, ...], data: st.DataObject
) -> None:
    def run(takes: list[bool]) -> tuple[str, int | None]:
        text, shown, stopped_at = StreamingText.before(BYTE_PIECES, stops), "", None
        for at, token in enumerate(tokens):
            text, stopped = text.advance(token)
            if takes[at]:
                text, new = text.take()
                shown += new
            if stopped:
                stopped_at = at
                break
        return shown + text.finish()[1], stopped_at

    takes = data.draw(st.lists(st.booleans(), min_size=len(tokens), max_size=len(tokens)))
    assert run(takes) == run([True] * len(tokens))
