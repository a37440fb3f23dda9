"""`graphprep train CACHE --auto`: choose what a plan finds best, and train so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from graphprep.errors import UsageError
from graphprep.plan.search import SEARCHED, Budget
from graphprep.plan.training import MODELS, TrainingPlan
from graphprep.report.formats import duration
from graphprep.system import progress
from graphprep.system.home import require_cache
from pipelines.planning.best import plan_best
from pipelines.training.train import words_of
from pipelines.training.trainer_options import given_options

AUTO, PILOT = "--auto", "--pilot"


def without_auto(words: Sequence[str]) -> tuple[list[str], int]:
    """The trainer's own options among those of `--auto`, and the epochs of each pilot run, 0 for none.

    Raises:
        UsageError: --pilot has no number of epochs.
    """
    rest, pilot_epochs, remaining = [], 0, iter(words)
    for word in remaining:
        if word == AUTO:
            continue
        if word == PILOT or word.startswith(f"{PILOT}="):
            number = next(remaining, "") if word == PILOT else word.partition("=")[2]
            if not number.isdecimal() or not int(number):
                raise UsageError(f"--pilot {number!r} must be a whole number of epochs, from 1 on")
            pilot_epochs = int(number)
            continue
        rest.append(word)
    return rest, pilot_epochs


def chosen_options(cache: str, words: Sequence[str], *, pilot_epochs: int) -> list[str]:
    """The options that are best for a cache beside those that were given, as words; they are said.

    Args:
        cache: a path or NAME/LABEL.
        words: the trainer's options that were given.
        pilot_epochs: as for `plan_best`.

    Raises:
        UsageError, CacheError: the trainer refuses an option or the cache, or the plan does not know the model.
        TrainingError: as for `plan_best`.
    """
    folder = require_cache(cache)
    options = given_options(folder, words)
    given, values = options.given, options.values
    if values["model"] not in MODELS:
        raise UsageError(f"--auto knows {' and '.join(MODELS)}, not --model {values['model']}; leave --auto out")
    if values["batch_size"]:
        raise UsageError(
            "--auto chooses how halo rows are exchanged, and steps of --batch-size exchange none; leave --auto out, or "
            "ask `graphprep plan CACHE --best --pilot EPOCHS --batch-size N` which of both is quicker"
        )
    planned = {each.name for each in fields(TrainingPlan)}
    found = plan_best(
        str(folder),
        TrainingPlan(**{name: values[name] for name in planned}),
        fixed=given.keys() & set(SEARCHED),
        budget=Budget(epochs=values["epochs"]),
        pilot_epochs=pilot_epochs,
        others={name: value for name, value in given.items() if name not in planned},
    )
    way = found["best"][0]
    chosen = words_of({name: value for name, value in way["options"].items() if name not in given})
    progress.say(
        f"{AUTO} chose {' '.join(chosen) or 'the defaults'} of {found['considered']} ways: an epoch is estimated to "
        f"take {duration(way['epoch_seconds'])}, {way['times_faster']:.2f} times as fast as without; "
        f"{'; '.join(way['reasons'])}"
    )
    return chosen
