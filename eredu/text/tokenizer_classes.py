"""Which class `AutoTokenizer` of Transformers 5 takes for a directory: one reads tokenizer.json, others rebuild it.

A class that rebuilds takes the vocabulary and merges of tokenizer.json and puts a pipeline of its own around them, so a
name in tokenizer_config.json can change the ids of a text. The choice is that of `models/auto/tokenization_auto.py`;
eredu makes it without loading that, for it may ask the hub.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eredu.contract.errors import TokenizerError

AS_IT_IS = "TokenizersBackend"
"""The class that takes tokenizer.json as it is."""
PLAIN = frozenset({AS_IT_IS, "PreTrainedTokenizer", "PythonBackend", "BloomTokenizer", "ParakeetTokenizer"})
"""Names that come to it."""
REBUILT = frozenset(
    {
        "CohereTokenizer",
        "GPT2Tokenizer",
        "GPTNeoXTokenizer",
        "GemmaTokenizer",
        "LlamaTokenizer",
        "Qwen2Tokenizer",
        "Qwen3_5Tokenizer",
    }
)
"""Classes that rebuild, as `eredu.text.rebuilding` does."""
OTHERS = frozenset(
    {
        "AlbertTokenizer", "BartTokenizer", "BarthezTokenizer", "BartphoTokenizer", "BasicTokenizer",
        "BertGenerationTokenizer", "BertJapaneseTokenizer", "BertTokenizer", "BertweetTokenizer",
        "BigBirdTokenizer", "BioGptTokenizer", "BlenderbotSmallTokenizer", "BlenderbotTokenizer",
        "ByT5Tokenizer", "CLIPTokenizer", "CTRLTokenizer", "CamembertTokenizer", "CanineTokenizer",
        "CharacterTokenizer", "ClvpTokenizer", "CodeGenTokenizer", "CodeLlamaTokenizer", "ConvBertTokenizer",
        "CpmAntTokenizer", "CpmTokenizer", "DPRContextEncoderTokenizer", "DPRQuestionEncoderTokenizer",
        "DPRReaderTokenizer", "DebertaTokenizer", "DebertaV2Tokenizer", "DiaTokenizer", "DistilBertTokenizer",
        "EsmTokenizer", "EsmcTokenizer", "FNetTokenizer", "FSMTTokenizer", "FastSpeech2ConformerTokenizer",
        "FlaubertTokenizer", "FunnelTokenizer", "GPTNeoXJapaneseTokenizer", "GPTSw3Tokenizer",
        "HerbertTokenizer", "LEDTokenizer", "LasrTokenizer", "LayoutLMv2Tokenizer", "LayoutLMv3Tokenizer",
        "LayoutXLMTokenizer", "LukeTokenizer", "LxmertTokenizer", "M2M100Tokenizer", "MBart50Tokenizer",
        "MBartTokenizer", "MLukeTokenizer", "MPNetTokenizer", "MarianTokenizer", "MarkupLMTokenizer",
        "MecabTokenizer", "MgpstrTokenizer", "MobileBertTokenizer", "MvpTokenizer", "MyT5Tokenizer",
        "NllbTokenizer", "NougatTokenizer", "OpenAIGPTTokenizer", "PLBartTokenizer", "PegasusTokenizer",
        "PerceiverTokenizer", "PhobertTokenizer", "Pop2PianoTokenizer", "ProphetNetTokenizer", "RagTokenizer",
        "ReformerTokenizer", "RemBertTokenizer", "RoCBertTokenizer", "RoFormerTokenizer", "RobertaTokenizer",
        "SeamlessM4TTokenizer", "Siglip2Tokenizer", "SiglipTokenizer", "Speech2TextTokenizer",
        "SpeechT5Tokenizer", "SplinterTokenizer", "SqueezeBertTokenizer", "T5Tokenizer", "TapasTokenizer",
        "Tipsv2Tokenizer", "UdopTokenizer", "VideoPrismTokenizer", "VitsTokenizer", "Wav2Vec2CTCTokenizer",
        "Wav2Vec2PhonemeCTCTokenizer", "WhisperTokenizer", "WordpieceTokenizer", "XGLMTokenizer",
        "XLMRobertaTokenizer", "XLMTokenizer", "XLNetTokenizer",
    }
)  # fmt: skip
"""Further classes of Transformers that build their tokenizer themselves; eredu does not follow them."""

REGISTERED = {
    **dict.fromkeys(("cohere", "cohere2"), "CohereTokenizer"),
    **dict.fromkeys(("gemma", "gemma2", "gemma3", "gemma3_text"), "GemmaTokenizer"),
    **dict.fromkeys(("gpt_neox", "mamba", "mamba2", "olmoe"), "GPTNeoXTokenizer"),
    **dict.fromkeys(("phi", "starcoder2"), "GPT2Tokenizer"),
    **dict.fromkeys(("qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next"), "Qwen2Tokenizer"),
    **dict.fromkeys(("qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text"), "Qwen3_5Tokenizer"),
    **dict.fromkeys(
        (
            "ernie4_5", "ernie4_5_moe", "glm", "glm4", "glm4_moe", "granite", "granitemoe", "internlm2", "internlm3",
            "ministral3", "mistral", "mixtral", "nemotron", "olmo2", "olmo3", "phi3", "phimoe", "stablelm",
        ),
        AS_IT_IS,
    ),
}  # fmt: skip
"""Classes that Transformers registers for the `model_type`s that eredu knows."""
MISNAMED = frozenset(
    {
        "ernie4_5", "ernie4_5_moe", "internlm2", "internlm3", "nemotron", "phi3", "phimoe", "qwen2", "qwen3_5",
        "qwen3_5_moe", "qwen3_5_moe_text",
    }
)  # fmt: skip
"""`model_type`s whose registered class goes before the name in their files, which is known to be wrong."""


def tokenizer_class(config: Mapping[str, Any], model_config: Mapping[str, Any], *, byte_level: bool) -> str:
    """Name of the class: `AS_IT_IS` or one of `REBUILT`.

    Args:
        config: Content of tokenizer_config.json.
        model_config: Content of config.json.
        byte_level: Whether tokenizer.json speaks of the byte-level alphabet anywhere.

    Raises `TokenizerError` for a class that eredu does not follow, and one that is code of the checkpoint's own.
    """
    model_type = model_config.get("model_type")
    model_type = model_type if isinstance(model_type, str) else ""
    registered = REGISTERED.get(model_type)
    named = _name(config.get("tokenizer_class") or model_config.get("tokenizer_class"))
    if _has_own_code(config):
        if registered is None:
            raise TokenizerError(
                f"tokenizer_config.json names code of its own for the tokenizer ({named or 'auto_map'}), and eredu "
                'runs none; where tokenizer.json is whole, set "tokenizer_class" to "PreTrainedTokenizerFast" and '
                'take "auto_map" out'
            )
        return _followed(named or registered)
    if named == "LlamaTokenizer" and byte_level and model_type not in MISNAMED:
        return AS_IT_IS
    if named is not None and registered is not None and registered != named:
        if registered == AS_IT_IS:
            return AS_IT_IS
        return _followed(registered if model_type in MISNAMED else named)
    return _followed(named or registered or AS_IT_IS)


def _followed(name: str) -> str:
    if name in OTHERS:
        raise TokenizerError(
            f"the tokenizer's class is {name}, which Transformers builds by rules of its own that eredu does not "
            'follow; where its tokenizer.json is whole, set "tokenizer_class" in tokenizer_config.json to '
            '"PreTrainedTokenizerFast"'
        )
    return name if name in REBUILT else AS_IT_IS


def _name(given: object) -> str | None:
    return given.removesuffix("Fast") if isinstance(given, str) and given else None


def _has_own_code(config: Mapping[str, Any]) -> bool:
    names = config.get("auto_map")
    return bool(names.get("AutoTokenizer") if isinstance(names, Mapping) else names)
