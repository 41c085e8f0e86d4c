import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eredu.checkpoints.names import DRAFT_NAME, shipped_path, target_path
from eredu.checkpoints.opening import open_checkpoint
from eredu.contract.errors import CheckpointError, TokenizerError
from eredu.contract.terminal import OutputText
from eredu.text.gguf import load_metadata
from eredu.text.huggingface import LibraryEncoder
from eredu.text.pieces import BYTE_OF_CHARACTER
from eredu.text.pretokenizers import PRE_TOKENIZERS, pre_tokenizer
from eredu.text.streaming import StreamingText
from eredu.text.tokenizer import Tokenizer

Metadata = dict[str, Any]

TEXTS = (
    "",
    " ",
    "Write a story about a lighthouse.",
    "In 2024 there were 1,234,567 ships; v2.0.1 cost $3.50 (½ price) at 10²³ … ４２ Ⅷ",
    "def f(x):\n\treturn  x**2  # don't\r\n\r\n    pass\n",
    "They're here, I'LL say; it's 'quoted' and we've won",
    "naïve café — Ελληνικά, русский, 日本語のテキスト, 한국어, עברית, العربية, हिन्दी",
    "👩‍👩‍👧‍👦 🎉🏳️‍🌈 e\u0301 \u200b\u00a0\u3000 \U00011de4",
    "<|im_start|>user\nHi<|im_end|>\n<|endoftext|><file_sep>",
    "   leading and trailing   ",
    "\n\n\n\t\t x",
)


@pytest.fixture(scope="module")
def published() -> Tokenizer:
    return open_checkpoint(shipped_path(DRAFT_NAME)).tokenizer


@pytest.fixture(scope="module")
def metadata() -> Metadata:
    """What a converter writes into a GGUF for the tokenizer that ships with the draft."""
    directory = shipped_path(DRAFT_NAME)
    model = json.loads((directory / "tokenizer.json").read_text(encoding="utf-8"))
    config = json.loads((directory / "tokenizer_config.json").read_text(encoding="utf-8"))
    tokens = sorted(model["model"]["vocab"], key=model["model"]["vocab"].get)
    control = {entry["id"] for entry in model["added_tokens"]}
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["model"]["merges"]]
    prefix = "tokenizer.ggml."
    return {
        f"{prefix}model": "gpt2",
        f"{prefix}pre": "smollm",
        f"{prefix}tokens": tokens,
        f"{prefix}token_type": [3 if i in control else 1 for i in range(len(tokens))],
        f"{prefix}merges": merges,
        f"{prefix}bos_token_id": 1,
        f"{prefix}eos_token_id": 2,
        "tokenizer.chat_template": config["chat_template"],
    }


@pytest.fixture(scope="module")
def converted(metadata: Metadata) -> Tokenizer:
    return load_metadata(metadata)


def test_directory_and_gguf_are_one_tokenizer(published: Tokenizer, converted: Tokenizer) -> None:
    assert published.fingerprint == converted.fingerprint
    assert published.eos_ids == converted.eos_ids == {2}
    assert published.bos_id == converted.bos_id == 1
    assert published.vocabulary == converted.vocabulary


@pytest.mark.parametrize("text", TEXTS)
def test_same_ids_and_text_back(published: Tokenizer, converted: Tokenizer, text: str) -> None:
    ids = published.encode(text)
    assert converted.encode(text) == ids
    assert published.decode(ids, hide_special=False) == text


CHARACTER_OF_BYTE = {byte: character for character, byte in BYTE_OF_CHARACTER.items()}


@given(st.text(max_size=60))
@settings(deadline=None)
def test_same_ids_for_any_text(published: Tokenizer, converted: Tokenizer, text: str) -> None:
    ids = published.encode(text)
    assert converted.encode(text) == ids
    spelled = all(CHARACTER_OF_BYTE[byte] in published.vocabulary.ids for byte in text.encode())
    assert (published.decode(ids, hide_special=False) == text) == spelled


@given(st.lists(st.integers(0, 49151), max_size=20), st.booleans())
@settings(deadline=None)
def test_text_is_that_of_the_library(published: Tokenizer, ids: list[int], hide: bool) -> None:
    assert isinstance(published.encoder, LibraryEncoder)
    library = published.encoder.tokenizer
    assert published.decode(ids, hide_special=hide) == library.decode(ids, skip_special_tokens=hide)


