"""One file per API, named like its message file. Each has `handle(broker, request, context)`."""
