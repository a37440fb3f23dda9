"""Options declared in dataclasses: what is refused, and in which words."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import Any, Literal

import pytest

from graphprep.errors import UsageError
from graphprep.system.options import check_options, option, options_in, required, take_options


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What all have."""

    seed: int = option(0, "Seed.", at_least=0)
    inner: str = "no option"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Base):
    """One of each kind."""

    nodes: int = required("Nodes.", at_least=1, at_most=9)
    share: float = option(0.5, "A share.", above=0.0, at_most=1.0)
    signal: float | None = option(None, "Any number.")
    kind: str = option("metis", "The kind.", choices={"metis": "", "random": "a seeded draw"})
    balance: Literal["rows", "edges"] = option("rows", "What counts.")
    sides: tuple[int, ...] = option((2, 3), "Sides.", separator="x", example="80x80")
    limits: tuple[str, ...] = option(("a", "b"), "Limits.", separator=",")
    label: tuple[str, ...] = option((), "May be given again.")

    def __post_init__(self) -> None:
        check_options(self)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"seed": -1}, "--seed -1 must be at least 0"),
        ({"nodes": 0}, "--nodes 0 must be from 1 to 9"),
        ({"nodes": 10}, "--nodes 10 must be from 1 to 9"),
        ({"share": 0.0}, "--share 0 must be above 0 and at most 1, e.g. 0.5"),
        ({"share": 1.5}, "--share 1.5 must be above 0 and at most 1, e.g. 0.5"),
        ({"share": float("nan")}, "--share nan must be above 0 and at most 1, e.g. 0.5"),
        ({"signal": float("inf")}, "--signal inf must be a finite number"),
        ({"signal": float("nan")}, "--signal nan must be a finite number"),
        ({"kind": "randon"}, "--kind 'randon' is unknown (did you mean 'random'?); use one of metis, random"),
        ({"balance": "weight"}, "--balance 'weight' is unknown; use one of rows, edges"),
        ({"sides": "8xx8"}, "--sides '8xx8' must be whole numbers with x between them, e.g. 80x80"),
        ({"sides": "٣x2"}, "--sides '٣x2' must be whole numbers with x between them, e.g. 80x80"),
    ],
)
def test_a_wrong_value_is_one_sentence(wrong: dict[str, Any], sentence: str) -> None:
    """Guards against a value that reaches native code unchecked, and against sentences that say no limit."""
    with pytest.raises(UsageError) as caught:
        take_options(Request, {"nodes": 1} | wrong)
    assert str(caught.value) == sentence


def test_values_are_taken_and_others_left() -> None:
    """Guards against an option that is dropped, and against one of another request that gets lost."""
    values: dict[str, Any] = {"nodes": 9, "sides": "4x 5", "limits": "", "label": ["x"], "replace": True}
    request = take_options(Request, values, inner="given")
    assert request == Request(nodes=9, sides=(4, 5), limits=("",), label=("x",), inner="given")
    assert values == {"replace": True}


def test_what_a_field_says() -> None:
    """Guards against options that nobody can see, in an order that puts the common ones first."""
    found = {each.name: each for each in options_in(Request)}
    own = ["nodes", "share", "signal", "kind", "balance", "sides", "limits", "label"]
    assert list(found) == [*own, "seed"]
    assert found["nodes"].is_required
    assert found["nodes"].default is MISSING
    assert found["signal"].is_optional
    assert found["kind"].help == "The kind: metis, random (a seeded draw)."
    assert tuple(found["balance"].choices) == ("rows", "edges")
    assert found["sides"].joined((4, 5)) == "4x5"
