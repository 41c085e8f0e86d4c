"""Added tokens and the classes that rebuild tokenizers: ids and text are those of Transformers' `AutoTokenizer`."""

import json
import os
import random
import re
import shutil
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer
from transformers.models.auto import tokenization_auto

from eredu.checkpoints.names import DRAFT_NAME, shipped_path
from eredu.checkpoints.opening import open_checkpoint
from eredu.contract.errors import EreduError, TokenizerError
from eredu.contract.message import MOST_CHARACTERS
from eredu.families.registry import MODEL_TYPES as KNOWN_TYPES
from eredu.text.huggingface import LibraryEncoder, load_directory
from eredu.text.sentencepiece import SentencePieceEncoder
from eredu.text.tokenizer import Tokenizer
from eredu.text.tokenizer_classes import AS_IT_IS, MISNAMED, OTHERS, PLAIN, REBUILT, REGISTERED, tokenizer_class
from eredu_conformance.crafted.drawn_tokenizer import MODEL_TYPES, NAMES, TEXTS, Crafter, trained


def ids_of(tokenizer: Any, text: str, *, special: bool) -> list[int] | None:
    """Ids of a text, None where it has none."""
    try:
        return list(tokenizer.encode(text, add_special_tokens=special))
    except Exception:
        return None


def different_text(mine: Tokenizer, theirs: Any) -> str | None:
    """The first id whose text differs, alone or in context, with special tokens shown or hidden."""
    known = [i for i in range(mine.vocabulary_size) if mine.vocabulary.token(i) is not None]
    first, *_, last = [i for i in known if (mine.vocabulary.token(i) or "").encode().isalpha()]
    for i in known:
        for some in ([i], [first, i, last], [i, first]):
            for hide in (True, False):
                if mine.decode(some, hide_special=hide) != theirs.decode(some, skip_special_tokens=hide):
                    return f"text of {some}, {mine.vocabulary.token(i)!r}, hidden: {hide}"
    return None


def difference(mine: Tokenizer, theirs: Any, texts: Sequence[str] = TEXTS) -> str | None:
    """Where two tokenizers differ first: in the ids of a text, the vocabulary, the text of an id, a role."""
    for text in texts:
        for special in (True, False):
            if ids_of(mine, text, special=special) != ids_of(theirs, text, special=special):
                return f"ids of {text!r}"
    if mine.vocabulary.ids != theirs.get_vocab():
        return "vocabulary"
    ends = set() if theirs.eos_token_id is None else {theirs.eos_token_id}
    if mine.bos_id != theirs.bos_token_id or not ends <= mine.eos_ids:
        return "roles"
    return different_text(mine, theirs)


def outcome(directory: Path, config: dict[str, Any]) -> str:
    """How eredu's tokenizer compares: equal, refused with a reason, or different."""
    try:
        mine = load_directory(directory, config)
    except TokenizerError as error:
        return re.sub(r"'.*'|/\S+|\d+", "", str(error))[:80]
    theirs = AutoTokenizer.from_pretrained(str(directory), local_files_only=True)
    different = difference(mine, theirs)
    return f"equal {type(theirs).__name__}" if different is None else f"different: {different}"


