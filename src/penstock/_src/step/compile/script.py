"""ATen calls as a script: text in the language of PyTorch's script interpreter, which runs it without Python.

    graph(%given : Tensor[]):
      %f0 : Tensor, %t1 : Tensor = prim::ListUnpack(%given)
      %t2 : Tensor = aten::mm(%f0, %t1)
      %all : (Tensor, Tensor[]) = prim::TupleConstruct(%t2, %given)
      return (%all)

The inputs are one list, which the script also returns. Dropping a tensor that only Python refers to requires Python's lock:
without the list, a script would request the lock at the last use of each.
"""
from __future__ import annotations

import itertools
import math
from typing import Any

import torch

from penstock._src.step.compile.recorder import Call, Refused, Traced, changed_by, memory, tensors

_NUMBERS = {dtype: i for i, dtype in enumerate((
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
    torch.complex32, torch.complex64, torch.complex128, torch.bool))} | {torch.bfloat16: 15, torch.strided: 0} | {
    layout: i for i, layout in enumerate((torch.contiguous_format, torch.preserve_format, torch.channels_last,
                                          torch.channels_last_3d))}         # as scripts name them


def script(calls: list[Call], inputs: dict[int, str], outputs: list[Traced]) -> Any:
    """A function of the tensors in `inputs` (names by id) that makes the calls and returns `outputs`."""
    text = Text(inputs)
    known = _Known(calls, outputs)
    for call in calls:
        twin = known.twin(call)
        if twin is None:
            text.call(call)
        else:
            text.same(call, twin)
    graph = torch._C.parse_ir(text.graph(outputs))
    return torch._C._create_function_from_graph("step", graph)


class _Known:
    """Common-subexpression elimination: updates of variables, for one, each compute the same rate.

    It skips calls on memory that some call writes to, and results that are returned.
    """

    def __init__(self, calls: list[Call], outputs: list[Traced]):
        self.written = {memory(t) for call in calls for t in changed_by(call)} | set(map(memory, outputs))
        self.first: dict[int, int] = {}              # results of eliminated calls -> their replacements
        self.calls: dict[tuple, Call] = {}

    def twin(self, call: Call) -> Call | None:
        """An earlier call with the same result."""
        if any(r.alias_info is not None for r in call.function._schema.returns) or \
                not self.written.isdisjoint(map(memory, (*tensors(call.args), *call.results))):
            return None
        found = self.calls.setdefault((call.function, self._key(call.args)), call)
        if found is call:
            return None
        self.first.update((id(t), id(f)) for t, f in zip(call.results, found.results, strict=True))
        return found

    def _key(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.first.get(id(value), id(value))
        if isinstance(value, (list, tuple)):
            return tuple([self._key(v) for v in value])
        return type(value), value


class Text:
    """Writes one script."""

    def __init__(self, inputs: dict[int, str]):
        self.inputs = list(inputs.values())
        self.names = dict(inputs)
        self.lines: list[str] = []
        self.constants: dict[tuple[str, str], str] = {}
        self.counter = itertools.count()

    def graph(self, outputs: list[Traced]) -> str:
        """The whole text."""
        unpack = f"  {', '.join(f'%{n} : Tensor' for n in self.inputs)}{' = ' if self.inputs else ''}prim::ListUnpack(%given)"
        constants = [f"  %{name} : {kind} = prim::Constant{value}()" for (kind, value), name in self.constants.items()]
        made = ["%" + self.names[id(t)] for t in outputs]
        kinds = ["Tensor"] * len(made) + ["Tensor[]"]
        pack = f"  %all : ({', '.join(kinds)}) = prim::TupleConstruct({', '.join([*made, '%given'])})"
        return "\n".join(["graph(%given : Tensor[]):", unpack, *constants, *self.lines, pack, "  return (%all)", ""])

    def call(self, call: Call) -> None:
        """A line for a call."""
        schema = call.function._schema
        args = ", ".join(self._argument(value, str(argument.type)) for argument, value in
                         zip(schema.arguments, call.args, strict=True))
        made = [self._new(t) for t in call.results]
        body = f"{schema.name}({args})"
        if len(schema.returns) == 1 and str(schema.returns[0].type) == "List[Tensor]":
            whole = self._line("Tensor[]", body)
            if made:
                self.lines.append(f"  {', '.join(f'%{n} : Tensor' for n in made)} = prim::ListUnpack({whole})")
        elif any(str(r.type) != "Tensor" for r in schema.returns) or len(made) != len(schema.returns):
            raise Refused(f"{call.function} returns something other than tensors")
        else:
            self.lines.append(f"  {', '.join(f'%{n} : Tensor' for n in made)}{' = ' if made else ''}{body}")

    def same(self, call: Call, twin: Call) -> None:
        """Names the results of a call like those of another one."""
        self.names.update((id(t), self.names[id(f)]) for t, f in zip(call.results, twin.results, strict=True))

    def _new(self, t: Traced) -> str:
        """A new name for a result; one that is written in place has a new one from here on."""
        self.names[id(t)] = name = f"r{next(self.counter)}"
        return name

    def _line(self, kind: str, body: str) -> str:
        name = f"l{next(self.counter)}"
        self.lines.append(f"  %{name} : {kind} = {body}")
        return "%" + name

    def _argument(self, value: Any, kind: str) -> str:
        if isinstance(value, torch.Tensor):
            return "%" + self.names[id(value)]
        if isinstance(value, (list, tuple)):
            items = [self._argument(v, _element(kind)) for v in value]
            optional = "?" if kind.removeprefix("Optional[").startswith("List[Optional[") else ""
            return self._line(f"{_element(kind)}{optional}[]", f"prim::ListConstruct({', '.join(items)})")
        if isinstance(value, float) and not math.isfinite(value):
            return self._not_finite(value)
        return "%" + self._constant(*_literal(value, kind))

    def _not_finite(self, value: float) -> str:
        """Infinities and NaN, which have no literals: the result of a computation."""
        large = "%" + self._constant(*_literal(math.copysign(1e308, value), "float"))
        infinite = self._line("float", f"aten::mul({large}, %{self._constant(*_literal(10.0, 'float'))})")
        return self._line("float", f"aten::sub({infinite}, {infinite})") if math.isnan(value) else infinite

    def _constant(self, kind: str, value: str) -> str:
        return self.constants.setdefault((kind, value), f"c{len(self.constants)}_")


def _element(kind: str) -> str:
    """The element type of a list type."""
    inside = kind.removeprefix("Optional[").removeprefix("List[").removeprefix("Optional[").rstrip("]")
    return {"number": "Scalar"}.get(inside, inside)


def _literal(value: Any, kind: str) -> tuple[str, str]:
    """The type and the text of a constant."""
    if value is None:
        return "NoneType", ""
    if isinstance(value, bool):
        return "bool", f"[value={int(value)}]"
    if isinstance(value, (int, float)):
        if isinstance(value, float) or "float" in kind:
            return "float", f"[value={float(value)!r}]"
        return "int", f"[value={value}]"
    if isinstance(value, str):
        return "str", f'[value="{value}"]'
    if isinstance(value, torch.device):
        return "Device", f'[value="{value}"]'
    if value in _NUMBERS:
        return "int", f"[value={_NUMBERS[value]}]"
    raise Refused(f"a {type(value).__name__} is not supported in scripts")

