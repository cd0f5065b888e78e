package robustness

import "slices"

// A plant is a fault in the product that proves that the validators of this suite work: a run with a plant must fail with the
// validator that the plant names, and the same run without it must pass.
//
// It is an edit of the product's source in an overlay of the build ([BuildPlanted]), so that the source itself has no hooks. One
// build has all plants; the environment variable [Variable] of a process selects the active one.

// Variable is the environment variable that activates a plant by name.
const Variable = "ROUTESRV_PLANT"

// Plant is one planted fault.
type Plant struct {
	Name string
	// Validator is the name of the validator in package validate that must detect it.
	Validator string
	// What describes the fault in a few words.
	What string
	// Edits are the changes of the source.
	Edits []Edit
	// Scenario is the name of the run that reveals it.
	Scenario string
}

// Edit replaces a piece of a file. The piece must occur exactly once.
type Edit struct {
	File     string // path in the module, with slashes
	Old, New string
}

// Plants returns the plants, in the order of the validators.
func Plants() []Plant {
	return slices.Concat(ofReads(), ofOrder(), ofBodies(), ofDeltas(), ofFiles(), ofTheGuard(), ofObjects(), ofLoad(), ofReviews(), ofTheCanary())
}
