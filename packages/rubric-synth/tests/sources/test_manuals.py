"""Objects that manuals describe: settings, options and variables, read by the real pandoc."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from rubric_synth import Document
from rubric_synth.document import ApiEntry, parse_entry

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SETTINGS = """
Configuration
=============

.. py:data:: QUEUE_LIMIT

    The most boats that wait for it. Use :data:`GATE` to close it.

    .. code-block:: python

        QUEUE_LIMIT = 3

    Default: ``12``

.. confval:: gate_colour
   :type: :code-py:`str`
   :default: :code-py:`'green'`

   The colour of the signal at the gate. It is one of::

       red
       green

.. envvar:: LOCK_HOME

   Name the folder that the log is kept in, as :ref:`logs` and :rfc:`9` say.

.. confval:: old_gate

   .. deprecated:: 2.0

   The colour that the gate had.

.. setting:: WATER_MARK

``WATER_MARK``
--------------

Default: ``False``

Whether the level is painted on the wall.

``TIDE``
~~~~~~~~

Default: ``4``

A key of the setting above.

.. program:: lock open

.. option:: -f, --force <n>

   Open the gate at any level of the water.
"""


def _entries(found: list[object]) -> list[ApiEntry]:
    documents = [item for item in found if isinstance(item, Document)]
    entries = [parse_entry(item.text) for item in documents if item.kind == "api"]
    return [entry for entry in entries if entry is not None]


def _described(found: list[object]) -> dict[str, tuple[str, str, str]]:
    """Return program, type and text of each object by its name."""
    return {
        item.name: (entry.name, item.kind, item.description)
        for entry in _entries(found)
        for item in entry.parameters
    }


def test_directives_of_sphinx_describe_objects(
    tmp_path: Path, read: Callable[..., list[object]]
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "conf.py").write_text('name = "Canal"\nproject = name\n')
    (docs / "settings.rst").write_text(_SETTINGS)

    described = _described(read(docs))

    assert described == {
        "QUEUE_LIMIT": (
            "Canal",
            "",
            "The most boats that wait for it. Use `GATE` to close it. Default: `12`.",
        ),
        "gate_colour": (
            "Canal",
            "str",
            "The colour of the signal at the gate. Default: `'green'`.",
        ),
        "LOCK_HOME": (
            "Canal",
            "",
            "Name the folder that the log is kept in, as [logs] and RFC 9 say.",
        ),
        "WATER_MARK": (
            "Canal",
            "",
            "Whether the level is painted on the wall. Default: `False`.",
        ),
        "--force": ("lock open", "", "Open the gate at any level of the water."),
    }


def test_a_manual_without_a_project_gives_the_reason(
    tmp_path: Path,
    read: Callable[..., list[object]],
    reasons: Callable[..., dict[str, str]],
) -> None:
    docs = tmp_path / "some" / "docs"
    docs.mkdir(parents=True)
    (docs / "settings.rst").write_text(_SETTINGS)

    assert _described(read(docs)).keys() == {"--force"}
    assert reasons(docs)["docs/settings.rst#objects"] == "no_program"


@pytest.mark.parametrize(
    "lines",
    [
        'if tags.has("sea"):\n    project = "Sea Canal"\n',
        'project += f" {edition}"\n',
        'project, release = names["canal"], "2"\n',
    ],
)
def test_a_project_that_is_worked_out_names_no_program(
    tmp_path: Path, read: Callable[..., list[object]], lines: str
) -> None:
    docs = tmp_path / "some" / "docs"
    docs.mkdir(parents=True)
    (docs / "settings.rst").write_text(_SETTINGS)
    conf = docs / "conf.py"
    conf.write_text(f'project = "Canal"\n{lines}')

    assert _described(read(docs)).keys() == {"--force"}
    conf.write_text(f'{lines}\nproject = "Canal"\n')
    assert "WATER_MARK" in _described(read(docs))


def test_options_of_another_command_have_no_owner(
    tmp_path: Path, read: Callable[..., list[object]]
) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "canal"\n')
    docs = tmp_path / "docs"
    docs.mkdir()
    text = "{title}\n==========\n\n.. option:: --{name}\n\n   Close both gates of the lock.\n"
    (docs / "tool.rst").write_text(text.format(title="The lockgen", name="all"))
    (docs / "sub.rst").write_text(
        "The canal\n=========\n\nfill\n----\n\n.. option:: --up\n\n   Fill it.\n"
    )
    (docs / "own.rst").write_text(text.format(title="The canal", name="both"))

    assert {name: item[0] for name, item in _described(read(docs)).items()} == {
        "--both": "canal"
    }


_USAGE = """
Filling a lock
==============

