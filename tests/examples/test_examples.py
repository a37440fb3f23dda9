"""The scripts of examples/ do what they say, each in a home folder of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SAYS = {
    "cache_in_pyg.py": r"greatest difference between the parts and the whole graph: \S+",
    "compare_partitions.py": r"graphprep +\S+ us +\d+ edges",
    "import_edges.py": r"person-07 is row 7 and knows person-",
    "mini_batches.py": r"test accuracy 0\.9\d+ with all neighbours",
    "own_model.py": r"rows over network +sent",
    "pyg_layers_on_ranks.py": r"one device, the same weights: 9\d",
    "pyg_to_predictions.py": r"test accuracy 0\.[5-9]\d; mistaken members: \[\d",
    "streams_of_events.py": r"test ap [6-9]\d",
    "tables_to_predictions.py": r"test +0\.[6-9](?s:.*)\n.DE-\d{6}.,.(business|private|charity).,",
    "two_machines.py": r"network +\S+ +\d+ rows +\S+ us",
}
"""what each script prints at the end"""


@pytest.mark.slow
@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    """Guards against examples of options, names or figures of another version."""
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(SAYS[name], done.stdout), done.stdout
    assert not list(tmp_path.iterdir())


def test_every_example_is_run_and_listed() -> None:
    """Guards against a script that nobody runs, and a list that lacks one."""
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    assert scripts == set(SAYS)
    assert scripts == set(re.findall(r"\[(\w+\.py)\]", (EXAMPLES / "README.md").read_text()))
