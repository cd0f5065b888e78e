package upgrade_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// first is the folder with the files that the first version left.
const first = "testdata/first"

// nowhere is the address of a route server that does not answer.
const nowhere = "http://127.0.0.1:1"

// breakSource makes every read of a folder of manifests fail until the returned function is called. Until then, a
// server has only what it finds on disk.
func breakSource(t *testing.T, manifests string) (repair func()) {
	t.Helper()
	broken := filepath.Join(manifests, "broken.yaml")
	writeFile(t, broken, "kind: [")
	return func() {
		if err := os.Remove(broken); err != nil {
			t.Fatal(err)
		}
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestServerIsReplacedAndBack: a server of one version saves a table and decisions. The other version starts with
// them while it cannot read anything, and saves its own. The first version then starts with those.
func TestServerIsReplacedAndBack(t *testing.T) {
	t.Parallel()
	neighbours(t, func(t *testing.T, one, other *programs) {
		manifests, state := shop(t), t.TempDir()
		args := []string{"--manifests=" + manifests}
		server := one.server(t, state, args...)
		addIngress(t, manifests, "added")
		before := server.awaitRoute("kube_shop__added__")
		wantHeldAndAccepted(t, one, server, manifests, before)
		kept := server.awaitWritten()
		server.stop()

		repair := breakSource(t, manifests)
		server = other.server(t, state, args...)
		server.wantFromDisk(kept)
		repair()
		addIngress(t, manifests, "again")
		server.awaitRoute("kube_shop__again__")
		second := server.awaitWritten()
		server.stop()

		breakSource(t, manifests)
		one.server(t, state, args...).wantFromDisk(second)
	})
}

// awaitWritten waits until the served table is on disk, and returns it.
func (p *process) awaitWritten() (served string) {
	p.t.Helper()
	until(p.t, "the table on disk", func() error {
		var status struct {
			Table      struct{ Digest string }
			Checkpoint struct{ Path string }
		}
		text, _, err := get(p.main + "/routes")
		if err == nil {
			err = p.status(&status)
		}
		if err != nil {
			return err
		}
		served = text
		kept, err := os.ReadFile(status.Checkpoint.Path)
		if err == nil && !strings.HasSuffix(string(kept), served+"\n") {
			err = errors.New("not yet")
		}
		return err
	})
	return served
}

// wantFromDisk checks that a server without a source serves the table, and knows who accepted it.
func (p *process) wantFromDisk(want string) {
	p.t.Helper()
	p.awaitTable("the table of the other version", want)
	var status struct {
		Table      struct{ Stale bool }
		Decisions  []struct{ What, By, Why string }
		Checkpoint struct{ Unusable string }
	}
	until(p.t, "the status", func() error { return p.status(&status) }) // its listener may open after the others
	if !status.Table.Stale || status.Checkpoint.Unusable != "" {
		p.t.Errorf("status %+v", status)
	}
	var what []string
	for _, d := range status.Decisions {
		what = append(what, d.What)
		if d.What == "accepted" && (d.By != "a test" || d.Why != "the shop moved") {
			p.t.Errorf("decision %+v", d)
		}
	}
	if got := strings.Join(what, " "); !strings.Contains(got, "held") || !strings.Contains(got, "accepted") {
		p.t.Errorf("decisions %q", got)
	}
}

// TestSidecarIsReplacedAndBack is the same for a sidecar that reaches no server.
func TestSidecarIsReplacedAndBack(t *testing.T) {
	t.Parallel()
	neighbours(t, func(t *testing.T, one, other *programs) {
		manifests, state := shop(t), t.TempDir()
		server := one.server(t, t.TempDir(), "--manifests="+manifests)
		mode := filepath.Join(state, "mode")
		writeFile(t, mode, "Exec\n")
		args := []string{"--mode-file=" + mode, "--routes-file=" + filepath.Join(state, "routes.eskip")}

		before := server.awaitRoute("kube_rg__shop__cart__")
		sidecar := one.sidecar(t, state, "s", server.main, args...)
		sidecar.awaitTable("the first table", before)
		sidecar.awaitKept(before)
		sidecar.stop()

		sidecar = other.sidecar(t, state, "s", nowhere, args...)
		sidecar.awaitTable("the first table from disk", before)
		sidecar.stop()
		addIngress(t, manifests, "added")
		second := server.awaitRoute("kube_shop__added__")
		sidecar = other.sidecar(t, state, "s", server.main, args...)
		sidecar.awaitTable("the second table", second)
		sidecar.awaitKept(second)
		sidecar.stop()

		sidecar = one.sidecar(t, state, "s", nowhere, args...)
		sidecar.awaitTable("the second table from disk", second)
		sidecar.awaitKept(second)
	})
}

// awaitKept waits until a sidecar has saved the table.
func (p *process) awaitKept(want string) {
	p.t.Helper()
	for _, flag := range []string{"--lkg-file=", "--routes-file="} {
		for _, arg := range p.cmd.Args {
			path, ok := strings.CutPrefix(arg, flag)
			if !ok {
				continue
			}
			until(p.t, "the table in "+path, func() error {
				kept, err := os.ReadFile(path)
				if err == nil && !strings.HasSuffix(string(kept), want+"\n") {
					err = errors.New("not yet")
				}
				return err
			})
		}
	}
}

// TestFilesOfTheFirstVersion: this version starts with the files that the first one left.
func TestFilesOfTheFirstVersion(t *testing.T) {
	t.Parallel()
	if *record {
		recordFiles(t)
	}
	state := t.TempDir()
	if err := os.CopyFS(state, os.DirFS(filepath.Join(first, "files"))); err != nil {
		t.Fatal(err)
	}
	manifests := t.TempDir()
	breakSource(t, manifests)
	want := bodyOf(t, filepath.Join(state, "table.eskip"))
	current.server(t, state, "--manifests="+manifests).wantFromDisk(want)

	sidecar := start(t, current.client, "--mode=False", "--mode-file="+filepath.Join(state, "mode"), "--fallback=never", "--routesrv-url="+nowhere, "--pod-name=s",
		"--lkg-file="+filepath.Join(state, "lkg.eskip"), "--zone-file="+filepath.Join(state, "zone"), "--manifests="+manifests)
	sidecar.awaitTable("the table of the LKG file", bodyOf(t, filepath.Join(state, "lkg.eskip")))
	var status struct{ Mode, Origin string }
	until(t, "the status", func() error { return sidecar.status(&status) })
	if status.Mode != "Exec" {
		t.Errorf("status %+v", status)
	}
}

// bodyOf returns the text of a table file.
func bodyOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(text), "// header: ")
	_, body, ok := strings.Cut(body, "\n")
	if !ok {
		t.Fatalf("%s has no header:\n%s", path, text)
	}
	return strings.TrimSuffix(body, "\n")
}

