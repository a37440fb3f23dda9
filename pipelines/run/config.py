"""A pipeline as a person writes it down, checked to the line.

    datasets:
      cora:                                              # of the registry
      mine: {import: {edges: [edges.csv], labels: y.npy, undirected: true}}
      blocks: {generate: {sbm: {nodes: 20000, edges: 200000, features: 16}}}
      old: {store: ./old.zarr}                           # a path or URL of a store that is there
    topologies: [2x2, machines/mine.yaml, 4]             # presets, files, numbers of equal parts
    partition: {effort: fast, seed: [0, 1]}              # an option with several values is an axis of the matrix
    memory: 4GB
    verify: true
    reports: pages                                       # a folder of HTML pages
    exports: {dgl: for-dgl}                              # of each cache, by format, in a folder

Every dataset is partitioned for every topology with every combination of the options' values. Names of files are
relative to the pipeline's own folder. A cache is called after its topology, and after the values of the options that
have several.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field, StrictBool, StrictInt, StrictStr, create_model

from graphprep.cache.features import FeatureOptions
from graphprep.datasets.generators.requests import GENERATORS
from graphprep.datasets.importing.options import ImportOptions
from graphprep.errors import GraphprepError, PipelineError, UsageError
from graphprep.interop.export.formats import export_format
from graphprep.partition.request import PartitionRequest
from graphprep.plan.model_widths import ModelWidths, take_widths
from graphprep.system import memory
from graphprep.system.files.regular_file import regular_file
from graphprep.system.home import checked_name, is_url
from graphprep.system.options import options_in, take_options
from graphprep.system.yaml_config import LinedYaml, Where, dotted, parse, validated
from graphprep.topology import Topology, resolve
from pipelines.generate import GenerateStep
from pipelines.ingest import FetchStep, ImportStep
from pipelines.run.forms import Form, form_of, values_in
from pipelines.store_step import OpenStep, StoreStep

if TYPE_CHECKING:
    from graphprep.datasets.importing.import_request import ImportRequest


def _topology(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("a topology is a preset's name, a file, or a number of equal parts")  # noqa: TRY004
    return value


if TYPE_CHECKING:  # what they are once they have been checked
    ImportForm: TypeAlias = Form
    GenerateForm: TypeAlias = Form
    PartitionForm: TypeAlias = Form
    TopologyName = str | int
else:
    ImportForm = form_of("ImportForm", ImportOptions)
    GenerateForm = create_model(
        "GenerateForm",
        __base__=Form,
        **{name: (form_of(f"{name.capitalize()}Form", request) | None, None) for name, request in GENERATORS.items()},
    )
    PartitionForm = form_of("PartitionForm", PartitionRequest, ModelWidths, FeatureOptions, axes=True)
    TopologyName = Annotated[Any, BeforeValidator(_topology)]


class DatasetForm(Form):
    """Where one dataset comes from: the registry, unless it says otherwise."""

    import_: ImportForm | None = Field(
        default=None,
        alias="import",
        description="your own files: the options of `graphprep import`, `edges: [FILES]` or `schema: FILE`",
    )
    generate: GenerateForm | None = Field(
        default=None, description="one of `sbm`, `rmat`, `grid` with its options; `sides: [80, 80]`"
    )
    store: StrictStr | None = Field(default=None, description="path or URL of a store that is there")
    out: StrictStr | None = Field(
        default=None, description="path or URL of the store that is made, instead of GRAPHPREP_HOME's `stores/`"
    )
    mirror: StrictStr | None = Field(default=None, description="of a dataset of the registry, as for `fetch`")
    anyway: StrictBool = Field(default=False, description="only warn about counts and values that look wrong")


class PipelineForm(Form):
    """The whole file."""

    datasets: dict[str, DatasetForm | None] = Field(
        min_length=1, description="by name; with nothing behind the name, a dataset of the registry"
    )
    topologies: list[TopologyName] = Field(
        default=[], description="presets, files, or numbers of equal parts; without any, only stores are made"
    )
    partition: PartitionForm = Field(
        default=PartitionForm(),
        description="the options of `graphprep partition`, each with one value or a list of several",
    )
    memory: StrictStr | StrictInt | None = Field(default=None, description="as `--memory`, which overrules it")
    verify: StrictBool = Field(default=False, description="true: every byte of each cache is read and compared")
    reports: StrictStr | None = Field(
        default=None, description="a folder for one HTML page a store and a cache: `NAME.html`, `NAME/LABEL.html`"
    )
    exports: dict[str, StrictStr] = Field(
        default={}, description="by format (`dgl`, `pyg`, `npz`) a folder, in which each cache becomes `NAME/LABEL`"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination: a cache that is to be made."""

    dataset: str
    label: str
    """of the cache, in caches/DATASET/"""
    topology: Topology
    request: PartitionRequest
    widths: ModelWidths | None
    """of the model that decides the request's `row_bytes`; None where the file says it"""
    features: FeatureOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A file that has been read."""

    datasets: Mapping[str, StoreStep]
    cells: tuple[Cell, ...]
    memory_limit: int | None
    verify: bool
    reports: Path | None
    exports: Mapping[str, Path]
    """a folder for each format"""


def read_pipeline(path: Path) -> Pipeline:
    """Read a pipeline; nothing is fetched, but topologies and schemas are read.

    Raises:
        PipelineError: the file cannot be read, or something in it is wrong; the sentence has the line and the key.
    """
    try:
        text = regular_file(path).read_text(encoding="utf-8")
    except OSError as problem:
        raise PipelineError(f"{path} cannot be read ({problem.strerror}); give a pipeline's YAML file") from problem
    except UnicodeDecodeError as problem:
        raise PipelineError(f"{path} is no UTF-8 text; give a pipeline's YAML file") from problem
    form = validated(PipelineForm, text, origin=str(path), error=PipelineError)
    return _Reader(form, parse(text), path).pipeline()


class _Reader:
    """Turns what was written into what is meant; whatever is refused on the way gets its line."""

    def __init__(self, form: PipelineForm, document: LinedYaml, path: Path) -> None:
        self._form, self._document, self._path = form, document, path
        self._folder = path.absolute().parent

    def pipeline(self) -> Pipeline:
        form = self._form
        with self._at("memory"):
            limit = None if form.memory is None else memory.parse(str(form.memory))
        for name in form.exports:
            with self._at("exports", name):
                export_format(name)
        if (form.exports or form.verify) and not form.topologies:
            with self._at("exports" if form.exports else "verify"):
                raise UsageError("there are no caches without topologies; name some under 'topologies'")
        datasets: dict[str, StoreStep] = {}
        for name, source in form.datasets.items():
            dataset = self._dataset(name, source or DatasetForm())
            if dataset.name in datasets:
                with self._at("datasets", name):
                    raise UsageError(f"the dataset {dataset.name} is there twice")
            datasets[dataset.name] = dataset
        return Pipeline(
            datasets=datasets,
            cells=tuple(self._cells(datasets)),
            memory_limit=limit,
            verify=form.verify,
            reports=None if form.reports is None else self._folder / form.reports,
            exports={name: self._folder / folder for name, folder in form.exports.items()},
        )

    def _dataset(self, name: str, form: DatasetForm) -> StoreStep:
        keys = {"import": form.import_, "generate": form.generate, "store": form.store}
        sources = [key for key, value in keys.items() if value]
        where = ("datasets", name)
        with self._at(*where):
            if len(sources) > 1:
                raise UsageError(f"both {sources[0]!r} and {sources[1]!r} say where it comes from; leave one away")
            if form.mirror is not None and sources:
                raise UsageError("a mirror is for datasets of the registry; leave it away")
            if form.anyway and sources not in ([], ["import"]):
                raise UsageError(f"'anyway' means nothing beside {sources[0]!r}; leave it away")
            if not sources:
                from graphprep.datasets.registry import entry

                found = entry(name)
                return FetchStep(
                    name=found.name,
                    entry=found,
                    mirror=self._place(form.mirror),
                    anyway=form.anyway,
                    out=self._place(form.out),
                )
            if form.out is not None and sources == ["store"]:
                raise UsageError("'out' means nothing beside 'store'; leave it away")
            checked_name(name, "the name")
        if form.store is not None:
            return OpenStep(name=name, out=str(self._place(form.store)))
        out = self._place(form.out)
        if form.generate is not None:
            with self._at(*where, "generate"):
                return GenerateStep(name=name, request=_generator(form.generate), out=out)
        assert form.import_ is not None
        with self._at(*where, "import"):
            return ImportStep(name=name, request=self._import(form.import_), anyway=form.anyway, out=out)

    def _place(self, text: str | None) -> str | None:
        """A URL as it is, and a path from the pipeline's folder on."""
        return text if text is None or is_url(text) else str(self._folder / text)

    def _import(self, form: Form) -> ImportRequest:
        from graphprep.datasets.importing.import_request import request_of

        options = values_in(form)
        for field in options_in(ImportOptions):
            if field.kind is Path and options.get(field.name) is not None:
                value = options[field.name]
                options[field.name] = (
                    [self._folder / name for name in value] if field.is_tuple else self._folder / value
                )
        request = request_of(take_options(ImportOptions, options))
        for _, path in request.files():
            if not path.is_file():
                raise UsageError(f"there is no file {path}")
        return request

    def _cells(self, datasets: Mapping[str, StoreStep]) -> Iterator[Cell]:
        topologies = self._topologies()
        variants = list(self._variants())
        for name, topology in itertools.product(datasets, topologies):
            for suffix, request, widths, features in variants:
                yield Cell(
                    dataset=name,
                    label=topology.name + suffix,
                    topology=topology,
                    request=request,
                    widths=widths,
                    features=features,
                )

    def _topologies(self) -> list[Topology]:
        topologies: dict[str, Topology] = {}
        for position, text in enumerate(self._form.topologies):
            with self._at("topologies", position):
                topology = self._one_topology(text)
                if topology.name in topologies:
                    raise UsageError(f"another topology is called {topology.name}, after which caches are named")
            topologies[topology.name] = topology
        return list(topologies.values())

    def _one_topology(self, text: str | int) -> Topology:
        if isinstance(text, int):
            if text < 1:
                raise UsageError(f"{text} parts must be at least 1")
            return Topology.flat(text)
        beside = self._folder / text
        return resolve(beside if beside.is_file() else text)

    def _variants(self) -> Iterator[tuple[str, PartitionRequest, ModelWidths | None, FeatureOptions]]:
        """What is added to the topology's name, and the options, for every combination of values."""
        axes = values_in(self._form.partition)
        for name, values in axes.items():
            self._check_values(name, values)
        several = [name for name, values in axes.items() if isinstance(values, list) and len(values) > 1]
        for combination in itertools.product(*(_listed(values) for values in axes.values())):
            options = dict(zip(axes, combination, strict=True))
            suffix = "".join(f"-{name.replace('_', '-')}-{_in_a_name(options[name])}" for name in several)
            with self._at("partition"):
                yield suffix, *_options(options)

    def _check_values(self, name: str, values: object) -> None:
        """Refuse a wrong value of an option, or one that is there twice, where it stands."""
        names: set[str] = set()
        for position, value in enumerate(_listed(values)):
            with self._at("partition", name, position):
                if _in_a_name(value) in names:
                    raise UsageError(f"{value!r} is there twice")
                if (name, value) != ("aggregate_features", "mean"):  # which is refused beside another option only
                    _options({name: value})
            names.add(_in_a_name(value))

    @contextmanager
    def _at(self, *where: str | int) -> Iterator[None]:
        """Give what is refused in the block the line of a place in the file."""
        try:
            yield
        except GraphprepError as problem:
            here: Where = where
            while here and here not in self._document.lines:
                here = here[:-1]
            place = f"{self._path}, line {self._document.lines[here]}: {dotted(here)}"
            raise PipelineError(f"{place}: {_in_words_of_the_file(problem)}") from problem


