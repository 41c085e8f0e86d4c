import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from eredu.checkpoints.names import DRAFT_NAME, shipped_path
from eredu.commands.inspect import fit_named, inspect, inspect_named
from eredu.contract.errors import CheckpointError, TokenizerError

app = typer.Typer()
app.command()(inspect)
RUNNER = CliRunner(env={"COLUMNS": "160"})


def test_the_table_says_what_matters(write_directory: Callable[..., Path]) -> None:
    result = RUNNER.invoke(app, [str(write_directory(model_type="qwen3_next", mtp_num_hidden_layers=1))])
    assert isinstance(result.exception, CheckpointError)  # the heads that it claims are not there
    for part in (
        "qwen3_next (safetensors, 1 file(s))",
        "exact rollback",
        "recurrent, rollback exact",
        "claims 1 prediction",
        "usable depth",
    ):
        assert part in result.stdout


def test_json_is_the_report(write_directory: Callable[..., Path]) -> None:
    directory = write_directory()
    result = RUNNER.invoke(app, [str(directory), "--json"])
    assert json.loads(result.stdout) == inspect_named(str(directory)).to_json()


def test_an_assistant_is_checked_with_it() -> None:
    result = RUNNER.invoke(app, ["smollm2-draft", "--assistant", "smollm2-draft", "--json"])
    assert json.loads(result.stdout)["assistant_fit"] == fit_named("smollm2-draft", "smollm2-draft").to_json()
    shown = RUNNER.invoke(app, ["smollm2-draft", "--assistant", "smollm2-draft"])
    assert "ids below 49,152" in shown.stdout
    assert fit_named("smollm2-draft", "smollm2-draft").fingerprint.digest in shown.stdout


def test_an_assistant_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(shipped_path(DRAFT_NAME), other)
    tokenizer = json.loads((other / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer["added_tokens"][5]["content"] = "<another>"
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["<another>"] = vocabulary.pop("<file_sep>")
    (other / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    with pytest.raises(TokenizerError, match="id 5: '<file_sep>' in the target, '<another>' in the assistant"):
        fit_named("smollm2-draft", str(other))


def test_a_path_that_does_not_exist_is_one_error(tmp_path: Path) -> None:
    result = RUNNER.invoke(app, [str(tmp_path / "none")])
    assert isinstance(result.exception, CheckpointError)


def test_foreign_names_are_never_markup(write_directory: Callable[..., Path], tmp_path: Path) -> None:
    name = "[bold]a[/b]\x1b[31m"
    directory = shutil.copytree(write_directory(), tmp_path / "tmp" / name)
    assert f"{tmp_path}/tmp/[bold]a" in "".join(RUNNER.invoke(app, [str(directory)]).stdout.split())
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "[/x]\x1b"}}))
    shown = RUNNER.invoke(app, [str(directory)])
    assert not isinstance(shown.exception, ValueError), shown.exception
    assert "\x1b" not in shown.output
    (directory / "config.json").write_text(json.dumps(config | {"model_type": name}))
    assert "[bold]a[/b]" in str(RUNNER.invoke(app, [str(directory)]).exception)
