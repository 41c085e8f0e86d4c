"""`eredu convert`: heads are kept, mlx-lm loads the trunk, and nothing half made is left."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.utils import load_model

from eredu.checkpoints.directory import OpenedDirectory
from eredu.checkpoints.names import shipped_path
from eredu.commands.main import main
from eredu.contract.errors import CapabilityError, CheckpointError, OptionError, OutputError
from eredu.convert.convert import convert
from eredu.convert.options import ConvertOptions
from eredu.engine.alignment import FollowedRows, TargetRows, follow
from eredu.engine.checkpoint import LoadedCheckpoint, load_checkpoint
from eredu.mlx.models import FittedModel
from eredu_conformance.zoo import MEMBERS, HeadPlace, Parts, zoo_member
from eredu_conformance.zoo.converting import Conversion, write_converted
from eredu_conformance.zoo.quantising import Affine
from eredu_conformance.zoo.storing import Precision

WITH_HEADS = [name for name in MEMBERS if zoo_member(name).heads]
ORDINARY = ("qwen3.5", "qwen3.5-moe", "nemotron-h", "deepseek-v3", "ernie-4.5")
"""Members that are converted in every run: each form of experts, of norms and of heads' names."""
EACH = [name if name in ORDINARY else pytest.param(name, marks=pytest.mark.nightly) for name in WITH_HEADS]
PLAIN, GROUPS = ConvertOptions(), 32
EIGHT = ConvertOptions(bits=8, head_bits=8, group_size=GROUPS)
HELD_OUT = Path(__file__).parents[1] / "shipped" / "held_out_chats.npz"
TEXT = [(5 * i * i + 3 * i + 2) % 64 for i in range(400)]


def rows_of(checkpoint: LoadedCheckpoint, text: list[int] = TEXT) -> TargetRows:
    target = FittedModel(checkpoint.model, checkpoint.vocabulary_size, 4096, recurrences=checkpoint.recurrences)
    return TargetRows.read(target, text)


def load(directory: Path, **options: Any) -> LoadedCheckpoint:
    return load_checkpoint(directory, tokenizer=None, **options)


def both(directory: Path, **options: Any) -> tuple[np.ndarray[Any, Any], FollowedRows]:
    """The target's logits, and how its heads follow."""
    checkpoint = load(directory, **options)
    rows = rows_of(checkpoint)
    assert checkpoint.heads is not None
    return np.array(rows.logits), follow(checkpoint.heads, rows, 1)[0]


def dropped_by_mlx_lm(directory: Path) -> bool:
    """Whether mlx-lm leaves tensors aside that the decoder needs, so that it is another model there."""
    family = OpenedDirectory(directory).family
    return family is not None and bool(family.dropped)


@pytest.mark.parametrize("name", [*EACH, "qwen3.5+text-only", "nemotron-h+two-heads"])
def test_a_conversion_without_quantising_is_the_same_model_here_and_in_mlx_lm(name: str, tmp_path: Path) -> None:
    source = zoo_member(name).write(tmp_path / "source", parts=Parts.SHARDED)
    made = convert(str(source), tmp_path / "made", PLAIN, probe=False)
    (logits, followed), (due, due_followed) = both(made.path), both(source)
    np.testing.assert_array_equal(logits, due)
    np.testing.assert_array_equal(followed.accept, due_followed.accept)
    if not dropped_by_mlx_lm(made.path):
        theirs: Any = load_model(made.path, strict=True)[0]
        np.testing.assert_allclose(np.array(theirs(mx.array([TEXT[:32]])))[0], due[:32], atol=1e-4 * np.abs(due).max())
    index = json.loads((made.path / "model.safetensors.index.json").read_text())
    opened = OpenedDirectory(made.path)
    assert set(index["weight_map"]) == {tensor.name for header in opened.trunk for tensor in header.tensors}
    assert {tensor.file for tensor in opened.tensors if tensor.name in opened.head_names} == {"mtp.safetensors"}
    assert (made.path / "tokenizer.json").read_bytes() == (source / "tokenizer.json").read_bytes()
    assert {"mtp.safetensors", "README.md", "config.json", "tokenizer_config.json"} <= {
        p.name for p in made.path.iterdir()
    }


