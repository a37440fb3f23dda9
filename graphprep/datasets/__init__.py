"""From a dataset's name or a user's files to a `RawGraph`: the registry, downloads, readers, importing, generators."""
