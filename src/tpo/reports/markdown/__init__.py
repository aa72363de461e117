"""The report and the pages of evidence as Markdown."""
