"""Edges in blocks, and what is reduced and multiplied over them, against dense matrices."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from trainer.data.csr import Csr, indptr_of
from trainer.sparse.edge_values import (
    HeadEdges,
    add_at_nodes,
    at_edges,
    by_head,
    greatest,
    inner_products,
    products_by_head,
    totals,
    weighted_by_head,
)
from trainer.sparse.edges import EdgeBlocks

ROWS, COLUMNS, EDGES, HEADS, WIDTH = 40, 30, 200, 3, 20


def random_edges(data_type: torch.dtype = torch.int32) -> EdgeBlocks:
    """Some rows have no edges, among them the first and the last; edges repeat."""
    generator = torch.Generator().manual_seed(0)
    row_E = torch.randint(1, ROWS - 1, (EDGES,), generator=generator).sort().values
    row_E[row_E == 7] = 8
    indices = torch.randint(COLUMNS, (EDGES,), generator=generator)
    indptr = indptr_of(row_E.bincount(minlength=ROWS), data_type)
    return EdgeBlocks(Csr(indptr=indptr, indices=indices.to(data_type), weights=None, num_columns=COLUMNS))


def random(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("max_edges", [1, 13, 10**6])
def test_blocks_hold_every_edge_once(max_edges: int) -> None:
    """A row without edges at the end of a block, or a row with more edges than a block may have."""
    edges = random_edges()
    blocks = edges.blocks(max_edges)
    assert torch.cat([block.row_B for block in blocks]).equal(edges.csr.row_E)
    assert torch.cat([block.column_B for block in blocks]).equal(edges.csr.indices)
    for block in blocks:
        assert block.indptr[0] == 0
        assert block.indptr[-1] == block.num_edges > 0
        assert len(block.indptr) == block.num_rows + 1
        counts = (block.row_B - block.rows.start).bincount(minlength=block.num_rows)
        assert counts.equal(block.indptr.diff().long())
    assert edges.blocks(max_edges) is blocks


def test_no_edges_are_no_blocks() -> None:
    """A block without edges is work for every head in every step."""
    nothing = Csr(
        indptr=torch.zeros(4, dtype=torch.int32), indices=torch.zeros(0).int(), weights=None, num_columns=COLUMNS
    )
    assert not EdgeBlocks(nothing).blocks(5)


@pytest.mark.parametrize("max_edges", [17, 10**6])
@pytest.mark.parametrize("data_type", [torch.int32, torch.int64])
@pytest.mark.parametrize("width", [5, WIDTH])
def test_heads_are_summed_and_multiplied_apart(max_edges: int, data_type: torch.dtype, width: int) -> None:
    """Heads or rows that are mixed up where rows of heads are counted."""
    edges, rows_CG, rows_nG = random_edges(data_type), random(COLUMNS, HEADS * width), random(ROWS, HEADS * width)
    weights_hE = random(HEADS, EDGES)
    row_E, column_E = edges.csr.row_E.long(), edges.csr.indices.long()
    at_both_hE = torch.einsum("ehf,ehf->he", by_head(rows_nG, HEADS)[row_E], by_head(rows_CG, HEADS)[column_E])
    expected_nhF = torch.zeros(ROWS, HEADS, width)
    expected_nhF.index_add_(0, row_E, by_head(rows_CG, HEADS)[column_E] * weights_hE.T.unsqueeze(2))
    sums_nhF, products_hB, first = torch.zeros(ROWS, HEADS, width), [], 0
    for block in edges.blocks(max_edges):
        of_heads = HeadEdges(block, HEADS, COLUMNS)
        weights_hB = weights_hE[:, first : first + block.num_edges]
        sums_nhF[block.rows] = of_heads.weighted_sums(weights_hB, rows_CG)
        products_hB.append(of_heads.products(rows_nG[block.rows], rows_CG))
        first += block.num_edges
    torch.testing.assert_close(sums_nhF, expected_nhF)
    torch.testing.assert_close(torch.cat(products_hB, 1), at_both_hE)


def test_reductions_are_those_of_each_row() -> None:
    """Values of a row without edges, or of the next row or head."""
    edges, values_hE = random_edges(), random(HEADS, EDGES)
    [block] = edges.blocks(EDGES)
    row_E, place_E = edges.csr.row_E.long(), block.row_B - block.rows.start
    matrix_hnE = torch.where(row_E == torch.arange(ROWS).unsqueeze(1), values_hE.unsqueeze(1), float("nan"))
    expected = matrix_hnE.nan_to_num(float("-inf")).amax(2)[:, block.rows]
    assert greatest(values_hE, block).equal(expected)
    torch.testing.assert_close(totals(values_hE, block), matrix_hnE.nansum(2)[:, block.rows])
    at_rows_hr = random(HEADS, block.num_rows)
    assert at_edges(at_rows_hr, place_E).equal(at_rows_hr[:, place_E.long()])
    sums_hr = torch.zeros(HEADS, block.num_rows)
    add_at_nodes(sums_hr, place_E, values_hE)
    torch.testing.assert_close(sums_hr, totals(values_hE, block))


def test_products_with_vectors_and_rows() -> None:
    """A product over the heads of the wrong row or vector."""
    rows_CG, other_CG, vector_hF = random(5000, HEADS * 4), random(5000, HEADS * 4) + 1, random(HEADS, 4)
    rows_ChF, other_ChF = by_head(rows_CG, HEADS), by_head(other_CG, HEADS)
    torch.testing.assert_close(products_by_head(rows_CG, vector_hF), torch.einsum("chf,hf->hc", rows_ChF, vector_hF))
    torch.testing.assert_close(inner_products(rows_CG, other_CG, HEADS), (rows_ChF * other_ChF).sum(2).T)
    weights_hC = random(HEADS, 5000)
    torch.testing.assert_close(
        weighted_by_head(weights_hC, rows_CG), torch.einsum("hc,chf->hf", weights_hC, rows_ChF), rtol=1e-4, atol=1e-3
    )
