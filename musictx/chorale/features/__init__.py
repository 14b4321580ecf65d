"""What a model of chorales is told of the voices so far; one feature a file, each with its C++."""
