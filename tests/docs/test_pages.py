"""The pages: their Python runs from top to bottom, their commands parse, their links have targets,
and their lists of schemes, names, keys and options are complete; all versions are equal."""

import json
import re
import shlex
import tomllib
import warnings
from pathlib import Path

import pytest
import yaml

import musictx
from musictx import cli, options
from musictx.apps.train import Trained
from musictx.commands import COMMANDS
from musictx.config import SCHEMES, checks
from musictx.config.trainer import LIGHTNING_FLAGS
from musictx.hydra_config import overrides
from musictx.mcp.places import Places
from scripts.docs import reference

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
DOCS = {page.stem: page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")}
BLOCK = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)
#: Examples of the first page need a running studio, those of the second are files; both run in
#: test_tutorials.py. Examples of the third use Lightning, which warns.
SERVED, FILES, WARNING = "http.md", "position-scheme.md", "training.md"
#: (page, command, the cell after it) of each row of a table that has a command in a cell.
ROWS = [
    (page, command, what)
    for page in ("recipes", "daw", "studio", "training")
    for command, what in re.findall(r"^\|(?: [^|]+ \|)? `(musictx [^`]+)` \|(.*)", DOCS[page], re.M)
]
#: Pages about this version.
CURRENT = [page for page in PAGES if page.name != "CHANGELOG.md"]
#: A command in a line of a fenced or indented block of code.
LINE = re.compile(r"^(?:    |\$ |    \$ )?((?:musictx|make|python) .+)$")


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if BLOCK.search(page.read_text()) and page.name not in (SERVED, FILES)],
    ids=lambda page: page.name,
)
def test_the_python_of_the_page_runs_from_top_to_bottom(page, here):
    names = {}
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):  # an error names the page and its line
        code = "\n" * text[: match.start(1)].count("\n") + match[1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if page.name == WARNING else "error")
            exec(compile(code, str(page), "exec"), names)


def shown() -> dict[str, list[str]]:
    """Return musictx, make, python -> lines of all blocks of code that begin with this word."""
    lines: dict[str, list[str]] = {"musictx": [], "make": [], "python": []}
    for page in CURRENT:
        fenced = False
        for line in re.sub(r"\\\n *", "", page.read_text(encoding="utf-8")).splitlines():
            if line.startswith("```"):
                fenced = not fenced
            elif (match := LINE.match(line)) and (fenced or line.startswith("    ")):
                command = match[1].split("  #")[0].split(" # ")[0].rstrip()
                lines[command.split()[0]].append(command)
    return {name: list(dict.fromkeys(commands)) for name, commands in lines.items()}


SHOWN = shown()


def test_the_pages_show_every_command_but_prepare():
    assert {shlex.split(line)[1] for line in SHOWN["musictx"]} >= set(cli.COMMANDS) - {"prepare"}


@pytest.mark.parametrize("line", SHOWN["musictx"])
def test_the_commands_of_the_pages_parse(line, here, monkeypatch):
    """Sweeps with their first seed alone: Hydra takes half a second to compose a run."""
    for plugin, kind in (("optuna", "sweeper"), ("joblib", "launcher")):
        if f"{kind}={plugin}" in line:
            reason = f"Hydra's plugin {plugin} is not installed"
            pytest.importorskip(f"hydra_plugins.hydra_{plugin}_{kind}", reason=reason)
    monkeypatch.setattr(cli, "_run", lambda command, config: Trained(None, None, 0))
    for module in (options, overrides):
        monkeypatch.setattr(module, "check_path", lambda *_: None)  # files of the reader
    (here / "my_pieces").mkdir()
    assert cli.main(shlex.split(re.sub(r"( seed=\d+)[,\d]+", r"\1", line))[1:]) == 0


