"""The compiled functions: each recursion for one configuration, and for rows of configurations.

There is a file for each row of the table (`table.RECURSIONS`), from which `tests/support/compiled_entries.py`
writes it. For trees,

    name_at(memory, q, vectors..., out)                    takes one configuration,
    name_rows(memory, work, blocks, q, vectors..., out)    takes (m, ...) arrays, LANES rows at a time,

with the choice of the body-level factor, if there is one, before `out`; `_rows` releases the interpreter's
lock. For closed chains, ``closed_name_at`` and ``closed_name_rows`` take ``closure, clusters, solved`` after
`memory` (`cluster_reading`). Each returns whether the input was good; if not, the content of `out` is
undefined.
"""
