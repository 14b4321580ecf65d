"""Pages of the site (mkdocs.yml) that are not in docs/: the start page (the README), the changelog,
and the reference (:mod:`scripts.docs.reference`).

``mkdocs build --strict`` calls the functions below. Links to files outside of docs/ become names of
files, or links into the repository if the environment variable ``REPOSITORY`` has its address.
Formulas become MathML, which browsers show without a script.
"""

from __future__ import annotations

import os
import re
from html import unescape
from pathlib import Path
from typing import Any

import latex2mathml.converter
from mkdocs.structure.files import File, Files

import musictx
from scripts.docs import reference

ROOT = Path(__file__).resolve().parents[2]
#: [text](target) where the target is a file.
LINK = re.compile(r"!?\[([^\]]+)\]\((?!https?:|#|mailto:)([^)\s#]+)(#[^)]*)?\)")
#: A formula as ``pymdownx.arithmatex`` leaves it: in brackets on a line of its own, or in
#: parentheses within a sentence.
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.+?)\\[)\]]</\1>', re.DOTALL)
#: Pages of docs/ that are files of the repository's root.
AT_ROOT = ("index.md", "changelog.md")
#: Heading -> what the reference of Python describes under it.
PYTHON = {
    # The function ``evaluate`` of the stub hides the package of the same name from griffe.
    "Music": [
        f"musictx.{name}" if "evaluate" in module else f"{module}.{name}"
        for name, module in sorted(musictx._WHERE.items())
    ],
    "Relative attention": [
        *("musictx.attention.RelativeAttention", "musictx.attention.attend"),
        *("musictx.attention.why_not", "musictx.model.attention_weights"),
    ],
    "Classes to derive from": [
        *("musictx.attention.positions.base.PositionScheme", "musictx.attention.terms.Terms"),
        *("musictx.attention.terms.Axis", "musictx.attention.positions.base.Sizes"),
        *("musictx.tokens.tokenizer.Tokenizer", "musictx.tokens.tokenizer.GrammarState"),
        "musictx.model.features.base.Feature",
    ],
    "Network and training": [
        *("musictx.model.MusicTransformer", "musictx.sampling.engine.generate"),
        *("musictx.training.lit.LitMusicTransformer", "musictx.data.module.MusicDataModule"),
    ],
}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not files of docs/."""
    pages = {"index.md": "---\nhide: [navigation]\n---\n\n" + at_root("README.md")}
    pages["changelog.md"] = at_root("CHANGELOG.md")
    pages["reference/commands.md"] = reference.commands()
    pages["reference/configuration.md"] = reference.configuration()
    pages["reference/python.md"] = python()
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def at_root(name: str) -> str:
    """A page of the repository's root with links as in docs/."""
    return (ROOT / name).read_text("utf-8").replace("](docs/", "](")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Replace links to files outside of docs/ by their names, or by links into the repository."""
    folder = Path(config["docs_dir"], page.file.src_uri).parent
    if page.file.src_uri in AT_ROOT:
        folder = ROOT / "docs"

    def resolved(match: re.Match[str]) -> str:
        text, target, anchor = match.groups()
        path = (folder / target).resolve()
        if files.get_file_from_path(os.path.relpath(path, config["docs_dir"])) is not None:
            return match[0]
        place = (ROOT / target if page.file.src_uri in AT_ROOT else path).resolve()
        name = place.relative_to(ROOT).as_posix()
        if name == "README.md":
            return f"[{text}]({os.path.relpath(Path(config['docs_dir'], 'index.md'), folder)})"
        repository = os.environ.get("REPOSITORY")
        if repository is None:
            return f"{text} (`{name}`)"
        return f"[{text}]({repository}/blob/main/{name}{anchor or ''})"

    return LINK.sub(resolved, markdown)


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Convert formulas from LaTeX to MathML."""

    def converted(match: re.Match[str]) -> str:
        display = "block" if match[1] == "div" else "inline"
        return latex2mathml.converter.convert(unescape(match[2]).strip(), display=display)

    return FORMULA.sub(converted, html)


def python() -> str:
    """The public names; mkdocstrings replaces each by its signature and docstring."""
    lines = ["# Python", ""]
    for heading, names in PYTHON.items():
        lines += [f"## {heading}", "", *(f"::: {name}\n" for name in names)]
    return "\n".join(lines)
