"""The node types and relations of a cache and of this rank's part, as a typed model is built from them."""

from __future__ import annotations

from trainer.config.options import Options
from trainer.data.cache import Cache
from trainer.data.part import Part
from trainer.models.embeddings import Embedding
from trainer.models.plan import Types


def types_of(options: Options, cache: Cache, part: Part) -> Types | None:
    """Node types and relations as weights depend on them; None where they are not distinguished."""
    if part.typed is None:
        return None
    of_type, names = part.typed.types, [kind.name for kind in cache.node_types]

    def embedding(number: int) -> Embedding:
        rows = of_type[number]
        return Embedding(
            part.ids_n[rows.rows] - rows.first_id,
            num_nodes=rows.num_nodes,
            width=options.input_width,
            seed=options.seed,
            number=number,
        )

    return Types(
        num_features=[kind.num_features for kind in cache.node_types],
        rows=[rows.rows for rows in of_type],
        source_types=[names.index(relation.source) for relation in cache.relations],
        destinations=[relation.destination for relation in cache.relations],
        target=cache.node_type,
        embedding=embedding,
    )


def remark_on_types(options: Options, cache: Cache) -> str | None:
    """A sentence for the log about node types and relations that the model distinguishes, else None."""
    if not cache.is_typed_for(options.model):
        return None
    without = [kind.name for kind in cache.node_types if not kind.num_features]
    learnt = f"; rows are learnt for {', '.join(without)}, without features" if without else ""
    types, relations = len(cache.node_types), len(cache.relations)
    return f"learning {cache.node_type}, among {types} node type(s) and {relations} relation(s){learnt}"
