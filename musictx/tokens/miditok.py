"""Any MidiTok tokenizer behind our protocol (being written)."""

NAMES: tuple[str, ...] = ()
