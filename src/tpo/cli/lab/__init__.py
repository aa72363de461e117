"""What `tpo run` is made of: from flags to cells, progress, tables, and results in other formats."""
