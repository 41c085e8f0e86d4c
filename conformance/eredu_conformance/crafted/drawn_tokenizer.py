"""Directories of tokenizers, drawn at random: tokens in every place that may list them, under every class's name."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from eredu.files.json_reading import parse_json

WORDS = "hello world the lighthouse keeper in 2024 don't é हिन्दी in the sea 12 34"
TEXTS = (
    "hello world",
    "  hello  <|im_start|>user\n don't 2024 12345 <x> <y>z <pad> </s><s>[PAD] a<|endoftext|> b",
    "é हिन्दी e\u0301 日本 \n\n\t x",
    "<a b> <|im_end|>the<x>sea <x> <image>  <image>y <tool> <think>",
    "",
    " ",
    "<|im_start|><|im_start|>",
    "A<y>B <y> C",
)
NAMES = (
    "<|im_start|>", "<|im_end|>", "<x>", "<y>", "<pad>", "[PAD]", "<a b>", "<image>", "<tool>", "<|endoftext|>", "<s>",
    "</s>", "<think>", "é",
)  # fmt: skip
ROLES = ("bos_token", "eos_token", "unk_token", "pad_token", "cls_token", "image_token", "think_token")
CLASSES = (
    "PreTrainedTokenizerFast", "TokenizersBackend", "GPT2Tokenizer", "GPT2TokenizerFast", "Qwen2Tokenizer",
    "Qwen2TokenizerFast", "LlamaTokenizer", "LlamaTokenizerFast", "GPTNeoXTokenizerFast", "GemmaTokenizer",
    "CohereTokenizerFast", "Qwen3_5Tokenizer", "NoSuchTokenizer", "PreTrainedTokenizer", None,
)  # fmt: skip
MODEL_TYPES = (
    "llama", "qwen2", "qwen3", "qwen3_5", "phi", "phi3", "mistral", "gemma2", "gpt_neox", "cohere", "glm4", "olmoe",
)  # fmt: skip


@cache
def trained(kind: str) -> str:
    """tokenizer.json of a small byte-level or SentencePiece tokenizer."""
    if kind == "byte-level":
        library = Tokenizer(models.BPE())
        library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        library.decoder = decoders.ByteLevel()
        alphabet, special, words = pre_tokenizers.ByteLevel.alphabet(), ["<|endoftext|>"], WORDS
    else:
        library = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))  # noqa: S106 (a token of text)
        library.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        library.decoder = decoders.Sequence(steps)
        special = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
        alphabet, words = [], WORDS.replace(" ", "▁")
    trainer = trainers.BpeTrainer(
        vocab_size=340, initial_alphabet=alphabet, special_tokens=special, show_progress=False
    )
    library.train_from_iterator([words] * 5, trainer)
    content = parse_json(library.to_str())
    content["added_tokens"] = [token for token in content["added_tokens"] if not token["content"].startswith("<0x")]
    return json.dumps(content)


class Crafter:
    """Draws one directory."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.random = random.Random(seed)  # noqa: S311 (no secret)
        self.directory = directory
        self.library = Tokenizer.from_str(trained(self.random.choice(("byte-level", "sentencepiece"))))

    def write(self) -> dict[str, Any]:
        """Write it; returns the content of config.json."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.library.add_tokens([AddedToken(**self.token(name)) for name in self.some(NAMES, 4)])
        self.surround()
        if self.chance(0.1):
            self.library.enable_padding(pad_id=0, pad_token=self.random.choice(NAMES))
        self.library.save(str(self.directory / "tokenizer.json"))
        for file, content in (
            ("tokenizer_config.json", self.config() if self.chance(0.9) else None),
            ("added_tokens.json", self.added() if self.chance(0.4) else None),
            ("special_tokens_map.json", self.special() if self.chance(0.4) else None),
            ("config.json", config := {"model_type": self.random.choice(MODEL_TYPES), "architectures": ["X"]}),
        ):
            if content is not None:
                (self.directory / file).write_text(json.dumps(content))
        return config

    def chance(self, probability: float) -> bool:
        """Whether it comes so."""
        return self.random.random() < probability

    def some(self, names: tuple[str, ...], most: int) -> list[str]:
        """Some of the names."""
        return self.random.sample(names, min(len(names), self.random.randint(0, most)))

    @property
    def known(self) -> tuple[str, ...]:
        """Names that the library knows."""
        return tuple(name for name in NAMES if self.library.token_to_id(name) is not None) or NAMES

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names that it does not know."""
        return tuple(name for name in NAMES if self.library.token_to_id(name) is None)

    def token(self, name: str, *, typed: bool = False) -> dict[str, Any]:
        """A token with flags."""
        flags = {"lstrip": 0.3, "rstrip": 0.3, "single_word": 0.2, "normalized": 0.5}
        token = {"content": name, **{flag: self.chance(likely) for flag, likely in flags.items()}}
        return (
            token
            | ({"special": self.chance(0.6)} if self.chance(0.8) else {})
            | ({"__type": "AddedToken"} if typed else {})
        )

    def surround(self) -> None:
        """Put an id before every text, sometimes."""
        first = next(name for name in ("<|endoftext|>", "<s>") if self.library.token_to_id(name) is not None)
        if self.chance(0.3):
            self.library.post_processor = processors.TemplateProcessing(
                single=f"{first} $A", special_tokens=[(first, self.library.token_to_id(first))]
            )

    def config(self) -> dict[str, Any]:
        """tokenizer_config.json."""
        config: dict[str, Any] = {}
        if name := self.random.choice(CLASSES):
            config["tokenizer_class"] = name
        if self.chance(0.5):
            config["added_tokens_decoder"] = self.decoder()
        for role in ROLES:
            if self.chance(0.4):
                config[role] = self.value() if self.chance(0.8) else None
        if self.chance(0.3):
            config[self.random.choice(("additional_special_tokens", "extra_special_tokens"))] = [
                self.value() for _ in range(self.random.randint(0, 3))
            ]
        if self.chance(0.1):
            config["extra_special_tokens"] = {"audio_token": self.random.choice(NAMES)}
        settings = {"add_prefix_space": (True, False), "legacy": (True, False), "add_bos_token": (True,)}
        return config | {key: self.random.choice(values) for key, values in settings.items() if self.chance(0.2)}

    def decoder(self) -> dict[str, Any]:
        """`added_tokens_decoder`: nearly all that tokenizer.json adds, and more behind it."""
        there = {i: _state(token) for i, token in self.library.get_added_tokens_decoder().items()}
        kept = {
            i: self.token(token["content"]) if self.chance(0.3) else token
            for i, token in there.items()
            if self.chance(0.97)
        }
        size = self.library.get_vocab_size()
        more = {
            size + i + (not self.chance(0.95)): self.token(name) for i, name in enumerate(self.some(self.unknown, 3))
        }
        entries = [(str(i), token) for i, token in (kept | more).items()]
        self.random.shuffle(entries)
        return dict(entries)

    def value(self) -> str | dict[str, Any]:
        """A special token, mostly one that is known."""
        name = self.random.choice(self.known if self.chance(0.85) else NAMES)
        return name if self.chance(0.7) else self.token(name, typed=True)

    def added(self) -> dict[str, int]:
        """added_tokens.json."""
        size = self.library.get_vocab_size()
        added = {name: size + i for i, name in enumerate(self.some(self.unknown, 3))}
        name = self.random.choice(self.known)
        found = self.library.token_to_id(name)
        return added | ({name: found if self.chance(0.8) else 5} if found is not None and self.chance(0.3) else {})

    def special(self) -> dict[str, Any]:
        """special_tokens_map.json."""
        special: dict[str, Any] = {}
        for role in ROLES:
            if self.chance(0.35):
                name = self.random.choice(self.known if self.chance(0.85) else NAMES)
                special[role] = name if self.chance(0.6) else self.token(name)
        if self.chance(0.4):
            key = self.random.choice(("additional_special_tokens", "extra_special_tokens"))
            special[key] = self.random.sample(NAMES, 2)
        return special


def _state(token: AddedToken) -> dict[str, Any]:
    return {
        name: getattr(token, name) for name in ("content", "single_word", "lstrip", "rstrip", "normalized", "special")
    }
