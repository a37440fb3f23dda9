"""datasets.yaml: what is in it is right, and what breaks its rules is named with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphprep.core.splits import SplitRule
from graphprep.core.types import Treatment
from graphprep.datasets import readers, registry
from graphprep.datasets.entry import DatasetEntry, Expected
from graphprep.datasets.registry import entry, load_registry
from graphprep.errors import DatasetError, UnknownDatasetError
from graphprep.system.yaml_config import parse

ENTRY = """
  {name}:
    title: A graph
    source: digits
    licence: MIT
    citation: none
    homepage: https://example.org
    files:
      - url: https://example.org/a%20b.gz
        name: ab.gz
    expected: {{nodes: 3, edges: 2, features: 1, classes: 2, train: 1, val: 1, test: 1}}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "datasets.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_our_own_registry_holds() -> None:
    """A wrong line in datasets.yaml would break every command."""
    entries = load_registry()
    assert {"digits", "cora", "citeseer", "pubmed"} <= set(entries)
    assert all(name == found.name for name, found in entries.items())


def test_libyaml_reads_it_as_pyyaml_does() -> None:
    """Guards against values or line numbers that depend on which of them a machine has."""
    text = registry.registry_path().read_text(encoding="utf-8")
    one, other = parse(text), parse(text, by_libyaml=True)
    assert one.value == other.value
    assert one.lines == other.lines


@pytest.mark.parametrize("name", load_registry())
def test_every_file_can_be_verified(name: str) -> None:
    """A file with neither a checksum nor a check would be taken as it comes."""
    for file in readers.remote_files(entry(name)):
        assert file.sha256 is not None or file.check is not None


def test_cora_is_pinned(test_data: Path) -> None:
    """The sizes and checksums in the registry must be those of the original files."""
    from graphprep.system.files.verify import verify

    for file in readers.remote_files(entry("cora")):
        assert file.sha256
        assert file.bytes
        verify(test_data / "mirror" / file.url.removeprefix("https://"), file)


@pytest.mark.parametrize("name", ["cora", "Cora", " CORA "])
def test_case_does_not_matter(name: str) -> None:
    """Papers write Cora."""
    assert entry(name).name == "cora"


def test_underscores_are_hyphens(tmp_path: Path) -> None:
    """People write ogbn_arxiv, which is how a Python name would have it."""
    known = load_registry(written(tmp_path, "datasets:" + ENTRY.format(name="ogbn-arxiv")))
    assert entry("OGBN_Arxiv", known).name == "ogbn-arxiv"


def test_unknown_name() -> None:
    """A slip of the pen gets the nearest names and the command that lists them all."""
    with pytest.raises(UnknownDatasetError) as caught:
        entry("corra")
    assert "did you mean cora" in str(caught.value)
    assert "graphprep list" in str(caught.value)
    assert isinstance(caught.value, KeyError)
    with pytest.raises(UnknownDatasetError, match="graphprep list"):
        entry("nothing like it")


def test_values(tmp_path: Path) -> None:
    """Defaults: the treatment keeps edges as they are, a file without a size makes the whole size unknown."""
    found = load_registry(written(tmp_path, "datasets:" + ENTRY.format(name="one")))["one"]
    assert found.edge_treatment == Treatment()
    assert found.num_bytes is None
    assert found.split is None
    assert [file.file_name for file in found.files] == ["ab.gz"]
    assert entry("cora").num_bytes == 572_444
    assert entry("digits").num_bytes == 0
    assert entry("digits").split == SplitRule(train=20, val=30, seed=0, splits=1)
    assert entry("cora").files[0].file_name == "ind.cora.x"


