"""Tokenizers that a class of Transformers 5 rebuilds: its own pipeline around the vocabulary and merges of a file.

What each class puts around them is that of its module (`models/*/tokenization_*.py`). Of tokenizer.json they keep the
post-processor, and nothing of its normaliser, splitting, decoder and added tokens; special tokens that no file names
have the class's own defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from eredu.contract.errors import TokenizerError
from eredu.text.pieces import METASPACE
from eredu.text.pretokenizers import QWEN2, QWEN35

Config = Mapping[str, Any]
PLAIN_BPE = {"continuing_subword_prefix": "", "end_of_word_suffix": "", "fuse_unk": False}
ENDOFTEXT = "<|endoftext|>"


@dataclass(frozen=True)
class Rebuilding:
    """What a class puts around vocabulary and merges.

    Attributes:
        pre_tokenizer: How it splits, from tokenizer_config.json.
        decoder: How it decodes, likewise.
        normalizer: How it normalises, None where it does not.
        model: Options of the BPE model.
        special_tokens: Special tokens by role, where the files name none.
        keeps_post_processor: Whether that of tokenizer.json stays.
        adds_again: Whether all special tokens are added once more at the end: "added" or "special" ones.
    """

    pre_tokenizer: Callable[[Config], pre_tokenizers.PreTokenizer]
    decoder: Callable[[Config], decoders.Decoder]
    normalizer: Callable[[], normalizers.Normalizer] | None = normalizers.NFC
    model: Mapping[str, Any] = field(default_factory=lambda: PLAIN_BPE)
    special_tokens: Mapping[str, str | None] = field(default_factory=dict)
    keeps_post_processor: bool = True
    adds_again: str = ""


def _prefixed(config: Config, *, default: bool = False) -> bool:
    value = config.get("add_prefix_space")
    return default if value is None else bool(value)


def _byte_level(config: Config) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=_prefixed(config))


def _split_by(pattern: str) -> Callable[[Config], pre_tokenizers.PreTokenizer]:
    def split(config: Config) -> pre_tokenizers.PreTokenizer:
        last = pre_tokenizers.ByteLevel(add_prefix_space=_prefixed(config), use_regex=False)
        return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), behavior="isolated"), last])

    return split


def _digits_alone(config: Config) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _byte_level(config)])


def _metaspace(config: Config) -> pre_tokenizers.PreTokenizer:
    scheme = "always" if config.get("legacy", False) else "first"
    scheme = scheme if _prefixed(config, default=True) else "never"
    return pre_tokenizers.Metaspace(replacement=METASPACE, prepend_scheme=scheme, split=False)


def _sentencepiece(config: Config, *, strips: bool = True) -> decoders.Decoder:
    steps = [decoders.Replace(METASPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    strip = [decoders.Strip(content=" ", left=1)] if strips and _prefixed(config, default=True) else []
    return decoders.Sequence([*steps, *strip])


def _bytes(config: Config) -> decoders.Decoder:  # noqa: ARG001 (as the others)
    return decoders.ByteLevel()


_QWEN = {"unk_token": ENDOFTEXT, "bos_token": None, "eos_token": ENDOFTEXT, "pad_token": ENDOFTEXT}
_GPT2 = {"unk_token": ENDOFTEXT, "bos_token": ENDOFTEXT, "eos_token": ENDOFTEXT, "pad_token": None}

REBUILDINGS = {
    "GPT2Tokenizer": Rebuilding(_byte_level, _bytes, None, special_tokens=_GPT2),
    "GPTNeoXTokenizer": Rebuilding(
        _byte_level, _bytes, special_tokens={**_GPT2, "pad_token": "<|padding|>"}, keeps_post_processor=False
    ),
    "Qwen2Tokenizer": Rebuilding(_split_by(QWEN2), _bytes, special_tokens=_QWEN, adds_again="added"),
    "Qwen3_5Tokenizer": Rebuilding(_split_by(QWEN35), _bytes, special_tokens=_QWEN),
    "CohereTokenizer": Rebuilding(
        _digits_alone,
        _bytes,
        special_tokens={
            "unk_token": "<UNK>",
            "bos_token": "<BOS_TOKEN>",
            "eos_token": "<|END_OF_TURN_TOKEN|>",
            "pad_token": "<PAD>",
            "cls_token": "<CLS>",
            "sep_token": "<SEP>",
            "mask_token": "<MASK_TOKEN>",
        },
        adds_again="special",
    ),
    "LlamaTokenizer": Rebuilding(
        _metaspace,
        _sentencepiece,
        None,
        model={"fuse_unk": True, "byte_fallback": True},
        special_tokens={"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"},
    ),
    "GemmaTokenizer": Rebuilding(
        lambda _: pre_tokenizers.Split(pattern=" ", behavior="merged_with_previous", invert=False),
        lambda config: _sentencepiece(config, strips=False),
        lambda: normalizers.Replace(" ", METASPACE),
        model={"fuse_unk": True, "byte_fallback": True},
        special_tokens={
            "unk_token": "<unk>",
            "bos_token": "<bos>",
            "eos_token": "<eos>",
            "pad_token": "<pad>",
            "mask_token": "<mask>",
        },
    ),
}
"""By the class's name."""


def rebuild(
    name: str, content: Mapping[str, Any], published: tokenizers.Tokenizer, config: Config, unknown: str | None
) -> tokenizers.Tokenizer:
    """The tokenizer of a class, without added tokens.

    Args:
        name: The class, one of `REBUILDINGS`.
        content: Content of tokenizer.json.
        published: The same, as the library reads it.
        config: Content of tokenizer_config.json.
        unknown: The `unk_token`.

    Raises `TokenizerError` where tokenizer.json holds another kind of model.
    """
    how, model = REBUILDINGS[name], content.get("model")
    vocabulary = model.get("vocab") if isinstance(model, Mapping) else None
    if not isinstance(model, Mapping) or not isinstance(vocabulary, dict):
        raise TokenizerError(
            f"the tokenizer's class is {name}, which merges pairs of tokens, and the model in tokenizer.json is of "
            'another kind; set "tokenizer_class" in tokenizer_config.json to "PreTrainedTokenizerFast" to take it as '
            "it is"
        )
    merges: list[Any] = [
        tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in model.get("merges", [])
    ]
    options = {**how.model, **({"unk_token": str(unknown)} if name == "GemmaTokenizer" else {})}
    try:
        library = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=merges, **options))
    except Exception as error:  # the library raises bare Exception
        raise TokenizerError(f"the tokens and merges of tokenizer.json do not fit each other ({error})") from error
    if how.normalizer is not None:
        library.normalizer = how.normalizer()
    library.pre_tokenizer = how.pre_tokenizer(config)
    library.decoder = how.decoder(config)
    if how.keeps_post_processor and published.post_processor is not None:
        library.post_processor = published.post_processor
    return library
