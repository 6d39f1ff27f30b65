"""Talk: HTTP, the command line, and the words both use for what went wrong."""
