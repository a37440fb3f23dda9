"""What a person says of the mini-batches that are planned."""

from __future__ import annotations

from dataclasses import dataclass

from graphprep.errors import UsageError
from graphprep.system.options import check_options, option

DEFAULT_FANOUT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """The trainer's options for mini-batches, with its defaults."""

    batch_size: int = option(
        0,
        "Training nodes in a step, of all ranks together, on sampled neighbourhoods; 0: the whole graph alone.",
        at_least=0,
    )
    fanouts: tuple[int, ...] | None = option(
        None,
        "With --batch-size: neighbours drawn for a node in each layer, the last layer first; all: every one.",
        at_least=-1,
        separator=",",
        example="15,10",
        names={"all": -1},
        default_words=f"{DEFAULT_FANOUT} a layer",
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.fanouts is not None and not self.batch_size:
            raise UsageError("--fanouts is for --batch-size; add it, or leave it out")

    def of_layers(self, layers: int) -> tuple[int, ...]:
        """The fanouts of so many layers.

        Raises:
            UsageError: they are for more layers, or for fewer.
        """
        fanouts = (DEFAULT_FANOUT,) * layers if self.fanouts is None else self.fanouts
        if len(fanouts) != layers:
            raise UsageError(
                f"--fanouts has {len(fanouts)} numbers and the model {layers} layers; give one for each layer"
            )
        return fanouts
