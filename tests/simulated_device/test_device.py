"""The simulated device: what it computes, what it refuses, and what it counts."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from tests.simulated_device.device import NAME, SimulatedTensor
from tests.simulated_device.processes import on_device
from tests.simulated_device.waits import recorded
from trainer.base.optimiser import optimiser

DIFFERENT = "Expected all tensors to be on the same device"


def on_both(shape: tuple[int, ...], seed: int = 0, **options: Any) -> tuple[Tensor, Tensor]:
    """The same numbers on the CPU and on the device."""
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(**options)
    return values, values.to(NAME)


def kinds_of(call: Callable[..., Any], *arguments: Any) -> dict[str, int]:
    """How often a call makes the host wait, by kind."""
    with recorded() as log:
        call(*arguments)
    return dict(Counter(wait.kind for wait in log))


@pytest.mark.slow
@on_device
def test_factories_make_tensors_of_the_device() -> None:
    """A factory that falls back to the CPU hides every mix of devices that follows."""
    for tensor in (
        torch.empty(2, 3, device=NAME),
        torch.zeros(2, device=NAME),
        torch.full((2,), 7.0, device=NAME),
        torch.arange(1, 6, 2, device=NAME),
        torch.rand(3, device=NAME),
        torch.randint(9, (3,), device=NAME),
        torch.randperm(5, device=NAME),
        torch.eye(3, device=NAME),
        torch.linspace(0, 1, 4, device=NAME),
        torch.tensor([1, 2], device=NAME),
        torch.zeros(2).new_ones(3, device=NAME),
        torch.empty_like(torch.ones(2), device=NAME),
        torch.ones(2).to(NAME).new_tensor([3.0]),
    ):
        assert isinstance(tensor, SimulatedTensor)
        assert tensor.device == torch.device(NAME, 0)
        assert tensor.is_cuda
        assert tensor.cpu().device.type == "cpu"
    assert torch.arange(1, 6, 2, device=NAME).tolist() == [1, 3, 5]
    assert torch.empty_like(torch.zeros(2, device=NAME), device="cpu").device.type == "cpu"


@on_device
def test_operations_compute_what_the_cpu_does() -> None:
    """Losses that are compared with the CPU's say nothing if the device computes something else."""
    a, x = on_both((5, 4))
    b, y = on_both((4, 3), 1)
    rows = torch.tensor([4, 0, 0])
    results = [
        (a @ b, x @ y),
        (a.T.contiguous()[1:].sum(0), x.T.contiguous()[1:].sum(0)),
        (torch.where(a > 0, a, 0.0), torch.where(x > 0, x, 0.0)),
        (a.index_select(0, rows), x.index_select(0, rows.to(NAME))),
        (a.half().view(torch.uint8).float(), x.half().view(torch.uint8).float()),
        (torch.cat([a, a * 2]), torch.cat([x, x * 2])),
        (a.as_strided((2, 4), (1, 1)), x.as_strided((2, 4), (1, 1))),
        (a.max(1).indices.float(), x.max(1).indices.float()),
        (a.cumsum(0), x.cumsum(0)),
    ]
    for expected, found in results:
        assert isinstance(found, SimulatedTensor)
        assert found.stride() == expected.stride()
        assert torch.equal(found.cpu(), expected)


@pytest.mark.slow
@on_device
def test_changes_in_place_are_seen_through_views() -> None:
    """The trainer fills buffers piece by piece; a view with memory of its own leaves them as they were."""
    x = torch.zeros(4, 3, device=NAME)
    x[1] = 2.0
    x[2:, 1] += 5
    for piece in torch.split(x, [2, 2]):
        piece[0, 0] = 9
    x.view(torch.uint8)[0, -1] = 64
    torch.mul(x[1], 10, out=x[3])
    x.index_add_(0, torch.tensor([0], device=NAME), torch.ones(1, 3, device=NAME))
    assert x.tolist() == [[10, 1, 3], [2, 2, 2], [9, 5, 0], [20, 20, 20]]
    base = torch.zeros(3, device=NAME)
    assert base.add_(1) is base
    base.copy_(torch.ones(3))
    assert base.sum().item() == 3


