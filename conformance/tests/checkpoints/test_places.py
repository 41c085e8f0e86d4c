"""One fact, many places: layouts that are in use lead to one answer or one refusal, in inspection and in loading."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from eredu.checkpoints.agreement import TIED
from eredu.checkpoints.opening import open_checkpoint
from eredu.commands.inspect import inspect_named
from eredu.contract.errors import CheckpointError, EreduError
from eredu.engine.load import load_target
from eredu.families.filling import parameters_of
from eredu_conformance.harness.places import PLACES, table
from eredu_conformance.zoo import MEMBERS, ZooMember, write_converted, write_head, zoo_member
from eredu_validation.measures.subject import content_digest

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
WITH_HEADS = ("qwen3.5", "qwen3-next", "deepseek-v3", "nemotron-h")
OTHERS = [name for name in MEMBERS if zoo_member(name).heads and name not in WITH_HEADS]
"""Laid out likewise in the nightly run."""


@pytest.fixture(
    scope="module", params=[*WITH_HEADS, *(pytest.param(name, marks=pytest.mark.nightly) for name in OTHERS)]
)
def member(request: pytest.FixtureRequest) -> ZooMember:
    return zoo_member(request.param)


@pytest.fixture(scope="module")
def published(member: ZooMember, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return member.write(tmp_path_factory.mktemp("published"))


Answer = tuple[Any, mx.array, dict[str, mx.array]]


def answer(directory: Path, **options: Any) -> Answer:
    """Capability, logits and head weights of a checkpoint as it is loaded."""
    backend = load_target(directory, settle=False, **options).backend
    heads = backend.target.heads
    weights = {} if heads is None else {n: a for module in heads.modules for n, a in parameters_of(module).items()}
    return backend.mtp_capability(None), backend.target_model.model(mx.array([[3, 1, 4]])), weights


@pytest.fixture(scope="module")
def expected(published: Path) -> Answer:
    return answer(published)


def split(published: Path, directory: Path, head: Callable[[str], bool]) -> dict[str, mx.array]:
    """Copy a checkpoint without its head, indexed; return the head's tensors."""
    shutil.copytree(published, directory)
    tensors = mx.load(str(directory / WEIGHTS))
    assert isinstance(tensors, dict)
    trunk = {name: array for name, array in tensors.items() if not head(name)}
    (directory / WEIGHTS).unlink()
    mx.save_safetensors(str(directory / WEIGHTS), trunk, {"format": "pt"})
    write_index(directory, trunk)
    return {name: array for name, array in tensors.items() if head(name)}


def write_index(directory: Path, names: Any) -> None:
    (directory / INDEX).write_text(json.dumps({"weight_map": dict.fromkeys(names, WEIGHTS)}))


LAYOUTS: dict[str, Callable[[str], str]] = {
    "mtp.safetensors": lambda name: name,
    "model-mtp.safetensors": lambda name: name,
    "optiq/mtp.safetensors": lambda name: name,
    "mtp/weights.safetensors": lambda name: f"language_model.{name}",
    "head.safetensors": lambda name: f"language_model.{name.removeprefix('model.')}",
}


@pytest.mark.parametrize("file", LAYOUTS)
@pytest.mark.parametrize("indexed", [True, False])
def test_heads_that_no_index_lists_are_found(
    member: ZooMember, published: Path, expected: Answer, file: str, indexed: bool, tmp_path: Path
) -> None:
    head = split(published, tmp_path / "made", member.head.__contains__)
    if not indexed:
        (tmp_path / "made" / INDEX).unlink()
    path = tmp_path / "made" / file
    path.parent.mkdir(exist_ok=True)
    renamed = {LAYOUTS[file](name): array for name, array in head.items()}
    mx.save_safetensors(str(path), renamed, {"format": "mlx" if file.startswith("optiq") else "pt"})
    report, digest = open_checkpoint(tmp_path / "made").report(), content_digest(tmp_path / "made")
    assert report.to_json()["files"] == sorted([WEIGHTS, file])
    found = answer(tmp_path / "made")
    assert found[0] == expected[0] == report.heads.capability
    assert found[0].is_ready
    assert mx.array_equal(found[1], expected[1])
    assert found[2].keys() == expected[2].keys()
    assert all(mx.array_equal(array, expected[2][name]) for name, array in found[2].items())
    mx.save_safetensors(str(path), {name: array * 2 for name, array in renamed.items()}, {"format": "pt"})
    assert content_digest(tmp_path / "made") != digest