Usage
-----

::

    canal-fill [-h] [--up] [--wait SECONDS]

Optional arguments
------------------

--up       Fill it from above.
"""


@pytest.mark.parametrize(
    "page",
    [_USAGE, _USAGE.replace("::\n\n    canal", "| canal")],
)
def test_a_usage_names_the_command_of_the_options_below(
    tmp_path: Path, read: Callable[..., list[object]], page: str
) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "canal"\n')
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "fill.rst").write_text(page)

    assert _described(read(docs)) == {"--up": ("canal-fill", "", "Fill it from above.")}


def test_a_heading_with_a_longer_name_is_about_another_command(
    tmp_path: Path, reasons: Callable[..., dict[str, str]]
) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "canal"\n')
    docs = tmp_path / "docs"
    docs.mkdir()
    text = "canal-gates\n===========\n\n.. option:: --all\n\n   Close both gates.\n"
    (docs / "gates.rst").write_text(text)

    assert reasons(docs)["docs/gates.rst#objects"] == "no_program"


_MARKDOWN = """
# Settings

## Gates

### `gate_width`

The width of the gate in metres.

**Default**: `7`

**Type**: `int`

### `lock.py`

The file with the default gate.

## Command line options

* `--depth <m>` - Set the depth of the water. **Default:** *'low'*.
* `--quiet`: Leave out the bell.

## Environment variables

| Variable | Default | Description |
|---|---|---|
| `CANAL_LOG` | `info` | The level of the log |
| `CANAL_PORT` | `80` | The port of the lock keeper |
| `CANAL_USER` | | The name of the lock keeper |
"""


_FIELDS = """
# Settings

### `gate_file`

- Format: `str`
- CLI flags: `-g`, `--gate-file` (used on the **first** run)
- Default value: `.gate.yml`

Path to a file of gates.

### **lock_watch**

> type=`bool`, default=`False` </br>
> env-var=`LOCK_WATCH_FOR_CANAL`

Watch the lock at night.

### **lock_path**

> type=`str`, default=`"."` (or that of the gate) </br>
> env-var=`LOCK_PATH_FOR_CANAL`

Where the lock is, by default here.

### `gate_list`

- Default gates: none.
- The lower gate

