"""A section of a page that a command writes, between two marks."""


def put(page: str, body: str, begin: str, end: str) -> str:
    r"""Return a page with the section where it has it, else at its end.

    >>> put("title\n", "figures\n", "<!-- a -->", "<!-- /a -->")
    'title\n\n<!-- a -->\nfigures\n<!-- /a -->\n'
    """
    marked = f"{begin}\n{body}{end}\n"
    before, found, rest = page.partition(begin)
    if not found:
        return f"{before.rstrip()}\n\n{marked}"
    return before + marked + rest.partition(f"{end}\n")[2]