def test_a_head_in_a_folder_inside_is_found_without_its_prefix(tmp_path: Path) -> None:
    """A converted trunk whose claim outlived its head, and the folder of heads alone laid into it."""
    member = zoo_member("qwen3.5")
    directory = split(member.write(tmp_path / "p"), tmp_path / "made", member.head.__contains__)
    write_head(member, tmp_path / "made" / "mtp")
    found, apart = answer(tmp_path / "made"), answer(tmp_path / "made", head=tmp_path / "made" / "mtp")
    assert directory.keys() == member.head.keys()
    assert found[0].is_ready
    assert all(mx.array_equal(array, apart[2][name]) for name, array in found[2].items())


@pytest.mark.parametrize("file", [WEIGHTS, "mtp.safetensors"])
def test_the_heads_of_a_publisher_in_a_folder_of_their_own(
    member: ZooMember, published: Path, expected: Answer, file: str, tmp_path: Path
) -> None:
    """The original's config and its tensors of heads, given to a trunk that dropped them."""
    head = split(published, tmp_path / "trunk", member.head.__contains__)
    (tmp_path / "head").mkdir()
    shutil.copy(published / "config.json", tmp_path / "head")
    mx.save_safetensors(str(tmp_path / "head" / file), head, {"format": "pt"})
    assert open_checkpoint(tmp_path / "head").report().heads.capability.is_ready
    found = answer(tmp_path / "trunk", head=tmp_path / "head")
    assert found[0] == expected[0]
    assert all(mx.array_equal(array, expected[2][name]) for name, array in found[2].items())


def test_a_stray_file_beside_an_index_is_not_loaded(
    member: ZooMember, published: Path, expected: Answer, tmp_path: Path
) -> None:
    shutil.copytree(published, tmp_path / "made")
    tensors = mx.load(str(tmp_path / "made" / WEIGHTS))
    assert isinstance(tensors, dict)
    write_index(tmp_path / "made", tensors)
    stray = {name: array * 2 for name, array in tensors.items() if name not in member.head}
    stray["model.stray.weight"] = mx.zeros(4)
    mx.save_safetensors(str(tmp_path / "made" / "model-b.safetensors"), stray, {"format": "pt"})
    found, digest = answer(tmp_path / "made"), content_digest(tmp_path / "made")
    (tmp_path / "made" / "model-b.safetensors").write_bytes(b"no header")
    assert content_digest(tmp_path / "made") == digest
    assert open_checkpoint(tmp_path / "made").report().to_json()["files"] == [WEIGHTS]
    assert found[0] == expected[0]
    assert mx.array_equal(found[1], expected[1])


def test_a_file_with_more_than_a_head_is_no_head(member: ZooMember, published: Path, tmp_path: Path) -> None:
    head = split(published, tmp_path / "made", member.head.__contains__)
    strange = {**head, "model.norm.weight": mx.zeros(4)}
    mx.save_safetensors(str(tmp_path / "made" / "other.safetensors"), strange, {"format": "pt"})
    report = open_checkpoint(tmp_path / "made").report()
    assert (report.heads.tensors, report.to_json()["files"]) == (0, [WEIGHTS])
    assert not answer(tmp_path / "made")[2]