A list of gates, the default one first.
"""


def test_fields_in_a_list_or_in_pairs_are_read(
    tmp_path: Path, read: Callable[..., list[object]]
) -> None:
    (tmp_path / "mkdocs.yml").write_text("site_name: Canal\n")
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "settings.md").write_text(_FIELDS)

    assert _described(read(docs)) == {
        "gate_file": ("Canal", "", "Path to a file of gates. Default: `.gate.yml`."),
        "lock_watch": ("Canal", "bool", "Watch the lock at night. Default: `False`."),
        "lock_path": ("Canal", "str", "Where the lock is, by default here."),
        "gate_list": ("Canal", "", "A list of gates, the default one first."),
    }


def test_headings_lists_and_tables_of_markdown_describe_objects(
    tmp_path: Path, read: Callable[..., list[object]]
) -> None:
    (tmp_path / "mkdocs.yml").write_text("site_name: Canal\ntheme: !!python/name:x\n")
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "settings.md").write_text(_MARKDOWN)

    entries = _entries(read(docs))

    assert [(entry.form, entry.name) for entry in entries] == [
        ("settings", "Canal"),
        ("options", "Canal"),
        ("variables", "Canal"),
    ]
    assert [[item.description for item in entry.parameters] for entry in entries] == [
        ["The width of the gate in metres. Default: `7`."],
        ["Set the depth of the water. Default: `low`.", "Leave out the bell."],
        [
            "The level of the log. Default: `info`.",
            "The port of the lock keeper. Default: `80`.",
            "The name of the lock keeper.",
        ],
    ]


_MANUAL = r""".TH "CANAL\-LOCK" "1" "2026"
.SH NAME
canal\-lock \- open and close the gates
.SH OPTIONS
.TP
\fB\-w\fR, \fB\-\-wait\fR=\fISECONDS\fR
Wait before the gate opens.
The default is 10 seconds.
.TP
.B \-q
Leave out the bell, as \fB\-\-wait\fR does.
.PP
\-\-deep
.RS 4
Let the lock run full.
.RE
.TP
\fB\-U\fR (ignored)
Open the gate for users.
.TP
\fB\-V\fR
Print the version number of the lock.
.SH ENVIRONMENT
.TP
.B LOCK_LOG
The file of the log.
.TP
.B LOCK_USER
The keeper of the lock.
.TP
.B LOCK_PORT
The port of the keeper.
"""


@pytest.mark.parametrize("packed", [False, True])
def test_a_manual_page_of_unix_is_a_document_with_its_options(
    tmp_path: Path, read: Callable[..., list[object]], *, packed: bool
) -> None:
    data = _MANUAL.encode()
    name = "lock.1.gz" if packed else "lock.1"
    (tmp_path / name).write_bytes(gzip.compress(data) if packed else data)

    found = read(tmp_path)

    prose, *_ = [item for item in found if isinstance(item, Document)]
    assert (prose.title, prose.kind) == ("CANAL-LOCK(1)", "prose")
    assert _described(found) == {
        "--wait": (
            "canal-lock",
            "",
            "Wait before the gate opens. The default is 10 seconds.",
        ),
        "-q": ("canal-lock", "", "Leave out the bell, as `--wait` does."),
        "--deep": ("canal-lock", "", "Let the lock run full."),
        "LOCK_LOG": ("canal-lock", "", "The file of the log."),
        "LOCK_USER": ("canal-lock", "", "The keeper of the lock."),
        "LOCK_PORT": ("canal-lock", "", "The port of the keeper."),
    }


_FILE = r""".TH "CANAL\&.CONF" "5" "2026"
.SH NAME
canal.conf \- settings of the canal
.SH SETTINGS
.PP
\fBgate\fP \fIname\fP [\fIoption\fP]...
.RS 4
This is a gate of the canal. It has the following options:
.PP
\fBis_closed\fP
.RS 4
Keep the gate closed.
.RE
.PP
\fBGATE_KEY\fP
.RS 4
The key of the gate.
.RE
.RE
.PP
\fBPUMP\fP
.RS 4
The pump that fills the lock. It has the following option:
.PP
power=\fIwatts\fP
.RS 4
How much it takes. The default value is 600.
.RE
.RE
.PP
\fBcanal_owner\fP
.RS 4
The owner of the canal.
.RE
.TP
lock \fIname\fP
This is a lock of the canal:
.RS
.TP
.B depth
The depth of this lock.
.TP
.B width
The width of this lock.
.TP
.B length
The length of this lock.
.RE
"""


def test_options_of_a_setting_are_no_settings_and_no_part_of_its_text(
    tmp_path: Path, read: Callable[..., list[object]]
) -> None:
    (tmp_path / "canal.conf.5").write_text(_FILE)

    found = read(tmp_path)

    prose, *_ = [item for item in found if isinstance(item, Document)]
    assert prose.title == "CANAL.CONF(5)"
    assert _described(found) == {
        "PUMP": ("canal.conf", "", "The pump that fills the lock."),
        "canal_owner": ("canal.conf", "", "The owner of the canal."),
    }


def test_options_of_subcommands_have_no_owner(
    tmp_path: Path, read: Callable[..., list[object]]
) -> None:
    below = ".SH SUBCOMMANDS\n.PP\nOptions\n.RS 4\n.TP\n.B \\-\\-up\nFill it from above.\n.RE\n"
    (tmp_path / "lock.1").write_text(
        _MANUAL.replace(".SH ENVIRONMENT", f"{below}.SH ENVIRONMENT")
    )

    assert "--deep" in _described(read(tmp_path))
    assert "--up" not in _described(read(tmp_path))


def test_a_manual_page_that_names_two_commands_has_no_owner(
    tmp_path: Path, reasons: Callable[..., dict[str, str]]
) -> None:
    (tmp_path / "lock.1").write_text(_MANUAL.replace("lock \\- ", "lock, unlock \\- "))
    (tmp_path / "libgate.so.1").write_text("no manual")

    assert {
        name.rpartition("/")[2]: reason for name, reason in reasons(tmp_path).items()
    } == {
        "lock.1#objects": "no_program",
        "libgate.so.1": "unsupported_type",
    }


_HTML = """<html><head><title>Options &#8212; Canal 2.1 documentation</title></head><body><main>
<h1>Command line options</h1>
<dl class="std option"><dt class="sig sig-object std" id="w">
<span class="sig-name descname"><span class="pre">--wait</span></span>
<span class="sig-prename descclassname"> <span class="pre">&lt;s&gt;</span></span>
<a class="headerlink" href="#w">¶</a></dt>
<dd><p>Wait before the gate opens.</p></dd></dl>
<h1>Settings</h1><dl class="py data"><dt class="sig sig-object py" id="G"><span class="sig-name
descname"><span class="pre">GATE</span></span></dt><dd><p>The name of the gate.</p><p>Default: <code
class="docutils literal notranslate"><span class="pre">'north'</span></code></p></dd></dl>
<dl class="py function"><dt class="sig sig-object py"><span class="sig-name descname"><span
class="pre">open_gate</span></span><span class="sig-paren">(</span>)</dt><dd><p>Open it.</p></dd>
</dl></main></body></html>"""


def test_objects_of_html_that_sphinx_wrote(
    tmp_path: Path, read: Callable[..., list[object]]
) -> None:
    (tmp_path / "options.html").write_text(_HTML)

    described = _described(read(tmp_path))

    assert described == {
        "--wait": ("Canal", "", "Wait before the gate opens."),
        "GATE": ("Canal", "", "The name of the gate. Default: `'north'`."),
    }


def test_a_name_described_in_two_ways_is_left_out(
    tmp_path: Path, read: Callable[..., list[object]]
) -> None:
    (tmp_path / "conf.py").write_text('project = "Canal"')
    confval = "Settings\n========\n\n" + "".join(
        f".. confval:: {name}\n\n   {text}\n\n"
        for name, text in (
            ("owner", "The owner of the upper lock."),
            ("owner", "The owner of the lower lock."),
            ("width", "The width of the gate."),
        )
    )
    (tmp_path / "settings.rst").write_text(confval)

    assert _described(read(tmp_path)).keys() == {"width"}


def test_plain_pages_have_no_objects(
    tmp_path: Path, read: Callable[..., list[object]]
) -> None:
    (tmp_path / "conf.py").write_text('project = "Canal"')
    (tmp_path / "page.rst").write_text(
        "Gates\n=====\n\n``gate``\n------\n\nThe default gate is red: it is `--old`.\n"
    )
    (tmp_path / "plain.txt").write_text("Options\n\n--wait  Wait for the boat.\n")

    found = [item for item in read(tmp_path) if isinstance(item, Document)]

    assert [item.kind for item in found] == ["prose", "prose"]
