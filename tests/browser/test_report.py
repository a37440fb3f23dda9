"""The demo's pages in a headless Chromium: no error, no request, nothing cut off, tables that sort and filter, values
under the pointer.

Screenshots are kept in artefacts/. Without Playwright or a Chromium that it can start these tests are skipped.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graphprep.cache.read import open_cache
from graphprep.topology import resolve
from tests.end_to_end.test_cli import run

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]  # one browser, and its pages are made once
ARTEFACTS = Path(__file__).parents[2] / "artefacts"
CHROMIUM = os.environ.get("GRAPHPREP_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
WIDTHS = (1280, 390)
NO_ICON = '<link rel="icon" href="data:,">'
RED = """
() => [...document.querySelectorAll("body *")].filter((element) => {
  const style = getComputedStyle(element);
  return ["color", "fill", "stroke", "backgroundColor", "borderLeftColor"].some((name) => {
    const [r, g, b, alpha = 1] = (style[name].match(/[\\d.]+/g) ?? []).map(Number);
    return alpha > 0 && r > 150 && g < 0.6 * r && b < 0.6 * r;
  });
}).filter((element) => !element.closest(".warnings"))
  .map((element) => element.closest("tr")?.textContent ?? element.outerHTML.slice(0, 120))
"""
"""The rows, or else the marks, that have something red and are no warnings."""
OVERFLOWING = """
() => [...document.querySelectorAll("body *")].filter((element) => {
  if (element.closest(".scroll, .drawing, svg")) return false;
  const box = element.getBoundingClientRect();
  return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1);
}).map((element) => element.outerHTML.slice(0, 120))
"""
CUT = """
() => [...document.querySelectorAll("h1, h2, p, li, figcaption, .cards b, .cards span, th, td, caption")]
  .filter((element) => element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0
    && getComputedStyle(element).overflowX !== "visible")
  .map((element) => element.outerHTML.slice(0, 120))
"""
OUTSIDE_DRAWING = """
() => [...document.querySelectorAll("svg")].flatMap((svg) => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text")].filter((text) => {
    const box = text.getBoundingClientRect();
    return box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1
      || box.bottom > frame.bottom + 1;
  }).map((text) => text.textContent);
})
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages of the demo's store and cache, as the command line writes them."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAPHPREP_HOME", str(folder))
        for words in (
            "fetch digits",
            "partition digits --topology 2x2",
            "partition digits --topology 4x8 --effort none --imbalance 1.5",
            f"inspect digits --html {folder}/digits.html",
            f"inspect digits/2x2 --html {folder}/digits-2x2.html --topology workstation-4 --compare-metis",
            f"inspect digits/4x8 --html {folder}/digits-4x8.html",
            f"compare digits/2x2 digits/4x8 --html {folder}/compared.html",
            f"train digits/2x2 --epochs 12 --quiet --output {folder}/training",
            f"report {folder}/training --output {folder}/run.html",
        ):
            done = run(*words.split())
            assert done.returncode == 0, done.stderr
    cells = [resolve("4x8")._repr_html_(), open_cache(folder / "caches" / "digits" / "2x2")._repr_html_()]
    (folder / "notebook.html").write_text(f"<!doctype html><meta charset=utf-8>{NO_ICON}{''.join(cells)}")
    return {path.stem: path for path in sorted(folder.glob("*.html"))}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium that runs as long as the module's tests."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with playwright.sync_playwright() as running:
        try:
            started = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        except playwright.Error as error:
            pytest.skip(f"no Chromium can be started: {str(error).splitlines()[0]}")
        yield started
        started.close()


def opened(browser: Any, page: Path, width: int, scheme: str = "light") -> tuple[Any, list[str], list[str]]:
    """The page in a window, what the console said, and what was requested beside the page itself."""
    window = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    said: list[str] = []
    asked: list[str] = []
    window.on("console", lambda message: said.append(message.text))
    window.on("pageerror", lambda error: said.append(str(error)))
    window.on("request", lambda request: asked.append(request.url))
    window.goto(page.as_uri())
    window.wait_for_load_state("networkidle")
    return window, said, [url for url in asked if url != page.as_uri() and not url.startswith("data:")]