@pytest.mark.parametrize("name", EACH)
def test_a_quantised_conversion_is_what_its_config_says(name: str, tmp_path: Path) -> None:
    source = zoo_member(name).write(tmp_path / "source")
    made = convert(str(source), tmp_path / "made", replace(EIGHT, bits=4), probe=False)
    opened = OpenedDirectory(made.path)
    report = opened.report()
    assert report.quantization is not None
    assert report.quantization.startswith("affine, 4 bits, groups of 32; some layers")
    heads = {tensor.name for tensor in opened.tensors if tensor.file == "mtp.safetensors"}
    assert {n for n in heads if n.endswith(".scales")}
    for scales in (tensor for tensor in opened.tensors if tensor.name.endswith(".scales")):
        settings = opened.config.get("quantization")
        layer = scales.name.removesuffix(".scales")
        own = settings.get(layer, settings)
        weight = next(tensor for tensor in opened.tensors if tensor.name == f"{layer}.weight")
        assert weight.shape[-1] * 32 == scales.shape[-1] * own["group_size"] * own["bits"], layer
    loaded = load(made.path)
    assert loaded.quantized
    if dropped_by_mlx_lm(made.path):
        return
    theirs: Any = load_model(made.path, strict=True)[0]
    mine = np.array(rows_of(loaded, TEXT[:32]).logits)
    np.testing.assert_allclose(np.array(theirs(mx.array([TEXT[:32]])))[0], mine, atol=1e-3 * np.abs(mine).max())


def test_fp8_is_converted_by_its_values(tmp_path: Path) -> None:
    member = zoo_member("qwen3.5")
    source = member.write(tmp_path / "source", precision=Precision.FP8)
    made = convert(str(source), tmp_path / "made", ConvertOptions(dtype="float32"), probe=False)
    config = json.loads((made.path / "config.json").read_text())
    assert "quantization_config" not in config
    assert config["text_config"]["dtype"] == "float32"
    logits, followed = both(made.path)
    due, due_followed = both(member.rounded(Precision.FP8).write(tmp_path / "due"))
    np.testing.assert_allclose(logits, due, atol=1e-4 * np.abs(due).max())
    np.testing.assert_allclose(followed.accept, due_followed.accept, atol=1e-4)


# ---- heads that a conversion dropped ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "head_bits"), [*((name, None) for name in ORDINARY), ("deepseek-v3", 8), ("qwen3-next", 8)]
)
def test_heads_out_of_the_originals_shards_join_a_trunk_that_lost_them(
    name: str, head_bits: int | None, tmp_path: Path
) -> None:
    member = zoo_member(name)
    original = member.write(tmp_path / "original", parts=Parts.HEAD_APART)
    dropped = Conversion(default=Affine(4), head=HeadPlace.DROPPED)
    trunk = write_converted(member, tmp_path / "trunk", dropped)
    config = json.loads((trunk / "config.json").read_text())
    for level in (config, config.get("text_config", {})):  # as some converters do
        for key in [key for key in level if key.startswith("mtp") or key == "num_nextn_predict_layers"]:
            del level[key]
    (trunk / "config.json").write_text(json.dumps(config))
    shards = sorted(original.glob("model-*.safetensors"))
    shards[0].unlink()  # of which nobody needs more than what holds the heads
    options = ConvertOptions(head_bits=head_bits, group_size=GROUPS)
    made = convert(str(trunk), tmp_path / "made", options, heads_from=str(original), probe=False)
    assert (made.path / "model.safetensors").stat().st_size > 0
    joined = load(made.path)
    np.testing.assert_array_equal(
        np.array(rows_of(joined, TEXT[:32]).logits), np.array(rows_of(load(trunk), TEXT[:32]).logits)
    )
    beside = load(trunk, head=member.write(tmp_path / "whole"))
    assert beside.heads is not None
    assert joined.heads is not None
    one, other = (follow(each.heads, rows_of(each), 1)[0].accept for each in (joined, beside) if each.heads)
    np.testing.assert_allclose(one, other, atol=1e-6 if head_bits is None else 0.2)


