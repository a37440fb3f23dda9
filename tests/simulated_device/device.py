"""A device in the host's memory that torch takes for one of its own, for tests of what code does on a GPU.

`install()` registers it as the device `simulated:0`. Each of its tensors holds one of the CPU, on which every operation
is computed; torch sees a tensor of another device. As on a GPU

    operations on tensors of two devices are errors, but for copies, for indices in the host's memory, and for numbers
    (0-dim tensors of the host) in operations that go element by element
    NumPy, gloo and the memory's address are out of reach, and random numbers come from generators of the device
    backward passes run in a thread of the device
    `is_cuda` is true, so that code takes its ways for GPUs

and `tests.simulated_device.waits` counts what makes the host wait. A tensor has the memory of another one where it is a
view of it, changes in place are seen through all views, and autograd checks versions as anywhere.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch._C import FunctionSchema
from torch._ops import OpOverload
from torch.utils._pytree import tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from tests.simulated_device.waits import record

NAME = "simulated"
_HOST = torch.device("cpu")

_READS_A_NUMBER = {"_local_scalar_dense", "equal", "allclose"}
_SIZE_FROM_VALUES = {
    "nonzero",
    "masked_select",
    "_unique",
    "_unique2",
    "unique_dim",
    "unique_consecutive",
    "unique_dim_consecutive",
    "bincount",
    "histc",
    "_coalesce",
}
_TAKES_HOST_NUMBERS = {"fill", "fill_", "masked_fill", "masked_fill_", "where"}
"""Beside the operations that torch tags as element by element."""
_IN_LOW_PRECISION = ("matmul", "mm", "addmm", "bmm", "linear")
"""What autocast computes in half precision; on a GPU there are more."""
_pinned: dict[int, object] = {}
"""By the address of pinned memory what tells it from the memory that has this address later."""
_NOTHING = nullcontext()
_libraries: list[torch.library.Library] = []


class SimulatedTensor(torch.Tensor):
    """A tensor of the device."""

    held: Tensor
    """Its values; in the host's memory"""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor) -> SimulatedTensor:
        strided = {}
        if held.layout == torch.strided:
            strided = {"strides": held.stride(), "storage_offset": held.storage_offset()}
        # torch has no wrapper with another layout; `layout` says what it is.
        tensor: SimulatedTensor = torch.Tensor._make_wrapper_subclass(
            cls, held.shape, dtype=held.dtype, device=torch.device(NAME, 0), **strided
        )
        tensor.held = held
        return tensor

    def __init__(self, held: Tensor) -> None:
        pass

    @classmethod
    def __torch_dispatch__(
        cls, func: OpOverload, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return _run(func, args, kwargs or {})

    @property
    def is_cuda(self) -> bool:
        return True

    @property
    def layout(self) -> torch.layout:
        return self.held.layout

    @property
    def data(self) -> Tensor:
        return self.detach()

    @data.setter
    def data(self, other: Tensor) -> None:
        if not isinstance(other, SimulatedTensor):
            raise TypeError("incompatible tensor type: .data of a tensor of the device is one of the device")
        torch.Tensor.data.__set__(self, other)
        self.held = other.held

    def data_ptr(self) -> NoReturn:
        raise RuntimeError(f"a tensor of {NAME}:0 has no address in the host's memory")

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def __setitem__(self, index: Any, value: Any) -> None:
        # A number for a GPU's tensor stays in the host's memory, and is copied where one element is set.
        super().__setitem__(index, value if isinstance(value, Tensor) else torch.tensor(value, dtype=self.dtype))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.cpu().__reduce_ex__(protocol)

    def __repr__(self, **_options: Any) -> str:
        return f"SimulatedTensor(shape={tuple(self.shape)}, dtype={self.dtype})"


_CpuGenerator = torch.Generator


class SimulatedGenerator(_CpuGenerator):
    """A generator of the device's random numbers. Those of one seed are the CPU's."""

    def __init__(self) -> None:
        _generators[self._cdata] = self

    @property
    def device(self) -> torch.device:
        return torch.device(NAME, 0)


_generators: dict[int, SimulatedGenerator] = {}
"""By what torch keeps of one when it calls an operation. None is freed, so that no other one is taken for it."""


class _Generator(_CpuGenerator):
    """torch.Generator, which has generators of the device too."""

    def __new__(cls, device: Any = "cpu") -> torch.Generator:
        return SimulatedGenerator() if torch.device(device).type == NAME else _CpuGenerator(device)


class _Backend:
    """The module torch.simulated."""

    def __init__(self) -> None:
        self.generator = SimulatedGenerator()
        """For operations that are given none."""

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        self.generator.manual_seed(seed)

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]