def compare(seeds: range, root: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for seed in seeds:
        directory = root / str(seed)
        told = outcome(directory, Crafter(seed, directory).write())
        assert not told.startswith("different"), (seed, told)
        found[told] += 1
        shutil.rmtree(directory)
    return found


def test_tokens_of_any_place_and_class_are_those_of_transformers(tmp_path: Path) -> None:
    found = compare(range(120, 170), tmp_path)
    classes = {told.removeprefix("equal ") for told in found if told.startswith("equal ")}
    assert classes == {*REBUILT, AS_IT_IS}
    assert sum(count for told, count in found.items() if told.startswith("equal ")) > 25
    assert len(found) > len(classes)  # some were refused


@pytest.mark.nightly
def test_many_more_of_them(tmp_path: Path) -> None:
    compare(range(1000, 5000), tmp_path)


START = "<|im_start|>"
FLAGGED = {"content": START, "lstrip": True, "rstrip": True, "single_word": False, "normalized": False, "special": True}
PLACES: dict[str, dict[str, Any]] = {
    "added_tokens_decoder": {"tokenizer_config.json": {"added_tokens_decoder": {"SIZE": FLAGGED}}},
    "added_tokens.json": {"added_tokens.json": {START: "SIZE"}},
    "a role of special_tokens_map.json": {"special_tokens_map.json": {"bos_token": FLAGGED}},
    "a text in special_tokens_map.json": {"special_tokens_map.json": {"bos_token": START}},
    "additional ones of special_tokens_map.json": {"special_tokens_map.json": {"additional_special_tokens": [START]}},
    "a role of tokenizer_config.json": {"tokenizer_config.json": {"bos_token": FLAGGED | {"__type": "AddedToken"}}},
    "another role": {"tokenizer_config.json": {"turn_token": START}},
    "additional ones": {"tokenizer_config.json": {"additional_special_tokens": [START]}},
    "extra ones": {"tokenizer_config.json": {"extra_special_tokens": [FLAGGED | {"__type": "AddedToken"}]}},
    "named extra ones": {"tokenizer_config.json": {"extra_special_tokens": {"turn_token": START}}},
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "tokenizer.json").write_text(trained("byte-level"))
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    return tmp_path


def put(directory: Path, files: dict[str, Any]) -> None:
    """Write files; `SIZE` stands for the next free id, `SIZE+1` for the one behind it."""
    size = len(json.loads((directory / "tokenizer.json").read_text())["model"]["vocab"])
    for name, content in files.items():
        text = json.dumps(content).replace('"SIZE": ', f'"{size}": ').replace('"SIZE"', str(size))
        (directory / name).write_text(text.replace('"SIZE+1"', str(size + 1)))


@pytest.mark.parametrize("place", PLACES)
def test_a_token_that_stands_in_one_place_alone_is_one_id(directory: Path, place: str) -> None:
    put(directory, PLACES[place])
    tokenizer = load_directory(directory, {"model_type": "llama"})
    assert tokenizer.encode(f"a{START}b")[1:2] == (tokenizer.vocabulary_size - 1,)
    assert tokenizer.vocabulary.token(tokenizer.vocabulary_size - 1) == START
    assert outcome(directory, {"model_type": "llama"}) == "equal TokenizersBackend"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"added_tokens.json": {START: "SIZE+1"}}, r"added_tokens\.json gives .* the id \d+, and .* has the id \d+"),
        ({"added_tokens.json": {"<|endoftext|>": 5}}, r"added_tokens\.json gives .* the id 5, and .* has the id 0"),
        ({"tokenizer_config.json": {"added_tokens_decoder": {"5": FLAGGED}}}, r"decoder\) gives .* the id 5"),
        (
            {
                "tokenizer_config.json": {"added_tokens_decoder": {"SIZE": FLAGGED}},
                "added_tokens.json": {START: "SIZE+1"},
            },
            r"added_tokens\.json gives",
        ),
        ({"added_tokens.json": {START: "x"}}, "gives the token .* the id 'x'; expected a whole number"),
        ({"added_tokens.json": {START: 10**12}}, "expected a whole number below"),
        ({"added_tokens.json": [START]}, "holds a JSON list; expected an object"),
        ({"tokenizer_config.json": {"added_tokens_decoder": [FLAGGED]}}, "expected tokens by id"),
        ({"tokenizer_config.json": {"added_tokens_decoder": {"x": FLAGGED}}}, "expected tokens by id"),
        ({"tokenizer_config.json": {"added_tokens_decoder": {"5": {"content": 5}}}}, "expected a text, or an object"),
        ({"tokenizer_config.json": {"added_tokens_decoder": {"5": FLAGGED | {"lstrip": 1}}}}, "flags that are true or"),
        ({"tokenizer_config.json": {"extra_special_tokens": "x"}}, "expected a list"),
        ({"tokenizer_config.json": {"extra_special_tokens": [5]}}, "expected a text, or an object"),
        ({"tokenizer_config.json": {"bos_token": 5}}, "expected a text, or an object"),
        ({"tokenizer_config.json": {"eos_token": START}}, "as its eos_token, and its tokenizer has no such token"),
        ({"tokenizer_config.json": {"split_special_tokens": True}}, "sets split_special_tokens, which splits"),
        ({"tokenizer_config.json": {"fast_tokenizer_files": ["tokenizer.4.0.json"]}}, "names other tokenizers"),
        ({"tokenizer_config.json": {"tokenizer_class": "T5TokenizerFast"}}, "class is T5Tokenizer, which Trans"),
        ({"tokenizer_config.json": {"tokenizer_class": "CodeLlamaTokenizer"}}, "class is CodeLlamaTokenizer"),
        ({"tokenizer_config.json": {"auto_map": {"AutoTokenizer": ["a.B", None]}}}, "code of its own"),
        ({"special_tokens_map.json": [START]}, "holds a JSON list; expected an object"),
    ],
)  # fmt: skip
def test_disagreement_and_what_is_not_followed_are_refused(directory: Path, files: dict[str, Any], words: str) -> None:
    put(directory, files)
    with pytest.raises(TokenizerError, match=words) as caught:
        load_directory(directory, {"model_type": "llama"})
    assert isinstance(caught.value, EreduError)


