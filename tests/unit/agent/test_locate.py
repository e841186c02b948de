from __future__ import annotations

import importlib.util
import sys
import textwrap
from pathlib import Path

import pytest

from ccplane.agent.locate import locate


def load(path: Path, text: str) -> type:
    path.write_text(textwrap.dedent(text))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module.Alg


def line_of(path: Path, text: str) -> int:
    return next(i for i, line in enumerate(path.read_text().splitlines(), 1) if text in line)


@pytest.fixture
def path(tmp_path: Path):
    file = tmp_path / "located_alg.py"
    yield file
    sys.modules.pop(file.stem, None)


@pytest.mark.parametrize(
    "text",
    [
        # quotes, then the text in the next line
        '''
        class Alg:
            program = """
                (def (Report (volatile acked 0)))
                (when true (report))
            """
        ''',
        # a backslash takes the first line end out of the value
        '''
        class Alg:
            program = """\\
                (def (Report (volatile acked 0)))
                (when true (report))
            """
        ''',
        # the text right behind the quotes
        '''
        class Alg:
            program = """(def (Report (volatile acked 0)))
                (when true (report))"""
        ''',
        # in a constant of the module
        '''
        TEXT = """

        (def (Report (volatile acked 0)))
        (when true (report))
        """

        class Alg:
            program = TEXT
        ''',
        # with blanks taken away at run time
        '''
        import textwrap

        class Alg:
            program = textwrap.dedent("""
                (def (Report (volatile acked 0)))
                (when true (report))
            """).strip()
        ''',
        # returned from a method, as pyportus scripts do
        '''
        class Alg:
            def programs(self):
                return {"default": """\\
                    (def (Report (volatile acked 0)))
                    (when true (report))
                """}
            program = programs(None)["default"]
        ''',
    ],
    ids=["next line", "backslash", "same line", "module constant", "dedent", "method"],
)
def test_first_line_of_the_text_is_found(path: Path, text: str) -> None:
    cls = load(path, text)
    program = cls.program
    origin = locate(cls, program)
    first = next(i for i, line in enumerate(program.splitlines()) if line.strip())
    assert origin.file == str(path)
    assert origin.first_line + first == line_of(path, "(def")


def test_literal_of_the_class_wins_over_one_elsewhere(path: Path) -> None:
    cls = load(
        path,
        """
        OTHER = "(when true (report))"

        class Alg:
            program = "(when true (report))"
        """,
    )
    assert locate(cls, cls.program).first_line == line_of(path, "    program")


def test_text_made_at_run_time_is_its_own_origin(path: Path) -> None:
    cls = load(path, 'class Alg:\n    program = "".join(["(when ", "true (report))"])\n')
    assert locate(cls, cls.program).file == "<located_alg.Alg>"


def test_class_without_a_file_has_no_line() -> None:
    namespace: dict = {"__name__": "nowhere"}
    exec("class Alg: program = '(when true (report))'", namespace)
    origin = locate(namespace["Alg"], "(when true (report))")
    assert (origin.file, origin.first_line) == ("<nowhere.Alg>", 1)


def test_edited_file_is_read_again(path: Path) -> None:
    cls = load(path, 'class Alg:\n    program = "(when true (report))"\n')
    assert locate(cls, cls.program).first_line == 2
    sys.modules.pop(path.stem)
    cls = load(path, '# a line more\n# and another\nclass Alg:\n    program = "(when true (report))"\n')
    assert locate(cls, cls.program).first_line == 4


def test_path_is_short_when_it_is_below_the_working_directory(path: Path, monkeypatch) -> None:
    cls = load(path, 'class Alg:\n    program = "(when true (report))"\n')
    monkeypatch.chdir(path.parent)
    assert locate(cls, cls.program).file == "located_alg.py"