def test_heads_may_come_out_of_shards_in_fp8(tmp_path: Path) -> None:
    member = zoo_member("qwen3-next")
    original = member.write(tmp_path / "original", parts=Parts.HEAD_APART, precision=Precision.FP8)
    sorted(original.glob("model-*.safetensors"))[0].unlink()
    trunk = write_converted(member, tmp_path / "trunk", Conversion(head=HeadPlace.DROPPED))
    options = ConvertOptions(dtype="float32")
    made = convert(str(trunk), tmp_path / "made", options, heads_from=str(original), probe=False)
    due = load(trunk, head=member.rounded(Precision.FP8).write(tmp_path / "due"))
    assert due.heads is not None
    found = follow(due.heads, rows_of(due), 1)[0].accept
    np.testing.assert_allclose(both(made.path)[1].accept, found, atol=1e-6)


def _trunk(tmp_path: Path, name: str = "qwen3.5") -> Path:
    return write_converted(zoo_member(name), tmp_path / "trunk", Conversion(head=HeadPlace.DROPPED))


def test_heads_of_another_model_are_refused_with_both_values(tmp_path: Path) -> None:
    trunk = _trunk(tmp_path)

    def refused(original: Path, words: str) -> None:
        with pytest.raises(CheckpointError, match=words):
            convert(str(trunk), tmp_path / "made", PLAIN, heads_from=str(original), probe=False)
        assert not (tmp_path / "made").exists()

    refused(zoo_member("deepseek-v3").write(tmp_path / "other"), "deepseek_v3.*qwen3_5")
    for key, words in (
        ("hidden_size", "32 numbers.* 64"),
        ("vocab_size", "32 rows.*64 rows"),
        ("num_hidden_layers", "32 layers.*4 layers"),
    ):
        original = zoo_member("qwen3.5").write(tmp_path / key)
        config = json.loads((original / "config.json").read_text())
        config["text_config"][key] = 32
        (original / "config.json").write_text(json.dumps(config))
        refused(original, words)
    whole = zoo_member("qwen3.5").write(tmp_path / "sharded", parts=Parts.HEAD_APART)
    sorted(whole.glob("model-*.safetensors"))[-1].unlink()
    refused(whole, "lacks model-00002.*fetch")
    refused(_trunk(tmp_path / "again"), "no heads to add")


# ---- what cannot be converted ----------------------------------------------------------------------------------------


