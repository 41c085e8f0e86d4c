"""Heads in the shards of an original, of which the others need not be there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from eredu.checkpoints.directory import OpenedDirectory
from eredu.checkpoints.head_files import published_names
from eredu.checkpoints.safetensors_header import SafetensorsHeader, read_safetensors_header
from eredu.checkpoints.tensors import StoredTensor
from eredu.checkpoints.weight_files import INDEX_NAME, read_weight_map
from eredu.contract.errors import CheckpointError


@dataclass(frozen=True)
class OpenedHeadShards(OpenedDirectory):
    """An original as a directory of its heads: config.json, the index, and the shards that hold a tensor of a head.

    Whoever wants the heads of a model of 400 GB fetches the one or two files that its index names for them.
    """

    @cached_property
    def trunk(self) -> tuple[SafetensorsHeader, ...]:
        """Headers of the shards that hold a tensor of a head; of all files where there is no index."""
        index = self.path / INDEX_NAME
        claim = self.head_claim
        if claim is None or not index.is_file():
            return super().trunk
        places = read_weight_map(index)
        named = published_names(places, claim)
        files = sorted({places[name] for name in named})
        missing = [file for file in files if not (self.path / file).is_file()]
        if missing:
            raise CheckpointError(
                f"{self.path} lacks {missing[0]}, one of the {len(files)} shards in which its index has the heads "
                f"({', '.join(files[:4])}): fetch them"
            )
        return tuple(read_safetensors_header(self.path / file) for file in files)

    @cached_property
    def _decoder_tensors(self) -> tuple[StoredTensor, ...]:
        """None: they are not what is asked for, and some of them may be elsewhere."""
        return ()
