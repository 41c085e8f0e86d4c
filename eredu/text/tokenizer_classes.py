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

REGISTERED: dict[str, str] = {
    **dict.fromkeys(
        (
            "aya_vision", "cohere", "cohere2",
        ),
        "CohereTokenizer",
    ),
    **dict.fromkeys(
        (
            "blip-2", "codegen", "dbrx", "emu3", "gpt2", "gpt_neo", "gptj", "hyperclovax_vision_v2", "instructblip",
            "instructblipvideo", "jais2", "opt", "phi", "starcoder2",
        ),
        "GPT2Tokenizer",
    ),
    **dict.fromkeys(
        (
            "falcon_mamba", "gpt_neox", "mamba", "mamba2", "mpt", "olmo", "olmoe", "rwkv", "xlstm",
        ),
        "GPTNeoXTokenizer",
    ),
    **dict.fromkeys(
        (
            "diffusion_gemma", "gemma", "gemma2", "gemma3", "gemma3_text", "gemma3n", "gemma3n_text",
            "recurrent_gemma", "shieldgemma2", "t5gemma", "zaya",
        ),
        "GemmaTokenizer",
    ),
    **dict.fromkeys(
        (
            "idefics", "idefics2",
        ),
        "LlamaTokenizer",
    ),
    **dict.fromkeys(
        (
            "audioflamingo3", "colqwen2", "cosmos3_omni", "dots3_note", "fun_asr_nano", "hunyuan_vl", "internvl",
            "lighton_ocr", "moss_transcribe_diarize", "ovis2", "qianfan_ocr", "qwen2", "qwen2_5_omni", "qwen2_5_vl",
            "qwen2_audio", "qwen2_moe", "qwen2_vl", "qwen3", "qwen3_asr", "qwen3_moe", "qwen3_next", "qwen3_omni_moe",
            "qwen3_vl", "qwen3_vl_moe", "vibevoice",
        ),
        "Qwen2Tokenizer",
    ),
    **dict.fromkeys(
        (
            "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text", "qwen4_exp",
        ),
        "Qwen3_5Tokenizer",
    ),
    **dict.fromkeys(
        (
            "EvollaModel", "arctic", "aria", "beam", "bigbird_pegasus", "camembertv2-base", "canary", "chatlm",
            "cohere_asr", "ernie4_5", "ernie4_5_moe", "flex_olmo", "fuyu", "glm", "glm4", "glm4_moe", "glm4_moe_lite",
            "glm4v", "glm4v_moe", "glm_image", "glmasr", "got_ocr2", "gpt_bigcode", "gradium_phonon_tts", "granite",
            "granitemoe", "granitemoehybrid", "granitemoeshared", "h2ovl_chat", "hyperclovax", "hyperclovax_vlm",
            "internlm2", "internlm3", "iquestcoder", "jamba", "kimi_k25", "kimi_linear", "kosmos-2", "llava",
            "llava_next", "mimo_v2_flash", "minicpm3", "minicpm_ocr", "minicpmv", "minicpmv4_6", "minicpmv4_7",
            "minimax_m2", "ministral", "ministral3", "mistral", "mistral3", "mistral_large4", "mixtral", "modernbert",
            "modernbert-decoder", "molmo", "molmo2", "nemo_speechlm", "nemotron", "nvfp4", "nystromformer", "olmo2",
            "olmo3", "olmo_hybrid", "omniasr", "opencua", "openvla", "paddleocr_vl", "pegasus_x", "persimmon", "phi3",
            "phi3_v", "phimoe", "pix2struct", "pixtral", "pocket_tts", "smolvlm", "stablelm", "step3_vl", "umt5",
            "vipllava", "voxtral", "voxtral_realtime", "xlm-roberta-xl",
        ),
        AS_IT_IS,
    ),
}  # fmt: skip
"""Classes that Transformers registers by `model_type`, without those of `OTHERS`."""
MISNAMED = frozenset(
    {
        "arctic", "camembertv2-base", "chatlm", "cohere_asr", "ernie4_5", "ernie4_5_moe", "fuyu", "h2ovl_chat",
        "hyperclovax", "hyperclovax_vision_v2", "hyperclovax_vlm", "internlm2", "internlm3", "iquestcoder", "jamba",
        "llava", "llava_next", "minicpm3", "minicpmv", "minimax_m2", "modernbert", "modernbert-decoder", "molmo",
        "molmo2", "nemotron", "nvfp4", "opencua", "openvla", "paddleocr_vl", "phi3", "phi3_v", "phimoe", "qwen2",
        "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen4_exp", "siglip2", "smolvlm", "step3_vl", "vipllava",
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
