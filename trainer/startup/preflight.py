"""The checks before any rank waits for another, and before torch is imported.

They need only the options and the cache's root, so every rank raises the same error by itself.
"""

from __future__ import annotations

import importlib.util

from trainer.base.errors import OptionError, TrainingError
from trainer.config.edge_shares import is_array_name
from trainer.config.options import EDGE_FEATURE_MODELS, MODELS, TYPED_MODELS, Options, is_own_model
from trainer.data.cache import EDGE_WEIGHTS, Cache
from trainer.data.objective import Objective
from trainer.dist.rank_info import RankInfo
from trainer.layers.sums import check_sums

TIME = "time"
"""the array of times, of edges and of nodes"""


def check_world(cache: Cache, rank_info: RankInfo) -> None:
    """Refuse a number of ranks that is not the number of parts.

    Raises:
        TrainingError: they differ.
    """
    if rank_info.world != cache.num_parts:
        raise TrainingError(
            f"{cache.folder} has {_count(cache.num_parts, 'part')} and this run {_count(rank_info.world, 'rank')}; "
            f"start it with torchrun --nproc-per-node {cache.num_parts} -m trainer {cache.folder}, "
            f"or partition for {rank_info.world}"
        )


def check_task(cache: Cache, options: Options) -> None:
    """Refuse a cache that has nothing to learn from, or not the requested split.

    Raises:
        TrainingError: there are no labels, no features (of edges, where they are requested) or no masks, sums of
            features that the model cannot use, or several node or edge types for a model of one.
        CacheError: it has no array of the features that it says it has.
        OptionError: there is no such split, the task, metric or class weights do not suit the labels, or the training
            graph cannot be cut out.
    """
    is_typed = cache.is_typed_for(options.model)
    if options.learns_pairs and (is_typed or not cache.is_plain):
        what = "several node or edge types" if not cache.is_plain else "no node features"
        raise TrainingError(
            f"{cache.folder} has {what}, and --task {options.task} learns pairs of nodes with features, of one node "
            "type and one edge type; partition such a dataset"
        )
    if not cache.is_plain:
        _check_types(cache, options)
    Objective.of(cache, options)
    learns_rows = cache.learns_rows_for(options.model)
    if cache.num_features < 1 and not is_typed and not learns_rows:
        raise TrainingError(
            f"{cache.folder} has no node features to learn from; partition a dataset with features, or learn a row a "
            f"node with --model {', '.join(MODELS[:-1])} or {MODELS[-1]}"
        )
    if not is_typed and not learns_rows and not cache.has_features and cache.aggregated == "none":
        name = f"parts/0/nodes/{cache.node_type}/x/zarr.json"
        raise cache.manifest.damaged(name, f"is not there, though nodes have {cache.num_features} features")
    check_sums(options, cache)
    if options.batch_size:
        _check_batches(cache)
        _check_times(options, cache)
    _check_edge_features(options, cache)
    if options.learns_pairs:
        _check_edge_split(options, cache)
        return
    if cache.num_splits < 1:
        raise TrainingError(
            f"{cache.folder} has no training, validation and test masks; partition a dataset with a split"
        )
    if (is_typed or learns_rows) and options.inductive:
        raise OptionError(
            "--inductive trains on the graph of the training nodes, and nodes of other types, or with learnt rows, are "
            "in no such graph; leave it out"
        )
    if options.split >= cache.num_splits:
        raise OptionError(
            f"--split {options.split}, but {cache.folder} has {_count(cache.num_splits, 'split')}, counted from 0"
        )


