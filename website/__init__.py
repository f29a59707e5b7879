"""The docs site: gathers the documents, writes the pages that come from the code, and draws the pictures.

    python -m website build/docs && mkdocs build --strict        (make docs does both; the site is build/site)

    pages.py        documents of the repository, with links as the site needs them
    reference.py    settings, commands, errors and APIs, from their declarations
    live.py         a real broker for a moment: its metrics, and a log with records in it
    pictures.py     that log as drawings

Everything that it writes is plain Markdown and SVG: what builds the site reads files and runs no code of ours.
"""
