"""Formulas that docstrings write as plain text, `C_ik = Gamma_ijk v^j`, as TeX for the pages.

`help` shows the text as it is. A run of symbols, numbers and operators is a formula if something in it has an
index, a power that is no unit's, or a dot, or if it is an equation; words end it.
"""

import re

GREEK = (
    "Gamma Lambda Phi Delta Omega Sigma alpha beta gamma delta eps eta theta lambda mu nu "
    "xi pi rho sigma tau phi psi omega kappa nabla"
).split()
FUNCTIONS = "sin cos tan exp log det".split()
_LETTERS = "|".join([*GREEK, "[A-Za-z]"])
_ACCENTS = {
    "ddot": "ddot",
    "dot": "dot",
    "_dot": "dot",
    "bar": "bar",
    "hat": "hat",
    "~": "tilde",
}

_INDICES = (
    r"(?:_\{[^{}]+\}|\^\{[^{}]+\}|\^-?\d+|[_^]T\b|_[ijklmn]{1,4}(?![A-Za-z])|\^[ijklmn]{1,2}(?![A-Za-z])"
    r"|_[A-Za-z0-9]\d?(?![A-Za-z])|\^[a-z](?![A-Za-z]))*"
)

#: d before a symbol is a differential; an index is some of i, j, k, ..., or one sign, or in braces.
_SYMBOL = re.compile(
    rf"(?![TtWw]hat\b|chat\b)(?P<d>d(?=(?:{_LETTERS})(?![A-Za-z])|(?:{_LETTERS})dot))?"
    rf"(?P<letter>{_LETTERS})(?P<accent>ddot|dot|_dot|bar|hat|~)?(?P<number>\d)?(?P<star>\*?'?)"
    rf"(?P<indices>{_INDICES})(?![A-Za-z0-9_^\[])"
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?![\w.])|\d+(?=\.(?:\s|$))")
_FUNCTION = re.compile(rf"(?:{'|'.join(FUNCTIONS)})(?:_(?P<at>[a-z]\d?))?(?![A-Za-z_])")
_OPERATORS = {
    "<<": r"\langle\!\langle ",
    ">>": r"\rangle\!\rangle ",
    "->": r"\to ",
    "<=": r"\leq ",
    " . ": r"\cdot ",
    **{sign: sign for sign in "+-=/()[],|"},
}
_OPERATOR = re.compile("|".join(map(re.escape, _OPERATORS)))
_CLOSED = re.compile(
    rf"(?P<sign>\)|\||>>)(?P<indices>{_INDICES})"
)  # a bracket with its power
_CLOSING = {"(": ")", "[": "]", "<<": ">>"}
_UNITS = re.compile(r"[ms]\^-?\d")


def with_formulas(text, escape=str):
    """The text with each formula in the role ``math``; backquotes stay, the rest is escaped."""
    pieces = re.split(r"(``.+?``|:\w+:`[^`]+`|`[^`]+`)", text)
    pieces[::2] = [_converted(piece, escape) for piece in pieces[::2]]
    return "".join(pieces)


def _converted(text, escape):
    done, place = "", 0
    for match in re.finditer(r"(?<![\w`\\./-])[\w(|<[]", text):
        start = match.start()
        run = _formula(text, start) if start >= place else None
        if run:
            # A role has to stand between signs that are neither letters nor operators.
            before = "" if re.search(r"(^|[\s(\[{/:-])$", text[place:start]) else "\\ "
            after = "" if re.match(r"$|[\s)\]}/:.,;!?-]", text[run[0] :]) else "\\ "
            done += (
                f"{escape(text[place:start])}{before}:math:`{run[1].strip()}`{after}"
            )
            place = run[0]
    return done + escape(text[place:])


def _formula(text, start):
    """Return the end and the TeX of the longest formula that begins here, or None."""
    tokens, place = [], start
    while token := _token(text, place):
        tokens.append(token)
        place = token[1]
        if text[place : place + 1] == " " and not text.startswith(" . ", place):
            place += 1
    while tokens and not _whole(tokens):
        tokens.pop()
    if not tokens or not _telling(tokens):
        return None
    return tokens[-1][1], " ".join(tex for _, _, _, tex in tokens)


def _token(text, place):
    """Return (text, end, kind, TeX) of what stands here, or None if it is no part of a formula."""
    if match := _FUNCTION.match(text, place):
        tex = (
            "\\"
            + match[0].split("_")[0]
            + (f"_{{{match['at']}}}" if match["at"] else "")
        )
        return match[0], match.end(), "function", tex
    if match := _SYMBOL.match(text, place):
        article = match[0] in ("a", "A", "I") and re.match(
            r" [A-Za-z]{2}|,? ?$", text[match.end() :]
        )
        return None if article else (match[0], match.end(), "symbol", _tex(match))
    if match := _NUMBER.match(text, place):
        return match[0], match.end(), "number", match[0]
    if (match := _CLOSED.match(text, place)) and match["indices"]:
        return (
            match["sign"],
            match.end(),
            "power",
            _OPERATORS[match["sign"]].strip() + _scripts(match["indices"]),
        )
    if match := _OPERATOR.match(text, place):
        return match[0], match.end(), "operator", _OPERATORS[match[0]]
    return None


def _tex(match):
    letter = match["letter"]
    tex = f"\\{'epsilon' if letter == 'eps' else letter}" if letter in GREEK else letter
    if match["accent"]:
        tex = f"\\{_ACCENTS[match['accent']]}{{{tex}}}"
    tex = ("d " if match["d"] else "") + tex + "'" * match["star"].count("'")
    upper = "*" * match["star"].count("*")
    return tex + _scripts(match["indices"], match["number"] or "", upper)


def _scripts(indices, lower="", upper=""):
    for index in re.findall(r"[_^](?:\{[^{}]+\}|-?[A-Za-z0-9]+)", indices):
        own = index[1:].strip("{}")
        own = r"\top" if own == "T" else " ".join(_inner(own))
        lower, upper = (lower + own, upper) if index[0] == "_" else (lower, upper + own)
    return (f"_{{{lower}}}" if lower else "") + (f"^{{{upper}}}" if upper else "")


def _inner(index):
    """The TeX of an index: symbols in it have indices of their own."""
    place = 0
    while place < len(index):
        match = (
            None if re.fullmatch(r"[a-z]{2,4}", index) else _SYMBOL.match(index, place)
        )
        yield _tex(match) if match else index[place]
        place = match.end() if match else place + 1


def _whole(tokens):
    """Whether brackets close, and nothing is left open at the end."""
    last, open_ = tokens[-1], []
    if last[2] == "function" or (
        last[2] == "operator" and last[0] not in (")", "]", "|", ">>")
    ):
        return False
    for text, _, kind, _ in tokens:
        if kind not in ("operator", "power"):
            continue
        if text in _CLOSING:
            open_.append(_CLOSING[text])
        elif text in _CLOSING.values():
            if not open_ or open_.pop() != text:
                return False
        elif text == "," and not open_:
            return False
    return not open_ and sum(text == "|" for text, *_ in tokens) % 2 == 0


def _telling(tokens):
    symbols = [text for text, _, kind, _ in tokens if kind == "symbol"]
    indexed = [text for text in symbols if re.search(r"[_^]|dot|bar\b|hat\b|~", text)]
    equation = any(text == "=" for text, *_ in tokens) and symbols and len(tokens) > 2
    if any(
        kind == "power" or (kind == "function" and "_" in text)
        for text, _, kind, _ in tokens
    ):
        return True
    return bool(equation or any(not _UNITS.fullmatch(text) for text in indexed))
