"""BibTeX of the papers behind what was used, by the keys of docstrings and of `docs/references.md`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from connections._distribution import NAME, version
from connections._docstrings import docstring_of


class Paper(NamedTuple):
    """An entry of BibTeX.

    Parameters
    ----------
    kind : article, inproceedings, book or misc.
    fields : of BibTeX.
    words : another way in which docstrings name it, beside its key in brackets.
    """

    kind: str
    fields: dict[str, str]
    words: str = ""

    def bibtex(self, key: str) -> str:
        """The entry."""
        lines = [f"  {name} = {{{value}}}," for name, value in self.fields.items()]
        return "\n".join([f"@{self.kind}{{{key},", *lines, "}"])


def _article(
    author: str, title: str, journal: str, volume: str, number: str, year: str, words: str = "", doi: str = ""
) -> Paper:
    fields = {"author": author, "title": title, "journal": journal, "volume": volume}
    return Paper("article", _present(fields | {"number": number, "year": year, "doi": doi}), words)


def _talk(author: str, title: str, booktitle: str, year: str, words: str = "", doi: str = "") -> Paper:
    fields = {"author": author, "title": title, "booktitle": booktitle, "year": year, "doi": doi}
    return Paper("inproceedings", _present(fields), words)


def _book(author: str, title: str, publisher: str, year: str, words: str = "", doi: str = "") -> Paper:
    fields = {"author": author, "title": title, "publisher": publisher, "year": year, "doi": doi}
    return Paper("book", _present(fields), words)


def _present(fields: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value}


_IJRR = "International Journal of Robotics Research"
PAPERS = {
    "W": Paper(
        "misc",
        {
            "author": "Wensing, Patrick M. and Englsberger, Johannes and Slotine, Jean-Jacques E.",
            "title": "Coriolis Factorizations and their Connections to {Riemannian} Geometry",
            "year": "2023",
            "eprint": "2312.14425v1",
            "archiveprefix": "arXiv",
        },
    ),
    "W2": Paper(
        "misc",
        {
            "author": "Wensing, Patrick M. and Slotine, Jean-Jacques E.",
            "title": "Coriolis Factorizations and their Connections to {Riemannian} Geometry",
            "year": "2023",
            "eprint": "2312.14425v2",
            "archiveprefix": "arXiv",
            "note": "second version",
        },
        words=r"\[W\]",
    ),
    "E": _article(
        "Echeandia, Sebastian and Wensing, Patrick M.",
        "Numerical Methods to Compute the {Coriolis} Matrix and {Christoffel} Symbols for Rigid-Body Systems",
        "Journal of Computational and Nonlinear Dynamics",
        "16",
        "9",
        "2021",
        doi="10.1115/1.4051169",
    ),
    "B": _article(
        "Bos, Martijn and Traversaro, Silvio and Pucci, Daniele and Saccon, Alessandro",
        "Efficient geometric linearization of moving-base rigid robot dynamics",
        "Journal of Geometric Mechanics",
        "14",
        "4",
        "2022",
    ),
    "Z": _article(
        r"Bullo, Francesco and {\v{Z}}efran, Milo{\v{s}}",
        "On mechanical control systems with nonholonomic constraints and symmetries",
        "Systems and Control Letters",
        "45",
        "2",
        "2002",
    ),
    "F": _book(
        "Featherstone, Roy",
        "Rigid Body Dynamics Algorithms",
        "Springer",
        "2008",
        r"Featherstone, Rigid\s+Body",
        doi="10.1007/978-1-4899-7560-7",
    ),
    "NS": _article(
        "Niemeyer, G. and Slotine, J.-J. E.",
        "Performance in adaptive manipulator control",
        _IJRR,
        "10",
        "2",
        "1991",
        r"Niemeyer\s+and\s+Slotine",
    ),
    "SL": _article(
        "Slotine, J.-J. E. and Li, W.",
        "On the adaptive control of robot manipulators",
        _IJRR,
        "6",
        "3",
        "1987",
        r"Slotine\s+and\s+Li",
        doi="10.1177/027836498700600303",
    ),
    "HB": _talk(
        "Hsu, P. and Bodson, M. and Sastry, S. and Paden, B.",
        "Adaptive identification and control for manipulators without using joint accelerations",
        "IEEE International Conference on Robotics and Automation",
        "1987",
        r"Hsu,\s+Bodson,\s+Sastry\s+and\s+Paden",
    ),
    "G": _article(
        "Gautier, M.",
        "Numerical calculation of the base inertial parameters of robots",
        "Journal of Robotic Systems",
        "8",
        "4",
        "1991",
        r"Gautier\s+1991",
    ),
    "WK": _article(
        "Wensing, Patrick M. and Kim, Sangbae and Slotine, Jean-Jacques E.",
        "Linear matrix inequalities for physically consistent inertial parameter identification: "
        "a statistical perspective on the mass distribution",
        "IEEE Robotics and Automation Letters",
        "3",
        "1",
        "2018",
        r"Wensing,\s+Kim\s+and\s+Slotine",
    ),
    "LW": _article(
        "Lee, Taeyoon and Wensing, Patrick M. and Park, Frank C.",
        "Geometric robot dynamic identification: a convex programming approach",
        "IEEE Transactions on Robotics",
        "36",
        "2",
        "2020",
        r"Lee,\s+Wensing\s+and\s+Park",
    ),
    "Sp": _article(
        "Spong, M. W.",
        "Modeling and control of elastic joint robots",
        "Journal of Dynamic Systems, Measurement, and Control",
        "109",
        "4",
        "1987",
        r"Spong\s+\(1987\)",
    ),
    "MP": _talk(
        r"Englsberger, J. and Dietrich, A. and Mesesan, G.-A. and Garofalo, G. and Ott, C. and "
        r"Albu-Sch{\"a}ffer, A. O.",
        "{MPTC} - modular passive tracking controller for stack of tasks based control frameworks",
        "Robotics: Science and Systems",
        "2020",
        r"Englsberger\s+et\s+al",
    ),
    "CP": _talk(
        r"Caron, S. and Pham, Q.-C. and Nakamura, Y.",
        "Stability of surface contacts for humanoid robots: closed-form formulae of the contact wrench cone "
        "for rectangular support areas",
        "IEEE International Conference on Robotics and Automation",
        "2015",
        r"Caron,\s+Pham\s+and\s+Nakamura",
        doi="10.1109/ICRA.2015.7139910",
    ),
    "DL": _talk(
        "De Luca, A. and Mattone, R.",
        "Actuator failure detection and isolation using generalized momenta",
        "IEEE International Conference on Robotics and Automation",
        "2003",
        r"De\s+Luca\s+and\s+Mattone",
    ),
    "DL2": _talk(
        r"De Luca, A. and Albu-Sch{\"a}ffer, A. and Haddadin, S. and Hirzinger, G.",
        "Collision detection and safe reaction with the {DLR-III} lightweight manipulator arm",
        "IEEE/RSJ International Conference on Intelligent Robots and Systems",
        "2006",
        r"De\s+Luca\s+et\s+al",
        doi="10.1109/IROS.2006.282053",
    ),
    "D": _book(
        "Deuflhard, Peter",
        "Newton Methods for Nonlinear Problems",
        "Springer",
        "2004",
        r"Deuflhard, Newton\s+Methods|Deuflhard's",
        doi="10.1007/978-3-642-23899-4",
    ),
    "L": _book(
        "Lee, J. M.",
        "{Riemannian} Manifolds: An Introduction to Curvature",
        "Springer",
        "1997",
        doi="10.1007/b98852",
    ),
    "M": _article(
        "Milnor, J.",
        "Curvatures of left invariant metrics on {Lie} groups",
        "Advances in Mathematics",
        "21",
        "3",
        "1976",
        doi="10.1016/S0001-8708(76)80002-3",
    ),
    "CS": _article(
        r"Cartan, {\'E}. and Schouten, J. A.",
        "On the geometry of the group-manifold of simple and semi-simple groups",
        "Proceedings of the Koninklijke Akademie van Wetenschappen te Amsterdam",
        "29",
        "",
        "1926",
        r"Cartan\s+and\s+Schouten",
    ),
    "LM": _article(
        "Lewis, A. D. and Murray, R. M.",
        "Configuration controllability of simple mechanical control systems",
        "SIAM Journal on Control and Optimization",
        "35",
        "3",
        "1997",
        doi="10.1137/S0363012995287155",
    ),
    "BL": _book(
        "Bullo, F. and Lewis, A. D.",
        "Geometric Control of Mechanical Systems",
        "Springer",
        "2004",
        doi="10.1007/978-1-4899-7276-7",
    ),
    "AL": _talk(
        "Lewis, A. D.",
        "Local configuration controllability for a class of mechanical systems with a single input",
        "European Control Conference",
        "1997",
    ),
    "HL": _talk(
        "Hirschorn, R. M. and Lewis, A. D.",
        "Geometric first-order controllability conditions for affine connection control systems",
        "IEEE Conference on Decision and Control",
        "2001",
    ),
    "BLy": _article(
        "Bullo, F. and Lynch, K. M.",
        "Kinematic controllability for decoupled trajectory planning in underactuated mechanical systems",
        "IEEE Transactions on Robotics and Automation",
        "17",
        "4",
        "2001",
    ),
    "BLL": _talk(
        "Bullo, F. and Lewis, A. D. and Lynch, K. M.",
        "Controllable kinematic reductions for mechanical systems: concepts, computational tools, and "
        "examples",
        "Mathematical Theory of Networks and Systems",
        "2002",
    ),
    "H": _article(
        "Hamel, G.",
        "Die {Lagrange-Eulerschen} Gleichungen der Mechanik",
        r"Zeitschrift f{\"u}r Mathematik und Physik",
        "50",
        "",
        "1904",
        r"Hamel\s+\(?1904",
    ),
    "Bl": _book("Bloch, A. M.", "Nonholonomic Mechanics and Control", "Springer", "2003"),
    "BS": _article(
        r"Bates, L. and {\'S}niatycki, J.",
        "Nonholonomic reduction",
        "Reports on Mathematical Physics",
        "32",
        "1",
        "1993",
    ),
    "MS": _article(
        "Murray, R. M. and Sastry, S. S.",
        "Nonholonomic motion planning: steering using sinusoids",
        "IEEE Transactions on Automatic Control",
        "38",
        "5",
        "1993",
        doi="10.1109/9.277235",
    ),
    "O": _talk(
        "Ostrowski, J. and Lewis, A. and Murray, R. and Burdick, J.",
        "Nonholonomic mechanics and locomotion: the snakeboard example",
        "IEEE International Conference on Robotics and Automation",
        "1994",
        doi="10.1109/ROBOT.1994.351153",
    ),
    "GW": _book(
        "Griewank, A. and Walther, A.",
        "Evaluating Derivatives",
        "SIAM",
        "2008",
        doi="10.1137/1.9780898717761",
    ),
    "A": _book("Atkinson, F. V.", "Discrete and Continuous Boundary Problems", "Academic Press", "1964"),
    "MT": _book("Milnor, J.", "{Morse} Theory", "Princeton University Press", "1963"),
    "Ar": _book("Arnold, V. I.", "Mathematical Methods of Classical Mechanics", "Springer", "1989"),
    "Mc": _article(
        "McCrea, J. D.",
        "Irreducible decompositions of nonmetricity, torsion, curvature and Bianchi identities in "
        "metric-affine spacetimes",
        "Classical and Quantum Gravity",
        "9",
        "2",
        "1992",
    ),
    "Fo": _article(
        "Folland, G. B.", "{Weyl} manifolds", "Journal of Differential Geometry", "4", "2", "1970"
    ),
    "AN": _book(
        "Amari, S. and Nagaoka, H.",
        "Methods of Information Geometry",
        "American Mathematical Society",
        "2000",
    ),
    "LP": _article(
        "Lee, Taeyoon and Park, Frank C.",
        "A geometric algorithm for robust multibody inertial parameter identification",
        "IEEE Robotics and Automation Letters",
        "3",
        "3",
        "2018",
    ),
    "LKP": _talk(
        "Lee, Taeyoon and Kwon, Jaewoon and Park, Frank C.",
        "A natural adaptive control law for robot manipulators",
        "IEEE/RSJ International Conference on Intelligent Robots and Systems",
        "2018",
    ),
    "Pe": _article(
        "Pennec, Xavier and Fillard, Pierre and Ayache, Nicholas",
        "A {Riemannian} framework for tensor computing",
        "International Journal of Computer Vision",
        "66",
        "1",
        "2006",
    ),
    "Bh": _book("Bhatia, Rajendra", "Positive Definite Matrices", "Princeton University Press", "2007"),
    "BI": _article(
        "Bini, Dario A. and Iannazzo, Bruno",
        "Computing the {Karcher} mean of symmetric positive definite matrices",
        "Linear Algebra and its Applications",
        "438",
        "4",
        "2013",
    ),
    "MW": _article(
        "Marsden, Jerrold E. and West, Matthew",
        "Discrete mechanics and variational integrators",
        "Acta Numerica",
        "10",
        "",
        "2001",
        doi="10.1017/S096249290100006X",
    ),
    "CM": _article(
        r"Cort{\'e}s, Jorge and Mart{\'\i}nez, Sonia",
        "Non-holonomic integrators",
        "Nonlinearity",
        "14",
        "5",
        "2001",
    ),
    "LLPS": _talk(
        "Lee, Jeongseok and Liu, C. Karen and Park, Frank C. and Srinivasa, Siddhartha S.",
        "A linear-time variational integrator for multibody systems",
        "Workshop on the Algorithmic Foundations of Robotics",
        "2016",
    ),
    "Su": _article(
        "Suzuki, Masuo",
        "Fractal decomposition of exponential operators with applications to many-body theories and {Monte "
        "Carlo} simulations",
        "Physics Letters A",
        "146",
        "6",
        "1990",
    ),
    "FS": _article(
        r"Fass{\`o}, F. and Sansonetto, N.",
        "Conservation of 'moving' energy in nonholonomic systems with affine constraints and integrability "
        "of spheres on rotating surfaces",
        "Journal of Nonlinear Science",
        "26",
        "2",
        "2016",
    ),
    "LS": Paper(
        "misc",
        {
            "author": "Lohmiller, W. and Slotine, J.-J. E.",
            "title": "Natural metrics in contraction analysis",
            "year": "2023",
            "eprint": "2306.06628",
            "archiveprefix": "arXiv",
        },
    ),
    "NHP": _article(
        "Noakes, L. and Heinzinger, G. and Paden, B.",
        "Cubic splines on curved spaces",
        "IMA Journal of Mathematical Control and Information",
        "6",
        "4",
        "1989",
    ),
    "CL": _article(
        "Crouch, P. and Silva Leite, F.",
        "The dynamic interpolation problem: on {Riemannian} manifolds, {Lie} groups, and symmetric spaces",
        "Journal of Dynamical and Control Systems",
        "1",
        "2",
        "1995",
    ),
    "DD": _article(
        "Douglas, J. and Dupont, T.",
        "{Galerkin} approximations for the two point boundary problem using continuous, piecewise polynomial "
        "spaces",
        "Numerische Mathematik",
        "22",
        "",
        "1974",
    ),
    "GUW": _article(
        "Griewank, A. and Utke, J. and Walther, A.",
        "Evaluating higher derivative tensors by forward propagation of univariate {Taylor} series",
        "Mathematics of Computation",
        "69",
        "",
        "2000",
        doi="10.1090/S0025-5718-00-01120-0",
    ),
}
_FOLLOWED = ("W", "W2", "E", "B", "Z")  # the papers that the whole library follows


def citation(*used: Any) -> None:
    """Print BibTeX of this software and of the papers behind what was used.

    Parameters
    ----------
    used : functions, classes, modules or objects of the library, such as ``mb.coriolis_matrix``, a connection
        or a controller; without any, the four papers that the whole library follows are printed, the first in
        both versions.

    Raises
    ------
    TypeError : something is not of this library.

    Examples
    --------
    >>> import connections as cn
    >>> cn.citation(cn.logarithm)
    @software{connections,
      title = {connections (affine-connections), version ...},
      author = {{The connections developers}},
    }

    Source: the lines "Source:" of their docstrings.
    """
    keys = dict.fromkeys(key for thing in used for key in _keys(thing)) if used else dict.fromkeys(_FOLLOWED)
    fields = {"title": f"connections ({NAME}), version {version()}", "author": "{The connections developers}"}
    print("\n\n".join([Paper("software", fields).bibtex("connections"), *map(_entry, keys)]))


def _entry(key: str) -> str:
    return PAPERS[key].bibtex(f"connections-{key}")


def _keys(thing: Any) -> Iterator[str]:
    """Keys of the papers that the docstrings of a thing, of its classes and of its module name."""
    named = isinstance(thing, type) or inspect.isroutine(thing) or inspect.ismodule(thing)
    own = thing if named else type(thing)
    classes = own.__mro__ if isinstance(own, type) else (own,)
    sources = [each for each in (*classes, inspect.getmodule(own)) if each is not None and _is_ours(each)]
    if not sources:
        raise TypeError(f"used: {own!r} is not of connections: give its functions, classes or objects")
    for text in map(docstring_of, sources):
        keys = set(re.findall(r"\[([A-Z][A-Za-z]*2?)\]", text))
        yield from (
            key
            for key, paper in PAPERS.items()
            if key in keys or (paper.words and re.search(paper.words, text))
        )


def _is_ours(thing: Any) -> bool:
    name = thing.__name__ if inspect.ismodule(thing) else thing.__module__
    return bool(name) and name.split(".")[0] == "connections"
