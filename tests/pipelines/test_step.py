"""One account for all steps of what lies at the target, and of what is done about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from graphprep.datasets.generators.grid import GridRequest
from graphprep.errors import DatasetError
from graphprep.store.convert import scratch_of
from pipelines.generate import GenerateStep
from pipelines.ingest import fetch_dataset
from pipelines.step import ABSENT, REPLACED, Existing, State, existing_result, key_of, run_step

REFUSAL = DatasetError("it is another")


@dataclass
class Stub:
    """A step that says what it is told to, and counts what is done."""

    target: Path
    existing: Existing[str]
    made: str = "made"
    done: list[str] = field(default_factory=list)
    estimate: ClassVar[None] = None

    @property
    def locks(self) -> tuple[tuple[Path, str], ...]:
        return ((self.target, "the stub"),)

    def find(self) -> Existing[str]:
        if self.existing.result is None:
            return self.existing
        return Existing(State.OTHER, result=self.existing.result)

    def compare(self, result: str) -> Existing[str]:
        self.done.append("compare")
        return self.existing

    def sweep(self) -> None:
        self.done.append("sweep")

    def run(self, earlier: str | None) -> str:
        assert self.target.with_name(f".{self.target.name}.lock").exists()
        self.done.append(f"run on {earlier}")
        return self.made


def existing(state: State) -> Existing[str]:
    """What a step of this state finds."""
    runs = {State.MISSING, State.PARTIAL, State.OUTDATED, State.FALLBACK}
    return Existing(
        state,
        result="there" if state in (State.SAME, State.FALLBACK, State.OTHER) else None,
        reason=f"it is {state.value}" if state in runs or state is State.OTHER else None,
        refusal=REFUSAL if state in (State.OTHER, State.FOREIGN) else None,
    )


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("replace", [False, True])
def test_every_state(state: State, replace: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against work that is done for nothing, and against a result that goes although nobody said so."""
    step = Stub(tmp_path / "it", existing(state))
    if state is State.FOREIGN or (state is State.OTHER and not replace):
        with pytest.raises(DatasetError, match="it is another"):
            run_step(step, replace=replace)
        with pytest.raises(DatasetError, match="it is another"):
            existing_result(step).reason_to_run(replace=replace)
        assert not [what for what in step.done if what != "compare"]
        return
    reason = existing_result(step).reason_to_run(replace=replace)
    step.done.clear()
    result, reused = run_step(step, replace=replace)
    assert not list(tmp_path.iterdir())
    said = capsys.readouterr().err
    if state is State.SAME and not replace:
        assert reason is None
        assert (result, reused, step.done) == ("there", True, ["compare", "sweep"])
        assert said == f"{tmp_path / 'it'} is up to date\n"
        return
    assert reason == (REPLACED if replace and state in (State.SAME, State.FALLBACK) else f"it is {state.value}")
    assert (result, reused) == ("made", False)
    earlier = "there" if state is State.FALLBACK and not replace else None
    assert step.done[-1] == f"run on {earlier}"
    assert ("compare" in step.done) == (earlier is not None)
    assert "up to date" not in said


def test_a_fallback_may_be_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a result that is given back by `run` and passes for a new one."""
    there = existing(State.FALLBACK)
    assert run_step(Stub(tmp_path / "it", there, made="there")) == ("there", True)
    kept: Existing[str] = Existing(State.FALLBACK, result="there", notes=("one",), warnings=("two",))
    assert run_step(Stub(tmp_path / "it", kept)) == ("there", True)
    assert capsys.readouterr().err == "one\nwarning: two\n"


def test_keys_do_not_depend_on_the_order_of_determinants() -> None:
    """Guards against a result that is made again since a dictionary was built in another order."""
    assert key_of({"a": 1, "b": [2]}) == key_of({"b": [2], "a": 1}) != key_of({"a": 1, "b": [3]})


def test_the_states_of_a_store(tmp_path: Path) -> None:
    """Guards against a state that is taken for another one where it is seen from files alone."""
    target = tmp_path / "g.zarr"
    step = GenerateStep(name="g", request=GridRequest(sides=(8, 3)), out=target)
    other = GenerateStep(name="g", request=GridRequest(sides=(8, 4)), out=target)

    def found(step: GenerateStep) -> tuple[State, str | None]:
        existing = existing_result(step)
        return existing.state, existing.reason

    assert found(step) == (State.MISSING, ABSENT)
    edges, _ = scratch_of(target)
    edges.mkdir()
    assert found(step) == (State.PARTIAL, "an earlier run was cut short")
    assert not step.outcome(replace=False).reused
    assert not edges.exists()
    assert found(step) == (State.SAME, None)
    assert found(other)[0] is State.OTHER
    (target / "zarr.json").write_text('{"attributes": {"graphprep_kind": "store"}}')
    assert found(step)[0] is State.OTHER
    with pytest.raises(DatasetError, match="has store format None"):
        step.outcome(replace=False)
    assert not step.outcome(replace=True).reused
    (target / "zarr.json").unlink()
    assert found(step)[0] is State.FOREIGN


def test_fetch_replaces_no_folder_of_somebody_elses(tmp_path: Path) -> None:
    """Guards against `fetch --out DIR --replace` that removes a folder which graphprep never wrote."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/thesis.tex").write_text("years of work")
    for replace in (False, True):
        with pytest.raises(DatasetError, match="is no graph store; it is left as it is"):
            fetch_dataset("digits", out=tmp_path / "precious", replace=replace)
    assert (tmp_path / "precious/thesis.tex").read_text() == "years of work"
