"""A matplotlib drawing as an inline SVG that takes its colours and its font from the page around it.

Matplotlib writes fixed colours. Those that mean ink, paper or a line are replaced by the page's variables, so that a
drawing is readable in light, in dark and on paper. Ids are made the drawing's own, since a page holds several. The
namespaces and metadata that only a file of its own needs are left out. What a mark stands for is its title, which a
browser shows under the pointer.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from graphprep.report import plots
from graphprep.report.cited import Cited
from graphprep.system.printable import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VARIABLES = {
    "#000000": "--ink, currentColor",
    plots.INK: "--ink, currentColor",
    plots.DIM: "--dim, currentColor",
    plots.LINE: f"--line, {plots.LINE.upper()}",
    plots.ACCENT: f"--accent, {plots.ACCENT.upper()}",
    plots.CARD: "--card, Canvas",
    plots.HOT: f"--hot, {plots.HOT.upper()}",
}
"""The page's variable, and what holds where there is none, as in a notebook."""


def drawn(name: str, alt: str, plot: Callable[..., Axes], *data: Any, size: tuple[float, float]) -> Markup:
    """One drawing.

    Args:
        name: a word that no other drawing of the page has.
        alt: what it shows, for those who cannot see it.
        plot: one of `plots`.
        data: its arguments; a `Cited` is given as its value.
        size: width and height in inches, of which one is 72 units of the drawing.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "path.simplify": False}):
        figure = Figure(figsize=size, layout="constrained")
        plot(*(value.value if isinstance(value, Cited) else value for value in data), figure.add_subplot())
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return Markup(_inline(file.getvalue(), name, alt))


def _inline(text: str, name: str, alt: str) -> str:
    body = text[text.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(rf"""<g id=(["']){plots.TIP}(.*?)\1>""", r"<g><title>\2</title>", body, flags=re.DOTALL)
    body = re.sub(r' id="', f' id="{name}-', body)
    body = re.sub(r'(href="|url\()#', rf"\1#{name}-", body)
    for colour, variable in VARIABLES.items():
        body = body.replace(colour, f"var({variable})")
    box = re.search(r'viewBox="[^"]*"', body)
    assert box is not None
    end = body.index(">") + 1
    title = escape(printable(alt))
    head = f'<svg {box[0]} role="img" aria-labelledby="{name}-title"><title id="{name}-title">{title}</title>'
    return re.sub(r"\s*\n\s*", "\n", head + body[end:])
