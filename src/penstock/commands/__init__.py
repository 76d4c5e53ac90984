"""One file a verb of the command line, loaded when it is named."""
