"""Builds without the kernel part raise errors for its names, and lack nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ccplane.base import _native
from ccplane.base.errors import LoadError
from ccplane.datapath import ebpf

STUB = Path(_native.__file__).parent / "_native.pyi"
HAS_KERNEL_PART = "EbpfDatapath" in vars(_native)


def names_of_the_stub() -> set[str]:
    classes_and_functions = (ast.ClassDef, ast.FunctionDef)
    return {node.name for node in ast.parse(STUB.read_text()).body if isinstance(node, classes_and_functions)}


def test_only_the_kernel_part_may_lack() -> None:
    lacking = names_of_the_stub() - set(vars(_native))
    assert lacking == (set() if HAS_KERNEL_PART else set(_native.KERNEL_PART))


def test_the_kernel_part_is_in_the_stub() -> None:
    assert set(_native.KERNEL_PART) <= names_of_the_stub()


@pytest.mark.parametrize("name", _native.KERNEL_PART)
def test_what_lacks_is_said_when_it_is_asked_for(name: str) -> None:
    with pytest.raises(LoadError) as caught:
        vars(_native)["__getattr__"](name)  # called by Python for a missing name
    assert caught.value.slug == "load.no_kernel_part"
    assert name in caught.value.message
    assert caught.value.why
    assert "simulator" in caught.value.fix


def test_a_name_that_no_build_has_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'EbpfDatapaht'"):
        _native.EbpfDatapaht  # type: ignore[attr-defined] # noqa: B018


@pytest.mark.skipif(HAS_KERNEL_PART, reason="this build has the kernel part")
def test_the_kernel_datapath_says_that_it_is_not_built() -> None:
    with pytest.raises(LoadError) as caught:
        ebpf.load(ebpf.LoadOptions())
    assert caught.value.slug == "load.no_kernel_part"
    (check,) = ebpf.probe()
    assert (check.name, check.ok, check.required) == ("kernel part", False, True)