def test_an_end_that_only_the_class_names_is_refused_unless_it_is_null(directory: Path) -> None:
    (directory / "tokenizer.json").write_text(trained("sentencepiece"))
    put(directory, {"tokenizer_config.json": {"tokenizer_class": "GPT2Tokenizer"}})
    with pytest.raises(TokenizerError, match="names no eos_token, the one of its tokenizer's class GPT2Tokenizer is"):
        load_directory(directory, {"model_type": "llama"})
    put(directory, {"tokenizer_config.json": {"tokenizer_class": "GPT2Tokenizer", "eos_token": None}})
    assert load_directory(directory, {"model_type": "llama"}).eos_ids == frozenset()
    assert outcome(directory, {"model_type": "llama"}) == "equal GPT2Tokenizer"


KEYS = (
    "bos_token", "eos_token", "turn_token", "additional_special_tokens", "extra_special_tokens", "added_tokens_decoder",
    "tokenizer_class", "auto_map", "add_prefix_space", "legacy", "chat_template", "fast_tokenizer_files",
)  # fmt: skip
NUMBERS = st.booleans() | st.integers() | st.floats()
WORDS = st.sampled_from((*NAMES, "\ud800", "GPT2Tokenizer", "content", "special", "__type", "5", "-1", "²")) | st.text()
VALUES = st.recursive(
    st.none() | NUMBERS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)


@given(
    st.dictionaries(st.sampled_from(KEYS), VALUES),
    st.dictionaries(st.sampled_from(KEYS), VALUES),
    st.dictionaries(st.sampled_from(NAMES) | st.text(), VALUES, max_size=2),
    st.dictionaries(st.sampled_from(("model_type", "tokenizer_class", "eos_token_id")), VALUES),
)
def test_whatever_the_files_hold_the_error_is_typed(
    tmp_path_factory: pytest.TempPathFactory, config: Any, special: Any, added: Any, model: Any
) -> None:
    directory = tmp_path_factory.mktemp("files")
    (directory / "tokenizer.json").write_text(trained("byte-level"))
    files = {"tokenizer_config.json": config, "special_tokens_map.json": special, "added_tokens.json": added}
    for name, content in files.items():
        (directory / name).write_text(json.dumps(content))
    try:
        tokenizer = load_directory(directory, model)
    except TokenizerError as error:
        assert len(str(error)) <= MOST_CHARACTERS  # noqa: PT017 (either way is right)
    else:
        assert tokenizer.decode(tokenizer.encode("hello world", add_special_tokens=False)).strip() == "hello world"
    shutil.rmtree(directory)


@pytest.mark.parametrize("names", [("vocab.json", "merges.txt"), ("tokenizer.model",), ()])
def test_other_files_alone_are_refused_by_name(directory: Path, names: tuple[str, ...]) -> None:
    (directory / "tokenizer.json").unlink()
    for name in names:
        (directory / name).write_text("")
    with pytest.raises(TokenizerError, match=r"has no tokenizer\.json; ") as caught:
        load_directory(directory, {})
    assert all(name in str(caught.value) for name in names)


