"""Features of notes in bars."""
