"""`eredu validate --subject`: right engines pass, wrong ones are found, and rubbish is neither."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from eredu_conformance.crafted import PairDirectories
from eredu_conformance.zoo import zoo_member
from eredu_validation.evidence import LEDGER_NAME, LedgerContent, Tally, read_ledger
from eredu_validation.foreign.answers import ForeignOutput, fault_of
from eredu_validation.session.result import validation_schema

LawOnly = Callable[..., tuple[Any, dict[str, Any]]]
Command = Callable[..., Any]
NANO = Path(__file__).parents[1] / "protocol" / "third_party_engine.py"
REPLY = "print(json.dumps(reply), flush=True)"
LATE = 'reply = {"seq": m["seq"], **run(m)}'
"""Where the engine answers; runs are numbered from 1, and the first is the probe."""

UNTOLD = "place not told"


@pytest.fixture
def nano(tmp_path: Path) -> Callable[..., str]:
    """A command that runs the third party's engine, with one edit of its text."""

    def command(old: str = "", new: str = "") -> str:
        source = NANO.read_text(encoding="utf-8")
        assert not old or source.count(old) >= 1, f"{old!r} is gone"
        script = tmp_path / "nano.py"
        script.write_text(source.replace(old, new) if old else source, encoding="utf-8")
        return shlex.join((sys.executable, str(script)))

    return command


def content_of(place: Path) -> LedgerContent:
    return read_ledger(place / LEDGER_NAME)


def tokens_by_stratum(tally: Tally) -> dict[str, int]:
    return {name: stratum.tokens for name, stratum in tally.strata.items()}


def test_eredu_behind_the_protocol_is_eredu(law_only: LawOnly, tmp_path: Path) -> None:
    """The same seeds give the same tokens, strata and evidence, whichever way they come."""
    arguments = ("--tokens", "120", "--seed", "5")
    own, _ = law_only(tmp_path / "own", *arguments)
    ran, result = law_only(tmp_path / "foreign", *arguments, "--subject", "eredu", "--tolerance", "1e-5")
    assert own.status == ran.status == 0, (own, ran)
    contents = [content_of(tmp_path / name) for name in ("own", "foreign")]
    assert [batch.increment.log_e for batch in contents[0].batches] == [
        batch.increment.log_e for batch in contents[1].batches
    ]
    assert tokens_by_stratum(contents[0].tally) == tokens_by_stratum(contents[1].tally)
    subject = result["parts"]["subject"]
    assert (subject["drafter"], subject["acceptance"], subject["seeds"]) == ("assistant", "rejection", True)
    assert "state, path and benefit are left out" in subject["text"]


def test_mlx_lm_passes_and_tells_its_rounds(law_only: LawOnly, tmp_path: Path) -> None:
    ran, result = law_only(tmp_path / "evidence", "--tokens", "300", "--seed", "5", "--subject", "mlx-lm")
    assert ran.status == 0, ran
    assert "mlx-lm 0." in ran.stdout
    assert "rule matching" in ran.stdout
    assert {"offset 0", "offset 1"} <= result["law"]["strata"].keys()
    assert result["law"]["subject"]["settings"]["subject"].startswith("mlx-lm ")
    assert result["parts"].keys() == {"subject", "static"}
    Draft202012Validator(validation_schema()).validate(result)


def test_heads_and_plain_decoding(command: Command, tmp_path: Path) -> None:
    """An engine with heads proposes with them; one without decodes plainly, and both are told."""
    path = zoo_member("qwen3.5").write(tmp_path / "target")
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"tokens": [3, 1, 4, 1, 5, 9, 2, 6]}\n{"tokens": [2, 7, 1, 8]}\n', encoding="utf-8")
    arguments = ("--tokens", "20", "--max-tokens", "10", "--prompts", str(prompts), "--seed", "5", "--subject")
    ran = command("validate", str(path), *arguments, "eredu", "--skip", "numerics")
    assert ran.status == 0, ran
    assert "with prediction heads, 2 proposals a round" in ran.stdout
    ran = command("validate", str(path), *arguments, "mlx-lm")
    assert ran.status == 0, ran
    assert "decoding plainly; the target's own heads are left aside" in ran.stdout
    assert "without a drafter" in ran.stdout
    assert "numerics:" in ran.stdout


