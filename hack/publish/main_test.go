package main

import (
	"io"
	"strings"
	"testing"
)

func TestArguments(t *testing.T) {
	dir := t.TempDir()
	for args, want := range map[string]string{
		"":                                      "usage",
		"-sign -key k -image r/n":               "usage", // no folder
		"-image r/n " + dir:                     "usage", // neither -sign nor -push
		"-sign -image r/n " + dir:               "usage", // no key
		"-push -key k -image r/n " + dir:        "usage", // a key that would not be used
		"-push " + dir:                          "usage", // no repository
		"-unknown " + dir:                       "-unknown",
		"-push -image r/n " + dir:               "SHA256SUMS: no such file",
		"-sign -key k -image r/n " + dir + "/x": "SHA256SUMS: no such file",
	} {
		err := run(t.Context(), strings.Fields(args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("publish %s: error %v, want %q in it", args, err, want)
		}
	}
}

func TestPasswordComesFromTheEnvironment(t *testing.T) {
	t.Setenv("COSIGN_PASSWORD", "")
	if text, err := password(); err != nil || len(text) != 0 {
		t.Errorf("an empty password: %q, %v", text, err)
	}
	t.Setenv("COSIGN_PASSWORD", "secret")
	if text, err := password(); err != nil || string(text) != "secret" {
		t.Errorf("%q, %v", text, err)
	}
}