def test_a_head_that_lies_there_twice_is_refused(member: ZooMember, published: Path, tmp_path: Path) -> None:
    head = split(published, tmp_path / "made", member.head.__contains__)
    for file in ("mtp.safetensors", "head.safetensors"):
        mx.save_safetensors(str(tmp_path / "made" / file), head, {"format": "pt"})
    assert refusal(tmp_path / "made").endswith("remove one of them, or name a directory of heads with --head")


def test_files_of_any_name_that_an_index_names(published: Path, expected: Answer, tmp_path: Path) -> None:
    shutil.copytree(published, tmp_path / "made")
    (tmp_path / "made" / WEIGHTS).rename(tmp_path / "made" / "weights.safetensors")
    names = mx.load(str(tmp_path / "made" / "weights.safetensors"))
    assert isinstance(names, dict)
    weight_map = dict.fromkeys(names, "weights.safetensors")
    (tmp_path / "made" / INDEX).write_text(json.dumps({"weight_map": weight_map}))
    assert mx.array_equal(answer(tmp_path / "made")[1], expected[1])


# ---- config and tensors ------------------------------------------------------------------------------------------


def refusal(directory: Path) -> str:
    """What inspection and loading say of a checkpoint, which must be the same."""
    said = set()
    for read in (lambda path: open_checkpoint(path).report(), load_target):
        with pytest.raises(EreduError) as raised:
            read(directory)
        said.add(str(raised.value))
    assert len(said) == 1, said
    return said.pop()


def changed(directory: Path, **changes: Any) -> Path:
    """Change keys on the decoder's level of a config.json."""
    path = directory / "config.json"
    config = json.loads(path.read_text())
    config.get("text_config", config).update(changes)
    path.write_text(json.dumps(config))
    return directory


@pytest.mark.parametrize(
    "changes",
    [
        {"num_hidden_layers": 1},
        {"num_hidden_layers": 9},
        {"num_hidden_layers": 10_000},
        {"num_hidden_layers": 2**31 - 1},
        {"num_hidden_layers": 1e38},
        {"num_hidden_layers": 0.5},
        {"num_hidden_layers": ""},
        {"num_hidden_layers": []},
        {"hidden_size": 32},
        {"vocab_size": 65},
        {"num_attention_heads": 3},
        {"num_key_value_heads": 3},
        {"num_key_value_heads": float("nan")},
        {"head_dim": 8},
        {"intermediate_size": -1},
        {"rms_norm_eps": float("nan")},
        {"rms_norm_eps": "1e-6"},
        {"rope_parameters": {"rope_theta": float("nan")}},
        {TIED: "yes"},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["llama", "qwen3.5", "qwen3-next"])
def test_configs_that_are_not_of_the_tensors_are_refused(name: str, changes: dict[str, Any], tmp_path: Path) -> None:
    message = refusal(changed(zoo_member(name).write(tmp_path), **changes))
    assert message.startswith(f"{tmp_path / 'config.json'} gives ")
    assert next(iter(changes)) in message
    assert len(message) < 400


@pytest.mark.parametrize(
    "changes",
    [
        {"intermediate_size": 10_000},
        {"attention_bias": True},
        {"linear_num_key_heads": 3},
        {"rope_parameters": "none"},
        {"rms_norm_eps": None},
    ],
    ids=str,
)
def test_inspection_says_that_it_does_not_load_in_the_words_of_loading(changes: dict[str, Any], tmp_path: Path) -> None:
    """What only the family's class can find: it is built, with its weights unread."""
    directory = changed(zoo_member("qwen3.5").write(tmp_path), **changes)
    with pytest.raises(EreduError) as raised:
        load_target(directory)
    assert inspect_named(str(directory)).not_loaded == str(raised.value)


def test_a_family_that_is_not_known_is_refused(tmp_path: Path) -> None:
    directory = zoo_member("llama").write(tmp_path)
    changed(directory, model_type="no_such")
    assert "whose caches eredu does not know" in refusal(directory)


def test_an_untied_output_that_is_missing_is_refused(tmp_path: Path) -> None:
    directory = changed(zoo_member("qwen3.5+tied").write(tmp_path), **{TIED: False})
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, TIED: None}))
    assert "lm_head.weight" in refusal(directory)