_backend = _Backend()


def install() -> torch.device:
    """Register the device in this process, which must not have computed a gradient yet; returns it."""
    if not _libraries:
        _setup_privateuseone_for_python_backend(NAME, backend_module=_backend)
        torch.Generator = _Generator
        library = torch.library.Library("aten", "IMPL")
        for schema in torch._C._jit_get_all_schemas():
            if _is_factory(schema):
                func = getattr(getattr(torch.ops.aten, _name_of(schema)), schema.overload_name or "default")
                library.impl(func, functools.partial(_make, func), "PrivateUse1")
        library.impl("_copy_from", _copy_from, "PrivateUse1")
        library.impl("_pin_memory", lambda tensor, device=None: _pin(tensor.clone()), "CPU")
        library.impl("is_pinned", lambda tensor, device=None: _is_pinned(tensor), "CPU")
        autocast = torch.library.Library("_", "IMPL")
        autocast.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
        for name in _IN_LOW_PRECISION:
            func = getattr(torch.ops.aten, name).default
            library.impl(func, functools.partial(_in_low_precision, func), "AutocastPrivateUse1")
        _libraries.extend([library, autocast])
    return torch.device(NAME, 0)


def _in_low_precision(func: OpOverload, *args: Any, **kwargs: Any) -> Any:
    """An operation under autocast."""
    kind = torch.get_autocast_dtype(NAME)

    def cast(value: Any) -> Any:
        return value.to(kind) if isinstance(value, Tensor) and value.is_floating_point() else value

    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)):
        return func(*tree_map(cast, args), **tree_map(cast, kwargs))


def _name_of(schema: FunctionSchema) -> str:
    return schema.name.partition("::")[2]


def _is_factory(schema: FunctionSchema) -> bool:
    """Whether an operation makes a tensor from none."""
    names = [argument.name for argument in schema.arguments]
    of_tensors = any("Tensor" in str(argument.type) for argument in schema.arguments)
    makes_one = [str(result.type) for result in schema.returns] == ["Tensor"]
    is_strided = not any(word in schema.name for word in ("sparse", "quantized", "nested", "from_file", "cudnn"))
    return schema.name.startswith("aten::") and "device" in names and not of_tensors and makes_one and is_strided


def _make(func: OpOverload, *args: Any, **kwargs: Any) -> SimulatedTensor:
    """A factory's new tensor."""
    kwargs.pop("pin_memory", None)
    with _random_numbers(torch.Tag.nondeterministic_seeded in func.tags, kwargs.get("generator")):
        return SimulatedTensor(func(*args, **kwargs | {"device": _HOST}))


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    """What torch.tensor calls in place of copy_."""
    copied: Tensor = _run(torch.ops.aten.copy_.default, (target, source, non_blocking), {})
    return copied


@dataclass(frozen=True, slots=True)
class _Operation:
    """What each call of an operation asks of its schema, which is slow to read."""

    name: str
    arguments: list[str]
    written: dict[str, bool]
    """Whether each argument is changed"""
    takes_numbers: bool
    draws: bool
    """Whether it draws random numbers"""
    is_index: bool


@functools.cache
def _operation(func: OpOverload) -> _Operation:
    schema = func._schema
    if func.namespace not in ("aten", "prims", "prim"):
        raise RuntimeError(f"{func} is not there for tensors of {NAME}:0")
    name, arguments = _name_of(schema), [argument.name for argument in schema.arguments]
    return _Operation(
        name=name,
        arguments=arguments,
        written={one.name: bool(one.alias_info is not None and one.alias_info.is_write) for one in schema.arguments},
        takes_numbers=torch.Tag.pointwise in func.tags or name in _TAKES_HOST_NUMBERS,
        draws=torch.Tag.nondeterministic_seeded in func.tags,
        is_index="index" in name and "indices" in arguments,
    )