// TestFilesOfThisVersionHaveTheFirstForm covers the other direction where no programs of the first version are
// available: this version writes the lines that the first version reads.
func TestFilesOfThisVersionHaveTheFirstForm(t *testing.T) {
	t.Parallel()
	manifests, state := shop(t), t.TempDir()
	server := current.server(t, state, "--manifests="+manifests)
	addIngress(t, manifests, "added")
	wantHeldAndAccepted(t, current, server, manifests, server.awaitRoute("kube_shop__added__"))
	server.awaitWritten()
	sidecar := current.sidecar(t, state, "s", server.main)
	sidecar.awaitRoute("kube_")
	until(t, "the LKG file", func() error { _, err := os.Stat(filepath.Join(state, "lkg.eskip")); return err })
	for _, name := range []string{"table.eskip", "lkg.eskip", "decisions.jsonl"} {
		want, got := formOf(t, filepath.Join(first, "files", name)), formOf(t, filepath.Join(state, name))
		if want != got {
			t.Errorf("%s: the first version wrote\n%s\nthis one writes\n%s", name, want, got)
		}
	}
}

var (
	times   = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	digests = regexp.MustCompile(`[0-9a-f]{64}`)
	urls    = regexp.MustCompile(`http://127[0-9.]+:\d+`)
	counts  = regexp.MustCompile(`(// (routes|bytes): )\d+`)
	details = regexp.MustCompile(`"reason":"[a-z_]+"`)
)

// formOf returns the header of a table file, or every line of another file, without the parts that differ from run to
// run.
func formOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	form := string(text)
	if strings.HasSuffix(path, ".eskip") {
		var header []string
		for line := range strings.Lines(form) {
			if strings.HasPrefix(line, "// ") {
				header = append(header, line)
			}
		}
		form = strings.Join(header, "")
	}
	for _, part := range []struct {
		what *regexp.Regexp
		as   string
	}{{times, "TIME"}, {digests, "DIGEST"}, {urls, "URL"}, {counts, "${1}N"}, {details, `"reason":"REASON"`}} {
		form = part.what.ReplaceAllString(form, part.as)
	}
	return form
}

// recordFiles writes testdata/first/files.
func recordFiles(t *testing.T) {
	t.Helper()
	manifests, state := shop(t), t.TempDir()
	server := current.server(t, state, "--manifests="+manifests)
	addIngress(t, manifests, "added")
	wantHeldAndAccepted(t, current, server, manifests, server.awaitRoute("kube_shop__added__"))
	table := server.awaitWritten()
	sidecar := current.sidecar(t, state, "s", server.main)
	sidecar.awaitTable("the table", table)
	sidecar.awaitKept(table)
	server.stop()
	sidecar.stop()
	writeFile(t, filepath.Join(state, "mode"), "Exec\n")
	writeFile(t, filepath.Join(state, "zone"), "eu-central-1a\n")
	for _, name := range []string{"table.eskip", "decisions.jsonl", "lkg.eskip", "mode", "zone"} {
		text, err := os.ReadFile(filepath.Join(state, name))
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(first, "files", name), string(text))
	}
}
