// Package other tests tiny from outside.
package other

import (
	"testing"

	"example.org/tiny"
)

func TestBoundary(t *testing.T) {
	if tiny.Adult(17) {
		t.Error("wrong")
	}
}