def _run(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One operation, computed in the host's memory."""
    operation = _operation(func)
    given = dict(zip(operation.arguments, args, strict=False)) | kwargs
    """The arguments by name, without those left to their defaults."""
    _check_devices(func, operation, given)
    _record(operation, given)
    stays_on_host = given.get("device") is not None and given["device"].type == "cpu"
    is_pinned = kwargs.pop("pin_memory", None) and stays_on_host
    by_held: dict[int, Tensor] = {}

    def held(value: Any) -> Any:
        if isinstance(value, SimulatedTensor):
            by_held[id(value.held)] = value
            return value.held
        if isinstance(value, Tensor):
            by_held[id(value)] = value
        elif isinstance(value, list | tuple):
            return [held(one) for one in value]
        return _HOST if isinstance(value, torch.device) else value

    def outer(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)([outer(one) for one in value])
        if not isinstance(value, Tensor):
            return value
        if id(value) in by_held:
            return by_held[id(value)]
        if stays_on_host:
            return _pin(value) if is_pinned else value
        return SimulatedTensor(value)

    with _random_numbers(operation.draws, given.get("generator")) if operation.draws else _NOTHING:
        result = func(*[held(one) for one in args], **{name: held(one) for name, one in kwargs.items()})
    for tensor in by_held.values():
        if isinstance(tensor, SimulatedTensor) and tensor.shape != tensor.held.shape:
            tensor.data = SimulatedTensor(tensor.held)
    return outer(result)


@contextmanager
def _random_numbers(draws: bool, generator: torch.Generator | None) -> Iterator[None]:
    """Let an operation that draws random numbers draw those of the device.

    Raises:
        RuntimeError: its generator is one of the CPU.
    """
    if generator is not None and generator._cdata not in _generators:
        raise RuntimeError(f"Expected a '{NAME}' device type for generator but found '{generator.device.type}'")
    if generator is not None or not draws:
        yield
        return
    of_host = torch.default_generator.get_state()
    torch.default_generator.set_state(_backend.generator.get_state())
    try:
        yield
        _backend.generator.set_state(torch.default_generator.get_state())
    finally:
        torch.default_generator.set_state(of_host)


def _check_devices(func: OpOverload, operation: _Operation, given: Mapping[str, Any]) -> None:
    """Refuse what a GPU would refuse."""
    if operation.name in ("copy_", "_to_copy"):
        return
    for argument, value in given.items():
        for tensor in value if isinstance(value, list | tuple) else [value]:
            if not isinstance(tensor, Tensor) or isinstance(tensor, SimulatedTensor):
                continue
            is_number = not tensor.dim() and not operation.written[argument]
            if is_number and (operation.takes_numbers or (operation.is_index and argument == "values")):
                continue
            if operation.is_index and argument == "indices" and isinstance(given["self"], SimulatedTensor):
                continue
            _refuse(func, argument)


def _refuse(func: OpOverload, argument: str) -> NoReturn:
    raise RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {NAME}:0 and cpu! "
        f"(argument {argument} of {func})"
    )


def _record(operation: _Operation, given: Mapping[str, Any]) -> None:
    """Record what makes the host wait."""
    name = operation.name
    if name == "copy_":
        to_host, from_host = (not isinstance(given[one], SimulatedTensor) for one in ("self", "src"))
        on_host = given["self" if to_host else "src"]
        waits = on_host.numel() and not (given.get("non_blocking") and _is_pinned(on_host))
        if waits and (to_host or from_host):
            record("to host" if to_host else "from host")
    elif name == "_to_copy":
        if given.get("device") is not None and given["device"].type == "cpu":
            record("to host")
    elif name in _READS_A_NUMBER or (name == "segment_reduce" and not given.get("unsafe")):
        record("item")
    elif name in _SIZE_FROM_VALUES or (name == "repeat_interleave" and given.get("output_size") is None):
        record("size")
    elif operation.is_index:
        indices = [index for index in given["indices"] if index is not None]
        is_mask = any(index.dtype in (torch.bool, torch.uint8) for index in indices)
        values = given.get("values")
        if is_mask and values is not None and values.numel() == 1 and not given.get("accumulate"):
            # It is a masked_fill, which reads the number.
            if isinstance(values, SimulatedTensor):
                record("item")
            return
        if is_mask:
            record("size")
        if any(not isinstance(one, SimulatedTensor) for one in (*indices, values) if one is not None):
            record("from host")
    elif "sparse" in name and ("tensor" in name or "to_sparse" in name):
        record("sparse tensor")
        if "to_sparse" in name:
            record("size")


def _pin(tensor: Tensor) -> Tensor:
    storage, memory = tensor.untyped_storage(), object()
    address = storage.data_ptr()
    _pinned[address] = memory

    def freed() -> None:
        if _pinned.get(address) is memory:
            del _pinned[address]

    weakref.finalize(storage, freed)
    return tensor


def _is_pinned(tensor: Tensor) -> bool:
    return tensor.untyped_storage().data_ptr() in _pinned
