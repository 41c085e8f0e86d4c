"""Pre-tokenizers that GGUF files name: how the text is split before byte-pair encoding.

A GGUF holds only a name, so each entry is the splitting that the named model's published tokenizer.json states. An
unknown name is refused: another splitting gives other ids, and nobody would notice.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Regex, pre_tokenizers

from eredu.contract.errors import TokenizerError

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
NEWLINES_AND_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
WORD_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
WORD_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
PREFIX = r"[^\r\n\p{L}\p{N}]?"

LLAMA3 = rf"{CONTRACTIONS}|{PREFIX}\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{NEWLINES_AND_SPACES}"
QWEN2 = rf"{CONTRACTIONS}|{PREFIX}\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{NEWLINES_AND_SPACES}"
QWEN35 = rf"{CONTRACTIONS}|{PREFIX}[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{NEWLINES_AND_SPACES}"
TEKKEN = (
    rf"{PREFIX}{WORD_UPPER}*{WORD_LOWER}+|{PREFIX}{WORD_UPPER}+{WORD_LOWER}*|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{NEWLINES_AND_SPACES}"
)
GPT4O = (
    rf"{PREFIX}{WORD_UPPER}*{WORD_LOWER}+{CONTRACTIONS}?|{PREFIX}{WORD_UPPER}+{WORD_LOWER}*{CONTRACTIONS}?"
    rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{NEWLINES_AND_SPACES}"
)
DEEPSEEK3_WORDS = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{NEWLINES_AND_SPACES}"
)
DEEPSEEK3 = (r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK3_WORDS)


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """How one family splits its text.

    Attributes:
        patterns: Regular expressions applied one after the other; matches and gaps become pieces. Without any, the
            library's own byte-level splitting (GPT-2's) applies.
        digits_alone: Whether every digit is cut off first, by the library's Digits step. A regular expression for it
            would read another edition of the Unicode tables and split newer digits differently.
        ignore_merges: Whether a piece that is a token as a whole is taken before any merge.
        adds_bos: Whether a text begins with the begin-of-text id unless the file says otherwise.
        normalizes: Whether the text is brought to Unicode form NFC first.
    """

    patterns: tuple[str, ...] = ()
    digits_alone: bool = False
    ignore_merges: bool = False
    adds_bos: bool = False
    normalizes: bool = False

    def build(self) -> pre_tokenizers.PreTokenizer:
        """The library's form: the splits, then the byte-level alphabet."""
        digits = [pre_tokenizers.Digits(individual_digits=True)] if self.digits_alone else []
        splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in self.patterns]
        last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not self.patterns)
        return pre_tokenizers.Sequence([*digits, *splits, last])


_DIGITS_ALONE = PreTokenizer(digits_alone=True)
_LLAMA3 = PreTokenizer((LLAMA3,), ignore_merges=True, adds_bos=True)
_QWEN2 = PreTokenizer((QWEN2,), normalizes=True)

PRE_TOKENIZERS: dict[str, PreTokenizer] = {
    "gpt-2": PreTokenizer(),
    "phi-2": PreTokenizer(),
    "smollm": _DIGITS_ALONE,
    "starcoder": _DIGITS_ALONE,
    "refact": _DIGITS_ALONE,
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "qwen35": PreTokenizer((QWEN35,), normalizes=True),
    "command-r": PreTokenizer(digits_alone=True, normalizes=True),
    "tekken": PreTokenizer((TEKKEN,), ignore_merges=True, adds_bos=True),
    "gpt-4o": PreTokenizer((GPT4O,)),
    "deepseek-v3": PreTokenizer(DEEPSEEK3),
}


def pre_tokenizer(name: object) -> PreTokenizer:
    """The splitting that a GGUF calls `name`; None where it names none, as files of before April 2024.

    Raises `TokenizerError` for one that eredu does not support, which says nothing against the file.
    """
    if isinstance(name, str) and name in PRE_TOKENIZERS:
        return PRE_TOKENIZERS[name]
    given = "does not say how its text is split (no tokenizer.ggml.pre)"
    if name is not None:
        given = f"splits its text by the pre-tokenizer {str(name)[:80]!r} (tokenizer.ggml.pre)"
    raise TokenizerError(
        f"the GGUF {given}, which eredu does not support; it supports {', '.join(sorted(PRE_TOKENIZERS))}. Another "
        "splitting would give other ids, so none is guessed: load the model from its Hugging Face directory instead"
    )
