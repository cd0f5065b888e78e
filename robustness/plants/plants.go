// Package plants has faults that are planted in the product, to prove that the validators of the robustness suite bite: a run
// with a plant has to fail by the validator that the plant names, and the same run without it has to pass.
//
// A plant is an edit of the product's source that is made in an overlay of the build ([Build]), so that the source itself has no
// hooks. One build has all plants; the variable [Variable] of the environment of a process says which one is awake.
package plants

import "slices"

// Variable is the variable of the environment that wakes a plant by its name.
const Variable = "ROUTESRV_PLANT"

// Plant is one planted fault.
type Plant struct {
	Name string
	// Validator is the name of the validator that has to find it, in package validate.
	Validator string
	// What says in a few words what goes wrong.
	What string
	// Edits are what is changed in the source.
	Edits []Edit
	// Scenario is the name of the run in which it shows.
	Scenario string
}

// Edit replaces a piece of a file, which must be there exactly once.
type Edit struct {
	File     string // in the module, with slashes
	Old, New string
}

// All lists the plants, in the order of the validators.
func All() []Plant {
	return slices.Concat(ofReads(), ofOrder(), ofBodies(), ofDeltas(), ofFiles(), ofTheGuard(), ofObjects(), ofLoad())
}
