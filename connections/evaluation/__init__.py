"""A definition at one point becomes a public function: batches, compilation, validation, memory."""

#: What rooms above import of this one besides its public names: file -> names.
_OFFERS = {
    "boundary": "Argument evaluate projected_point",
    "compilation": "compiled",
    "parameters": "PytreePartial cache_of",
}