@pytest.mark.slow
@on_device
def test_shapes_that_change_in_place() -> None:
    """torch would go on with the old shape and the values of the new one; `vector @ matrix` does that inside."""
    x = torch.arange(6.0, device=NAME).view(2, 3)
    assert x.T.contiguous().t_().shape == (2, 3)
    assert x[:1].clone().squeeze_(0).tolist() == [0, 1, 2]
    assert (x[0] @ x.T).tolist() == [5, 14]
    torch.mul(x, 2, out=(doubled := torch.empty(0, device=NAME)))
    assert (doubled.shape, doubled.stride(), doubled[1].tolist()) == ((2, 3), (3, 1), [6, 8, 10])


@on_device
def test_mixed_devices_are_errors() -> None:
    """On a GPU each of these ends the run in its first epoch, or on the first row that some rank receives."""
    h, x, rows = torch.ones(3, 3), torch.ones(3, 3, device=NAME), torch.zeros(3, dtype=torch.int64)
    csr = torch.eye(3, device=NAME).to_sparse_csr()
    weight = nn.Parameter(torch.ones(3, 3, device=NAME))
    mixes: list[Callable[[], Any]] = [
        lambda: x + h,
        lambda: h + x,
        lambda: x @ h,
        lambda: h @ weight,
        lambda: torch.cat([x, h]),
        lambda: torch.stack([h, x]),
        lambda: torch.where(x > 0, x, h),
        lambda: torch.where(h > 0, x, x),
        lambda: x.add_(h),
        lambda: h.add_(x),
        lambda: torch.zeros(()).add_(x.sum()),
        lambda: torch.mul(x, x, out=h),
        lambda: torch.mul(h, h, out=x),
        lambda: x.index_select(0, rows),
        lambda: x.index_add_(0, rows, x),
        lambda: x.scatter_add_(0, rows.expand(3, 3), x),
        lambda: h[rows.to(NAME)],
        lambda: h.__setitem__(rows, x),
        lambda: x.__setitem__(rows, h),
        lambda: x.index_put_((rows,), torch.ones(3)),
        lambda: nn.functional.embedding_bag(rows, x, torch.tensor([0, 3], device=NAME), include_last_offset=True),
        lambda: nn.functional.embedding_bag(rows.to(NAME), h, torch.tensor([0]).to(NAME), mode="sum"),
        lambda: nn.functional.cross_entropy(x, rows),
        lambda: nn.functional.cross_entropy(x, rows.to(NAME), weight=torch.ones(3)),
        lambda: csr @ h,
        lambda: torch.eye(3).to_sparse_csr() @ x,
        lambda: torch.segment_reduce(x, "sum", lengths=torch.tensor([3]), unsafe=True),
        lambda: nn.Linear(3, 3)(x),
        lambda: _Double.apply(x, h),
        lambda: setattr(weight, "grad", h),
    ]
    for number, mix in enumerate(mixes):
        with pytest.raises((RuntimeError, TypeError), match="device"):
            raise AssertionError(f"mix {number} gives {mix()}")


class _Double(torch.autograd.Function):
    """Twice the first of two tensors, plus the second."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return 2 * x + y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        [x] = ctx.saved_tensors
        assert x.device == grad.device
        return 2 * grad, grad.clone()


class _Reads(torch.autograd.Function):
    """A function whose backward pass reads a number."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.factor = 2
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * grad.sum().item() * ctx.factor


@pytest.mark.slow
@on_device
def test_numbers_and_indices_of_the_host_are_allowed() -> None:
    """A device that is stricter than a GPU refuses code that runs there."""
    x, number = torch.ones(3, 3, device=NAME), torch.tensor(2.0)
    assert (x * number).sum().item() == 18
    assert x.clamp(max=torch.tensor(0.5)).sum().item() == 4.5
    assert torch.where(x > 0, number, x).sum().item() == 18
    assert x.masked_fill(x > 0, number).sum().item() == 18
    assert torch.lerp(x, x, number).sum().item() == 9
    rows = torch.tensor([0, 2])
    assert kinds_of(lambda: x[rows]) == {"from host": 1}
    x[rows] = number
    assert x.sum().item() == 15


@pytest.mark.slow
@on_device
def test_what_is_not_of_the_device_cannot_reach_its_memory() -> None:
    """gloo that reads a GPU's memory, or NumPy, ends the process."""
    x = torch.ones(3, device=NAME)
    for reach in (x.numpy, x.data_ptr, lambda: memoryview(x)):
        with pytest.raises((RuntimeError, TypeError)):
            reach()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    with pytest.raises(RuntimeError):
        dist.all_reduce(x)
    dist.all_reduce(on_host := x.cpu())
    assert on_host.tolist() == [1, 1, 1]
    dist.destroy_process_group()


