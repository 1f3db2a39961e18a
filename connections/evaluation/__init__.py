"""A definition at one point becomes a public function: batches, compilation, validation, memory."""
