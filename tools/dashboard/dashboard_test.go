package main

import "testing"

func TestFileIsWhatTheCodeSays(t *testing.T) {
	if err := run("../../"+file, true); err != nil {
		t.Error(err)
	}
}