def test_what_cannot_be_converted_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    source = zoo_member("qwen3.5").write(tmp_path / "source")
    trunk = _trunk(tmp_path)
    packed = write_converted(zoo_member("qwen3.5"), tmp_path / "packed", Conversion(default=Affine(4)))
    cases: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (OptionError, "bits was 7; expected one of 2, 3, 4, 5, 6, 8", lambda: ConvertOptions(bits=7)),
        (OptionError, "head bits was 16", lambda: ConvertOptions(head_bits=16)),
        (OptionError, "group size was 48", lambda: ConvertOptions(group_size=48)),
        (OptionError, "dtype was 'int8'", lambda: ConvertOptions(dtype="int8")),
        (CheckpointError, "no heads to keep.*--heads-from", lambda: run(trunk)),
        (OptionError, "--bits 4.*quantised already.*4 bits", lambda: run(packed, ConvertOptions(bits=4))),
        (OptionError, "--head-bits 4.*quantised already", lambda: run(packed, ConvertOptions(head_bits=4))),
        (OptionError, "has 15 tensors of heads", lambda: run(source, heads_from=str(source))),
        (OptionError, "group size of 128 divides", lambda: run(source, ConvertOptions(head_bits=4, group_size=128))),
        (OptionError, "lies inside", lambda: run(source, output=source / "made")),
        (OutputError, "is there already", lambda: run(source, output=trunk)),
        (CheckpointError, "neither a path", lambda: run(tmp_path / "nowhere")),
    ]

    def run(place: Path, options: ConvertOptions = PLAIN, *, output: Path = tmp_path / "made", **more: Any) -> object:
        return convert(str(place), output, options, probe=False, **more)

    before = sorted(path.name for path in tmp_path.iterdir())
    for kind, words, call in cases:
        with pytest.raises(kind, match=words):
            call()
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_weights_that_eredu_does_not_read_are_named(tmp_path: Path) -> None:
    source = zoo_member("qwen3.5").write(tmp_path / "source")
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "awq"}}))
    with pytest.raises(CapabilityError, match="quantised by awq"):
        convert(str(source), tmp_path / "made", PLAIN)


