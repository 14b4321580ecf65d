"""Plan B: the skew by two row lengths over scratch memory (skew.py); its passes."""
