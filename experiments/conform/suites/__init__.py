"""The suites that come with ccplane, one file each; a user's suite is a file of the same kind."""
