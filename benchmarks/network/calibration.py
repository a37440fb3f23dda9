"""What the cost model does not know of a network: what share of a link messages get, and what starting exchanges takes.

`tc` counts whole frames, as a cable does: of 1,514 bytes 1,448 are a message's, and acknowledgements of what comes the
other way take some more. And before the first byte moves, all ranks have to arrive at an exchange and each receiver has
to tell each sender that it is ready; on a busy machine that is mostly the time until processes get their turn.

Both are fitted to three configurations that no other benchmark reports: three machines of one rank, block model, rows
of three widths. seconds of an epoch = exchanges * start + predicted / share, by least squares of relative errors.
Prints the fit and writes JSON with --out.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from benchmarks.network import needs
from benchmarks.network.cases import links_of
from benchmarks.network.exchange_time import EXCHANGES, measured_seconds, predicted_seconds, row_bytes, run_of
from benchmarks.network.laboratory import laboratory
from benchmarks.network.parts import cut
from benchmarks.network.ranks import train_all

GRAPH, WIDTHS = "sbm", (8, 32, 128)


def fitted(predicted: list[float], measured: list[float]) -> tuple[float, float]:
    """(share, start) with the least relative errors of EXCHANGES * start + predicted / share."""
    weight = 1 / np.array(measured)
    sides = np.stack([np.array(predicted) * weight, EXCHANGES * weight], axis=1)
    (inverse_share, start), *_ = np.linalg.lstsq(sides, np.ones(len(measured)), rcond=None)
    return float(1 / inverse_share), float(start)


def main() -> int:
    """Returns 2 where namespaces cannot be had."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="for the store and the cache; used again")
    parser.add_argument("--patience", type=float, default=600.0, help="seconds for the laboratory")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    needs.require()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    links = links_of(3, 3, "unequal")
    cache = cut(GRAPH, links, "ours", arguments.folder)
    with laboratory(links.topology) as lab:
        runs = [run_of(GRAPH, cache, hidden=width) for width in WIDTHS]
        results = train_all(lab, runs, patience_s=arguments.patience)
    measured = [measured_seconds(result) for result in results]
    predicted = [predicted_seconds(cache, links.topology, width) for width in WIDTHS]
    share, start = fitted(predicted, measured)
    document = {
        "mbits": links.mbits,
        "row_bytes": [row_bytes(cache, width) for width in WIDTHS],
        "predicted_seconds": predicted,
        "measured_seconds": measured,
        "share": share,
        "start_seconds": start,
    }
    print(json.dumps(document, indent=1))
    if arguments.out:
        arguments.out.write_text(json.dumps(document, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
