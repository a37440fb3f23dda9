"""The node types and relations of a cache and of this rank's part, as a model is built from them."""

from __future__ import annotations

from trainer.config.options import Options
from trainer.data.cache import Cache
from trainer.data.part import Part
from trainer.models.embeddings import Embedding
from trainer.models.plan import Types


def types_of(options: Options, cache: Cache, part: Part) -> Types | None:
    """Node types and relations as weights depend on them; None where they are not distinguished and no row is learnt.

    Where all nodes count as one type and have no features, that is the type.
    """
    if part.typed is None and not cache.learns_rows_for(options.model):
        return None
    everyone = slice(0, part.num_rows)
    rows = [everyone] if part.typed is None else [of.rows for of in part.typed.types]
    kinds, names = cache.node_types, [kind.name for kind in cache.node_types]

    def embedding(number: int) -> Embedding:
        return Embedding(
            part.ids_n[rows[number]] - kinds[number].first_id,
            num_nodes=kinds[number].num_nodes,
            width=options.input_width,
            seed=options.seed,
            number=number,
        )

    return Types(
        num_features=[kind.num_features for kind in kinds],
        rows=rows,
        source_types=[names.index(relation.source) for relation in cache.relations],
        destinations=[relation.destination for relation in cache.relations],
        target=cache.node_type,
        embedding=embedding,
    )


def remark_on_types(options: Options, cache: Cache) -> str | None:
    """A sentence for the log about node types and relations that the model distinguishes, or rows that it learns."""
    without = [kind.name for kind in cache.node_types if not kind.num_features]
    learnt = f"rows are learnt for {', '.join(without)}, without features" if without else ""
    if cache.learns_rows_for(options.model):
        return learnt
    if not cache.is_typed_for(options.model):
        return None
    types, relations = len(cache.node_types), len(cache.relations)
    more = f"; {learnt}" if learnt else ""
    return f"learning {cache.node_type}, among {types} node type(s) and {relations} relation(s){more}"