@pytest.mark.parametrize("name", ["digits", "digits-2x2", "digits-4x8", "compared", "run", "notebook"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_is_whole_at_every_width(
    browser: Any, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    """Guards against errors, requests, and anything that hangs out of a window or a drawing."""
    window, said, asked = opened(browser, pages[name], width, scheme)
    ARTEFACTS.mkdir(exist_ok=True)
    window.screenshot(path=ARTEFACTS / f"{name}-{width}-{scheme}.png", full_page=True)
    assert said == []
    assert asked == []
    for text in window.evaluate(RED):
        assert "limit not kept" in text, text
    if name == "notebook":  # whose width is that of the notebook
        window.close()
        return
    assert window.evaluate("document.documentElement.scrollWidth") <= width
    assert window.evaluate(OVERFLOWING) == []
    assert window.evaluate(CUT) == []
    assert window.evaluate(OUTSIDE_DRAWING) == []
    window.close()


def test_tables_sort_by_click(browser: Any, pages: dict[str, Path]) -> None:
    """Guards against a sort that takes 1,000 for less than 20, or that does not turn round."""
    window, said, _ = opened(browser, pages["digits-2x2"], 1280)
    column = "() => [...{table}.tBodies[0].rows].map((row) => Number(row.cells[{at}].querySelector('data').value))"
    found = "document.querySelectorAll('table.sorts')[{number}]"
    tables = window.evaluate("[...document.querySelectorAll('table.sorts caption')].map((c) => c.textContent)")
    number = next(place for place, title in enumerate(tables) if title.startswith("Directions of links"))
    links = found.format(number=number)
    values = lambda at: window.evaluate(column.format(table=links, at=at))  # noqa: E731
    button = window.locator("table.sorts").nth(number).locator("thead button").nth(4)
    button.click()
    rows = values(4)
    assert len(rows) == 20
    assert rows == sorted(rows, reverse=True)
    assert rows != sorted(rows)
    button.click()
    assert values(4) == sorted(rows)
    window.locator("table.sorts").nth(number).locator("thead button").nth(0).click()
    names = window.evaluate(f"() => [...{links}.tBodies[0].rows].map((row) => row.cells[0].textContent)")
    assert names[0].startswith("m0.gpu0->")
    assert said == []
    window.close()


@pytest.mark.parametrize(
    ("name", "mark", "words"),
    [
        ("digits-4x8", "from rank", "to rank"),
        ("digits-4x8", "m0.host->net", "network of 12.5 GB/s"),
        ("digits-2x2", "rank 3: load", "rank 3: load"),
        ("digits", "class 4, test", "nodes"),
        ("compared", "digits/2x2", "load"),
        ("run", "epoch 7:", "val accuracy"),
        ("run", "rank 2, epochs", "computing"),
        ("run", "layer 2 forward", "over nvlink"),
    ],
)
def test_values_are_shown_under_the_pointer(
    browser: Any, pages: dict[str, Path], name: str, mark: str, words: str
) -> None:
    """Guards against marks that another mark covers, and values that appear somewhere else."""
    window, said, _ = opened(browser, pages[name], 1280)
    tip = window.locator("#tip")
    assert not tip.is_visible()
    of_mark = window.locator(f'[data-tip^="{mark}"][data-tip*="{words}"]').first
    of_mark.scroll_into_view_if_needed()
    assert window.evaluate(
        """([element]) => {
          const box = element.getBoundingClientRect();
          for (let x = 1; x < 8; x++) for (let y = 1; y < 8; y++) {
            const at = [box.left + box.width * x / 8, box.top + box.height * y / 8];
            const hit = document.elementFromPoint(...at)?.closest("[data-tip]");
            if (hit === element) {
              hit.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: at[0], clientY: at[1] }));
              return true;
            }
          }
          return false;
        }""",
        [of_mark.element_handle()],
    ), "another mark lies over it"
    assert tip.is_visible()
    assert tip.text_content() == of_mark.get_attribute("data-tip")
    box = tip.bounding_box()
    assert 0 <= box["x"] <= 1280 - box["width"]
    window.mouse.move(2, 2)
    assert not tip.is_visible()
    assert said == []
    window.close()


def test_a_rounded_figure_shows_its_value(browser: Any, pages: dict[str, Path]) -> None:
    """Guards against digits that are lost, in a table that shows the first three."""
    window, _, _ = opened(browser, pages["run"], 1280)
    figure = window.locator("td data").filter(has_text=" ms").first
    figure.hover()
    assert window.locator("#tip").text_content() == figure.get_attribute("value")
    window.close()


def test_rows_are_filtered(browser: Any, pages: dict[str, Path]) -> None:
    """Guards against a filter that hides what was looked for, forgets rows, or is on paper."""
    window, said, _ = opened(browser, pages["digits-4x8"], 1280)
    block = window.locator(".filter", has=window.locator('input[aria-label^="Filter rows of Directions of links"]'))
    field, rows = block.locator("input"), block.locator("xpath=following-sibling::*[1]").locator("tbody tr")
    count = rows.count()
    field.fill("network ->net")
    names = rows.filter(visible=True).locator("th").all_text_contents()
    assert len(names) == 4
    assert all("->net" in name for name in names)
    assert block.locator("span").text_content() == f"4 of {count} rows"
    field.fill("")
    assert rows.filter(visible=True).count() == count
    window.emulate_media(media="print")
    assert not field.is_visible()
    assert said == []
    window.close()


def test_a_page_prints(browser: Any, pages: dict[str, Path]) -> None:
    """Guards against tables that are cut off on paper."""
    window, _, _ = opened(browser, pages["digits-2x2"], 760)
    window.emulate_media(media="print")
    assert window.evaluate("document.documentElement.scrollWidth") <= 760
    document = window.pdf(format="A4")
    (ARTEFACTS / "digits-2x2.pdf").write_bytes(document)
    assert document.startswith(b"%PDF")
    window.close()
