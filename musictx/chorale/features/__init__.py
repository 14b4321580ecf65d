"""Features of the voices so far for models of chorales; one a file, each with its C++."""