@pytest.mark.slow
@on_device
def test_gradients() -> None:
    """Gradients that lose their device, or that the CPU's thread computes, are not a GPU's."""
    (a, x), (b, w) = on_both((4, 3)), on_both((3, 2), 1)
    grads = []
    for rows, weight in ((a, b), (x, w)):
        rows, weight = rows.requires_grad_(), nn.Parameter(weight)
        hidden = _Double.apply(rows, rows * 3).relu()
        scores = hidden.index_select(0, torch.tensor([0, 0, 3], device=rows.device)) @ weight
        loss = nn.functional.cross_entropy(scores, torch.tensor([0, 1, 1], device=rows.device), reduction="sum")
        loss.backward()
        assert rows.grad is not None
        assert weight.grad is not None
        assert weight.grad.device == rows.device
        grads.append([rows.grad, weight.grad])
    for expected, found in zip(*grads, strict=True):
        assert isinstance(found, SimulatedTensor)
        assert torch.equal(found.cpu(), expected)
    saved = x.detach().requires_grad_() * 1
    squared = saved.square()
    saved.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        squared.sum().backward()


@pytest.mark.slow
@on_device
def test_the_waits_of_a_backward_pass_are_counted() -> None:
    """A backward pass runs in another thread, where a count of one thread alone sees nothing."""

    x = torch.ones(3, device=NAME, requires_grad=True)
    assert kinds_of(lambda: _Reads.apply(x).sum().backward()) == {"item": 1}


COUNTED: dict[str, tuple[dict[str, int], Callable[[Tensor], Any]]] = {
    "item": ({"item": 1}, lambda x: x[0, 0].item()),
    "float": ({"item": 1}, lambda x: float(x.sum())),
    "int": ({"item": 1}, lambda x: int(x.sum())),
    "truth": ({"item": 1}, lambda x: bool((x > 0).all())),
    "if": ({"item": 1}, lambda x: 1 if x.isnan().any() else 2),
    "in": ({"item": 1}, lambda x: 7.0 in x),
    "equal": ({"item": 1}, lambda x: torch.equal(x, x)),
    "allclose": ({"item": 1}, lambda x: torch.allclose(x, x)),
    "cpu": ({"to host": 1}, lambda x: x.cpu()),
    "to cpu": ({"to host": 1}, lambda x: x.to("cpu", torch.float64)),
    "tolist": ({"to host": 1}, lambda x: x.tolist()),
    "copy_ to the host": ({"to host": 1}, lambda x: torch.empty(3, 3).copy_(x)),
    "pickle": ({"to host": 1}, lambda x: torch.save(x, io.BytesIO())),
    "to the device": ({"from host": 1}, lambda x: torch.ones(3).to(x.device)),
    "tensor": ({"from host": 1}, lambda x: torch.tensor([1.0], device=x.device)),
    "new_tensor": ({"from host": 1}, lambda x: x.new_tensor([1.0])),
    "one element": ({"from host": 1}, lambda x: x.__setitem__((0, 0), 1.0)),
    "not pinned": ({"from host": 1}, lambda x: torch.ones(3).to(x.device, non_blocking=True)),
    "pinned, blocking": ({"from host": 1}, lambda x: torch.ones(3).pin_memory().to(x.device)),
    "nonzero": ({"size": 1}, lambda x: x.nonzero()),
    "where": ({"size": 1}, lambda x: torch.where(x > 0)),
    "mask": ({"size": 1}, lambda x: x[x > 0]),
    "mask of rows": ({"size": 1}, lambda x: x[x[:, 0] > 0, 1]),
    "rows of a mask": ({"size": 1}, lambda x: x.__setitem__(x[:, 0] > 0, torch.ones(3, 3, device=NAME))),
    "number of the device": ({"item": 1}, lambda x: x.__setitem__(x > 0, torch.ones((), device=NAME))),
    "masked_select": ({"size": 1}, lambda x: x.masked_select(x > 0)),
    "unique": ({"size": 1}, lambda x: x.unique()),
    "unique_consecutive": ({"size": 1}, lambda x: x[0].unique_consecutive()),
    "bincount": ({"size": 1}, lambda x: x[0].long().bincount(minlength=2)),
    "repeat_interleave": ({"size": 1}, lambda x: x.repeat_interleave(torch.ones(3, dtype=torch.int64, device=NAME), 0)),
    "sparse": (
        {"sparse tensor": 1},
        lambda x: torch.sparse_csr_tensor(
            torch.arange(4, device=NAME), torch.arange(3, device=NAME), x[0], (3, 3), check_invariants=False
        ),
    ),
    "to_sparse_csr": ({"sparse tensor": 1, "size": 1}, lambda x: x.to_sparse_csr()),
}
NOT_COUNTED: dict[str, Callable[[Tensor], Any]] = {
    "a number for all": lambda x: x.__setitem__(slice(0, 2), 1.0),
    "a number for a mask": lambda x: x.__setitem__(x > 5, 1.0),
    "masked_fill": lambda x: x.masked_fill(x > 5, 0.0),
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "shape": lambda x: (len(x), x.shape, x.numel(), x.dtype, x.device, x.stride()),
    "rows": lambda x: x[torch.zeros(2, dtype=torch.int64, device=NAME)],
    "rows set": lambda x: x.__setitem__(torch.zeros(2, dtype=torch.int64, device=NAME), x[:2].clone()),
    "size known": lambda x: x.repeat_interleave(torch.ones(3, dtype=torch.int64, device=NAME), 0, output_size=3),
    "pinned": lambda x: torch.ones(3).pin_memory().to(x.device, non_blocking=True),
    "pinned, copy_": lambda x: x.copy_(torch.empty_like(x, device="cpu", pin_memory=True), non_blocking=True),
    "on the device": lambda x: (x.to(NAME), x.clone(), x.float(), x.double(), torch.full((3,), 2.0, device=NAME)),
    "iteration": lambda x: [row + 1 for row in x],
    "split": lambda x: torch.split(x, [1, 2]),
    "segments": lambda x: torch.segment_reduce(
        x, "sum", lengths=torch.full((1,), 3, dtype=torch.int64, device=NAME), unsafe=True
    ),
    "embedding_bag": lambda x: nn.functional.embedding_bag(
        torch.arange(3, device=NAME),
        x,
        torch.arange(2, device=NAME),
        mode="sum",
        include_last_offset=True,
        per_sample_weights=x[0],
    ),
}


