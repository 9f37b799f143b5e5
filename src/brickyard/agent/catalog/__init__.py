"""What an agent does for its driver's tables: entries of the workspace's metastore, and the locks of drivers that write."""
