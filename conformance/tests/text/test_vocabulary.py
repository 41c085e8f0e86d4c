import hashlib

import pytest

from eredu.contract.errors import TokenizerError
from eredu.text.fingerprint import fingerprint, first_difference, require_same_tokenizer
from eredu.text.vocabulary import Vocabulary

WORDS = ("a", "b", "ab", "<end>")


def test_padding_ids_are_holes_and_rows_past_the_last_token() -> None:
    vocabulary = Vocabulary(("a", None, "b"))
    assert vocabulary.size == 3
    assert vocabulary.padding_ids(6) == (1, 3, 4, 5)


def test_trailing_holes_are_no_part_of_the_vocabulary() -> None:
    assert Vocabulary(("a", "b", None, None)) == Vocabulary(("a", "b"))
    with pytest.raises(TokenizerError, match="at least one"):
        Vocabulary((None, None))


def test_ids_outside_are_no_tokens() -> None:
    vocabulary = Vocabulary(WORDS)
    assert vocabulary.token(-1) is None
    assert vocabulary.token(4) is None
    assert vocabulary.ids["ab"] == 2


def test_fingerprint_is_that_of_the_written_layout() -> None:
    """Computed by hand from the layout, so that a change of it is seen."""
    layout = b"eredu.tokenizer-fingerprint.v1\0" + (3).to_bytes(8, "little")
    layout += (0).to_bytes(8, "little") + (1).to_bytes(8, "little") + b"a"
    layout += (1).to_bytes(8, "little") + b"\xff" * 8
    layout += (2).to_bytes(8, "little") + (2).to_bytes(8, "little") + "é".encode()
    assert fingerprint(Vocabulary(("a", None, "é"))).digest == hashlib.sha256(layout).hexdigest()


@pytest.mark.parametrize(
    "other",
    [("b", "a", "ab", "<end>"), ("a", "b", "ab"), (*WORDS, "c"), ("a", None, "ab", "<end>"), ("a", "ba", "b", "<end>")],
)
def test_any_difference_changes_the_fingerprint(other: tuple[str | None, ...]) -> None:
    assert fingerprint(Vocabulary(other)).digest != fingerprint(Vocabulary(WORDS)).digest


def test_roles_of_ids_are_no_part_of_the_fingerprint() -> None:
    assert fingerprint(Vocabulary(WORDS, special_ids=frozenset({3}))) == fingerprint(Vocabulary(WORDS))


def test_mismatch_names_sizes_id_and_both_strings() -> None:
    target, drafter = Vocabulary(WORDS), Vocabulary(("a", "c", "ab"))
    assert first_difference(target, drafter) == 1
    with pytest.raises(TokenizerError) as caught:
        require_same_tokenizer(target, drafter)
    message = str(caught.value)
    for part in ("4 ids", "3 (", "id 1", "'b'", "'c'", fingerprint(target).digest[:12]):
        assert part in message


def test_mismatch_of_length_alone_says_no_token() -> None:
    with pytest.raises(TokenizerError, match="id 3: '<end>' in the target, no token in the assistant"):
        require_same_tokenizer(Vocabulary(WORDS), Vocabulary(WORDS[:3]))


def test_equal_vocabularies_give_their_fingerprint() -> None:
    assert require_same_tokenizer(Vocabulary(WORDS), Vocabulary(WORDS)) == fingerprint(Vocabulary(WORDS))
