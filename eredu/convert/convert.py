"""A conversion from end to end: probe, load, quantise, write aside, probe again, describe, and take the name."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eredu.checkpoints.directory import OpenedDirectory
from eredu.checkpoints.quantisation import mlx_words
from eredu.contract.errors import CheckpointError, OptionError, OutputError
from eredu.convert.acceptance import Acceptance, measure
from eredu.convert.card import Card, kept_lines
from eredu.convert.config import converted_config
from eredu.convert.heads import packed_layers, quantise_heads, write_heads
from eredu.convert.options import ConvertOptions
from eredu.convert.source import Source, open_source, require_apart
from eredu.engine.checkpoint import DTYPES
from eredu.families.head_loading import load_heads
from eredu.files.aside_file import write_json, write_text
from eredu.files.aside_folder import aside_folder
from eredu.mlx.adapter import build_directory, cast_floats, is_quantized, quantise_as_mlx_lm, save_weights

COPIED = (
    "tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "*.tiktoken",
    "chat_template*", "additional_chat_templates", "generation_config.json", "LICENSE*", "NOTICE*",
)  # fmt: skip
"""Files and folders that belong to a model whatever its weights are stored as. Code is not among them."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """What a conversion left.

    Attributes:
        path: The new directory.
        trunk: How its trunk is stored, in words.
        heads: How its heads are.
        before: Acceptance before, or why it was not measured.
        after: Acceptance behind it, likewise.
        size_bytes: Of all tensors.
    """

    path: Path
    trunk: str
    heads: str
    before: Acceptance | str
    after: Acceptance | str
    size_bytes: int

    def to_json(self) -> dict[str, Any]:
        """The stable form."""
        probes = {"before": self.before, "after": self.after}
        shown = {name: {"not_measured": p} if isinstance(p, str) else p.to_json() for name, p in probes.items()}
        return {
            "path": str(self.path), "trunk": self.trunk, "heads": self.heads, "size_bytes": self.size_bytes,
            "acceptance": shown,
        }  # fmt: skip


def convert(
    name: str,
    output: Path,
    options: ConvertOptions,
    *,
    heads_from: str | None = None,
    probe: bool = True,
    command: str = "",
    versions: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Conversion:
    """Convert a checkpoint with its heads.

    Args:
        name: A directory, or a name, as in `load_target`.
        output: The directory to be made.
        options: How weights are stored.
        heads_from: The original of a trunk without heads: its directory, of which only the shards with heads must be
            there, or a directory of heads alone.
        probe: Whether acceptance is measured before and behind the conversion, for which the whole model is loaded.
        command: The command line, for the model card.
        versions: Versions, likewise.
        say: Told what is being done.

    Raises `CheckpointError`, `CapabilityError` or `OptionError` for what cannot be converted, and `OutputError` where
    the output is there already or cannot be written; nothing is left then.
    """
    source = open_source(name, heads_from, options)
    require_apart(source.trunk.path, output)
    unmeasured = "the conversion was told not to (--no-probe)"
    with aside_folder(output) as folder:
        if probe:
            say(f"probing {name}")
        before = measure(source.trunk, source.heads, dtype=options.dtype) if probe else unmeasured
        say("converting")
        with _told(output):
            settings, trunk_words, head_words = _write_weights(source, options, folder)
        write_json(folder / "config.json", converted_config(source, settings, options.dtype))
        _copy_files(source.trunk.path, folder)
        made = OpenedDirectory(folder)
        report = made.report()
        if not report.heads.capability.is_ready or report.not_loaded is not None:
            raise CheckpointError(f"the conversion does not load: {report.not_loaded or report.heads.reason}")
        if probe:
            say("probing the conversion")
        after = measure(made, made) if probe else unmeasured
        card = Card(
            name=output.name, source=name, heads_from=heads_from, command=command, versions=versions or {},
            trunk=trunk_words, heads=head_words, before=before, after=after,
        )  # fmt: skip
        write_text(folder / "README.md", card.text(kept_lines(source.trunk.path)))
    return Conversion(output, card.trunk, head_words, before, after, report.size_bytes)


def _write_weights(source: Source, options: ConvertOptions, folder: Path) -> tuple[dict[str, Any] | None, str, str]:
    """Write trunk and heads; return MLX's settings for both, and how each is stored, in words."""
    trunk = source.trunk
    model, config = build_directory(trunk, apart=trunk.head_names.__contains__, dtype=options.dtype)
    heads = load_heads(source.heads, model, dtype=options.dtype)
    for module in () if options.dtype is None else (model, *heads.modules):
        cast_floats(module, DTYPES[str(options.dtype)])
    settings: dict[str, Any] | None = config.get("quantization")
    if options.bits is not None:
        settings = quantise_as_mlx_lm(model, options.settings(options.bits))
        if not is_quantized(model):
            raise OptionError(f"no layer of the trunk has inputs that a group size of {options.group_size} divides")
    trunk_words = _words(settings, options)
    quantise_heads(heads, options)
    packed = packed_layers(heads)
    if packed:
        settings = settings or dict(next(iter(packed.values())))
        usual = {key: settings.get(key) for key in ("group_size", "bits", "mode")}
        settings |= {name: own for name, own in packed.items() if own != usual}
    write_heads(heads, folder)
    save_weights(model, folder)
    return settings, trunk_words, _words(next(iter(packed.values()), None), options)


@contextmanager
def _told(output: Path) -> Iterator[None]:
    """MLX's errors, of a full disk for one, as one that names the output."""
    try:
        yield
    except RuntimeError as error:
        raise OutputError(
            f"{output} cannot be written: {error}; free some room there, or name another place"
        ) from error


def _words(settings: Mapping[str, Any] | None, options: ConvertOptions) -> str:
    return mlx_words(settings) if settings is not None else options.dtype or "floats of the type that they had"


def _copy_files(source: Path, folder: Path) -> None:
    for pattern in COPIED:
        for path in sorted(source.glob(pattern)):
            if path.is_dir():
                shutil.copytree(path, folder / path.name)
            else:
                shutil.copyfile(path, folder / path.name)
