"""What a network is told of notes in bars."""