@pytest.mark.slow
def test_the_field_s_random_splits() -> None:
    """Figures for these graphs are means over random splits; one split of ours would not be comparable."""
    several = {found.name for found in load_registry().values() if found.split is not None and found.split.splits > 1}
    names = ["amazon-computers", "amazon-photo", "coauthor-cs", "coauthor-physics"]
    names += ["amazon-computers-connected", "amazon-photo-connected"]
    twins = ["dgl-amazon-co-buy-computer", "dgl-amazon-co-buy-photo", "dgl-coauthor-cs", "dgl-coauthor-physics"]
    assert several == {*names, *twins}
    for name in several:
        assert entry(name).split == SplitRule(train=20, val=30, seed=0, splits=10)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("licence: MIT", "license: MIT", 5, "did you mean 'licence'"),
        ("source: digits", "source: digit", 4, "did you mean 'digits'"),
        ("nodes: 3", "nodes: 0", 11, "greater than 0"),
        ("edges: 2", "edges: 2.5", 11, "integer"),
        ("name: ab.gz", "name: ../ab.gz", 10, "no plain file name"),
        ("        name: ab.gz\n", "", 9, "no plain file name"),
        ("name: ab.gz", "sha256: 12ab", 10, "pattern"),
        ("https://example.org/a%20b.gz", "ftp://example.org/ab", 9, "begins with one of"),
        ("    licence: MIT\n", "", 2, "licence"),
        ("  one:", "  One_:", 2, "lower case"),
        (
            "    expected:",
            "    treatment: {duplicates: twice}\n    expected:",
            11,
            "'keep', 'drop', 'sum', 'max'",
        ),
        ("    expected:", "    split: {splits: 0}\n    expected:", 11, "greater than or equal to 1"),
        (
            "        name: ab.gz\n",
            "        name: ab.gz\n      - {url: https://x.org/c, name: ab.gz}\n",
            11,
            "a second file",
        ),
    ],
)
def test_broken_rules(tmp_path: Path, old: str, new: str, line: int, words: str) -> None:
    """Each rule's error names the line and what is wrong."""
    text = "datasets:" + ENTRY.format(name="one")
    assert old in text
    path = written(tmp_path, text.replace(old, new, 1))
    with pytest.raises(DatasetError, match=words) as caught:
        load_registry(path)
    assert f"{path}, line {line}:" in str(caught.value)


def test_unreadable_registry(tmp_path: Path) -> None:
    """A registry that is not there, or is no text, is one sentence."""
    with pytest.raises(DatasetError, match="cannot be read"):
        load_registry(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DatasetError, match="cannot be read"):
        load_registry(tmp_path / "binary.yaml")


def test_the_wheel_s_registry_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed, the file lies in the package; a datasets.yaml that lies above it there is someone else's."""
    package = tmp_path / "graphprep"
    package.mkdir()
    monkeypatch.setattr(registry, "__file__", str(package / "datasets" / "registry.py"))
    with pytest.raises(DatasetError, match="installation is incomplete"):
        registry.registry_path()
    (tmp_path / "datasets.yaml").touch()
    assert registry.registry_path() == tmp_path / "datasets.yaml"
    (package / "datasets.yaml").touch()
    assert registry.registry_path() == package / "datasets.yaml"


def test_expected_counts() -> None:
    """A conversion that lost an edge must not become a store."""
    expected = entry("cora").expected
    expected.check(expected.model_dump(), dataset="cora")
    expected.check({"nodes": 2708}, dataset="cora")
    with pytest.raises(DatasetError, match="2,707 nodes instead of 2,708, 10,555 edges instead of 10,556"):
        expected.check({"nodes": 2707, "edges": 10555, "classes": 7}, dataset="cora")


