"""What `make test-pages` finds on a page, and how it runs a block; here without a root file system."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.bare_machine import NOTHING
from scripts.try_pages import PAGES, PATHS, Block, Outcome, blocks, edited, runs_of, without_kernel

ROOT = Path(__file__).parents[2]
PAGE = """# Title

## Get it

```sh
ccp demo
# a comment
for i in 1 2; do
  echo $i
done
```

<!-- file: mine.py -->

```python
pass
```

```
output, which is not run
```

### On real sockets

<!-- not run: needs a clone -->

```sh
make demo
```

<!-- runs on: loaded -->
```sh
sudo ccp run mine.py
```

<!-- edit: mine.py; saved -->

```diff
-pass
+x = 1
```
"""


def test_blocks_have_their_section_and_what_the_comment_says() -> None:
    demo, file, clone, agent, edit = blocks(PAGE)
    assert (demo.section, demo.mark, demo.commands) == ("Get it", "", 2)
    assert (file.file, file.text, file.section) == ("mine.py", "pass\n", "Get it")
    assert (clone.why_not, clone.section, clone.runs_on) == ("needs a clone", "On real sockets", "")
    assert (agent.runs_on, edit.edit) == ("loaded", ("mine.py", "saved"))


def test_lines_of_a_here_document_are_no_commands() -> None:
    text = "sudo tee FILE <<'END'\nA=1\nB=2\nEND\necho |\n  cat\n# a comment\n"
    assert Block("", "sh", text).commands == 2


def test_an_edit_replaces_lines_that_are_there_once() -> None:
    assert edited("a\n  b\nc\n", "-  b\n+  B\n") == "a\n  B\nc\n"
    with pytest.raises(ValueError, match="once"):
        edited("a\na\n", "-a\n+b\n")


def test_commands_in_a_console_follow_a_dollar() -> None:
    (block,) = blocks("```console\n$ ccp new mine\nwrote mine.py\n$ ccp check mine.py\nOK\n```\n")
    assert block.text == "ccp new mine\nccp check mine.py\n"
    assert without_kernel(block) == block


def test_without_the_kernel_blocks_that_need_it_are_left_out() -> None:
    assert without_kernel(Block("", "sh", "ccp check mine.py\nsudo ccp run mine.py\n")).why_not


def test_only_blocks_that_run_on_may_be_ended_by_ctrl_c() -> None:
    once, always = Block("", "sh", ""), Block("", "sh", "", "runs on: loaded")
    assert [Outcome(once, NOTHING, status).passed for status in (0, 1, 130, None)] == [
        True,
        False,
        False,
        True,
    ]
    assert [Outcome(always, NOTHING, status).passed for status in (0, 1, 130)] == [True, False, True]
    assert not Outcome(always, NOTHING, 0, missing="loaded").passed


def test_every_users_path_is_in_the_readme() -> None:
    sections = {block.section for block in blocks((ROOT / "README.md").read_text())}
    assert {section for path in PATHS.values() for section in path} <= sections


def test_each_block_of_the_readme_is_in_one_run() -> None:
    found = blocks((ROOT / "README.md").read_text())
    runs = [block for _, own in runs_of(["README.md"]) for block in own]
    assert sorted(block.text for block in runs) == sorted(block.text for block in found)


def test_users_need_few_commands() -> None:
    found = blocks((ROOT / "README.md").read_text())
    count = {user: sum(b.commands for b in found if b.section in own) for user, own in PATHS.items()}
    assert count["live editing"] <= 5
    assert count["notebook"] <= 3


@pytest.mark.parametrize("page", PAGES)
def test_every_mark_is_one_that_is_known(page: str) -> None:
    text = (ROOT / page).read_text()
    marks = re.findall(r"<!-- ((?:not run|runs on|file|edit)[^>]*?) -->\n+```", text)
    assert sorted(marks) == sorted(block.mark for block in blocks(text) if block.mark)
    for block in blocks(text):
        assert block.mark == "" or block.file or block.why_not or block.runs_on or block.edit, block.mark
