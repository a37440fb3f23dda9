"""Run the notebooks from a clean kernel, and keep what they show as executed copies; behind `make notebook`.

python -m notebooks.run FOLDER [NAME ...]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
SECONDS = 600


def run(notebook: Path, target: Path) -> None:
    """Execute a notebook in the repository's root and write the executed copy.

    Raises:
        CellExecutionError: a cell raised.
    """
    import nbformat
    from nbclient import NotebookClient

    document = nbformat.read(notebook, as_version=4)
    NotebookClient(document, timeout=SECONDS, resources={"metadata": {"path": str(HERE.parent)}}).execute()
    nbformat.write(document, target)


def main() -> int:
    """Run all notebooks, or those that are named."""
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder, names = Path(sys.argv[1]), sys.argv[2:] or [path.stem for path in sorted(HERE.glob("*.ipynb"))]
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    for name in names:
        run(HERE / f"{name}.ipynb", folder / f"{name}.ipynb")
        print(f"wrote {folder / name}.ipynb")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("notebooks.run: stopped by Ctrl-C", file=sys.stderr)
        sys.exit(130)
