"""Running: from a configuration to a folder of results, in one process or in many."""
