"""Plan A: the skew by a gather in registers (skew.py); forward, query and key are the passes."""