def test_the_targets_of_make_and_the_scripts_of_the_pages_exist():
    makefile = (ROOT / "Makefile").read_text()
    for line in SHOWN["make"]:
        assert re.search(rf"^{line.split()[1]}:", makefile, re.MULTILINE), line
    for line in SHOWN["python"]:
        script = line.split()[1]
        assert (ROOT / script).is_file() or script in ("-m", "-c", "-"), line
    for page in CURRENT:
        for name in re.findall(r"python -m (scripts\.[a-z_.]+)", page.read_text("utf-8")):
            assert (ROOT / f"{name.replace('.', '/')}.py").is_file(), (page, name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_the_pages_have_targets(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text):
        file = page.parent / target if target else page
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            there = re.sub(r"```.*?```", "", file.read_text("utf-8"), flags=re.DOTALL)
            heads = re.findall(r"^#+ (.+)$", there, re.MULTILINE)
            names = (re.sub(r"[^\w\- ]", "", head).strip().lower() for head in heads)
            assert anchor in {name.replace(" ", "-") for name in names}, (target, anchor)


@pytest.mark.parametrize(("page", "line", "what"), ROWS)
def test_the_commands_of_the_tables_parse(page, line, what, here, monkeypatch, capsys):
    monkeypatch.setattr(cli, "_run", lambda command, config: Trained(None, None, 0))
    refused = what.strip().startswith("status 2") and "logger" not in line
    words = [word.replace("$PWD", str(here)) for word in shlex.split(line)[1:]]
    assert cli.main(words) == (2 if refused else 0)
    errors = capsys.readouterr().err
    assert errors.count("\n") == refused or page != "training"
    for name in re.findall(r"`([a-z_.]+)`", what) if refused else ():
        assert name in errors


def test_the_configuration_of_an_assistant_starts_a_server(here, monkeypatch):
    server = json.loads(re.search(r"```json\n(.*?)```", DOCS["daw"], re.DOTALL)[1])
    started = []
    monkeypatch.setattr(cli, "_run", lambda command, config: started.append((command, config)))
    assert cli.main(server["mcpServers"]["musictx"]["args"]) == 0
    ((command, config),) = started
    assert command == "mcp"
    assert Places(config.out, config.read).out == here / "Music" / "composed"


def test_every_scheme_and_public_name_is_on_its_page():
    assert {name for name in SCHEMES if f"`{name}`" not in DOCS["attention"]} == set()
    assert {name for name in musictx.__all__ if f"`{name}" not in DOCS["python"]} <= {"__version__"}


#: Key on the page -> its name in the program.
KEYS = {"←": "ArrowLeft", "→": "ArrowRight", "↑": "ArrowUp", "↓": "ArrowDown", "Del": "Delete"}


def test_every_key_of_the_table_has_a_command_in_the_page():
    """Keys of the first column: one or more to a comma, "Alt+← →" for "Alt+←" and "Alt+→"."""
    table = DOCS["studio"].partition("## Keys\n")[2].partition("\n## ")[0]
    keys = set()
    for cell in re.findall(r"^\| ([^|]+) \|", table, flags=re.MULTILINE)[1:]:
        for entry in cell.split(","):
            modifiers, names = re.fullmatch(r" ?((?:\w+\+)*)(.+)", entry).groups()
            keys |= {modifiers + KEYS.get(name, name) for name in names.split()}
    folder = ROOT / "musictx" / "studio" / "page" / "js"
    code = "".join(p.read_text("utf-8") for p in folder.rglob("*.js"))
    lists = re.findall(r"\bkeys: \[([^\]]+)\]", code)
    assert keys >= {"Space", "Alt+ArrowUp", "Delete", "Ctrl+Shift+Z"}
    assert keys - {key for keys in lists for key in re.findall(r'"([^"]+)"', keys)} == set()


def test_the_files_that_pages_for_developers_name_exist():
    for page in ("CONTRIBUTING.md", "ARCHITECTURE.md"):
        text = (ROOT / page).read_text("utf-8")
        named = set(re.findall(r"`((?:musictx|tests|scripts|conf|docs)/[\w./]+)`", text))
        missing = {path for path in named if not (ROOT / path).exists()}
        assert not {path for path in missing if "NAME" not in path}


CHANGES = (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_all_versions_are_equal():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    released = re.findall(r"^## \[([\d.]+)\] - (\d{4}-\d\d-\d\d)$", CHANGES, re.M)
    assert released[0] == (musictx.__version__, citation["date-released"])
    assert project["version"] == citation["version"] == musictx.__version__


def test_the_reference_has_every_command_option_and_file_of_conf():
    """Options as they are typed."""
    kinds = [command.config for command in COMMANDS.values()]
    typed = {checks.cli_name(name, field) for kind in kinds for name, field in checks.options(kind)}
    typed |= {f"position.{name}" for kind in SCHEMES.values() for name, _ in checks.options(kind)}
    typed |= {f"trainer.{flag}" for flag in LIGHTNING_FLAGS}
    page = reference.commands()
    assert {name for name in COMMANDS if f"\n## {name}\n" not in page} == set()
    assert {name for name in typed - {"trainer.flags"} if f"`{name}`" not in page} == set()
    page = reference.configuration()
    for file in (ROOT / "conf").rglob("*/*.yaml"):
        group, name = file.relative_to(ROOT / "conf").with_suffix("").as_posix().split("/", 1)
        assert group == "hydra" or f"`{group}={name}`" in page
