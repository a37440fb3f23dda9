"""Files over HTTP, from mirrors and from Google Drive into a folder, each verified before it gets its name."""
