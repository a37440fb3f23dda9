"""DGL's two binary files: the bytes are those that DGL 2.1.0 itself wrote."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path

import numpy as np
import pytest

from graphprep.interop.export.dgl_files import HEADER_BYTES, write_graph, write_tensors

# dgl.save_graphs of a graph of 4 nodes and 3 edges, its header after the fourth number (DGL leaves garbage there) zero.
GRAPH = (
    "c-pgHxW(;*zusLY1_*%Bj0~e-6pVsVFbYP&C>RB!U=)mkQ7{Td!6+CmKtKSMzu!yAbl?1lyZf_P6#m8A+*SX0pH=8`&Rs^daRK{<Tc&+*h`Y;xCJv?@"
    "7~$gxXvPz*AI9fE(@(BGxP<z`E#E#Q=z%>1!t79b*m)S_k<0%R@3KJoEJPZ}4CPDU@CXx`=Ai2*)`OUU5zR;FCUZgQ%)GqRqWHZ0lvI3nFmf<5pobA7"
    "2te71gd7Odq(C6Rn6c?cqLT=@k{Qh)21X`yJL3H?L|g^XjDux)m^c792xAW"
)
# dgl.data.utils.save_tensors of float32 ones [2, 3], a truth value each way, and float16 ones [2].
TENSORS = "c-pgfS!BO&e$-uN1_*%Bj8Hnme&LpB9~|QDGN4I-XeI$h1|}$<1*X7;!3L%#7oTQE4uobVxHwEj1um^1rA!J4tuO~mz!Wkx*ki*0GwK*`"


def unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b85decode(text))


def test_a_graph_is_what_dgl_writes(tmp_path: Path) -> None:
    """Guards against a file that only our own reading of DGL's source can read."""
    write_graph(
        tmp_path / "g.dgl",
        num_nodes=4,
        sources=np.array([0, 1, 2]),
        destinations=np.array([1, 2, 0]),
        node_data={"inner_node": np.ones(4, np.bool_), "a": np.arange(4)},
        edge_data={"b": np.arange(3, dtype=np.uint8)},
    )
    found = (tmp_path / "g.dgl").read_bytes()
    assert found[:HEADER_BYTES] == unpacked(GRAPH)[:HEADER_BYTES]
    assert found == unpacked(GRAPH)


def test_tensors_are_what_dgl_writes(tmp_path: Path) -> None:
    """Guards against a dtype, a shape or a truth value that DGL reads as another."""
    tensors = {"h": np.ones(2, np.float16), "m": np.array([True, False]), "x": np.ones((2, 3), ">f4")}
    write_tensors(tmp_path / "t.dgl", tensors)
    assert (tmp_path / "t.dgl").read_bytes() == unpacked(TENSORS)
    write_tensors(tmp_path / "none.dgl", {})
    assert (tmp_path / "none.dgl").read_bytes() == unpacked(TENSORS)[:8] + bytes(16)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_arrays_of_nothing(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """Guards against a part without edges, whose arrays have no bytes to view."""
    write_tensors(tmp_path / "t.dgl", {"x": np.zeros(shape, np.float32)})
    assert (tmp_path / "t.dgl").stat().st_size == 8 + 8 + 8 + 8 + 1 + 16 + 16 + 8 * len(shape) + 8
