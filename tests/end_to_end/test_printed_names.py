"""Names with escape sequences in them, where results and pages show them: nothing reaches a terminal raw."""

from __future__ import annotations

import io
import json
import logging
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from cli import main
from graphprep.report.cited import Cited
from graphprep.report.pages import store_page
from graphprep.report.summary.store_summary import store_summary
from graphprep.system import printable as ours
from pipelines.commands.common import print_json
from tests.graphs import labelled_graph
from tests.stores import make_store
from trainer.base import printable as theirs
from trainer.base.printable import PrintableFormatter
from trainer.launch import main as launch
from trainer.reporting.report import Report

pytestmark = pytest.mark.slow

ESCAPES = "red\x1b[31m\x9b\x07\u202e\x7f"


def test_a_result_with_a_path(tmp_path: Path) -> None:
    """Guards against `PATH: whole` and `wrote PATH`, whose path could clear the screen."""
    place = tmp_path / "a\x1b[2Jb.zarr"
    make_store(labelled_graph(np.random.default_rng(0), 40, 200), target=place)
    result = CliRunner().invoke(main, ["verify", str(place)])
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.stdout + result.stderr
    assert "a\\x1b[2Jb.zarr: whole" in result.stdout
    page_place = tmp_path / "b\x1b[2J.html"
    result = CliRunner().invoke(main, ["inspect", str(place), "--html", str(page_place)])
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.stdout + result.stderr
    assert "b\\x1b[2J.html" in result.stderr
    assert "\x1b" not in page_place.read_text(encoding="utf-8")


def test_json_has_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against DEL, which `json.dumps` leaves raw."""
    print_json({"name": ESCAPES})
    written = capsys.readouterr().out
    assert json.loads(written) == {"name": ESCAPES}
    assert written.strip().replace("\n", "").isprintable()


def test_trainer_escapes_what_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against messages of the trainer that print a cache's path, or a name from it, raw."""
    assert launch([f"/absent/{ESCAPES}"]) != 0
    written = capsys.readouterr().err
    assert "red\\x1b[31m" in written
    assert "\x1b" not in written
    record = logging.LogRecord("trainer", logging.INFO, "", 0, "%s", (ESCAPES,), None)
    assert PrintableFormatter("rank 0: %(message)s").format(record) == "rank 0: " + ours.printable(ESCAPES)
    output = io.StringIO()
    Report(speaks=True, as_json=False, output=output)._print(ESCAPES)
    assert output.getvalue() == ours.printable(ESCAPES) + "\n"


def test_trainer_has_the_same_rule() -> None:
    """Guards against two rules of what is printable that drift apart: the trainer has a copy of its own."""
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    assert theirs.printable(every) == ours.printable(every)


def test_pages_have_no_control_characters() -> None:
    """Guards against a name in a page that no browser may show, or that turns the text around it."""
    summary = store_summary(make_store(labelled_graph(np.random.default_rng(0), 40, 200)))
    for key in ("dataset", "location", "key", "tool_version"):
        summary[key] = ESCAPES
    summary["nodes"] = {ESCAPES: summary["nodes"]["node"]}
    summary["edges"] = {ESCAPES: summary["edges"]["node__to__node"]}
    summary["notes"] = {ESCAPES: [ESCAPES]}
    summary["source"] = {"reader": ESCAPES, "licence": ESCAPES, "files": [{"name": ESCAPES, "sha256": ESCAPES}]}
    summary["warnings"] = [{"what": "", "where": ESCAPES, "text": ESCAPES}]
    written = store_page(summary)
    assert ours.printable(written) == written
    assert written.count("red\\x1b[31m") > 30
    assert Cited(ESCAPES, (ESCAPES,)).to_html() == f'<span class="name">{ours.printable(ESCAPES)}</span>'
