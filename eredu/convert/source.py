"""What is converted: a trunk, and its heads, its own or out of the original's shards."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eredu.checkpoints.directory import OpenedDirectory
from eredu.checkpoints.head_shards import OpenedHeadShards
from eredu.checkpoints.opening import open_named, require_same_width
from eredu.contract.errors import CheckpointError, OptionError
from eredu.convert.options import ConvertOptions


@dataclass(frozen=True)
class Source:
    """A trunk and heads that belong together.

    Attributes:
        trunk: The checkpoint that is converted.
        heads: Where its heads lie: the same, or the original that it was made of.
    """

    trunk: OpenedDirectory
    heads: OpenedDirectory

    @property
    def is_joined(self) -> bool:
        """Whether the heads come from elsewhere."""
        return self.heads is not self.trunk


def open_source(name: str, heads_from: str | None, options: ConvertOptions) -> Source:
    """Open a checkpoint by name or path, and where its heads lie.

    Raises `CheckpointError` where there are no heads, or those of another model, `CapabilityError` for weights that
    eredu does not read, `OptionError` for a trunk that is quantised already.
    """
    trunk = _open_trunk(name)
    if options.bits is not None and trunk.quantisation is not None and trunk.quantisation.by_mlx is not None:
        raise OptionError(
            f"--bits {options.bits} was given, and {trunk.path} is quantised already ({trunk.quantisation.words}); "
            "leave --bits out to keep it as it is, or convert the original"
        )
    own = trunk.heads
    if heads_from is None:
        if not own.capability.is_ready:
            raise CheckpointError(
                f"{trunk.path} has no heads to keep: {own.reason}. Give its original with --heads-from, or convert "
                "it with mlx_lm.convert"
            )
        return Source(trunk, trunk)
    if own.tensors:
        raise OptionError(f"--heads-from {heads_from} was given, and {trunk.path} has {own.tensors} tensors of heads")
    heads = _open_heads(heads_from)
    _require_one_model(trunk, heads)
    if not heads.heads.capability.is_ready:
        raise CheckpointError(f"{heads.path} has no heads to add: {heads.heads.reason}")
    return Source(trunk, heads)


def _open_trunk(name: str) -> OpenedDirectory:
    opened = open_named(name)
    if not isinstance(opened, OpenedDirectory):
        raise CheckpointError(f"{opened.path} is a GGUF; a conversion begins with a directory of SafeTensors")
    if opened.config.holds_heads_alone:
        raise CheckpointError(
            f"{opened.path} holds heads alone; convert their target, and name this directory with --heads-from"
        )
    opened.require_assumed()
    opened.check()
    return opened


def _open_heads(name: str) -> OpenedDirectory:
    opened = open_named(name)
    if not isinstance(opened, OpenedDirectory):
        raise CheckpointError(f"{opened.path} is a GGUF, which holds no heads that eredu reads")
    if not opened.config.holds_heads_alone:
        return OpenedHeadShards(opened.path)
    if opened.family is not None and opened.family.heads is not None and not opened.family.heads.inside:
        raise CheckpointError(
            f"{opened.path} holds heads of {opened.architecture}, which stay in a directory of their own: name it with "
            "--head where you generate"
        )
    return opened


def _require_one_model(trunk: OpenedDirectory, heads: OpenedDirectory) -> None:
    """Raise `CheckpointError` for heads of another family, width, vocabulary or depth."""
    ours, theirs = (None if each.family is None else each.family.folder for each in (trunk, heads))
    if ours != theirs:
        raise CheckpointError(
            f"{heads.path} holds heads of {heads.architecture}, and {trunk.path} is a {trunk.architecture}; give the "
            "original that this trunk was made of"
        )
    require_same_width(trunk, heads)
    if heads.config.holds_heads_alone:
        return
    for what, own, other in (
        ("a vocabulary of {} rows", trunk.vocabulary_rows, heads.vocabulary_rows),
        ("{} layers", trunk.config.layers, heads.config.layers),
    ):
        if own != other:
            raise CheckpointError(
                f"{heads.path} is of a model with {what.format(other)}, and {trunk.path} has {what.format(own)}; give "
                "the original that this trunk was made of"
            )


def require_apart(trunk: Path, output: Path) -> None:
    """Raise `OptionError` for an output inside the checkpoint: its head file would be taken for the checkpoint's."""
    if trunk.resolve() in output.expanduser().absolute().resolve().parents:
        raise OptionError(f"{output} lies inside {trunk}, whose heads it would be taken for; name another place")
