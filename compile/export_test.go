package compile

// SetMinPortion makes the first compilation go in smaller portions.
func (c *Compiler) SetMinPortion(objects int) { c.minPortion = objects }