def _options(options: Mapping[str, Any]) -> tuple[PartitionRequest, ModelWidths | None, FeatureOptions]:
    """Raises:
    UsageError: a value is none that the option takes, or row_bytes and widths are given.
    """
    values = dict(options)
    widths = take_widths(values)
    return take_options(PartitionRequest, values), widths, take_options(FeatureOptions, values)


def _generator(form: Form) -> Any:
    """The request to the one generator that is named.

    Raises:
        UsageError: none or several are named, or its parameters do not go together.
    """
    named = {name: value for name, value in form if value is not None}
    if len(named) != 1:
        raise UsageError(f"name one generator: {', '.join([*GENERATORS][:-1])} or {[*GENERATORS][-1]}")
    [(name, parameters)] = named.items()
    return take_options(GENERATORS[name], values_in(parameters))


def _listed(values: object) -> Sequence[Any]:
    return values if isinstance(values, list) else [values]


def _in_a_name(value: object) -> str:
    """A value as a part of a folder's name."""
    return re.sub(r"[^\w.-]+", "-", str(value)) or "none"


def _in_words_of_the_file(problem: GraphprepError) -> str:
    """What the command line calls --row-bytes is called row_bytes here."""
    return re.sub(r"--([a-z][a-z-]*)", lambda match: match[1].replace("-", "_"), str(problem))
