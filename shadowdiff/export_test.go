package shadowdiff

// Same is the op of parts that do not differ.
const Same = unchanged

// Aligned returns all parts of a changed route side by side, including identical ones.
func (d Difference) Aligned() []Part { return align(d.A, d.B) }