@pytest.mark.parametrize("name", ["qwen3.5", "qwen3.5+tied"])
def test_tying_that_the_config_does_not_say_is_what_the_tensors_show(name: str, tmp_path: Path) -> None:
    """Silent, or one level against the other."""
    directory = zoo_member(name).write(tmp_path)
    tied, logits = name.endswith("tied"), answer(directory)[1]
    for top, text in ((None, None), (True, False), (False, True)):
        changed(directory, **{TIED: text})
        config = json.loads((directory / "config.json").read_text())
        (directory / "config.json").write_text(json.dumps({**config, TIED: top}))
        assert open_checkpoint(directory).report().tied_embeddings is tied
        assert mx.array_equal(answer(directory)[1], logits)


def test_a_key_means_the_same_on_either_level(tmp_path: Path) -> None:
    """Every key of a nested config moved to the top, one by one; and contradicted there, where the decoder's counts."""
    directory = zoo_member("qwen3.5").write(tmp_path)
    original = json.loads((directory / "config.json").read_text())
    report = open_checkpoint(directory).report()
    merged = open_checkpoint(directory).decoder_config  # type: ignore[union-attr]
    for key in original["text_config"].keys() - {"model_type", "dtype"}:
        value = original["text_config"][key]
        nested = {name: other for name, other in original["text_config"].items() if name != key}
        for config in ({**original, "text_config": nested, key: value}, {**original, key: None}):
            (directory / "config.json").write_text(json.dumps(config))
            opened = open_checkpoint(directory)
            assert opened.report() == report, key
            assert opened.decoder_config == merged, key  # type: ignore[union-attr]
    shown = {**original, "num_hidden_layers": 7, "vocab_size": 3, "mtp_num_hidden_layers": 0}
    (directory / "config.json").write_text(json.dumps(shown))
    assert open_checkpoint(directory).report() == report


@pytest.mark.parametrize("key", ["layers_block_type", "layer_types"])
def test_layers_that_are_listed_by_name_alone(key: str, tmp_path: Path) -> None:
    """As Transformers writes them: no count of layers, under one key or the other."""
    member = zoo_member("nemotron-h+listed-layers")
    config = {name: value for name, value in member.config.items() if name != "num_hidden_layers"}
    config[key] = config.pop("layers_block_type")
    renamed = replace(member, config=config).write(tmp_path / "renamed")
    original = member.write(tmp_path / "original")
    assert open_checkpoint(renamed).report().caches == open_checkpoint(original).report().caches
    assert mx.array_equal(answer(renamed)[1], answer(original)[1])


def test_the_table_of_places_is_what_the_readers_do() -> None:
    assert PLACES.read_text(encoding="utf-8") == table(), "python -m eredu_conformance.harness.places writes it"


def test_a_claim_that_outlived_its_head_says_how_to_give_one(tmp_path: Path) -> None:
    from eredu_conformance.zoo.converting import Conversion, HeadPlace  # noqa: PLC0415

    directory = write_converted(zoo_member("qwen3.5"), tmp_path, Conversion(head=HeadPlace.DROPPED))
    reason = open_checkpoint(directory).report().heads.reason
    assert "ships none of their tensors" in reason
    assert "--head" in reason


def test_a_damaged_file_beside_the_trunk_is_no_missing_head(published: Path, member: ZooMember, tmp_path: Path) -> None:
    head = split(published, tmp_path / "made", member.head.__contains__)
    path = tmp_path / "made" / "mtp.safetensors"
    mx.save_safetensors(str(path), head, {"format": "pt"})
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(CheckpointError, match="cut short"):
        open_checkpoint(tmp_path / "made").report()
