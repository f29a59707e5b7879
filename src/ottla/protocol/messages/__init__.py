"""One file per API: request and response together, with a line for every version that changed something."""