def test_real_gguf_gives_the_published_ids(published: Tokenizer) -> None:
    path = target_path()
    if not path.is_file():
        pytest.skip("the target is not in the cache: eredu fetch smollm2")
    real = open_checkpoint(path).tokenizer
    assert real.fingerprint == published.fingerprint
    assert real.chat_template is not None
    assert published.chat_template is not None
    assert real.chat_template.source == published.chat_template.source
    for text in TEXTS:
        assert real.encode(text) == published.encode(text)


def test_chat_becomes_the_template(published: Tokenizer) -> None:
    ids = published.apply_chat([{"role": "user", "content": "Hi"}])
    assert published.decode(ids, hide_special=False) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert ids[0] == 1
    assert len(published.apply_chat([{"role": "user", "content": "Hi"}], add_generation_prompt=False)) == len(ids) - 4


def as_output_text(value: StreamingText) -> OutputText:
    return value


def test_stream_satisfies_the_protocol(published: Tokenizer) -> None:
    text = as_output_text(published.stream(["house"]))
    for token in published.encode("a light house"):
        text, stopped = text.advance(token)
    assert stopped
    assert text.take()[1] == "a light "


def test_lone_surrogate_is_an_error(published: Tokenizer) -> None:
    with pytest.raises(TokenizerError, match="lone surrogate"):
        published.encode("a\ud800")


def test_chat_needs_messages_and_a_template(published: Tokenizer, metadata: Metadata) -> None:
    with pytest.raises(TokenizerError, match="at least one message"):
        published.apply_chat([])
    bare = load_metadata({key: value for key, value in metadata.items() if key != "tokenizer.chat_template"})
    with pytest.raises(TokenizerError, match="no chat template"):
        bare.apply_chat([{"role": "user", "content": "Hi"}])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokenizer.ggml.model": None}, "has no tokenizer.ggml.model"),
        ({"tokenizer.ggml.tokens": []}, "no list of strings"),
        ({"tokenizer.ggml.tokens": [1, 2]}, "no list of strings"),
        ({"tokenizer.ggml.token_type": [1]}, "49152 tokens and 1 token types"),
        ({"tokenizer.ggml.token_type": 5}, "49152 tokens and no token types"),
        ({"tokenizer.ggml.merges": None}, "no list of strings tokenizer.ggml.merges"),
        ({"tokenizer.ggml.merges": ["ab"]}, "not a pair"),
        ({"tokenizer.ggml.merges": ["no such"]}, "do not fit each other"),
        ({"tokenizer.ggml.eos_token_id": 49152}, "expected one of its 49152 ids"),
        ({"tokenizer.ggml.bos_token_id": "x"}, "expected one of its 49152 ids"),
    ],
)
def test_damaged_metadata_are_errors(metadata: Metadata, change: Metadata, message: str) -> None:
    with pytest.raises(TokenizerError, match=message):
        load_metadata({**metadata, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokenizer.ggml.pre": "no-such"}, "pre-tokenizer 'no-such' .*, which eredu does not support; it supports"),
        ({"tokenizer.ggml.pre": "[/b]\x1b[31m"}, r"pre-tokenizer '\[/b\]\\x1b\[31m' .* does not support"),
        ({"tokenizer.ggml.pre": 5}, "pre-tokenizer '5' .* does not support"),
        ({"tokenizer.ggml.pre": None}, "does not say how its text is split .* does not support"),
        ({"tokenizer.ggml.pre": "no-such", "tokenizer.ggml.token_type": [1]}, "pre-tokenizer 'no-such' .* not support"),
        ({"tokenizer.ggml.model": "bert"}, "of the kind 'bert' .*, which eredu does not support"),
        ({"tokenizer.ggml.model": "t5"}, "of the kind 't5' .*, which eredu does not support"),
    ],
)
def test_what_is_not_supported_is_called_that(metadata: Metadata, change: Metadata, message: str) -> None:
    with pytest.raises(TokenizerError, match=message) as caught:
        load_metadata({**metadata, **change})
    assert not set(str(caught.value).split()) & {"damaged", "damaged:", "mislabelled", "none:"}