@on_device
def test_waits_are_counted() -> None:
    """A wait that is not counted is found by a profiler on a GPU, or never."""
    for case, (expected, call) in COUNTED.items():
        found = kinds_of(call, torch.ones(3, 3, device=NAME))
        assert found == expected, f"{case}: {found}"


@pytest.mark.slow
@on_device
def test_memory_is_pinned_as_long_as_it_is_there() -> None:
    """Memory that is freed may be given out again, and is not pinned then."""
    pinned = torch.ones(1000).pin_memory()
    view, address = pinned[10:], pinned.data_ptr()
    del pinned
    assert view.is_pinned()
    assert not torch.ones(3).is_pinned()
    del view
    again = [torch.ones(1000) for _ in range(50)]
    assert address not in {one.data_ptr() for one in again if one.is_pinned()}


@on_device
def test_what_does_not_wait_is_not_counted() -> None:
    """Counts of what a GPU does not wait for make people change code that is right."""
    for case, call in NOT_COUNTED.items():
        found = kinds_of(call, torch.ones(3, 3, device=NAME))
        assert not found, f"{case}: {found}"


@pytest.mark.slow
@on_device
def test_waits_have_the_line_of_the_trainer() -> None:
    """A wait in a helper of torch, or of the tests, is nothing that somebody could mend."""
    from trainer.exchange.halo_exchange import relative_change

    x = torch.ones(3, device=NAME)
    with recorded() as log:
        relative_change(x, x)
        x.sum().item()
    assert {(wait.file, wait.function) for wait in log[:-1]} == {
        ("trainer/exchange/halo_exchange.py", "relative_change")
    }
    assert log[-1].file == "tests/simulated_device/test_device.py"
    assert "x.sum().item()" in Path(__file__).read_text().splitlines()[log[-1].line - 1]


