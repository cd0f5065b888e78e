package migrate_test

import (
	"os"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/internal/migrate"
)

// manifests returns the manifests of the platform, with replacements in their text.
func manifests(t *testing.T, replace ...string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/platform.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := string(text)
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(s, replace[i]) {
			t.Fatalf("there is no %q to replace", replace[i])
		}
		s = strings.ReplaceAll(s, replace[i], replace[i+1])
	}
	return s
}

func platform(t *testing.T, replace ...string) *migrate.Input {
	t.Helper()
	in, err := migrate.Parse("-", strings.NewReader(manifests(t, replace...)), "")
	if err != nil {
		t.Fatal(err)
	}
	return in
}
