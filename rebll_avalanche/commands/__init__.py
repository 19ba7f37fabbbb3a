"""The commands of ``rebll``: one file each, imported when it is called."""
