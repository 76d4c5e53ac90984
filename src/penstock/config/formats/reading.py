"""Which reader a file needs: by its ending, or by what is in it. Only that reader is loaded."""

from __future__ import annotations

from penstock.config.formats.document import Document, Unreadable, decode

FORMATS = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".jsonc": "json", ".toml": "toml"}


def read_document(name: str, data: bytes) -> Document:
    """What the file called `name` holds. Raises Unreadable."""
    text = decode(data)
    form = next((form for ending, form in FORMATS.items() if name.lower().endswith(ending)), None)
    form = form or guess_format(text)
    if form == "json":
        from penstock.config.formats.json_reader import read_json

        return read_json(text)
    if form == "toml":
        from penstock.config.formats.toml_reader import read_toml

        return read_toml(text)
    from penstock.config.formats.yaml_reader import read_yaml

    return read_yaml(text)


def guess_format(text: str) -> str:
    """The format of a text without a telling name.

    What begins with a brace is JSON: as YAML it would mean the same, if it is YAML at all. A TOML file
    whose tables make sense as YAML would be a list there, and a configuration is never a list.
    """
    start = text.lstrip()
    if start.startswith(("{", "//", "/*")):
        return "json"
    import tomllib

    from penstock.config.formats.toml_reader import refuse_depth

    try:
        refuse_depth(text)
        tomllib.loads(text)
    except (Unreadable, tomllib.TOMLDecodeError):
        return "yaml"
    except ValueError:
        pass  # a number with too many digits, which its reader says
    return "toml"