def test_a_program_passes_without_rounds(law_only: LawOnly, nano: Callable[..., str], tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    arguments = ("--tokens", "300", "--seed", "5", "--html", str(report))
    ran, result = law_only(tmp_path / "evidence", *arguments, "--subject", nano())
    assert ran.status == 0, ran
    page = report.read_text(encoding="utf-8").replace("\n", "")
    assert "<h2>The engine</h2><p>The tokens are drawn by nano 0.1" in page
    assert "nano 0.1" in ran.stdout
    assert result["law"]["strata"].keys() == {UNTOLD}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("e = np.exp((z - z.max()) / t)", "e = np.exp((z - z.max()) / (1.4 * t))"),
        ("a = min(1.0, p[x] / q[x])", "a = 1.0"),
        ("rest = np.maximum(p - q, 0)", "rest = q"),
    ],
    ids=["temperature", "accepts everything", "replaces by the draft"],
)
def test_a_wrong_engine_is_found(
    law_only: LawOnly, nano: Callable[..., str], tmp_path: Path, old: str, new: str
) -> None:
    """A right engine would be rejected here with a chance of at most 1e-5."""
    arguments = ("--tokens", "3000", "--seed", "5", "--alpha", "1e-5", "--max-tokens", "60")
    ran, result = law_only(tmp_path / "evidence", *arguments, "--subject", nano(old, new))
    assert ran.status == 1, ran
    assert "deviation found" in ran.stdout
    assert result["law"]["verdict"]["tokens"] < 3000


@pytest.mark.parametrize(
    ("said", "new"),
    [
        ("answered id 99, and the target has the", LATE + '; reply["answers"][0]["tokens"][0] = 99'),
        ("answered id -1", LATE + '; reply["answers"][0]["tokens"][0] = -1'),
        ("answered 21 tokens, and 20 were asked for", LATE + '; reply["answers"][0]["tokens"].append(0)'),
        ("and no end id ended them", LATE + '; reply["answers"][0]["tokens"].pop()'),
        ("answered no token at all", LATE + '; reply["answers"][0]["tokens"] = []'),
        ("ended with status 7", LATE + "; sys.exit(7)"),
        ("within 1.5 s", LATE + "; import time; time.sleep(60)"),
        ("is not JSON", LATE + '; print("Traceback?")'),
        ("got 1 answers", LATE + '; reply["answers"] = reply["answers"][:1]'),
        ("out of memory", 'reply = {"seq": m["seq"], "outcome": "errored", "message": "out of memory"}'),
        ("not on Mondays", 'reply = {"seq": m["seq"], "outcome": "skipped", "reason": "not on Mondays"}'),
        ("tells of rounds with 3 tokens", LATE + '; reply["answers"][0]["rounds"] = [{"proposals": 2, "emitted": 3}]'),
    ],
)
def test_rubbish_ends_it_and_keeps_the_evidence(
    law_only: LawOnly, nano: Callable[..., str], tmp_path: Path, said: str, new: str
) -> None:
    late = f'{LATE}\n    if m["cmd"] == "run" and m["seq"] == 4: {new}'
    patience = ("--subject-timeout", "1.5") if "within" in said else ()
    arguments = ("--tokens", "400", "--seed", "5", *patience, "--subject", nano(LATE, late))
    ran, _ = law_only(tmp_path / "evidence", *arguments)
    assert ran.status == 2, ran
    assert ran.stdout == ""
    assert said in ran.stderr
    assert "nano" in ran.stderr
    assert f"The evidence of 80 tokens before is kept: --resume {tmp_path / 'evidence'}" in ran.stderr
    assert content_of(tmp_path / "evidence").tally.tokens == 80


def test_an_engine_that_cannot_start(law_only: LawOnly, tmp_path: Path) -> None:
    ran, _ = law_only(tmp_path / "evidence", "--subject", f"{sys.executable} -c 'import nowhere_at_all'")
    assert ran.status == 2
    assert "before it answered start" in ran.stderr
    assert not (tmp_path / "evidence").exists()


