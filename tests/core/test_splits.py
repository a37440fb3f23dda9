"""The seeded split: the same everywhere, and fair to small classes."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pydantic import ValidationError

from graphprep.core.choices import MOST_SPLITS
from graphprep.core.splits import SplitRule, seeded_split, shared_split
from graphprep.errors import DatasetError


def test_split_is_pinned() -> None:
    """A split that changes with a platform or a NumPy release makes accuracies incomparable."""
    y = np.arange(1000) % 7 - 1
    joined = np.concatenate(seeded_split(y), axis=1)
    assert hashlib.sha256(np.packbits(joined).tobytes()).hexdigest() == (
        "cd6784a81294a9de9b65447d49e911db21104f03914d71e8c07432637e6b5ccc"
    )


def test_counts() -> None:
    """20 and 30 of each class, the rest to test, unlabelled nodes in none."""
    y = np.repeat([0, 1, -1, 2], [100, 90, 50, 400])
    split = seeded_split(y)
    for mask, counts in zip(split, ([20, 20, 20], [30, 30, 30], [50, 40, 350]), strict=True):
        assert mask.shape == (640, 1)
        assert np.bincount(y[mask[:, 0]], minlength=3).tolist() == counts


@pytest.mark.parametrize(("size", "shares"), [(1, (1, 0, 0)), (2, (1, 0, 1)), (3, (1, 1, 1)), (59, (20, 19, 20))])
def test_small_classes(size: int, shares: tuple[int, int, int]) -> None:
    """A class smaller than the training share alone must still be tested on where it can be."""
    split = seeded_split(np.zeros(size, np.int64))
    assert tuple(int(mask.sum()) for mask in split) == shares


def test_seeds_differ() -> None:
    """The seed must matter."""
    y = np.zeros(500, np.int64)
    assert not np.array_equal(seeded_split(y, seed=0).train_mask, seeded_split(y, seed=1).train_mask)


def test_several_splits_begin_with_the_single_one() -> None:
    """Accuracies on split 0 must stay what they were, and each next split must be the one of the next seed."""
    y = np.arange(1000) % 7 - 1
    several = seeded_split(y, 5, 6, seed=3, num_splits=4)
    for column in range(4):
        for mask, alone in zip(several, seeded_split(y, 5, 6, seed=3 + column), strict=True):
            assert mask.shape == (1000, 4)
            assert np.array_equal(mask[:, column], alone[:, 0])
    assert len(np.unique(several.train_mask, axis=1).T) == 4


def test_a_rule_draws_what_it_says() -> None:
    """A rule that drops one of its numbers on the way."""
    y = np.arange(500) % 3
    rule = SplitRule(train=7, val=8, seed=2, splits=3)
    for mask, expected in zip(rule.draw(y), seeded_split(y, 7, 8, 2, 3), strict=True):
        assert np.array_equal(mask, expected)
    assert SplitRule().draw(y).train_mask.shape == (500, 1)


def test_one_split_is_said_as_ever() -> None:
    """Stores that were made before there could be several would count as made from something else."""
    assert SplitRule().model_dump() == {"train": 20, "val": 30, "seed": 0}
    assert SplitRule(splits=2).model_dump(mode="json") == {"train": 20, "val": 30, "seed": 0, "splits": 2}


@pytest.mark.parametrize("wrong", [{"train": 0}, {"val": -1}, {"seed": -1}, {"splits": 0}, {"splits": MOST_SPLITS + 1}])
def test_a_rule_is_checked(wrong: dict[str, int]) -> None:
    """No training node, no split, or masks that fill the memory."""
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        SplitRule(**wrong)


@settings(deadline=None)
@given(
    y=hnp.arrays(np.int64, st.integers(0, 200), elements=st.integers(-1, 5)),
    train=st.integers(1, 9),
    val=st.integers(0, 9),
    seed=st.integers(0, 2**63),
    num_splits=st.integers(1, 3),
)
def test_every_labelled_node_is_in_one_mask(y: np.ndarray, train: int, val: int, seed: int, num_splits: int) -> None:
    """Masks that overlap would leak test nodes into training."""
    split = seeded_split(y, train, val, seed, num_splits)
    masks_NS = sum(mask.astype(int) for mask in split)
    assert np.array_equal(masks_NS, np.tile((y >= 0)[:, None], num_splits))
    for label in set(y[y >= 0].tolist()):
        for column in range(num_splits):
            assert 1 <= split.train_mask[y == label, column].sum() <= train
            assert split.val_mask[y == label, column].sum() <= val


def test_several_labels_a_node() -> None:
    """There is no class to draw from."""
    with pytest.raises(DatasetError, match="one integer class a node"):
        seeded_split(np.zeros((3, 2), np.bool_))


def test_shares_of_nodes_without_a_single_class() -> None:
    """Guards against unlabelled nodes in a mask, shares that are not kept, and splits that change with a release."""
    y = np.zeros((1010, 3), np.float32)
    y[::101] = np.nan
    y[1::101, 0] = np.nan  # of some labels only: labelled
    split = shared_split(y, seed=3, num_splits=4)
    assert [mask.sum(axis=0).tolist() for mask in split] == [[600] * 4, [200] * 4, [200] * 4]
    together = split.train_mask.astype(int) + split.val_mask + split.test_mask
    assert np.array_equal(together, np.repeat(~np.isnan(y).all(axis=1)[:, None], 4, axis=1))
    assert np.array_equal(split.train_mask[:, [1]], shared_split(y, seed=4).train_mask)
    digest = hashlib.sha256(np.packbits(np.concatenate(split, axis=1)).tobytes()).hexdigest()
    assert digest == ("38cc8af46e59d846c48a36d048ab904e03888e1f2a13f0ee768bdfec3edfc874")


@pytest.mark.parametrize("size", range(1, 8))
def test_few_nodes_without_a_single_class(size: int) -> None:
    """Guards against nobody to train on, and against nodes that are counted twice."""
    split = shared_split(np.ones((size, 2), np.bool_))
    assert split.train_mask.any()
    assert sum(int(mask.sum()) for mask in split) == size


def test_a_rule_says_what_it_drew(capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a random split that nobody is told of, and notes that name shares which were not used."""
    rule = SplitRule(seed=5, splits=3, train_share=0.5, val_share=0.25)
    by_class, how = rule.draw_and_say(np.zeros(100, np.int64), "mine")
    assert how == {"train": 20, "val": 30, "seed": 5, "splits": 3}
    assert by_class.train_mask.sum() == 60
    assert "mine: 3 random splits were drawn, 20 nodes of each class to train" in capsys.readouterr().err
    shares, how = rule.draw_and_say(np.zeros((100, 2), np.float32), "mine")
    assert how == {"train_share": 0.5, "val_share": 0.25, "seed": 5, "splits": 3}
    assert [int(mask.sum()) for mask in shares] == [150, 75, 75]
    assert (
        "50 % of the labelled nodes to train and 25 % to validate, the rest to test (seed 5)" in capsys.readouterr().err
    )
    assert rule.model_dump() == {"train": 20, "val": 30, **how}
    with pytest.raises(ValidationError, match="more than 1"):
        SplitRule(train_share=0.9, val_share=0.2)
