"""The part of JSON Schema that protocol/openrpc.json uses.

An unknown keyword is an error: every constraint of the description is checked.
"""

import re

TYPES = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "integer": lambda v: (isinstance(v, int) and not isinstance(v, bool)
                          or isinstance(v, float) and v.is_integer()),
}
# Words for people.
SILENT = {"title", "description", "default", "examples", "$comment", "deprecated"}


class Mismatch(AssertionError):
    """A value is not as its schema says."""


def same(a, b):
    """Equal as JSON: true is not 1."""
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def number(value):
    return value if TYPES["number"](value) else None


def letters(value):
    return len(value) if isinstance(value, str) else None


def elements(value):
    return len(value) if isinstance(value, list) else None


def bound(measure, fits, words):
    """A rule that compares what `measure` says; None = the keyword does not concern the value."""
    def rule(_self, value, wanted, _where, _schema):
        size = measure(value)
        return size is not None and not fits(size, wanted) and f"{words} {wanted}"
    return rule


class Schema:
    def __init__(self, document, closed=False):
        """document: the root to which "$ref": "#/..." refers. closed: an object whose schema lists properties has no
        others, even if the schema allows them."""
        self.document = document
        self.closed = closed

    def resolve(self, node):
        """The node that {"$ref": ...} refers to, or the node itself."""
        while isinstance(node, dict) and "$ref" in node:
            ref, node = node["$ref"], self.document
            for word in ref.removeprefix("#/").split("/"):
                node = node[word]
        return node

    def check(self, value, schema, where="value"):
        """Mismatch says where value is not as the schema wants it."""
        if schema is True:
            return
        if schema is False:
            raise Mismatch(f"{where}: should not be here: {value!r}")
        for keyword, wanted in schema.items():
            if keyword in SILENT:
                continue
            rule = self.RULES.get(keyword)
            if rule is None:
                raise Mismatch(f"{where}: the schema says {keyword}, which is not checked here")
            problem = rule(self, value, wanted, where, schema)
            if problem:
                raise Mismatch(f"{where}: {problem}: {value!r}")

    def accepts(self, value, schema, where):
        try:
            self.check(value, schema, where)
        except Mismatch:
            return False
        return True

    # Each returns what is wrong, or nothing.

    def _ref(self, value, wanted, where, _schema):
        self.check(value, self.resolve({"$ref": wanted}), where)

    def _type(self, value, wanted, _where, _schema):
        names = wanted if isinstance(wanted, list) else [wanted]
        return not any(TYPES[name](value) for name in names) and f"is not {' or '.join(names)}"

    def _enum(self, value, wanted, _where, _schema):
        return not any(same(value, one) for one in wanted) and f"is none of {wanted}"

    def _const(self, value, wanted, _where, _schema):
        return not same(value, wanted) and f"is not {wanted!r}"

    def _properties(self, value, wanted, where, schema):
        if not isinstance(value, dict):
            return None
        for name, one in wanted.items():
            if name in value:
                self.check(value[name], one, f"{where}.{name}")
        unknown = value.keys() - wanted.keys()
        closed = self.closed and "additionalProperties" not in schema
        return closed and unknown and f"has {sorted(unknown)}, which are not described"

    def _additional(self, value, wanted, where, schema):
        if isinstance(value, dict):
            for name in value.keys() - schema.get("properties", {}).keys():
                self.check(value[name], wanted, f"{where}.{name}")

    def _required(self, value, wanted, _where, _schema):
        missing = isinstance(value, dict) and [name for name in wanted if name not in value]
        return missing and f"has no {missing}"

    def _items(self, value, wanted, where, _schema):
        if isinstance(value, list):
            for i, one in enumerate(value):
                self.check(one, wanted, f"{where}[{i}]")

    def _all_of(self, value, wanted, where, _schema):
        for schema in wanted:
            self.check(value, schema, where)

    def _any_of(self, value, wanted, where, _schema):
        return not any(self.accepts(value, one, where) for one in wanted) and "fits none of anyOf"

    def _one_of(self, value, wanted, where, _schema):
        count = sum(self.accepts(value, one, where) for one in wanted)
        return count != 1 and f"fits {count} of oneOf"

    def _not(self, value, wanted, where, _schema):
        return self.accepts(value, wanted, where) and "fits what it must not"

    def _pattern(self, value, wanted, _where, _schema):
        # ECMAScript's $ is the end alone; Python's also matches before a last newline.
        whole = re.sub(r"\$$", r"\\Z", wanted)
        return isinstance(value, str) and not re.search(whole, value) and f"is not like {wanted}"

    RULES = {
        "$ref": _ref, "type": _type, "enum": _enum, "const": _const, "properties": _properties,
        "additionalProperties": _additional, "required": _required, "items": _items,
        "allOf": _all_of, "anyOf": _any_of, "oneOf": _one_of, "not": _not, "pattern": _pattern,
        "minimum": bound(number, lambda a, b: a >= b, "is below"),
        "maximum": bound(number, lambda a, b: a <= b, "is above"),
        "exclusiveMinimum": bound(number, lambda a, b: a > b, "is not above"),
        "exclusiveMaximum": bound(number, lambda a, b: a < b, "is not below"),
        "minLength": bound(letters, lambda a, b: a >= b, "is shorter than"),
        "maxLength": bound(letters, lambda a, b: a <= b, "is longer than"),
        "minItems": bound(elements, lambda a, b: a >= b, "has fewer than"),
        "maxItems": bound(elements, lambda a, b: a <= b, "has more than"),
    }
