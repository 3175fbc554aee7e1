"""The rule tables of passes: entries beside ops, and nothing of a pass on OpDef."""
import pytest

import penstock._src.ops.families  # noqa: F401
from penstock._src.ops import rules
from penstock._src.ops.registry import OPS, OpDef

GROUPS = [c for n, c in vars(rules).items() if isinstance(c, type) and c.__module__ == rules.__name__ and n.islower()]
TABLES = {f"{c.__name__}.{n}": t for c in GROUPS for n, t in vars(c).items() if isinstance(t, (set, rules.RuleTable))}


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_entries_for_ops_of_the_registry(name):
    table = TABLES[name]
    assert table and all(OPS.get(op.name) is op for op in table)


def test_each_group_names_its_readers():
    assert [c for c in GROUPS if not c.__doc__] == []


def test_a_property_of_a_pass_is_no_attribute_of_an_op():
    made = OpDef("TestUnregistered", "x: float32 -> y: float32")
    with pytest.raises(AttributeError):
        made.pointwise = "NEG"
    with pytest.raises(AttributeError):
        made.fuse(lambda op, fusing: None)


def test_a_table_is_a_decorator_for_one_or_more_ops():
    table = rules.RuleTable()
    a, b = (OpDef(name, "x: float32 -> y: float32") for name in ("TestA", "TestB"))

    @table(a, b)
    def rule():
        return 1
    assert rule() == 1 and table == {a: rule, b: rule} and table.get(OPS["Neg"]) is None


def test_ops_that_return_their_inputs():
    class Node:
        opdef, attrs = OPS["Cast"], {"SrcT": "float32", "DstT": "float32"}
    assert rules.forwards(Node)
    Node.attrs = {"SrcT": "float32", "DstT": "int32"}
    assert not rules.forwards(Node)
    Node.opdef = OPS["Neg"]
    assert not rules.forwards(Node)