def ignored_arrays(options: Options, cache: Cache) -> list[str]:
    """What this cache has and this run ignores, a sentence each for the log."""
    sentences = []
    takes_maximum = (options.model, options.aggregator) == ("sage", "max")
    ignores_weights = options.attends or options.sums_messages or takes_maximum
    if options.learns_pairs and (cache.num_classes or cache.num_splits):
        sentences.append(f"the labels and masks of nodes are ignored: --task {options.task} learns pairs of nodes")
    weighted = [relation.key for relation in cache.relations if cache.is_weighted(relation.key)]
    if weighted and ignores_weights and options.edge_features != EDGE_WEIGHTS:
        how = "--aggregator max" if takes_maximum else f"--model {options.model}"
        how += " with --edge-features" if options.sums_messages else ""
        also = f"; --edge-features {EDGE_WEIGHTS} would use them" if options.model in EDGE_FEATURE_MODELS else ""
        sentences.append(
            f"the edges' weights are ignored by {how}; gcn, sage with --aggregator mean, gin and rgcn use them{also}"
        )
    if weighted and is_own_model(options.model):
        sentences.append(
            f"the edges' weights count in the sums of --model {options.model}, and not in maxima or attention"
        )
    of_edges = {array for relation in cache.relations for array in cache.edge_arrays(relation.key)}
    read = {options.edge_features, options.edge_label, options.edge_split, TIME if options.time == "edges" else None}
    if unread := sorted(of_edges - read):
        reads_some = options.model in EDGE_FEATURE_MODELS or options.learns_edge_labels
        why = "--edge-features does not name them" if reads_some else f"--model {options.model} reads none"
        sentences.append(f"the edges' arrays {', '.join(unread)} are ignored: {why}")
    unlearnt = [kind.name for kind in cache.node_types if kind.name != cache.node_type and cache.has_labels(kind.name)]
    if unlearnt:
        sentences.append(f"the labels of {', '.join(unlearnt)} are ignored: --target {cache.node_type} is learnt")
    reads_node_times = options.time == "nodes" or (options.time is not None and not options.learns_pairs)
    of_nodes = {array for kind in cache.node_types for array in cache.unread_node_arrays(kind.name)}
    if others := sorted(of_nodes - {TIME if reads_node_times else None}):
        sentences.append(f"the nodes' arrays {', '.join(others)} are ignored: no model reads them")
    if options.time is not None and options.eval_fanouts is None:
        also = "" if options.learns_pairs else "; --eval-fanouts would draw by time there too"
        sentences.append(f"--time is for training: validation and test read neighbours of any time{also}")
    if options.boundary_sampling == 0:
        sentences.append("--boundary-sampling 0 sends no row, so edges between parts do not count in training")
    return sentences


def _check_batches(cache: Cache) -> None:
    """Refuse batches of what has no features to fetch, or where nothing can sample."""
    without = [kind.name for kind in cache.node_types if not kind.num_features]
    if without:
        raise TrainingError(
            f"the nodes of type {without[0]} of {cache.folder} have no features, and a row that is learnt for each of "
            "them is not in batches; leave --batch-size out"
        )
    if not cache.has_features:
        raise TrainingError(
            f"{cache.folder} has sums of features and not the features, which batches need; leave --batch-size out, or "
            "partition without --features none"
        )
    if importlib.util.find_spec("graphprep") is None:
        raise TrainingError(
            "--batch-size needs graphprep, whose processes sample for the trainer; install graphprep here, or leave "
            "--batch-size out"
        )


def _check_times(options: Options, cache: Cache) -> None:
    """Refuse draws by times that edges, or nodes, do not have."""
    if options.time is None:
        return
    edges_have = any(TIME in cache.edge_arrays(relation.key) for relation in cache.relations)
    with_times = [kind.name for kind in cache.node_types if TIME in cache.unread_node_arrays(kind.name)]
    if not (edges_have if options.time == "edges" else with_times):
        raise TrainingError(
            f"the {options.time} of {cache.folder} have no array {TIME!r}, by which --time {options.time} draws; "
            "import the graph with their times, or leave --time out"
        )
    if not options.learns_pairs and cache.node_type not in with_times:
        raise TrainingError(
            f"--time needs the times of the nodes that are learnt, and those of type {cache.node_type} of "
            f"{cache.folder} have no array {TIME!r}; import the graph with them, or leave --time out"
        )


def _check_edge_features(options: Options, cache: Cache) -> None:
    name = options.edge_features
    if name is None:
        return
    arrays = sorted({array for relation in cache.relations for array in cache.edge_arrays(relation.key)})
    weighted = any(cache.is_weighted(relation.key) for relation in cache.relations)
    there = [*arrays, *([EDGE_WEIGHTS] if weighted else [])]
    if name not in there:
        raise TrainingError(
            f"the edges of {cache.folder} have no {name}; give --edge-features {' or '.join(there)}, or leave it out"
            if there
            else f"the edges of {cache.folder} have neither weights nor arrays; leave out --edge-features"
        )
    for relation in cache.relations if name in arrays else []:
        shape = cache.edge_array_shape(relation.key, name)
        if len(shape) > 1 or 0 in shape:
            raise TrainingError(
                f"each edge of {cache.folder} has an array of the shape {list(shape)} as its {name}; --edge-features "
                "takes one number or a row of numbers"
            )


def _check_edge_split(options: Options, cache: Cache) -> None:
    name = options.edge_split
    if not is_array_name(name):
        return
    [relation] = cache.relations
    if name not in cache.edge_arrays(relation.key) or cache.edge_array_shape(relation.key, name) not in ((), (1,)):
        raise TrainingError(
            f"the edges of {cache.folder} have no {name} with one number an edge; give --edge-split shares, as "
            "0.85,0.05,0.1, or the name of such an array"
        )


def _check_types(cache: Cache, options: Options) -> None:
    if options.model not in TYPED_MODELS:
        raise TrainingError(
            f"{cache.folder} has the node types {', '.join(kind.name for kind in cache.node_types)} and the edge types "
            f"{', '.join(relation.key for relation in cache.relations) or '(none)'}; graphs of several types are "
            f"trained with --model {' or '.join(TYPED_MODELS)}"
        )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
