"""`ccp play`: an algorithm over a path, drawn live, edited and changed while it runs."""
