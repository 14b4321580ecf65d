"""The adapter that docs/tokens.md shows, as a module: ``tokenizer.name=tests.docs.remi:Remi``."""

from pathlib import Path

from tests.docs.blocks import BLOCK

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tokens.md"
(ADAPTER,) = [code for code in BLOCK.findall(PAGE.read_text(encoding="utf-8")) if "miditok" in code]
exec(compile(ADAPTER, str(PAGE), "exec"))
