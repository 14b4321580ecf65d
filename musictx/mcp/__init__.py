"""``musictx mcp``: the commands that make music, as tools of the Model Context Protocol."""
