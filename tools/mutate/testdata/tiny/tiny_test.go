package tiny

import (
	"os"
	"testing"
)

func TestAdult(t *testing.T) {
	if Adult(10) || !Adult(40) || os.Getenv("TINY_BROKEN") != "" {
		t.Error("wrong")
	}
}