def test_counts_by_type() -> None:
    """With several types, a node that came out as another type keeps the sum; each number is compared."""
    expected = Expected.model_validate(
        {"nodes": {"author": 4, "paper": 6}, "edges": {"author__to__paper": 9}, "features": {"paper": 3}, "train": 2}
    )
    found = {"nodes": {"author": 4, "paper": 6}, "edges": {"author__to__paper": 9}, "features": {"paper": 3}}
    expected.check({**found, "classes": 7, "train": {"author": 2}}, dataset="d")
    with pytest.raises(DatasetError, match=r"5 nodes of type author instead of 4, 5 nodes of type paper instead of 6"):
        expected.check({"nodes": {"author": 5, "paper": 5}}, dataset="d")
    with pytest.raises(DatasetError, match=r"0 nodes of type paper instead of 6, 1 nodes of type term instead of 0"):
        expected.check({"nodes": {"author": 4, "term": 1}}, dataset="d")
    with pytest.raises(DatasetError, match=r"3 train instead of 2"):
        expected.check({"train": {"author": 1, "paper": 2}}, dataset="d")
    assert [expected.total(name) for name in ("nodes", "edges", "features", "classes")] == [10, 9, 3, None]
    assert expected.feature_values == 18


def test_counts_that_are_not_known() -> None:
    """A count that nobody published is not compared, rather than made up."""
    expected = Expected(nodes=3)
    expected.check({"nodes": 3, "edges": 10**6}, dataset="d")
    assert expected.total("edges") is None
    assert expected.feature_values == 0


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ("{paper: 0}", "greater than 0"),
        ("{paper: many}", "integer"),
        ("{}", "at least 1 item"),
        ("[3]", "integer"),
    ],
)
def test_counts_that_are_none(tmp_path: Path, nodes: str, words: str) -> None:
    """One error, with the line, whether it is a number that is wrong or one of several."""
    text = "datasets:" + ENTRY.format(name="one").replace("nodes: 3", f"nodes: {nodes}")
    path = written(tmp_path, text)
    with pytest.raises(DatasetError, match=words) as caught:
        load_registry(path)
    assert f"{path}, line 11: datasets.one.expected.nodes" in str(caught.value)
    assert "more)" not in str(caught.value)


def test_aliases(tmp_path: Path) -> None:
    """People type the name of the class in the library that they know."""
    assert entry("Photo").name == "amazon-photo"
    assert entry("wiki_cs").name == "wikics"
    text = "datasets:" + ENTRY.format(name="one").replace("title: A", "aliases: [uno]\n    title: A")
    known = load_registry(written(tmp_path, text + "\naliases: {eins: one, drei: none}\n"))
    assert entry("UNO", known).name == entry("eins", known).name == "one"
    with pytest.raises(UnknownDatasetError, match="did you mean uno"):
        entry("unoo", known)
    with pytest.raises(UnknownDatasetError):
        entry("drei", known)


@pytest.mark.parametrize(
    ("alias", "words"), [("two", "'two' already means two"), ("Uno", "lower case"), ("a_b", "lower case")]
)
def test_aliases_that_are_taken(tmp_path: Path, alias: str, words: str) -> None:
    """An alias that hides another dataset would fetch the wrong one."""
    one = ENTRY.format(name="one").replace("title: A", f"aliases: [{alias}]\n    title: A")
    with pytest.raises(DatasetError, match=words):
        load_registry(written(tmp_path, "datasets:" + one + ENTRY.format(name="two")))


def test_options_are_the_readers_to_check(tmp_path: Path) -> None:
    """An option that a reader does not have must not be ignored."""
    base = load_registry(written(tmp_path, "datasets:" + ENTRY.format(name="one")))["one"]

    def reading(options: dict[str, object]) -> None:
        readers.read(tmp_path, DatasetEntry.model_validate({**base.model_dump(), "options": options}))

    with pytest.raises(DatasetError, match="did you mean 'neighbours'"):
        reading({"neighbors": 3})
    with pytest.raises(DatasetError, match="'neighbours' of digits is wrong"):
        reading({"neighbours": "many"})
    with pytest.raises(DatasetError, match="only 1797 images"):
        reading({"neighbours": 5000})


def test_unknown_reader() -> None:
    """A reader's name must not import whatever module has it."""
    with pytest.raises(DatasetError, match="no reader is called 'os'"):
        readers.reader("os")
