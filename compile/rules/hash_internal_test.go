package rules

import "testing"

// Options that a program makes may have arguments of any type, also of one that cannot be compared.
func TestArgumentsOfAnyTypeAreHashed(t *testing.T) {
	hash := func(args ...any) uint64 { return predicateHash("Custom", args) }
	list := func(s string) uint64 { return hash([]string{s}, map[string]int{s: 1}) }
	first, again, other := list("a"), list("a"), list("b")
	if first != again || first == other {
		t.Error("equal arguments have different hashes, or different ones the same")
	}
	if hash("a", "b") == hash("ab") || hash(1.0) == hash("1") {
		t.Error("different arguments have the same hash")
	}
}