@pytest.mark.slow
@on_device
def test_sparse_products() -> None:
    """Both products of the trainer, forward and transposed, and the products at entries."""
    dense, x = on_both((4, 3))
    y = torch.ones(3, 2, device=NAME)
    pattern = dense.where(dense > 0, 0).to_sparse_csr()
    csr = torch.sparse_csr_tensor(
        pattern.crow_indices().to(NAME), pattern.col_indices().to(NAME), pattern.values().to(NAME), (4, 3)
    )
    assert csr.layout == torch.sparse_csr
    assert csr.device.type == NAME
    expected = dense.clamp(min=0).sum(1, keepdim=True).expand(4, 2)
    for product in (torch.mm(csr, y), csr @ y):
        assert isinstance(product, SimulatedTensor)
        torch.testing.assert_close(product.cpu(), expected)
    products = torch.sparse.sampled_addmm(csr, x @ y, y.T, beta=0.0)
    assert products.values().shape == pattern.values().shape


@pytest.mark.slow
@on_device
def test_random_numbers_come_from_generators_of_the_device() -> None:
    """A generator of the CPU is an error on a GPU, and the CPU's numbers must not depend on what the device draws."""
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    drawn = [torch.rand(3, device=NAME) for _ in range(2)]
    assert torch.equal(torch.rand(3), expected)
    assert not torch.equal(drawn[0], drawn[1])
    torch.manual_seed(5)
    assert torch.equal(torch.rand(3, device=NAME), drawn[0])
    generator = torch.Generator(NAME).manual_seed(1)
    assert generator.device.type == NAME
    ours = torch.empty(3, device=NAME).uniform_(generator=generator)
    assert torch.equal(ours.cpu(), torch.empty(3).uniform_(generator=torch.Generator().manual_seed(1)))
    for draw in (
        lambda: torch.empty(3, device=NAME).uniform_(generator=torch.Generator()),
        lambda: torch.rand(3, device=NAME, generator=torch.Generator()),
    ):
        with pytest.raises(RuntimeError, match="device type for generator"):
            draw()


@pytest.mark.slow
@on_device
def test_modules_and_optimisers() -> None:
    """The trainer makes parameters views of one vector, which Module.to and .data have to keep."""
    results = []
    for device in ("cpu", NAME):
        torch.manual_seed(3)
        net = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 2)).to(device)
        assert {parameter.device.type for parameter in net.parameters()} == {device}
        assert all(isinstance(parameter, nn.Parameter) for parameter in net.parameters())
        ours = optimiser("adam", [(parameter, 0.01) for parameter in net.parameters()], momentum=0.0)
        x = torch.ones(5, 3, device=device)
        with recorded() as log:
            for _ in range(3):
                net(x).square().sum().backward()
                ours.step(ours.flatten_gradients(), 0.1)
        assert not log
        ours.weights_W.mul_(2)
        flat = torch.cat([parameter.detach().reshape(-1) for parameter in net.parameters()])
        assert torch.equal(flat, ours.weights_W)
        net.load_state_dict({name: value.cpu() for name, value in net.state_dict().items()})
        results.append(net(x).detach().cpu())
    assert torch.equal(*results)


@pytest.mark.slow
@on_device
def test_saved_tensors_are_the_hosts() -> None:
    """A checkpoint of a run on a GPU has to be read where there is none."""
    file = io.BytesIO()
    torch.save({"x": torch.arange(3, device=NAME), "n": 2}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True, map_location="cpu")
    assert loaded["x"].tolist() == [0, 1, 2]
    assert not isinstance(loaded["x"], SimulatedTensor)


@pytest.mark.slow
@on_device
def test_autocast_and_loss_scale() -> None:
    """Under autocast a product is in half precision, and a gradient that is not finite leaves the step out."""
    x, weight = torch.ones(2, 2, device=NAME), nn.Parameter(torch.ones(2, 2, device=NAME))
    with torch.autocast(NAME, dtype=torch.bfloat16):
        product = x @ weight
    assert product.dtype == torch.bfloat16
    product.sum().backward()
    assert weight.grad is not None
    assert weight.grad.dtype == torch.float32
    scale, optimiser_ = torch.amp.GradScaler(NAME, init_scale=4.0), torch.optim.SGD([weight], lr=1.0)
    weight.grad = None
    scale.scale((x @ weight).sum() * torch.inf).backward()
    assert kinds_of(lambda: scale.step(optimiser_)) == {"item": 1}
    scale.update()
    assert scale.get_scale() == 2.0
    assert weight.sum().item() == 4