@pytest.fixture
def little_room() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_nothing(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    source = zoo_member("qwen3.5").write(tmp_path / "source")
    request.getfixturevalue("little_room")
    with pytest.raises(OutputError, match="made"):
        convert(str(source), tmp_path / "made", PLAIN, probe=False)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_signal_leaves_nothing(tmp_path: Path) -> None:
    words = ["convert", "tiny-qwen3.5", "-o", str(tmp_path / "made"), "--bits", "4"]
    code = f"import sys; sys.argv[1:] = {words!r}; from eredu.commands.entry import run; run()"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "probing" in process.stderr.readline()
        assert [path.name.startswith(".made.partial") for path in tmp_path.iterdir()] == [True]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
        assert process.stderr.read() == ""
    assert list(tmp_path.iterdir()) == []


# ---- acceptance ------------------------------------------------------------------------------------------------------

FALSE_FAIL = 3.9
"""Standard errors, two-sided: a conversion that changes nothing fails one comparison in 10,000."""
RESOLVED = 0.1
"""Change of acceptance that a comparison finds at least one time of two, and the controls pass by far."""
ALIKE = 0.8
"""Correlation of the rows' acceptances: 0.90 was seen behind eight bits, and 0.67 behind norms that are off by one."""
STRETCH = 16
"""Tokens that are counted as one: those of one sentence are alike."""


def stretches(directory: Path) -> np.ndarray[Any, Any]:
    """Mean acceptance of the first three proposals in each stretch of held-out chats, shape (stretches, 3)."""
    with np.load(HELD_OUT) as arrays:
        tokens, prompts, lengths = (arrays[f"{name}_1.0"] for name in ("tokens", "plen", "tlen"))
    checkpoint = load(directory, dtype="quantized-float32")
    assert checkpoint.heads is not None
    target = FittedModel(checkpoint.model, checkpoint.vocabulary_size, 4096, recurrences=checkpoint.recurrences)
    found = []
    for end, length, prompt in zip(np.cumsum(lengths.astype(int)), lengths, prompts, strict=True):
        rows = TargetRows.read(target, tokens[end - int(length) : end].tolist(), int(prompt))
        accept = np.stack([each.accept for each in follow(checkpoint.heads, rows, 3)], axis=1)
        whole = accept[: len(accept) // STRETCH * STRETCH]
        found.append(whole.reshape(-1, STRETCH, 3).mean(axis=1))
    return np.concatenate(found)


def require_kept(before: np.ndarray[Any, Any], after: np.ndarray[Any, Any]) -> None:
    """Whether two samples of acceptances, a row each of which stands for itself, are of one mean."""
    error = np.sqrt((before.var(axis=0, ddof=1) + after.var(axis=0, ddof=1)) / len(before))
    assert (FALSE_FAIL * error < RESOLVED).all(), error
    assert (np.abs(before.mean(axis=0) - after.mean(axis=0)) < FALSE_FAIL * error).all()


def require_alike(before: np.ndarray[Any, Any], after: np.ndarray[Any, Any]) -> None:
    """Whether rows that are accepted more often than others still are."""
    assert np.corrcoef(before[:, 0], after[:, 0])[0, 1] > ALIKE


def shift_norms(directory: Path) -> None:
    """The control: norms of the heads that are higher by one, as if they had been shifted again."""
    path = directory / "mtp.safetensors"
    heads = mx.load(str(path))
    assert isinstance(heads, dict)
    heads = {name: array + 1 if "norm" in name and array.ndim == 1 else array for name, array in heads.items()}
    mx.save_safetensors(str(path), heads, {"format": "mlx"})


@pytest.mark.nightly  # the command's test below compares one of them in the ordinary run
@pytest.mark.parametrize("name", ["tiny-deepseek-v3", "tiny-qwen3.5"])
def test_eight_bits_keep_the_acceptance_of_trained_heads_within_sampling_error(name: str, tmp_path: Path) -> None:
    made = convert(name, tmp_path / "made", ConvertOptions(bits=8, head_bits=8, dtype="float32"), probe=False)
    before = stretches(shipped_path(name))
    require_kept(before, stretches(made.path))
    shift_norms(made.path)
    with pytest.raises(AssertionError):
        require_kept(before, stretches(made.path))


@pytest.mark.parametrize(
    "name",
    [name if name == "qwen3.5" else pytest.param(name, marks=pytest.mark.nightly) for name in WITH_HEADS],
)
def test_eight_bits_keep_the_acceptance_of_every_family_within_sampling_error(name: str, tmp_path: Path) -> None:
    """Heads of random weights overlap with their target by chance; how much, every layer of theirs decides.

    Where the target's norm stands behind the head, its mean overlap is the target's sharpness: rows are compared.
    """
    source = zoo_member(name).write(tmp_path / "source")
    made = convert(str(source), tmp_path / "made", EIGHT, probe=False)
    before = both(source)[1].accept[:, None]
    compare = require_alike if name == "ernie-4.5" else require_kept
    compare(before, both(made.path)[1].accept[:, None])
    shift_norms(made.path)
    with pytest.raises(AssertionError):
        compare(before, both(made.path)[1].accept[:, None])


def test_the_command_measures_before_and_behind_and_writes_it_into_the_card(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "made"
    status = main(
        [
            "convert",
            "tiny-qwen3.5",
            "-o",
            str(output),
            "--bits",
            "8",
            "--head-bits",
            "8",
            "--dtype",
            "float32",
            "--json",
        ]
    )
    printed = capsys.readouterr()
    assert status == 0, printed.err
    found = json.loads(printed.out)
    assert found["path"] == str(output)
    card = (output / "README.md").read_text()
    assert f"eredu convert tiny-qwen3.5 -o {output} --bits 8 --head-bits 8 --dtype float32\n" in card
    assert "license: apache-2.0\n" in card
    assert "mlx-lm 0." in card
    before, after = (found["acceptance"][name]["by_depth"] for name in ("before", "after"))
    assert len(before) == len(after) == 3
    for depth, (one, other) in enumerate(zip(before, after, strict=True), 1):
        row = f"| {depth} | {one['accept']:.3f} ± {one['standard_error']:.3f} | {other['accept']:.3f} ± "
        assert row in card
        error = np.hypot(one["standard_error"], other["standard_error"])
        assert abs(one["accept"] - other["accept"]) < FALSE_FAIL * error
    assert before[0]["accept"] > 0.5
    again = main(["convert", "tiny-qwen3.5", "-o", str(output), "--bits", "8"])
    assert again == 2
    assert "is there already" in capsys.readouterr().err
