"""Tables of options in these pages, from the dataclasses that commands and the keys of a pipeline's file are made from.

    python -m docs.option_tables docs/*.md

A page has a table between `<!-- options: NAME -->` and `<!-- end of options -->`; NAME is one of REQUESTS or FORMS. The
command writes all tables again, and a test compares them. The trainer's own table is compared by its own test.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from pydantic import BaseModel

from graphprep.cache.features import FeatureOptions
from graphprep.datasets.generators.events import EventsRequest
from graphprep.datasets.generators.requests import GENERATORS
from graphprep.datasets.importing.event_options import EventOptions
from graphprep.datasets.importing.options import ImportOptions
from graphprep.partition.request import PartitionRequest
from graphprep.plan.model_widths import ModelWidths
from graphprep.system.options import Option, options_in
from graphprep.temporal.request import EventCacheRequest
from pipelines.run.config import DatasetForm, PipelineForm

REQUESTS: dict[str, tuple[type, ...]] = {
    "partition": (PartitionRequest, ModelWidths, FeatureOptions),
    "import": (ImportOptions, EventOptions),
    "generate events": (EventsRequest,),
    "partition events": (EventCacheRequest,),
    **{f"generate {name}": (request,) for name, request in GENERATORS.items()},
}
FORMS: dict[str, type[BaseModel]] = {"run": PipelineForm, "run datasets": DatasetForm}
NAMES = "|".join([*REQUESTS, *FORMS])
BLOCK = re.compile(rf"(<!-- options: ({NAMES}) -->\n).*?(<!-- end of options -->)", re.DOTALL)


def table_of(name: str) -> str:
    """Markdown with a row for each option of REQUESTS[name], or each key of FORMS[name]."""
    if name in FORMS:
        keys = FORMS[name].model_fields.items()
        rows = [f"| `{field.alias or key}` | {field.description} |" for key, field in keys]
        return "\n".join(["| key | |", "|---|---|", *rows, ""])
    rows = [_row(option) for request in REQUESTS[name] for option in options_in(request)]
    return "\n".join(["| option | default | |", "|---|---|---|", *rows, ""])


def with_tables(page: str) -> str:
    """A page with the tables of its blocks."""
    return BLOCK.sub(lambda block: f"{block[1]}\n{table_of(block[2])}\n{block[3]}", page)


def _row(option: Option) -> str:
    name = f"`{option.metavar}`" if option.is_argument else f"`{option.flag}`"
    if option.kind is bool and option.is_optional:
        name += f", `--no-{option.flag[2:]}`"
    has_default = option.default not in (None, ()) and option.default is not False
    default = option.default_words or (
        "required" if option.is_required else f"`{option.joined(option.default)}`" if has_default else ""
    )
    text = option.help
    if option.choices and text == option.text:  # which then does not name them
        text += f" One of {', '.join(f'`{choice}`' for choice in option.choices)}."
    if option.limits:
        text += f" A number {option.limits}."
    return f"| {name} | {default} | {text} |"


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
