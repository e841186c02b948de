import pytest

from ccp_algs.fold import Ack, Flow, Int
from ccp_algs.fold.expressions import Flag, Num
from ccplane.base._native import Interpreter, compile


def own() -> dict[str, Num | Flag]:
    return {
        value.render(): value
        for prefix in (Ack, Flow, Int)
        for value in vars(type(prefix)).values()
        if isinstance(value, Num | Flag)
    }


@pytest.mark.parametrize("name", sorted(own()))
def test_primitive_has_the_type_that_the_compiler_gives_it(name: str) -> None:
    condition = f"(> {name} 0)" if isinstance(own()[name], Num) else f"(&& {name} true)"
    program = compile(f"(def (Report (x 0)))(when {condition} (:= Report.x 1))")
    assert program.primitives == [name]


@pytest.mark.parametrize(("prefix", "label"), [(Ack, "Ack"), (Flow, "Flow"), (Int, "Int")])
def test_attribute_is_called_as_the_primitive(prefix: object, label: str) -> None:
    for key, value in vars(type(prefix)).items():
        if isinstance(value, Num | Flag):
            assert repr(value) == f"{label}.{key}"


def test_where_none_echoes_telemetry_is_older_than_any_other_and_the_rest_is_0() -> None:
    fields = [key for key, value in vars(type(Int)).items() if isinstance(value, Num)]
    declared = " ".join(f"({key} 7)" for key in fields)
    read = " ".join(f"(:= Report.{key} Int.{key})" for key in fields)
    program = compile(f"(def (Report {declared})) (when true {read} (report))")
    report = Interpreter(program, 1).ack(2, {})
    assert report == {key: (1 << 64) - 1 if key == "age_us" else 0 for key in fields}