def test_a_text_without_ids_is_a_typed_error(directory: Path) -> None:
    content = json.loads(trained("sentencepiece"))
    content["model"] |= {"byte_fallback": False, "unk_token": "<gone>"}
    (directory / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(TokenizerError, match="has no ids for this text"):
        load_directory(directory, {}).encode("日本")


@pytest.mark.parametrize(
    "name", ["tiny-qwen3.5", "tiny-deepseek-v3", pytest.param(DRAFT_NAME, marks=pytest.mark.nightly)]
)
def test_the_shipped_tokenizers_are_those_of_transformers(name: str) -> None:
    directory = shipped_path(name)
    mine = load_directory(directory, json.loads((directory / "config.json").read_text()))
    theirs = AutoTokenizer.from_pretrained(str(directory), local_files_only=True)
    assert difference(mine, theirs) is None


def test_the_table_of_classes_is_that_of_transformers() -> None:
    mapping = {name: kind for name, kind in tokenization_auto.TOKENIZER_MAPPING_NAMES.items() if kind}
    theirs = {name: str(kind).removesuffix("Fast") for name, kind in mapping.items()}
    theirs = {name: AS_IT_IS if kind == "MistralCommonBackend" else kind for name, kind in theirs.items()}
    assert {name: kind for name, kind in theirs.items() if kind in {*REBUILT, AS_IT_IS}} == REGISTERED
    assert {name for name in KNOWN_TYPES if theirs.get(name) in OTHERS} == set()
    assert tokenization_auto.MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS == MISNAMED
    named = {str(kind).removesuffix("Fast") for kind in tokenization_auto.TOKENIZER_MAPPING_NAMES.values() if kind}
    assert named - {"MistralCommonBackend"} <= OTHERS | REBUILT | PLAIN
    assert not OTHERS & (REBUILT | PLAIN)
    assert set(MODEL_TYPES) <= KNOWN_TYPES.keys()


@pytest.mark.parametrize(
    ("config", "model_type", "byte_level", "name"),
    [
        ({}, "llama", False, AS_IT_IS),
        ({}, None, False, AS_IT_IS),
        ({}, "qwen3", True, "Qwen2Tokenizer"),
        ({"tokenizer_class": "LlamaTokenizerFast"}, "deepseek_v3", True, AS_IT_IS),
        ({"tokenizer_class": "LlamaTokenizerFast"}, "llama", False, "LlamaTokenizer"),
        ({"tokenizer_class": "LlamaTokenizer"}, "mistral", False, AS_IT_IS),
        ({"tokenizer_class": "PreTrainedTokenizerFast"}, "qwen3_5", True, "Qwen3_5Tokenizer"),
        ({"tokenizer_class": "GPT2Tokenizer"}, "qwen3", True, "GPT2Tokenizer"),
        ({"tokenizer_class": "NoSuchTokenizer"}, "qwen3", True, AS_IT_IS),
        ({"tokenizer_class": "NoSuchTokenizer", "auto_map": {"AutoTokenizer": "a"}}, "glm4", True, AS_IT_IS),
    ],
)  # fmt: skip
def test_the_class_is_the_one_that_transformers_takes(
    config: dict[str, Any], model_type: str | None, byte_level: bool, name: str
) -> None:
    assert tokenizer_class(config, {"model_type": model_type}, byte_level=byte_level) == name


VOCABULARIES = "EREDU_VOCABULARIES"
"""A folder of unpacked tokenizers: GGUF vocabularies with llama.cpp's `.inp` and `.out`, and tokenizer.json files."""
SEPARATOR = "\n__ggml_vocab_test__\n"
ALPHABETS = (
    "abc XYZ",
    "0123456789 .,",
    "'’\"-_/\\()[]{}<>|",
    "éßñ ğ",
    "日本語のテキスト",
    "हिन्दी",
    "한국어",
    "🎉👩‍👩‍👧 🏳️‍🌈",
    " \t\n\r\u00a0\u3000",
)


def vocabularies(pattern: str) -> list[Path]:
    folder = os.environ.get(VOCABULARIES)
    if folder is None:
        pytest.skip(f"{VOCABULARIES} names no folder of unpacked tokenizers")
    return sorted(Path(folder).rglob(pattern))


def drawn_texts(tokenizer: Tokenizer, count: int = 1000) -> list[str]:
    """Texts of words that the tokenizer knows, of its special tokens, and of characters of many scripts."""
    draw, texts = random.Random(0), []
    added = [str(tokenizer.vocabulary.token(i)) for i in sorted(tokenizer.vocabulary.added_ids)] or [""]
    for _ in range(count):
        pieces = []
        for _ in range(draw.randint(1, 8)):
            token = draw.randrange(tokenizer.vocabulary_size)
            known = tokenizer.vocabulary.token(token) is not None
            choices = [
                tokenizer.decode([token], hide_special=False) if known else "",
                draw.choice(added),
                "".join(draw.choices(draw.choice(ALPHABETS), k=draw.randint(1, 6))),
                "".join(map(chr, draw.choices(range(32, 0xD7FF), k=2))),
            ]
            pieces.append(draw.choice((" ", "")) + draw.choice(choices))
        texts.append("".join(pieces))
    return texts


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_published_directories_are_those_of_transformers() -> None:
    """Every tokenizer.json in reach: all ids alone and in context, and 1,000 texts."""
    files = vocabularies("*tokenizer.json")
    equal: list[Path] = []
    for file in files:
        with tempfile.TemporaryDirectory() as place:
            directory = Path(place)
            shutil.copy(file, directory / "tokenizer.json")
            for name in ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"):
                if (file.parent / name).is_file() and file.name == "tokenizer.json":
                    shutil.copy(file.parent / name, directory / name)
            config = file.parent / "config.json"
            content = json.loads(config.read_text()) if config.is_file() else {"model_type": "llama"}
            (directory / "config.json").write_text(json.dumps(content))
            try:
                mine = load_directory(directory, content)
            except TokenizerError as error:
                assert "eredu" in str(error), (file, error)  # noqa: PT017 (what eredu does not follow, said so)
                continue
            theirs = AutoTokenizer.from_pretrained(str(directory), local_files_only=True)
            assert difference(mine, theirs, drawn_texts(mine)) is None, file
            equal.append(file)
    assert equal, files


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_published_gguf_vocabularies_give_the_ids_of_llama_cpp() -> None:
    """Every GGUF vocabulary in reach: llama.cpp's own texts, and all ids against the `tokenizers` library."""
    files = vocabularies("*.gguf")
    equal: list[Path] = []
    for file in files:
        try:
            mine = open_checkpoint(file).tokenizer
        except TokenizerError as error:
            assert "does not support" in str(error) or "does not reproduce" in str(error), (file, error)  # noqa: PT017
            continue
        texts, wanted = (file.with_name(f"{file.name}.{suffix}") for suffix in ("inp", "out"))
        if texts.is_file():
            given = texts.read_text(encoding="utf-8").split(SEPARATOR)
            for text, ids in zip(given, wanted.read_text().split("\n"), strict=True):
                if unicodedata.is_normalized(
                    "NFC", text
                ):  # llama.cpp does not normalise, the models' own tokenizers do
                    assert mine.encode(text, add_special_tokens=False) == tuple(map(int, ids.split())), (file, text)
        if isinstance(mine.encoder, LibraryEncoder):
            library = mine.encoder.tokenizer
            assert different_text(mine, library) is None, file
            assert all(mine.encode(text) == tuple(library.encode(text).ids) for text in drawn_texts(mine))
        for text in drawn_texts(mine):
            if unicodedata.is_normalized("NFC", text):
                found = mine.decode(mine.encode(text, add_special_tokens=False), hide_special=False)
                assert found == text or isinstance(mine.encoder, SentencePieceEncoder), (file, text, found)
        equal.append(file)
    assert equal, files