def test_begin_and_end_ids_surround_a_text_where_the_file_says_so(metadata: Metadata, published: Tokenizer) -> None:
    around = load_metadata({**metadata, "tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_eos_token": True})
    ids = published.encode("hello")
    assert around.encode("hello") == (1, *ids, 2)
    assert around.encode("hello", add_special_tokens=False) == ids


def test_rows_invented_by_a_converter_are_padding(metadata: Metadata) -> None:
    tokens = [*metadata["tokenizer.ggml.tokens"], "[PAD49152]", "[PAD49153]"]
    types = [*metadata["tokenizer.ggml.token_type"], 5, 5]
    padded = load_metadata({**metadata, "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types})
    assert padded.fingerprint == load_metadata(metadata).fingerprint
    assert padded.vocabulary.padding_ids(49154) == (49152, 49153)


@pytest.mark.parametrize("name", sorted(PRE_TOKENIZERS))
def test_pre_tokenizers_lose_nothing(name: str) -> None:
    text = "It's 12345 o'CLOCK;\n\n  naïve 日本語 x=1\t\r\n¡!"
    pieces = pre_tokenizer(name).build().pre_tokenize_str(text)
    spans = [span for _, span in pieces]
    assert spans[0][0] == 0
    assert spans[-1][1] == len(text)
    assert all(a[1] == b[0] for a, b in pairwise(spans))


@pytest.mark.parametrize(
    ("name", "text", "pieces"),
    [
        ("smollm", "in 2024", ["in", "Ġ", "2", "0", "2", "4"]),
        ("gpt-2", "in 2024", ["in", "Ġ2024"]),
        ("llama-bpe", "in 2024", ["in", "Ġ", "202", "4"]),
        ("qwen2", "in 24'LL", ["in", "Ġ", "2", "4", "'LL"]),
        ("qwen35", "in 24 हिन्दी", ["in", "Ġ", "2", "4", "Ġà¤¹à¤¿à¤¨à¥įà¤¦à¥Ģ"]),
        ("command-r", "in 24 AbC", ["in", "Ġ", "2", "4", "ĠAbC"]),
        ("tekken", "in 24 AbC", ["in", "Ġ", "2", "4", "ĠAb", "C"]),
        ("gpt-4o", "It's ABc", ["It's", "ĠABc"]),
        ("deepseek-v3", "日本ab1234", ["æĹ¥æľ¬", "ab", "123", "4"]),
    ],
)
def test_pre_tokenizers_split_as_their_models_do(name: str, text: str, pieces: list[str]) -> None:
    assert [piece for piece, _ in pre_tokenizer(name).build().pre_tokenize_str(text)] == pieces


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    copy = tmp_path / "checkpoint"
    copy.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(shipped_path(DRAFT_NAME) / name, copy / name)
    return copy


def test_generation_config_adds_ids_that_end(directory: Path) -> None:
    (directory / "config.json").write_text('{"eos_token_id": 7}')
    assert open_checkpoint(directory).tokenizer.eos_ids == {2, 7}
    (directory / "generation_config.json").write_text('{"eos_token_id": [0, 2]}')
    assert open_checkpoint(directory).tokenizer.eos_ids == {0, 2}


def test_tokens_of_roles_may_be_objects(directory: Path) -> None:
    (directory / "tokenizer_config.json").write_text(json.dumps({"bos_token": {"content": "<|im_start|>"}}))
    assert open_checkpoint(directory).tokenizer.bos_id == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", "{", "not a tokenizer that"),
        ("tokenizer.json", None, "no tokenizer.json"),
        ("tokenizer_config.json", "[1]", "holds a JSON list"),
        ("tokenizer_config.json", "{", "could not be read as JSON"),
        ("generation_config.json", '{"eos_token_id": "x"}', "expected an id or a list of ids"),
        ("generation_config.json", '{"eos_token_id": 60000}', "no such ids"),
        ("chat_template.jinja", "\udcff", "could not be read as text"),
        ("config.json", "[" * 100_000, "could not be read as JSON"),
    ],
)
def test_damaged_directories_are_errors(directory: Path, name: str, content: str | None, message: str) -> None:
    (directory / name).unlink(missing_ok=True)
    if content is not None:
        (directory / name).write_text(content, errors="surrogateescape")
    error = CheckpointError if name == "config.json" else TokenizerError
    with pytest.raises(error, match=message):
        _ = open_checkpoint(directory).tokenizer
