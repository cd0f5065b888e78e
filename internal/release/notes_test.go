//go:build linux

package release_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/internal/release"
)

const changes = `# Changelog

## Unreleased

- Next, see [the docs](docs/next.md#part), [it](https://example.org/a) and [below](#v010).

## v0.2.0-rc.1

- Candidate.

## v0.1.0 (2026-12-01)

- First.

### Fixes

- Second ([one](a.md)
  and [two](../b.md)).
  - Inner
    item.

A paragraph
of two lines.
FENCEsh
make  \
  it
FENCE
After.

| a | b |
|---|---|
| 1 | 2 |

## v0.0.9

## v0.0.8

- Old.
`

func TestNotesAreTheSectionOfTheVersion(t *testing.T) {
	dir := t.TempDir()
	writeSource(t, dir, "CHANGELOG.md", strings.ReplaceAll(changes, "FENCE", "```"))
	const blob = "https://github.com/routesrv/routesrv/blob/"
	for version, want := range map[string]string{
		"v0.1.0": "- First.\n\n### Fixes\n\n- Second ([one](" + blob + "v0.1.0/a.md) and [two](" + blob + "v0.1.0/../b.md)).\n  - Inner item.\n\n" +
			"A paragraph of two lines.\n```sh\nmake  \\\n  it\n```\nAfter.\n\n| a | b |\n|---|---|\n| 1 | 2 |",
		"v0.2.0-rc.1": "- Candidate.",
		"v0.2.0-rc.2": "- Next, see [the docs](" + blob + "v0.2.0-rc.2/docs/next.md#part), [it](https://example.org/a) and [below](#v010).",
		"v0.0.8":      "- Old.",
	} {
		want = "# routesrv " + version + "\n\n" + want + "\n\n[docs/release.md](" + blob + version + "/docs/release.md) says what each file is and how to verify it.\n"
		got, err := release.Notes(release.Config{Source: dir, Version: version})
		if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", version, err, diff)
		}
	}
	writeSource(t, dir, "CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n## v0.0.9\n")
	if got, err := release.Notes(release.Config{Source: dir, Version: "v0.1.0-3-gabcdef0"}); err != nil || !strings.Contains(string(got), "No changes are listed.") {
		t.Errorf("%s, %v", got, err)
	}
	for version, want := range map[string]string{"v0.3.0": `no section "## v0.3.0"`, "v0.0.9": "the section of v0.0.9 is empty"} {
		if _, err := release.Notes(release.Config{Source: dir, Version: version}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", version, err, want)
		}
	}
}