STRANGER = """
import sys

from eredu_conformance.subjects.mlx_lm import MlxLmSubject


def broken_factory():
    raise RuntimeError("no licence")


class BrokenStart(MlxLmSubject):
    def start(self):
        raise RuntimeError("no device")


class EndsItself(MlxLmSubject):
    def run(self, run):
        sys.exit(9)


class Raises(MlxLmSubject):
    def run(self, run):
        return 1 / 0
"""


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("broken_factory", "no licence"),
        ("BrokenStart", "no device"),
        ("EndsItself", "mlx-lm ended itself with 9"),
        ("Raises", "mlx-lm failed: ZeroDivisionError: division by zero"),
        ("Absent", "has no attribute 'Absent'"),
    ],
)
def test_a_python_subject_may_do_anything(
    law_only: LawOnly, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factory: str, said: str
) -> None:
    (tmp_path / "stranger_engine.py").write_text(STRANGER, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    ran, _ = law_only(tmp_path / "evidence", "--tokens", "20", "--subject", f"stranger_engine:{factory}")
    monkeypatch.delitem(sys.modules, "stranger_engine", raising=False)
    assert ran.status == 2, ran
    assert said in ran.stderr
    assert "nobody foresaw" not in ran.stderr


@pytest.mark.parametrize(
    ("said", "subject", "arguments"),
    [
        ("expected one of eredu,", "no-such-engine", ()),
        ("can't be imported", "nowhere.at_all:Engine", ()),
        ("doesn't have the acceptance rule block", "mlx-lm", ("--acceptance", "block")),
        ("takes up to 16 proposals, not 17", "mlx-lm", ("--proposals", "17")),
        ("doesn't support lookahead", "mlx-lm", ("--lookahead",)),
        ("words top_k in its own way", "mlx-lm", ("--top-k", "2")),
        ("leave --dtype out", "mlx-lm", ("--dtype", "float32")),
        ("leave it out with --subject", "mlx-lm", ("--placement", "one-stream")),
        ("--proposals was 0", "mlx-lm", ("--proposals", "0")),
        ("greedy decoding draws nothing", "mlx-lm", ("--temperature", "0")),
    ],
)
def test_what_an_engine_cannot_do_is_refused(
    law_only: LawOnly, tmp_path: Path, said: str, subject: str, arguments: tuple[str, ...]
) -> None:
    ran, _ = law_only(tmp_path / "evidence", "--tokens", "20", "--subject", subject, *arguments)
    assert ran.status == 2, ran
    assert said in ran.stderr
    assert ran.stderr.count("eredu: error: ") == 1
    assert not (tmp_path / "evidence").exists()


def test_options_and_drafters_that_a_program_lacks(
    law_only: LawOnly, command: Command, nano: Callable[..., str], pair: PairDirectories, tmp_path: Path
) -> None:
    ran, _ = law_only(tmp_path / "evidence", "--subject", nano(), "--top-p", "0.5")
    assert ran.status == 2
    assert "nano doesn't support top_p" in ran.stderr
    slow = nano('"max_proposals": 8', '"max_proposals": 0')
    ran, _ = law_only(tmp_path / "evidence", "--subject", slow)
    assert ran.status == 2
    assert "declares no speculative decoding" in ran.stderr
    skips = [word for part in ("numerics",) for word in ("--skip", part)]
    ran = command("validate", str(pair.target), "--subject", slow, "--tokens", "40", "--seed", "1", *skips)
    assert ran.status == 0, ran
    assert "drawn by nano 0.1, decoding plainly" in ran.stdout


def test_resumption_refuses_another_engine(law_only: LawOnly, nano: Callable[..., str], tmp_path: Path) -> None:
    law_only(tmp_path / "evidence", "--tokens", "20", "--seed", "5", "--subject", nano())
    later = nano('"version": "0.1"', '"version": "0.2"')
    ran, _ = law_only(tmp_path / "evidence", "--tokens", "40", "--subject", later)
    assert ran.status == 2
    assert 'settings.subject was "nano 0.1" and is "nano 0.2"' in ran.stderr
    ran, _ = law_only(tmp_path / "evidence", "--tokens", "40")
    assert ran.status == 2
    assert 'settings.subject was "nano 0.1" and is not given' in ran.stderr


def test_an_end_id_ends_an_answer() -> None:
    short = ForeignOutput((1, 2), ended=True)
    assert fault_of(short, max_tokens=5, vocabulary=3, proposals=0) is None
    assert "no end id ended them" in (fault_of(ForeignOutput((1, 2)), max_tokens=5, vocabulary=3, proposals=0) or "")
